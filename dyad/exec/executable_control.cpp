#include "dyad/exec/executable_control.h"

#include <algorithm>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/pack.h"
#include "dyad/passes/fused_op.h"

namespace dyad::exec {
namespace {

using Tensors = std::vector<Tensor>;

bool is_true(const Tensor& scalar) { return *scalar.impl()->data != std::byte{0}; }

Tensor row_major(const Tensor& tensor) {
  return tensor.impl()->contiguous ? tensor : row_major_copy(tensor);
}

void append_all(Tensors& to, std::span<const Tensor> values) {
  to.insert(to.end(), values.begin(), values.end());
}

class ControlStep : public Step {
 public:
  ControlStep(const Node& node, Tensors inputs, std::vector<int> buffers,
              std::vector<GivenInput> given,
              const std::vector<std::unique_ptr<Executable>>& regions)
      : Step(&node),
        inputs_(std::move(inputs)),
        buffers_(std::move(buffers)),
        given_(std::move(given)),
        regions_(regions) {}

  void run(Plan& plan, const RunContext& context) override {
    const Tensors results = compute(context, memory_in(plan));
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const auto lies_there = [&](const Tensor& other) {
        return other.impl()->storage == results[i].impl()->storage;
      };
      const bool is_shared = std::ranges::count_if(results, lies_there) > 1;
      plan.set_result(buffers_[i], row_major(results[i]), is_shared);
    }
  }

  /// Memory that results may lie in.
  struct Memory {
    Tensors places;                ///< none, or one for each result, undefined where it is all one
    std::uint64_t given_away = 0;  ///< bit i: what placeholder i of the graphs is given
  };
  virtual Tensors compute(const RunContext& context, const Memory& memory) = 0;

 protected:
  Tensors run_region(std::size_t i, std::span<const Tensor> arguments, const RunContext& context,
                     std::span<const Tensor> places = {}, std::uint64_t given_away = 0) const {
    return regions_[i]->run_region(arguments, context.symbols, context.cancel, context.where,
                                   places, given_away);
  }
  [[nodiscard]] std::span<const Tensor> inputs(std::size_t begin) const {
    return std::span<const Tensor>(inputs_).subspan(begin);
  }
  [[nodiscard]] std::span<const Tensor> inputs(std::size_t begin, std::size_t count) const {
    return std::span<const Tensor>(inputs_).subspan(begin, count);
  }
  /// Memory for the results from number `first` on.
  [[nodiscard]] Tensors make_results(const RunContext& context, std::size_t first = 0) const {
    Tensors results;
    for (const Type& type : node().types().subspan(first)) {
      results.push_back(make_empty(type.dtype(), evaluate(type.shape(), context.symbols)));
    }
    return results;
  }
  void check_cancelled(const RunContext& context) const {
    if (context.cancel) context.cancel->check(context.where, node().loc());
  }

 private:
  [[nodiscard]] Memory memory_in(const Plan& plan) const {
    Memory memory;
    for (const int buffer : buffers_)
      memory.places.push_back(plan.buffers[static_cast<std::size_t>(buffer)].base);
    for (const auto& [placeholder, buffer] : given_) {
      if (!plan.buffers[static_cast<std::size_t>(buffer)].is_shared)
        memory.given_away |= std::uint64_t{1} << placeholder;
    }
    return memory;
  }

  Tensors inputs_;
  std::vector<int> buffers_;
  std::vector<GivenInput> given_;
  const std::vector<std::unique_ptr<Executable>>& regions_;
};

class CondStep final : public ControlStep {
 public:
  using ControlStep::ControlStep;

  Tensors compute(const RunContext& context, const Memory& memory) override {
    return run_region(is_true(inputs(0)[0]) ? 0 : 1, inputs(1), context, memory.places,
                      memory.given_away);
  }
};

Tensors with(Tensors values, std::span<const Tensor> others) {
  append_all(values, others);
  return values;
}

/// Of the first `count` arguments of a step, its states, those whose memory is the step's alone.
std::uint64_t states_given_away(std::span<const Tensor> arguments, std::size_t count) {
  return pack::given_away(arguments.first(count));
}

/// The states that a loop begins with, row by row as those of later steps.
Tensors begin_states(std::span<const Tensor> inputs) {
  Tensors states;
  for (const Tensor& input : inputs) states.push_back(row_major(input));
  return states;
}

/// What a loop gives: the states after it, and rows. What no step made is copied, because the
/// loop's result must not be the caller's memory; nor may a state lie where it is a row, too.
Tensors results_of_loop(std::span<const Tensor> inputs, Tensors states, const Tensors& rows) {
  for (Tensor& state : states) {
    const auto lies_there = [&](const Tensor& other) {
      return other.impl()->storage == state.impl()->storage;
    };
    if (std::ranges::any_of(inputs, lies_there) || std::ranges::any_of(rows, lies_there))
      state = row_major_copy(state);
  }
  return with(std::move(states), rows);
}

/// Copies what was not made in its place.
void put(std::span<const Tensor> places, std::span<const Tensor> made) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i].defined() && places[i].impl()->data != made[i].impl()->data)
      copy_into(places[i], made[i]);
  }
}

