#include "dyad/autograd/backward.h"

#include <algorithm>
#include <cstdint>
#include <forward_list>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/autograd/slice_sum.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/core/element.h"
#include "dyad/core/recording_notes.h"
#include "dyad/core/tensor_list.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/row_gradient.h"
#include "dyad/ir/slice_gradient.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"

namespace dyad::autograd {
namespace {

thread_local const OpInfo* rule = nullptr;  // owned by the RuleScopes of the thread

/// A node of the tape with the gradients that have reached its outputs.
struct Pending {
  explicit Pending(TapeNode& from) : node(&from), grads(from.outputs().size()) {}
  Ref<TapeNode> node;
  TensorList grads;
  std::vector<SliceSum> slices;  ///< what comes to these yet, one for each; empty where none does
};

/// Small blocks from the pool of the thread.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() noexcept = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) noexcept {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(detail::pool_allocate(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    detail::pool_free(block, count * sizeof(T));
  }
  bool operator==(const PoolAllocator&) const noexcept = default;
};

/// Nodes to visit, latest first.
class Frontier {
 public:
  Pending& at(TapeNode& node) {
    return pending_.try_emplace({node.sequence(), &node}, node).first->second;
  }
  [[nodiscard]] bool empty() const noexcept { return pending_.empty(); }
  auto pop() { return pending_.extract(std::prev(pending_.end())); }

 private:
  using Key = std::pair<std::uint64_t, const TapeNode*>;  // threads may use a number twice
  std::map<Key, Pending, std::less<>, PoolAllocator<std::pair<const Key, Pending>>> pending_;
};

/// Checks that the row says that its rule reads it.
void check_declared(const TapeNode& node, bool declared, std::string_view what, int i) {
  if (declared) return;
  throw InternalError("the gradient of " + std::string(node.op().name) + " reads " +
                      std::string(what) + " " + std::to_string(i) +
                      ", which its row does not declare as saved");
}

/// Checks that a value has not changed since it was saved.
void check_version(const TapeNode& node, DType dtype, const Shape& shape, std::uint32_t version,
                   std::uint32_t now, std::string_view what, int i) {
  if (now == version) return;
  throw GradError("backward of " + std::string(node.op().name) + ": " + std::string(what) + " " +
                      std::to_string(i) + " (" + type_string(dtype, shape) +
                      ") was overwritten in place after it was saved; call backward() before the "
                      "write, or write to a clone()",
                  node.loc());
}
void check_version(const TapeNode& node, const Tensor& value, std::uint32_t version,
                   std::string_view what, int i) {
  if (!value.defined()) return;  // an optional input that is absent
  // In numbers, also while a function is recorded with symbols.
  check_version(node, value.dtype(), value.impl()->shape, version, value.impl()->storage->version(),
                what, i);
}

class Pass;

/// The eager side of a gradient rule.
class TapeGradient final : public Gradient, public RowGradient, public SliceGradient {
 public:
  /// `in_parts`: the pass that takes rows as they are, if it is one.
  /// `looked_for`: told of which outputs the rule asks whether anything flowed back; may be null.
  TapeGradient(TapeNode& node, std::span<Tensor> grads,
               const std::unordered_set<const TapeNode*>* wanted, Pass* in_parts,
               std::vector<int>* looked_for)
      : node_(node),
        grads_(grads),
        wanted_(wanted),
        in_parts_(in_parts),
        looked_for_(looked_for),
        results_(node.inputs().size()) {}

