#include "dyad/exec/drawn_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_node.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/node_gradient.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

using Values = std::vector<Value>;
using ValueMap = std::unordered_map<Value, Value, ValueHash>;

[[noreturn]] void fail(const Node& node, std::string_view where) {
  throw GradError(fmt::format("gradient of {}: {} draws random numbers, which the backward pass "
                              "would draw anew; draw them outside and use them inside",
                              node.op().name, where),
                  node.loc(), find_drawing(node)->loc());
}

bool holds_drawing(const Node& node) { return !node.regions().empty() && find_drawing(node); }

/// How many results the keys are that a node draws, in the graphs that it holds or itself.
std::size_t key_count(const Node& node) {
  if (node.is("random_key")) return node.types().size();
  std::size_t count = 0;
  for (const Ref<GraphImpl>& region : node.regions()) {
    for (const auto& inner : region->nodes()) count += key_count(*inner);
  }
  return count;
}

std::size_t state_count(const Node& loop) {
  return static_cast<std::size_t>(loop.attrs_as<LoopAttrs>().states);
}

/// Lets control nodes give the keys that they draw as results behind those that they have: a cond
/// those of both functions, zeros for the one that does not run, a loop those of each step,
/// stacked.
class KeyResults {
 public:
  explicit KeyResults(GraphEvaluator& outer) : outer_(outer) {}

  /// Those of a node, which gets them unless it has them already.
  Values of(Node& node, bool in_loop = false) {
    if (has_them(node)) return last_results(node, key_count(node));
    if (&node.op() == &kCondOp) return add_to_cond(node, in_loop);
    if (&node.op() == &kScanOp) {
      const Dim length = node.inputs()[state_count(node)].type().shape()[0];
      return add_to_loop(node, 0, length);
    }
    if (&node.op() != &kWhileOp) fail(node, "a function inside");
    if (in_loop) fail(node, "a while_loop in the body of another loop");
    if (node.types().size() > state_count(node)) fail(node, "a body that was recorded");
    for (const auto& inner : node.regions()[0]->nodes()) {
      if (find_drawing(*inner)) fail(node, "its condition");
    }
    return add_to_loop(node, 1, size_of_data());
  }

 private:
  static Values last_results(Node& node, std::size_t count) {
    Values last;
    for (std::size_t i = node.types().size() - count; i < node.types().size(); ++i)
      last.push_back(node.output(static_cast<int>(i)));
    return last;
  }

  /// The keys drawn in a graph, in the order of the program, if its control nodes give theirs.
  static std::optional<Values> given_in(const GraphImpl& region) {
    Values keys;
    for (const auto& node : region.nodes()) {
      if (holds_drawing(*node) && !has_them(*node)) return std::nullopt;
      append_all<Value>(keys, last_results(*node, key_count(*node)));
    }
    return keys;
  }

  static bool has_them(const Node& node) {
    std::size_t behind = key_count(node);
    for (const Ref<GraphImpl>& region : node.regions()) {
      const std::optional<Values> keys = given_in(*region);
      const std::vector<Value>& outputs = region->outputs();
      if (!keys) return false;
      // A while_loop's condition gives nothing else.
      if (keys->empty()) continue;
      if (outputs.size() < behind ||
          !std::ranges::equal(*keys, std::span(outputs).last(behind).first(keys->size())))
        return false;
      if (&node.op() == &kCondOp) behind -= keys->size();
    }
    return true;
  }

  Dim size_of_data() {
    Types type{Type(DType::i64, {unknown_size()})};
    outer_.bind_unknown_sizes(type);
    of_data_.push_back(type[0].shape()[0]);
    return of_data_.back();
  }
  [[nodiscard]] bool is_of_data(const Type& key) const {
    return key.rank() > 0 &&
           std::ranges::any_of(of_data_, [&](Dim size) { return size.same_as(key.shape()[0]); });
  }

  /// The keys drawn in a graph that belongs to one node alone.
  Values add_inside(const GraphImpl& region, bool in_loop) {
    Values keys;
    for (const auto& node : region.nodes()) {
      if (holds_drawing(*node)) {
        append_all<Value>(keys, of(*node, in_loop));
      } else {
        append_all<Value>(keys, last_results(*node, key_count(*node)));
      }
    }
    return keys;
  }

  static Values add_results(Node& node, std::span<const Type> more) {
    Types types(node.types().begin(), node.types().end());
    append_all<Type>(types, more);
    node.set_types(std::move(types));
    return last_results(node, more.size());
  }

  Values add_to_loop(Node& node, std::size_t body, Dim length) {
    const Ref<GraphImpl> own = clone(*node.regions()[body]);
    const Values keys = add_inside(*own, true);
    append_all<Value>(own->outputs(), keys);
    node.set_region(body, own);
    Types types;
    for (const Value key : keys) types.push_back(stacked(key.type(), length));
    return add_results(node, types);
  }

