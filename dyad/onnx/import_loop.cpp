#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/index.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/views.h"

// Loop and Scan. A loop becomes a scan where its length is known by sizes, and a while_loop where
// data tell it. What no such node can hold (sequences, tensors that change their type from step to
// step, bodies that need to know numbers) is written out step by step, for which the number of
// steps must be known.

namespace dyad::onnx {
namespace {

std::vector<Tensor> operands(NodeImport& n, std::span<const Imported> values) {
  std::vector<Tensor> tensors;
  for (const Imported& value : values) {
    if (!value.tensor.defined()) n.fail("its body gives a sequence or an optional");
    tensors.push_back(n.importer().operand(value));
  }
  return tensors;
}

std::vector<Imported> as_imported(std::span<const Tensor> tensors) {
  std::vector<Imported> values;
  for (const Tensor& tensor : tensors) values.push_back(imported(tensor));
  return values;
}

bool are_tensors(std::span<const Imported> values) {
  return std::ranges::all_of(values, [](const Imported& v) { return v.tensor.defined(); });
}

Tensor scalar(const Tensor& x, Loc loc) { return x.rank() == 0 ? x : reshape(x, {}, loc); }

/// A number that is known while the graph is built.
template <class T>
Imported known_scalar(T value) {
  const Evaluator::Scope now(EagerEvaluator::instance());
  return imported(tensor(value));
}
Imported known_truth(bool value) {
  const Evaluator::Scope now(EagerEvaluator::instance());
  return imported(full({}, value ? 1 : 0, boolean));
}

/// Tensors of the steps as one, along a new axis; computed now when all are known.
Tensor stacked(NodeImport& n, std::span<const Imported> steps, std::int64_t axis) {
  const auto joined = [&] { return stack(operands(n, steps), axis, n.loc()); };
  if (!std::ranges::all_of(steps, [](const Imported& v) { return v.is_known(); })) return joined();
  const Evaluator::Scope now(EagerEvaluator::instance());
  return joined();
}

/// What steps would have given had there been one: the type that the subgraph declares.
Tensor no_steps(NodeImport& n, const pb::ValueInfoProto& declared, std::int64_t axis) {
  const auto type = read_type(declared.type(), declared.name(), n.loc());
  if (!type || !type->is_tensor()) {
    n.fail(fmt::format("it makes no step, and its subgraph does not say the type of \"{}\"",
                       declared.name()));
  }
  Shape shape;
  for (const Dim size : type->shape()) shape.push_back(size.is_number() ? size : Dim(0));
  shape.insert(static_cast<int>(axis < 0 ? axis + type->rank() + 1 : axis), 0);
  const Evaluator::Scope now(EagerEvaluator::instance());
  return zeros(shape, type->dtype());
}

// --- Loop ----------------------------------------------------------------------------------------

class LoopImport {
 public:
  explicit LoopImport(NodeImport& n) : n_(n), body_(n.graph("body")) {
    n.check_names(body_);
    for (int i = 2; i < n.input_count(); ++i) init_.push_back(n.value(i));
    const auto states = static_cast<int>(init_.size());
    if (body_.input_size() != states + 2 || body_.output_size() < states + 1 ||
        n.output_count() > body_.output_size() - 1) {
      n.fail(
          fmt::format("its body takes {} values and gives {}, which does not fit {} inputs and "
                      "{} outputs",
                      body_.input_size(), body_.output_size(), n.input_count(), n.output_count()));
    }
    stacks_ = static_cast<std::size_t>(body_.output_size() - 1 - states);
  }

  void build() {
    if (!n_.is_constant() && are_tensors(init_)) {
      try {
        as_graph();
        return;
      } catch (const Error&) {
        // It cannot be one node; perhaps its steps can be written out.
      }
    }
    write_out();
  }

 private:
  /// Whether the condition stays what it was.
  [[nodiscard]] bool keeps_condition() const {
    std::string name = body_.output(0).name();
    for (int i = body_.node_size() - 1; i >= 0; --i) {
      const pb::NodeProto& node = body_.node(i);
      if (node.output_size() == 0 || node.output(0) != name) continue;
      if (node.op_type() == "Constant") return is_true(node);
      if (node.op_type() != "Identity" || node.input_size() != 1) return false;
      name = node.input(0);
    }
    return name == body_.input(1).name();
  }
  [[nodiscard]] static bool is_true(const pb::NodeProto& constant) {
    for (const pb::AttributeProto& attribute : constant.attribute()) {
      if (!attribute.has_t()) continue;
      ExternalData none({});
      return read_tensor(attribute.t(), none, {}).to_vector<float>() == std::vector<float>{1};
    }
    return false;
  }
  [[nodiscard]] bool begins() const {
    return !n_.has(1) ||
           (n_.constant(1).defined() && n_.constant(1).to_vector<float>() == std::vector<float>{1});
  }