  const Tensor& grad(int i) override {
    Tensor& g = grads_[static_cast<std::size_t>(i)];
    const OutputRecord& record = node_.outputs()[static_cast<std::size_t>(i)];
    if (!g.defined()) g = zeros(record.shape, grad_dtype(record.dtype));
    return g;
  }
  Tensor take_grad(int i) override {
    (void)grad(i);
    return std::move(grads_[static_cast<std::size_t>(i)]);
  }
  Tensor take_input(int i) override {
    const Tensor value = input(i);
    again_.remove_if([i](const std::pair<int, Tensor>& one) { return one.first == i; });
    return value;
  }
  bool has_grad(int i) const override {
    if (looked_for_) looked_for_->push_back(i);
    return grads_[static_cast<std::size_t>(i)].defined();
  }
  const Tensor& input(int i) override {
    check_declared(node_, saves(node_.op().saved_inputs, static_cast<std::size_t>(i)), "input", i);
    if (in(i).left_out) return left_out_input(i);
    const Tensor& value = in(i).value();
    check_version(node_, value, in(i).saved.version, "input", i);
    return value;
  }
  const Tensor& output(int i) override {
    const SavedTensor& saved = node_.outputs()[static_cast<std::size_t>(i)].saved;
    const Tensor& value = saved.tensor;
    check_declared(node_, saves(node_.op().saved_outputs, static_cast<std::size_t>(i)), "output",
                   i);
    check_version(node_, value, saved.version, "output", i);
    if (!grad_enabled()) return value;
    // A fresh handle with the output's place on the tape, for a second derivative.
    auto impl = make_ref<TensorImpl>(*value.impl());
    impl->grad_meta = Ref<TapeNode>(&node_);
    impl->grad_output = static_cast<std::uint32_t>(i);
    impl->requires_grad = true;
    return made_.emplace_front(std::move(impl));
  }
  const Shape& input_shape(int i) const override { return in(i).shape; }
  DType input_dtype(int i) const override { return grad_dtype(in(i).dtype); }
  const Shape& output_shape(int i) const override {
    return node_.outputs()[static_cast<std::size_t>(i)].shape;
  }
  int input_count() const override { return static_cast<int>(results_.size()); }
  bool needs(int i) const override {
    const InputRecord& record = in(i);
    if (!wanted_) return record.needs_grad();
    if (record.node) return wanted_->contains(record.node.get());
    return record.leaf.defined();
  }
  void set(int i, Tensor gradient) override {
    results_[static_cast<std::size_t>(i)] = std::move(gradient);
  }
  const void* raw_attrs() const override { return node_.attrs(); }
  bool takes_rows(int i) const override;
  void set_rows(int i, const Tensor& index, const Tensor& rows) override;
  bool takes_slices(int i) const override;
  void set_slice(int i, GradientSlice slice) override { slice_.emplace(i, std::move(slice)); }

  std::span<Tensor> results() noexcept { return results_.all(); }
  /// What was set as a slice: of which input, and the slice.
  std::optional<std::pair<int, GradientSlice>>& slice() noexcept { return slice_; }

 private:
  const Tensor& left_out_input(int i) {
    const auto known =
        std::ranges::find(again_, i, [](const std::pair<int, Tensor>& one) { return one.first; });
    if (known != again_.end()) return known->second;
    InputRecord& record = in(i);
    check_version(node_, record.dtype, record.shape, record.saved.version, version_now(record),
                  "input", i);
    return again_.emplace_front(i, make_again(record)).second;
  }
  [[nodiscard]] InputRecord& in(int i) const { return node_.inputs()[static_cast<std::size_t>(i)]; }
  TapeNode& node_;
  std::span<Tensor> grads_;
  const std::unordered_set<const TapeNode*>* wanted_;
  Pass* in_parts_;
  std::vector<int>* looked_for_;
  TensorList results_;
  std::optional<std::pair<int, GradientSlice>> slice_;
  // What the rule holds references to.
  std::forward_list<Tensor> made_;
  std::forward_list<std::pair<int, Tensor>> again_;
};

/// The gradient that a tensor of one element starts with.
Tensor one_like(const Tensor& output) {
  const DType dtype = grad_dtype(output.dtype());
  if (!Evaluator::is_eager()) return ones(shape_of(output), dtype);
  Tensor one = make_empty(dtype, output.impl()->shape);
  visit_element(dtype, [&]<class T>(std::type_identity<T>) {
    *reinterpret_cast<T*>(one.impl()->data) = convert_element<T>(1.0);
  });
  return one;
}

/// One place whose gradient the caller asked for: what a node made, or a leaf.
struct Target {
  const TensorImpl* leaf = nullptr;
  const TapeNode* node = nullptr;
  std::uint32_t output = 0;

  /// Handles that share what the tape keeps for a leaf are one leaf: a recording works on handles
  /// of its own.
  [[nodiscard]] bool is(const TensorImpl* other) const noexcept {
    return leaf && other &&
           (leaf == other || (leaf->grad_meta && leaf->grad_meta == other->grad_meta));
  }
};

/// What a pass found for a leaf so far, and the line of the last operator that had a part in it.
struct LeafSum {
  Tensor leaf, sum;
  SliceSum slices;  ///< what comes to the sum yet
  Loc place;
};

/// A pass, as a recording is told of it.
class RecordedPass {
 public:
  explicit RecordedPass(RecordingNotes* recording) : recording_(recording) {
    if (recording_) recording_->begin_pass();
  }
  ~RecordedPass() {
    if (recording_) recording_->end_pass();
  }
  RecordedPass(const RecordedPass&) = delete;
  RecordedPass& operator=(const RecordedPass&) = delete;