  Values add_to_cond(Node& node, bool in_loop) {
    const Ref<GraphImpl> branches[] = {clone(*node.regions()[0]), clone(*node.regions()[1])};
    const Values keys[] = {add_inside(*branches[0], in_loop), add_inside(*branches[1], in_loop)};
    const auto give = [&](std::size_t branch, std::size_t of) {
      if (branch == of) return append_all<Value>(branches[branch]->outputs(), keys[of]);
      GraphEvaluator evaluator(branches[branch]);
      const Evaluator::Scope current(evaluator);
      for (const Value key : keys[of]) {
        const Type none = is_of_data(key.type()) ? Type(DType::i64, {0}) : key.type();
        branches[branch]->outputs().push_back(
            evaluator.value_of(zeros_of(none, node.loc()), nullptr, node.loc()));
      }
    };
    Types types;
    for (std::size_t of = 0; of < 2; ++of) {
      give(0, of);
      give(1, of);
      for (const Value key : keys[of]) {
        types.push_back(is_of_data(key.type()) ? Type(DType::i64, {size_of_data()}) : key.type());
      }
    }
    node.set_region(0, branches[0]);
    node.set_region(1, branches[1]);
    return add_results(node, types);
  }

  GraphEvaluator& outer_;
  std::vector<Dim> of_data_;  ///< how often while_loops ran
};

/// A graph once more with keys that it is given in the place of those that it draws, and without
/// those as results.
class RegionWithKeys {
 public:
  explicit RegionWithKeys(const GraphImpl& region)
      : region_(region), made_(make_ref<GraphImpl>()), evaluator_(made_) {}

  /// Takes over the placeholders up to number `end`.
  void take_placeholders(std::size_t end) {
    for (; taken_ < end; ++taken_) {
      const Value old = region_.placeholders()[taken_];
      now_[old] = made_->append_copy(*old.node, {})->output();
    }
  }
  void take_placeholders() { take_placeholders(region_.placeholders().size()); }
  Value add_placeholder(const Type& type) {
    return made_->add_placeholder(fmt::format("key{}", added_++), type, Loc());
  }
  Values add_placeholders(std::span<const Value> like) {
    Values added;
    for (const Value value : like) added.push_back(add_placeholder(value.type()));
    return added;
  }

  /// Takes over the nodes; what they draw are the first of `keys`, which it takes away. All but
  /// the last `keys_given` results stay.
  void finish(std::span<const Value>& keys, std::size_t keys_given);

  [[nodiscard]] GraphEvaluator& evaluator() noexcept { return evaluator_; }
  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return made_; }

 private:
  const GraphImpl& region_;
  Ref<GraphImpl> made_;
  GraphEvaluator evaluator_;
  ValueMap now_;
  std::size_t taken_ = 0, added_ = 0;
};

/// Behind a loop's states: how many steps it has done.
Value next_step(RegionWithKeys& region, Value step, Loc loc) {
  const Evaluator::Scope current(region.evaluator());
  const Tensor next = add(symbolic_tensor(region.graph(), step), 1, loc);
  return region.evaluator().value_of(next, nullptr, loc);
}

/// The keys of one step.
Values keys_of(RegionWithKeys& region, std::span<const Value> stacks, Value step, Loc loc) {
  const Evaluator::Scope current(region.evaluator());
  const Tensor at = reshape(symbolic_tensor(region.graph(), step), {1}, loc);
  Values keys;
  for (const Value stack : stacks) {
    const Tensor key = index_select(symbolic_tensor(region.graph(), stack), 0, at, loc);
    const Shape& shape = stack.type().shape();
    keys.push_back(region.evaluator().value_of(
        reshape(key, Shape(shape.begin() + 1, shape.end()), loc), nullptr, loc));
  }
  return keys;
}