  /// One step: the condition, the state, what is stacked.
  std::vector<Tensor> step(const Tensor& i, const Tensor& condition,
                           std::span<const Tensor> state) {
    std::vector<Imported> inputs{imported(i), imported(condition)};
    for (const Tensor& s : state) inputs.push_back(imported(s));
    std::vector<Tensor> results = operands(n_, n_.run(body_, inputs));
    results[0] = scalar(results[0], n_.loc());
    n_.importer().check_before(results);
    return results;
  }

  void as_graph() {
    const auto lengths = n_.has(0) ? n_.known_sizes(0) : std::nullopt;
    const bool always = begins() && keeps_condition();
    if (always && lengths && lengths->size() == 1) {
      scan_all(max((*lengths)[0], 0));
    } else {
      loop_while();
    }
  }

  void give(std::span<const Tensor> results) {
    for (std::size_t i = 0; i < results.size(); ++i) n_.output(static_cast<int>(i), results[i]);
  }

  void scan_all(Dim length) {
    const std::vector<Tensor> init = operands(n_, init_);
    const Tensor numbers[] = {arange(length, i64, n_.loc())};
    const auto body = [&](std::span<const Tensor> in) {
      const Tensor truth = n_.importer().operand(known_truth(true));
      std::vector<Tensor> results = step(in.back(), truth, in.first(in.size() - 1));
      results.erase(results.begin());
      return results;
    };
    give(n_.importer().record([&] { return exec::run_scan(body, init, numbers, n_.loc()); }));
  }

  void loop_while() {
    std::vector<Tensor> state{
        n_.importer().operand(known_scalar(std::int64_t{0})),
        n_.has(1) ? scalar(n_.input(1), n_.loc()) : n_.importer().operand(known_truth(true))};
    for (const Tensor& s : operands(n_, init_)) state.push_back(s);
    const Tensor most = n_.has(0) ? scalar(n_.input(0), n_.loc()) : Tensor();
    const auto goes_on = [&](std::span<const Tensor> in) -> std::vector<Tensor> {
      if (!most.defined()) return {in[1]};
      return {logical_and(in[1], lt(in[0], most, n_.loc()), n_.loc())};
    };
    const auto body = [&](std::span<const Tensor> in) {
      std::vector<Tensor> made = step(in[0], in[1], in.subspan(2));
      made.insert(made.begin(), add(in[0], 1, n_.loc()));
      return made;
    };
    const std::vector<Tensor> results = n_.importer().record(
        [&] { return exec::run_while(goes_on, body, state, n_.loc(), stacks_); });
    give(std::span<const Tensor>(results).subspan(2));
  }

  void write_out() {
    const std::int64_t most = n_.constant_integer(0, std::numeric_limits<std::int64_t>::max());
    bool goes_on = !n_.has(1) || n_.constant_number(1, 1) != 0;
    std::vector<Imported> state = init_;
    std::vector<std::vector<Imported>> stacks(stacks_);
    for (std::int64_t i = 0; goes_on && i < most; ++i) {
      n_.importer().count_step();
      std::vector<Imported> inputs{known_scalar(i), known_truth(true)};
      inputs.insert(inputs.end(), state.begin(), state.end());
      std::vector<Imported> results = n_.run(body_, inputs);
      if (!results[0].constant.defined()) {
        n_.need_elements(results[0], fmt::format("the condition after step {}", i));
      }
      goes_on = results[0].constant.to_vector<float>(n_.loc()) == std::vector<float>{1};
      for (std::size_t k = 0; k < state.size(); ++k) state[k] = std::move(results[k + 1]);
      for (std::size_t k = 0; k < stacks_; ++k) {
        stacks[k].push_back(std::move(results[state.size() + 1 + k]));
      }
    }
    for (std::size_t k = 0; k < state.size(); ++k) {
      n_.set_output(static_cast<int>(k), std::move(state[k]));
    }
    for (std::size_t k = 0; k < stacks_; ++k) {
      const std::size_t at = init_.size() + k;
      n_.output(static_cast<int>(at), stacks[k].empty()
                                          ? no_steps(n_, body_.output(static_cast<int>(at) + 1), 0)
                                          : stacked(n_, stacks[k], 0));
    }
  }