 private:
  RecordingNotes* recording_;
};

class Pass {
 public:
  Pass(std::span<const Tensor> inputs, BackwardOptions options, bool in_parts = false)
      : options_(options), found_(inputs.size()), parts_(in_parts ? inputs.size() : 0) {
    for (const Tensor& input : inputs) {
      if (const TapeNode* node = node_of(*input.impl())) {
        targets_.push_back({nullptr, node, input.impl()->grad_output});
      } else {
        targets_.push_back({input.impl(), nullptr, 0});
      }
    }
  }

  void seed(const Tensor& output, const Tensor& grad, Loc loc) {
    TensorImpl& impl = *output.impl();
    if (!impl.requires_grad) {
      throw GradError(
          "backward of " + type_string(output) +
              ", which does not track gradients: mark a leaf with requires_grad() and compute it "
              "outside NoGrad",
          loc);
    }
    Tensor g = grad;
    if (!g.defined()) {
      if (impl.numel() != 1) {
        throw GradError(
            "backward of " + type_string(output) +
                " needs the gradient of the output: only a tensor of one element has the default 1",
            loc);
      }
      g = one_like(output);
    } else if (!shape_of(g).same_as(shape_of(output))) {
      throw ShapeError("backward of " + type_string(output) + " with a gradient of " +
                           type_string(g) + ": the two must have the same shape",
                       loc);
    }
    if (TapeNode* node = node_of(impl)) {
      if (is_part(*node, impl.grad_output, g)) return;
      if (!targets_.empty()) roots_.push_back(node);
      to_node(*node, impl.grad_output, std::move(g));
    } else {
      to_leaf(output, std::move(g));
    }
  }

  [[nodiscard]] std::vector<std::vector<GradientPart>> take_parts() noexcept {
    return std::move(parts_);
  }
  /// In parts: whether what comes to `input` is asked for, each part for itself.
  [[nodiscard]] bool ends_at(const InputRecord& input) const {
    return part_of_input(input) < parts_.size();
  }
  void take_rows(const InputRecord& input, const SparseRows& rows) {
    parts_[part_of_input(input)].push_back({Tensor(), rows});
  }

  std::vector<Tensor> run() {
    if (!targets_.empty()) find_wanted();
    {
      const RecordedPass recorded(recording_);
      while (!frontier_.empty()) {
        auto latest = frontier_.pop();
        visit(latest.mapped());
      }
    }
    for (LeafSum& of : sums_) {
      join(of.sum, of.slices);
      const LocScope place(of.place);
      accumulate(of.leaf, std::move(of.sum), options_.create_graph);
    }
    return std::move(found_);
  }

 private:
  void add_to(Tensor& sum, Tensor g) {
    if (!sum.defined()) {
      sum = std::move(g);
    } else {
      const GradMode mode(options_.create_graph);
      sum = add(sum, g);
    }
  }

  /// Adds what came as slices. Done before more comes to the sum: the order of a sum is that of the
  /// program.
  void join(Tensor& sum, SliceSum& slices) {
    if (slices.empty()) return;
    const GradMode mode(options_.create_graph);
    add_to(sum, slices.take());
  }

  void add_slice(Tensor& sum, SliceSum& slices, const GradientSlice& slice, const Shape& whole) {
    if (slices.add(slice, whole)) return;
    join(sum, slices);
    static_cast<void>(slices.add(slice, whole));
  }

  void to_node(TapeNode& node, std::uint32_t output, Tensor g) {
    Pending& pending = frontier_.at(node);
    if (!pending.slices.empty()) join(pending.grads[output], pending.slices[output]);
    add_to(pending.grads[output], std::move(g));
  }

  /// What this pass finds for a leaf: the sum of all handles that share what the tape keeps for it.
  LeafSum& sum_of(const Tensor& leaf) {
    // Made now: rows that come to the leaf in the middle of the pass make it, too.
    const auto [at, is_new] = sum_of_.try_emplace(&make_leaf_grad(*leaf.impl()), sums_.size());
    if (is_new) sums_.push_back({leaf, Tensor(), {}, Loc()});
    LeafSum& of = sums_[at->second];
    of.place = Loc().user();
    return of;
  }