/// x[t], the same memory.
Tensor slice(const Tensor& x, std::int64_t t) {
  const TensorImpl& impl = *x.impl();
  Shape shape;
  Strides strides;
  for (std::size_t i = 1; i < impl.shape.size(); ++i) {
    shape.push_back(impl.shape[i]);
    strides.push_back(impl.strides[i]);
  }
  return make_view(x, shape, strides, t * impl.strides[0]);
}

/// Rows that come one after the other, nobody knows how many, in memory that doubles.
class GrowingStack {
 public:
  /// `begun`: the first rows, or undefined.
  GrowingStack(const Type& row, const Tensor& begun, const SymbolMap& symbols)
      : type_(row.dtype(), evaluate(row.shape(), symbols)) {
    if (!begun.defined()) return;
    rows_ = begun.shape().numbers()[0];
    grow(begun);
  }
  /// The place of the next row.
  [[nodiscard]] Tensor next() {
    if (!memory_.defined() || rows_ == memory_.shape().numbers()[0]) grow(memory_);
    return slice(memory_, rows_);
  }
  /// A row has come, there or elsewhere.
  void add(const Tensor& place, const Tensor& made) {
    put({&place, 1}, {&made, 1});
    ++rows_;
  }
  [[nodiscard]] Tensor rows() {
    if (!memory_.defined()) grow(memory_);
    return first(memory_, rows_);
  }

 private:
  static constexpr std::int64_t kLeast = 8;

  static Tensor first(const Tensor& x, std::int64_t count) {
    Shape shape = x.impl()->shape;
    shape[0] = count;
    return make_view(x, shape, x.impl()->strides, 0);
  }
  void grow(const Tensor& known) {
    Shape shape{std::max(kLeast, 2 * rows_)};
    for (const Dim size : type_.shape()) shape.push_back(size);
    const Tensor larger = make_empty(type_.dtype(), shape);
    if (known.defined()) copy_into(first(larger, rows_), first(known, rows_));
    memory_ = larger;
  }

  Type type_;
  Tensor memory_;
  std::int64_t rows_ = 0;
};

class WhileStep final : public ControlStep {
 public:
  using ControlStep::ControlStep;

  Tensors compute(const RunContext& context, const Memory& /*memory*/) override {
    const auto& attrs = node().attrs_as<LoopAttrs>();
    const auto count = static_cast<std::size_t>(attrs.states);
    const std::span<const Tensor> begun = inputs(count, static_cast<std::size_t>(attrs.slices)),
                                  captures = inputs(count + begun.size());
    std::vector<GrowingStack> stacks;
    const std::span<const Value> made = node().regions()[1]->outputs();
    for (std::size_t i = count; i < made.size(); ++i) {
      stacks.emplace_back(made[i].type(), begun.empty() ? Tensor() : begun[i - count],
                          context.symbols);
    }
    Tensors states = begin_states(inputs(0, count));
    for (;;) {
      check_cancelled(context);
      const Tensors arguments = with(std::move(states), captures);
      if (!is_true(run_region(0, arguments, context)[0])) {
        states.assign(arguments.begin(), arguments.begin() + count);
        break;
      }
      Tensors places(stacks.empty() ? 0 : count);
      for (GrowingStack& stack : stacks) places.push_back(stack.next());
      states = run_region(1, arguments, context, places, states_given_away(arguments, count));
      for (std::size_t i = 0; i < stacks.size(); ++i) {
        stacks[i].add(places[count + i], states[count + i]);
      }
      states.resize(count);
    }
    Tensors rows;
    for (GrowingStack& stack : stacks) rows.push_back(stack.rows());
    return results_of_loop(inputs(0), std::move(states), rows);
  }
};

class WhileStatesStep final : public ControlStep {
 public:
  using ControlStep::ControlStep;