  NodeImport& n_;
  const pb::GraphProto& body_;
  std::vector<Imported> init_;
  std::size_t stacks_ = 0;
};

// --- Scan ----------------------------------------------------------------------------------------

/// Slices are along the first axis, from first to last, in all that follows.
struct ScanParts {
  std::vector<Imported> states;
  std::vector<Tensor> xs;
};

class ScanImport {
 public:
  ScanImport(NodeImport& n, int first_input) : n_(n), body_(n.graph("body")) {
    n.check_names(body_);
    const std::int64_t scanned = n.integer("num_scan_inputs", 0);
    const std::int64_t inputs = n.input_count() - first_input;
    if (scanned < 1 || scanned > inputs || body_.input_size() != inputs ||
        body_.output_size() < inputs - scanned) {
      n.fail(
          fmt::format("its body takes {} values and gives {}, and num_scan_inputs is {}, which "
                      "does not fit {} inputs",
                      body_.input_size(), body_.output_size(), scanned, inputs));
    }
    states_ = static_cast<std::size_t>(inputs - scanned);
    for (std::int64_t i = 0; i < inputs; ++i) {
      const int at = first_input + static_cast<int>(i);
      if (i < inputs - scanned) {
        parts_.states.push_back(n.value(at));
      } else {
        parts_.xs.push_back(n.input(at));
      }
    }
  }

  /// Version 9 on: any axis, in both directions.
  void build() {
    const Ints axes = n_.integers("scan_input_axes", Ints(parts_.xs.size(), 0));
    const Ints reversed = n_.integers("scan_input_directions", Ints(parts_.xs.size(), 0));
    const auto stacks = static_cast<std::size_t>(body_.output_size()) - states_;
    const Ints out_axes = n_.integers("scan_output_axes", Ints(stacks, 0));
    const Ints out_reversed = n_.integers("scan_output_directions", Ints(stacks, 0));
    if (axes.size() != parts_.xs.size() || reversed.size() != parts_.xs.size() ||
        out_axes.size() != stacks || out_reversed.size() != stacks) {
      n_.fail("its axes and directions must be one for each scanned input and output");
    }
    for (std::size_t i = 0; i < parts_.xs.size(); ++i) {
      parts_.xs[i] = turned(moved(parts_.xs[i], axes[i], 0), reversed[i]);
    }
    std::vector<Imported> results = scanned();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i < states_) {
        n_.set_output(static_cast<int>(i), std::move(results[i]));
        continue;
      }
      const Tensor y = turned(n_.importer().operand(results[i]), out_reversed[i - states_]);
      n_.output(static_cast<int>(i), moved(y, 0, out_axes[i - states_]));
    }
  }

  /// Version 8: a scan for each element of the first axis of all inputs.
  void build_batched() {
    const Ints reversed = n_.integers("directions", Ints(parts_.xs.size(), 0));
    if (reversed.size() != parts_.xs.size()) n_.fail("its directions must be one for each input");
    std::vector<Tensor> all = operands(n_, parts_.states);
    for (std::size_t i = 0; i < parts_.xs.size(); ++i) {
      const bool from_end = reversed[i] != 0 && !n_.has(0);
      all.push_back(from_end ? flip(parts_.xs[i], {1}, n_.loc()) : parts_.xs[i]);
    }
    if (n_.has(0)) all.push_back(n_.input(0));
    const auto scan_of = [&](std::span<const Tensor> element) {
      std::vector<Tensor> results =
          n_.has(0) ? steps_of(element.first(element.size() - 1), element.back(), reversed)
                    : scan_of_steps(element.first(states_), element.subspan(states_));
      n_.importer().check_before(results);
      return results;
    };
    const std::vector<Tensor> results =
        n_.importer().record([&] { return exec::run_scan(scan_of, {}, all, n_.loc()); });
    for (std::size_t i = 0; i < results.size(); ++i) n_.output(static_cast<int>(i), results[i]);
  }

 private:
  std::vector<Tensor> step(std::span<const Tensor> in) {
    std::vector<Tensor> results = operands(n_, n_.run(body_, as_imported(in)));
    n_.importer().check_before(results);
    return results;
  }

  std::vector<Tensor> scan_of_steps(std::span<const Tensor> states, std::span<const Tensor> xs) {
    return n_.importer().record([&] {
      return exec::run_scan([&](std::span<const Tensor> in) { return step(in); }, states, xs,
                            n_.loc());
    });
  }