  void to_leaf(const Tensor& leaf, Tensor g) {
    if (targets_.empty()) {
      // What the leaf has from earlier passes comes to the sum of this one, not to its parts: a
      // replayed call knows the sum alone.
      LeafSum& of = sum_of(leaf);
      join(of.sum, of.slices);
      add_to(of.sum, std::move(g));
      return;
    }
    if (!parts_.empty()) {
      if (const std::size_t at = part_of_leaf(leaf); at < parts_.size())
        parts_[at].push_back({std::move(g), {}});
      return;
    }
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (targets_[i].is(leaf.impl())) add_to(found_[i], g);
    }
  }

  /// In parts: the position of a leaf among the inputs, or of what a node made; past the end where
  /// it is none of them.
  [[nodiscard]] std::size_t part_of_input(const InputRecord& input) const {
    return input.leaf.defined() ? part_of_leaf(input.leaf)
                                : part_of_node(*input.node, input.output);
  }
  [[nodiscard]] std::size_t part_of_leaf(const Tensor& leaf) const {
    // The very handle, before another one of the same leaf.
    auto at = std::ranges::find(targets_, leaf.impl(), &Target::leaf);
    if (at == targets_.end())
      at = std::ranges::find_if(targets_, [&](const Target& t) { return t.is(leaf.impl()); });
    return static_cast<std::size_t>(at - targets_.begin());
  }
  [[nodiscard]] std::size_t part_of_node(const TapeNode& node, std::uint32_t output) const {
    const auto at = std::ranges::find_if(
        targets_, [&](const Target& t) { return t.node == &node && t.output == output; });
    return static_cast<std::size_t>(at - targets_.begin());
  }

  /// In parts: whether `g` has arrived at an input.
  bool is_part(const TapeNode& node, std::uint32_t output, const Tensor& g) {
    if (parts_.empty()) return false;
    const std::size_t at = part_of_node(node, output);
    if (at < parts_.size()) parts_[at].push_back({g, {}});
    return at < parts_.size();
  }

  /// Nodes on a way to a target; the others need not be visited.
  void find_wanted() {
    // Ascending order visits a node after everything it was computed from.
    std::vector<TapeNode*> reachable(roots_.begin(), roots_.end());
    std::unordered_set<TapeNode*> seen(roots_.begin(), roots_.end());
    for (std::size_t i = 0; i < reachable.size(); ++i) {
      for (const InputRecord& input : reachable[i]->inputs()) {
        if (input.node && seen.insert(input.node.get()).second)
          reachable.push_back(input.node.get());
      }
    }
    std::sort(reachable.begin(), reachable.end(),
              [](const TapeNode* a, const TapeNode* b) { return a->sequence() < b->sequence(); });
    for (TapeNode* node : reachable) {
      const auto is_target = [&](const Target& t) { return t.node == node; };
      if (std::any_of(targets_.begin(), targets_.end(), is_target)) wanted_.insert(node);
      for (const InputRecord& input : node->inputs()) {
        const auto is_input = [&](const Target& t) { return t.is(input.leaf.impl()); };
        const bool leads = input.node ? wanted_.contains(input.node.get())
                                      : std::any_of(targets_.begin(), targets_.end(), is_input);
        if (!leads) continue;
        wanted_.insert(node);
        passing_.insert(node);
        break;
      }
    }
  }

  void visit(Pending& pending) {
    TapeNode& node = *pending.node;
    if (!targets_.empty() && !wanted_.contains(&node)) return;
    if (recording_ && !node.released()) recording_->visit(node.sequence());
    const GradMode mode(options_.create_graph);
    for (std::size_t i = 0; i < pending.slices.size(); ++i)
      join(pending.grads[i], pending.slices[i]);
    for (std::size_t i = 0; i < pending.grads.size(); ++i) {
      const auto& hooks = node.outputs()[i].hooks;
      if (!hooks || !pending.grads[i].defined()) continue;
      if (recording_) recording_->open_rule({&pending.grads[i], 1});
      pending.grads[i] = through_hooks(*hooks, std::move(pending.grads[i]), node.loc());
      if (recording_) recording_->close_rule({&pending.grads[i], 1}, {});
    }
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (targets_[i].node == &node && pending.grads[targets_[i].output].defined()) {
        found_[i] = pending.grads[targets_[i].output];
      }
    }
    if (!targets_.empty() && !passing_.contains(&node)) return;
    if (node.released()) {
      throw GradError("backward through " + std::string(node.op().name) +
                          " a second time: its saved tensors were freed by the first; pass "
                          "retain_graph = true there",
                      node.loc());
    }
    std::vector<int> looked_for;
    TapeGradient gradient(node, pending.grads.all(), targets_.empty() ? nullptr : &wanted_,
                          parts_.empty() ? nullptr : this, recording_ ? &looked_for : nullptr);
    {
      const LocScope place(node.loc());
      const RuleScope named(node.op());
      if (recording_) recording_->open_rule(pending.grads.all());
      if (node.op().grad) {
        node.op().grad(gradient);
      } else {
        through_expansion(node, gradient);
      }
      if (recording_) recording_->close_rule(gradient.results(), looked_for);
      pass_on(node, gradient.results());
      if (gradient.slice()) pass_on(node, gradient.slice()->first, gradient.slice()->second);
    }
    // What only a recording sees may be passed as often as what is before it.
    const bool is_seen = node.op().kind != BodyKind::structural;
    if (is_seen && !options_.retain_graph && !options_.create_graph) node.release_saved();
  }

  /// An opaque row without a rule: its expansion is computed and differentiated.
  void through_expansion(TapeNode& node, TapeGradient& gradient) {
    const GradMode on(true);
    std::vector<Tensor> inputs(node.inputs().size()), outputs, seeds, wanted;
    std::vector<const Tensor*> refs;
    std::vector<int> positions;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const int at = static_cast<int>(i);
      refs.push_back(&inputs[i]);
      if (node.inputs()[i].has_value()) inputs[i] = gradient.input(at);
      if (!inputs[i].defined() || !gradient.needs(at)) continue;
      inputs[i] = clone(inputs[i]);  // a place of its own on the tape, at which the pass ends
      wanted.push_back(inputs[i]);
      positions.push_back(at);
    }
    const std::vector<Tensor> expanded = node.op().expand(node.attrs(), refs, node.loc());
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      if (!gradient.has_grad(static_cast<int>(i)) || !expanded[i].tracks_grad()) continue;
      outputs.push_back(expanded[i]);
      seeds.push_back(gradient.grad(static_cast<int>(i)));
    }
    if (outputs.empty()) return;
    const bool keep = options_.create_graph;
    std::vector<Tensor> found = run_backward(outputs, seeds, wanted, {keep, keep}, node.loc());
    for (std::size_t i = 0; i < positions.size(); ++i) gradient.set(positions[i], found[i]);
  }

  void pass_on(TapeNode& node, std::span<Tensor> results) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      InputRecord& input = node.inputs()[i];
      if (!results[i].defined() || !input.needs_grad()) continue;
      Tensor g = reduce_to(std::move(results[i]), input.shape, grad_dtype(input.dtype));
      if (input.leaf.defined()) {
        to_leaf(input.leaf, std::move(g));
      } else if (!is_part(*input.node, input.output, g)) {
        to_node(*input.node, input.output, std::move(g));
      }
    }
  }

  void pass_on(TapeNode& node, int i, const GradientSlice& slice) {
    const InputRecord& input = node.inputs()[static_cast<std::size_t>(i)];
    if (input.leaf.defined()) {
      LeafSum& of = sum_of(input.leaf);
      return add_slice(of.sum, of.slices, slice, input.shape);
    }
    Pending& pending = frontier_.at(*input.node);
    if (pending.slices.empty()) pending.slices.resize(pending.grads.size());
    add_slice(pending.grads[input.output], pending.slices[input.output], slice, input.shape);
  }

  BackwardOptions options_;
  RecordingNotes* recording_ =
      Evaluator::is_eager() ? nullptr : dynamic_cast<RecordingNotes*>(&Evaluator::current());
  Frontier frontier_;
  std::vector<TapeNode*> roots_;
  std::vector<Target> targets_;
  std::unordered_set<const TapeNode*> wanted_;   // targets, and nodes on a way to one
  std::unordered_set<const TapeNode*> passing_;  // of these, those whose rule must run
  std::vector<Tensor> found_;
  std::vector<std::vector<GradientPart>> parts_;
  std::vector<LeafSum> sums_;
  std::unordered_map<const LeafGrad*, std::size_t> sum_of_;
};