  Tensors compute(const RunContext& context, const Memory& /*memory*/) override {
    const auto& attrs = node().attrs_as<WhileStatesAttrs>();
    const auto count = static_cast<std::size_t>(attrs.states);
    const std::span<const Tensor> captures =
        inputs(count, static_cast<std::size_t>(attrs.captures));

    std::vector<Tensors> before;  // the states before each step
    Tensors states = begin_states(inputs(0, count));
    for (;;) {
      check_cancelled(context);
      const Tensors arguments = with(Tensors(states), captures);
      if (!is_true(run_region(0, arguments, context)[0])) break;
      before.push_back(states);
      states = run_region(1, arguments, context);
    }
    Tensors arguments;
    for (std::size_t i = 0; i < count; ++i) {
      Shape sizes{static_cast<std::int64_t>(before.size())};
      for (const Dim size : states[i].impl()->shape) sizes.push_back(size);
      arguments.push_back(make_empty(states[i].dtype(), sizes));
      for (std::size_t t = 0; t < before.size(); ++t) {
        copy_into(slice(arguments[i], static_cast<std::int64_t>(t)), before[t][i]);
      }
    }
    before.clear();
    append_all(arguments, inputs(count));
    return run_region(2, arguments, context);
  }
};

class ScanStep final : public ControlStep {
 public:
  using ControlStep::ControlStep;

  Tensors compute(const RunContext& context, const Memory& /*memory*/) override {
    const auto& attrs = node().attrs_as<LoopAttrs>();
    const auto count = static_cast<std::size_t>(attrs.states);
    const auto slices = static_cast<std::size_t>(attrs.slices);
    const std::span<const Tensor> xs = inputs(count, slices), captures = inputs(count + slices);
    const std::int64_t length = xs[0].shape().numbers()[0];

    Tensors states = begin_states(inputs(0, count));
    Tensors results = make_results(context, count);
    for (std::int64_t i = 0; i < length; ++i) {
      check_cancelled(context);
      const std::int64_t t = attrs.reverse ? length - 1 - i : i;
      Tensors arguments = std::move(states);
      for (const Tensor& x : xs) arguments.push_back(slice(x, t));
      append_all(arguments, captures);
      Tensors places(count);
      for (const Tensor& result : results) places.push_back(slice(result, t));
      Tensors made = run_region(0, arguments, context, places, states_given_away(arguments, count));
      put(places, made);
      made.resize(count);
      states = std::move(made);
    }
    return results_of_loop(inputs(0), std::move(states), results);
  }
};

class PartsStep final : public ControlStep {
 public:
  using ControlStep::ControlStep;

  Tensors compute(const RunContext& context, const Memory& /*memory*/) override {
    const std::int64_t count = node().attrs_as<passes::PartsAttrs>().samples;
    const std::int64_t all = inputs(0)[0].shape().numbers()[0];
    Tensors results = make_results(context);
    for (std::int64_t first = 0; first < all; first += count) {
      check_cancelled(context);
      Tensors arguments;
      for (const Tensor& x : inputs(0)) arguments.push_back(samples(x, first, count));
      Tensors places;
      for (const Tensor& result : results) places.push_back(samples(result, first, count));
      put(places, run_region(0, arguments, context, places));
    }
    return results;
  }

  /// x[first : first + count], the same memory.
  static Tensor samples(const Tensor& x, std::int64_t first, std::int64_t count) {
    const TensorImpl& impl = *x.impl();
    Shape shape = impl.shape;
    shape[0] = count;
    return make_view(x, shape, impl.strides, first * impl.strides[0]);
  }
};

std::unique_ptr<ControlStep> make_step(const Node& node, std::vector<Tensor> inputs,
                                       std::vector<int> buffers, std::vector<GivenInput> given,
                                       const std::vector<std::unique_ptr<Executable>>& regions) {
  const auto make = [&]<class S>(std::type_identity<S>) -> std::unique_ptr<ControlStep> {
    return std::make_unique<S>(node, std::move(inputs), std::move(buffers), std::move(given),
                               regions);
  };
  if (&node.op() == &kCondOp) return make(std::type_identity<CondStep>());
  if (&node.op() == &kWhileOp) return make(std::type_identity<WhileStep>());
  if (&node.op() == &kScanOp) return make(std::type_identity<ScanStep>());
  if (&node.op() == &kWhileStatesOp) return make(std::type_identity<WhileStatesStep>());
  if (&node.op() == &passes::kPartsOp) return make(std::type_identity<PartsStep>());
  throw InternalError("there is no way to run the control operator " + std::string(node.op().name),
                      node.loc());
}

}  // namespace

std::unique_ptr<Step> make_control_step(const Node& node, std::vector<Tensor> inputs,
                                        std::vector<int> buffers, std::vector<GivenInput> given,
                                        const std::vector<std::unique_ptr<Executable>>& regions) {
  return make_step(node, std::move(inputs), std::move(buffers), std::move(given), regions);
}

std::vector<Tensor> run_control(const Node& node, std::vector<Tensor> inputs,
                                const std::vector<std::unique_ptr<Executable>>& regions,
                                const RunContext& context) {
  return make_step(node, std::move(inputs), {}, {}, regions)->compute(context, {});
}

}  // namespace dyad::exec