  /// The scan of one sequence, backwards from its own end: steps from its length on change nothing
  /// and give zeros.
  std::vector<Tensor> steps_of(std::span<const Tensor> element, const Tensor& length,
                               const Ints& reversed) {
    const Loc loc = n_.loc();
    std::vector<Tensor> xs;
    for (std::size_t i = 0; i < reversed.size(); ++i) {
      const Tensor& x = element[states_ + i];
      if (reversed[i] == 0) {
        xs.push_back(x);
        continue;
      }
      const Tensor steps = arange(x.size(0, loc), DType::i64, loc);
      const Tensor from_end = sub(sub(length, 1, loc), steps, loc);
      xs.push_back(index_select(x, 0, maximum(from_end, 0, loc), loc));
    }
    const auto first = element.begin() + static_cast<std::ptrdiff_t>(states_);
    std::vector<Tensor> states(element.begin(), first);
    states.push_back(n_.importer().constant(tensor(std::int64_t{0})));
    const auto body = [&](std::span<const Tensor> in) {
      std::vector<Tensor> given(in.begin(), in.end());
      given.erase(given.begin() + static_cast<std::ptrdiff_t>(states_));
      std::vector<Tensor> made = step(given);
      const Tensor live = lt(in[states_], length, loc);
      for (std::size_t k = 0; k < made.size(); ++k) {
        made[k] = where(live, made[k], k < states_ ? in[k] : zeros_like(made[k], loc), loc);
      }
      made.insert(made.begin() + static_cast<std::ptrdiff_t>(states_), add(in[states_], 1, loc));
      return made;
    };
    std::vector<Tensor> results =
        n_.importer().record([&] { return exec::run_scan(body, states, xs, loc); });
    results.erase(results.begin() + static_cast<std::ptrdiff_t>(states_));
    return results;
  }

  std::vector<Imported> scanned() {
    if (!n_.is_constant() && are_tensors(parts_.states)) {
      try {
        const std::vector<Tensor> states = operands(n_, parts_.states);
        return as_imported(scan_of_steps(states, parts_.xs));
      } catch (const Error&) {
        // It cannot be one node; perhaps its steps can be written out.
      }
    }
    if (parts_.xs[0].rank() == 0) n_.fail("what it scans must have an axis");
    const Dim length = parts_.xs[0].size(0, n_.loc());
    if (!length.is_number()) n_.need_constant(n_.input_count() - 1);
    std::vector<Imported> state = parts_.states;
    std::vector<std::vector<Imported>> stacks(static_cast<std::size_t>(body_.output_size()) -
                                              states_);
    for (std::int64_t t = 0; t < length.number(); ++t) {
      n_.importer().count_step();
      std::vector<Imported> inputs = state;
      for (const Tensor& x : parts_.xs) inputs.push_back(imported(select(x, 0, t, n_.loc())));
      std::vector<Imported> results = n_.run(body_, inputs);
      for (std::size_t k = 0; k < states_; ++k) state[k] = std::move(results[k]);
      for (std::size_t k = 0; k < stacks.size(); ++k) {
        stacks[k].push_back(std::move(results[states_ + k]));
      }
    }
    for (std::size_t k = 0; k < stacks.size(); ++k) {
      const pb::ValueInfoProto& declared = body_.output(static_cast<int>(states_ + k));
      state.push_back(
          imported(stacks[k].empty() ? no_steps(n_, declared, 0) : stacked(n_, stacks[k], 0)));
    }
    return state;
  }

  Tensor turned(const Tensor& x, std::int64_t reversed) const {
    return reversed != 0 ? flip(x, {0}, n_.loc()) : x;
  }
  Tensor moved(const Tensor& x, std::int64_t from, std::int64_t to) const {
    const std::int64_t rank = x.rank();
    from += from < 0 ? rank : 0;
    to += to < 0 ? rank : 0;
    if (from < 0 || from >= rank || to < 0 || to >= rank) {
      n_.fail(fmt::format("an axis of its scan is outside a tensor of rank {}", rank));
    }
    if (from == to) return x;
    std::vector<std::int64_t> order;
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      if (axis != from) order.push_back(axis);
    }
    order.insert(order.begin() + to, from);
    Ints axes;
    for (const std::int64_t axis : order) axes.push_back(axis);
    return permute(x, axes, n_.loc());
  }

  NodeImport& n_;
  const pb::GraphProto& body_;
  ScanParts parts_;
  std::size_t states_ = 0;
};

}  // namespace

std::span<const ModelRule> loop_rules() {
  static constexpr ModelRule kRules[] = {
      {"Loop", 1, [](NodeImport& n) { LoopImport(n).build(); }},
      {"Scan", 8, [](NodeImport& n) { ScanImport(n, 1).build_batched(); }},
      {"Scan", 9, [](NodeImport& n) { ScanImport(n, 0).build(); }},
  };
  return kRules;
}

}  // namespace dyad::onnx