bool TapeGradient::takes_rows(int i) const {
  if (grad_enabled()) return false;
  const InputRecord& input = in(i);
  if (in_parts_) return input.needs_grad() && in_parts_->ends_at(input);
  if (wanted_ || !input.leaf.defined()) return false;
  const LeafGrad* const kept = leaf_grad_of(*input.leaf.impl());
  return !kept || kept->hooks.empty();
}

bool TapeGradient::takes_slices(int i) const {
  const InputRecord& input = in(i);
  if (input.leaf.defined()) return !wanted_;
  return input.node && !(in_parts_ && in_parts_->ends_at(input));
}

void TapeGradient::set_rows(int i, const Tensor& index, const Tensor& rows) {
  if (in_parts_) return in_parts_->take_rows(in(i), {index, rows});
  accumulate_rows(in(i).leaf, index, rows);
}

}  // namespace

const OpInfo* current_rule() noexcept { return rule; }

RuleScope::RuleScope(const OpInfo& op) noexcept : previous_(std::exchange(rule, &op)) {}

RuleScope::~RuleScope() { rule = previous_; }

/// Whether an axis of size `from` was one of size 1.
static bool was_one(Dim size, Dim from, const Tensor& gradient) {
  if (size.is_number() || size.same_as(from)) return size.same_as(1) && !from.same_as(1);
  // An expression such as min(s, 1), whose value is known while data is there.
  return gradient.is_concrete() && !(size == from) && size == 1;
}