/// Appends a node that does what another one does, with the keys that the latter gives as results;
/// gives its results.
Values append_twin(GraphEvaluator& into, const Node& node, Values inputs,
                   std::span<const Value> keys) {
  const Loc loc = node.loc();
  std::span<const Value> left = keys;
  std::vector<Ref<GraphImpl>> regions;
  Types types(node.types().begin(), node.types().end() - static_cast<std::ptrdiff_t>(keys.size()));
  const std::size_t results = types.size();
  Ref<Attrs> attrs = node.shared_attrs();
  if (&node.op() == &kCondOp) {
    append_all<Value>(inputs, keys);
    Values given;
    std::size_t used = 0;
    for (const Ref<GraphImpl>& branch : node.regions()) {
      RegionWithKeys made(*branch);
      made.take_placeholders();
      given = made.add_placeholders(keys);
      left = std::span<const Value>(given).subspan(used);
      made.finish(left, keys.size());
      used = given.size() - left.size();
      regions.push_back(made.graph());
    }
  } else if (&node.op() == &kScanOp) {
    const LoopAttrs of = node.attrs_as<LoopAttrs>();
    const auto fixed = static_cast<std::size_t>(of.states + of.slices);
    inputs.insert(inputs.begin() + of.states + of.slices, keys.begin(), keys.end());
    attrs = loop_attrs(state_count(node), fixed - state_count(node) + keys.size(), of.reverse);
    RegionWithKeys made(*node.regions()[0]);
    made.take_placeholders(fixed);
    Values given;
    for (const Value key : keys)
      given.push_back(made.add_placeholder(without_first_axis(key.type())));
    made.take_placeholders();
    left = given;
    made.finish(left, keys.size());
    regions.push_back(made.graph());
  } else {
    const std::size_t states = state_count(node);
    const Evaluator::Scope current(into);
    const Value first = into.value_of(zeros_of(Type(DType::i64, Shape()), loc), nullptr, loc);
    inputs.insert(inputs.begin() + static_cast<std::ptrdiff_t>(states), first);
    append_all<Value>(inputs, keys);
    attrs = loop_attrs(states + 1, 0);
    types.push_back(first.type());
    for (std::size_t r = 0; r < 2; ++r) {
      RegionWithKeys made(*node.regions()[r]);
      made.take_placeholders(states);
      const Value step = made.add_placeholder(first.type());
      made.take_placeholders();
      const Values stacks = made.add_placeholders(keys);
      const Values given = r == 1 ? keys_of(made, stacks, step, loc) : Values();
      left = given;
      made.finish(left, given.size());
      if (r == 1) made.graph()->outputs().push_back(next_step(made, step, loc));
      regions.push_back(made.graph());
    }
  }
  Node* const made =
      into.graph()->append(node.op(), std::move(attrs), inputs, std::move(types), loc);
  for (Ref<GraphImpl>& region : regions) made->add_region(std::move(region));
  Values outputs;
  for (std::size_t i = 0; i < results; ++i) outputs.push_back(made->output(static_cast<int>(i)));
  return outputs;
}

void RegionWithKeys::finish(std::span<const Value>& keys, std::size_t keys_given) {
  for (const auto& node : region_.nodes()) {
    if (&node->op() == &kPlaceholderOp || node->is("seed_generator")) continue;
    const std::size_t drawn = key_count(*node);
    const std::span<const Value> given = keys.first(drawn);
    keys = keys.subspan(drawn);
    Values outputs;
    if (node->is("random_key")) {
      outputs.assign(given.begin(), given.end());
    } else {
      Values inputs;
      for (const Value v : node->inputs()) inputs.push_back(v ? now_.at(v) : v);
      if (holds_drawing(*node)) {
        outputs = append_twin(evaluator_, *node, std::move(inputs), given);
      } else {
        Node* const copy = made_->append_copy(*node, inputs);
        for (int i = 0; i < static_cast<int>(copy->types().size()); ++i)
          outputs.push_back(copy->output(i));
      }
    }
    for (std::size_t i = 0; i < outputs.size(); ++i)
      now_[node->output(static_cast<int>(i))] = outputs[i];
  }
  const std::vector<Value>& outputs = region_.outputs();
  for (std::size_t i = 0; i + keys_given < outputs.size(); ++i)
    made_->outputs().push_back(now_.at(outputs[i]));
}

}  // namespace

const Node* find_drawing(const Node& node) {
  if (node.op().effect == Effect::random) return &node;
  for (const Ref<GraphImpl>& region : node.regions()) {
    for (const auto& inner : region->nodes()) {
      if (const Node* const found = find_drawing(*inner)) return found;
    }
  }
  return nullptr;
}

bool drawing_grad(Gradient& g) {
  Node& node = dynamic_cast<NodeGradient&>(g).node();
  if (!find_drawing(node)) return false;
  auto& sums = dynamic_cast<SumGradient&>(g);
  auto& outer = dynamic_cast<GraphEvaluator&>(Evaluator::current());
  const Loc loc = node.loc();
  const Values keys = KeyResults(outer).of(node);

  // Values of their own, through which no gradient goes on to what they were computed from, nor
  // comes to them but from here and from what has come to the inputs until now.
  std::vector<int> wanted;
  ValueMap starts;
  std::vector<Tensor> by, of, weights;
  Values inputs(node.inputs().begin(), node.inputs().end());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value given = inputs[i];
    if (const auto known = starts.find(given); known != starts.end()) inputs[i] = known->second;
    const auto at = static_cast<int>(i);
    if (!is_differentiable(given.type()) || !g.needs(at) || starts.contains(given)) continue;
    const Tensor start = restart(symbolic_tensor(outer.graph(), given), loc);
    inputs[i] = starts[given] = graph_value(start)->value;
    wanted.push_back(at);
    by.push_back(start);
    if (const Tensor sum = sums.sum_so_far(at); sum.defined()) {
      of.push_back(start);
      weights.push_back(sum);
    }
  }
  const Values results = append_twin(outer, node, std::move(inputs), keys);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto at = static_cast<int>(i);
    if (!g.has_grad(at)) continue;
    of.push_back(symbolic_tensor(outer.graph(), results[i]));
    weights.push_back(g.grad(at));
  }
  const std::vector<Tensor> found = autograd::graph_gradients(of, weights, by, loc);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined()) sums.set_sum(wanted[i], found[i]);
  }
  return true;
}

}  // namespace dyad::exec