Tensor reduce_to(Tensor gradient, const Shape& shape, DType dtype) {
  const TensorImpl& impl = *gradient.impl();
  if (!impl.recorded && impl.dtype == dtype && impl.shape.same_as(shape)) return gradient;
  const Shape from = shape_of(gradient);
  if (!from.same_as(shape)) {
    const std::size_t lead = from.size() - shape.size();
    Ints axes;
    bool surely = false;  // repeated: a symbol may turn out to be 1
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (i >= lead && !was_one(shape[i - lead], from[i], gradient)) continue;
      axes.push_back(static_cast<std::int64_t>(i));
      surely = surely || i < lead || from[i].is_number();
    }
    if (!axes.empty()) {
      gradient = surely ? sum(gradient, axes) : ops::sum_of_repeats(gradient, axes);
      gradient = reshape(gradient, shape);
    }
  }
  return gradient.dtype() == dtype ? gradient : gradient.to(dtype);
}

namespace {

std::vector<Tensor> run_pass(Pass& pass, std::span<const Tensor> outputs,
                             std::span<const Tensor> grads, Loc loc) {
  // The rules compute in the dtypes of the forward pass.
  const AutocastSwitch as_given(std::nullopt);
  begin_autocast_era();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    pass.seed(outputs[i], i < grads.size() ? grads[i] : Tensor(), loc);
  }
  return pass.run();
}

}  // namespace

std::vector<Tensor> run_backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                                 std::span<const Tensor> inputs, BackwardOptions options, Loc loc) {
  Pass pass(inputs, options);
  return run_pass(pass, outputs, grads, loc);
}

std::vector<std::vector<GradientPart>> run_backward_in_parts(std::span<const Tensor> outputs,
                                                             std::span<const Tensor> grads,
                                                             std::span<const Tensor> inputs,
                                                             Loc loc) {
  Pass pass(inputs, {.retain_graph = true}, /*in_parts=*/true);
  static_cast<void>(run_pass(pass, outputs, grads, loc));
  return pass.take_parts();
}

namespace {

/// What the tape of some outputs leads to, each once.
struct Reachable {
  std::vector<TapeNode*> nodes;
  std::vector<Tensor> leaves;
};

Reachable reachable_from(std::span<const Tensor> outputs, const OpInfo* end) {
  Reachable found;
  std::unordered_set<const void*> seen;
  const auto meet = [&](TapeNode* node, const Tensor& leaf) {
    if (node && &node->op() != end && seen.insert(node).second) found.nodes.push_back(node);
    if (leaf.defined() && seen.insert(leaf.impl()).second) found.leaves.push_back(leaf);
  };
  for (const Tensor& output : outputs) {
    if (TapeNode* node = node_of(*output.impl())) {
      meet(node, {});
    } else if (output.impl()->requires_grad) {
      meet(nullptr, output);
    }
  }
  for (std::size_t i = 0; i < found.nodes.size(); ++i) {
    for (const InputRecord& input : found.nodes[i]->inputs()) meet(input.node.get(), input.leaf);
  }
  return found;
}

}  // namespace

std::vector<Tensor> reachable_leaves(std::span<const Tensor> outputs, const OpInfo* end) {
  return reachable_from(outputs, end).leaves;
}

void settle_sizes(std::span<const Tensor> outputs, const OpInfo* end, const SymbolMap& sizes) {
  for (TapeNode* node : reachable_from(outputs, end).nodes) node->settle_sizes(sizes);
}

}  // namespace dyad::autograd
