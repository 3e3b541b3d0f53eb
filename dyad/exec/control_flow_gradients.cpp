#include "dyad/exec/control_flow_gradients.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_flow_region.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/node_gradient.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

Tensor zeros_of(const Type& type, Loc loc) { return zeros(type.shape(), type.dtype(), loc); }

/// A control node while its gradient is written into the same graph.
class ControlNode {
 public:
  explicit ControlNode(Gradient& g)
      : g_(g),
        node_(dynamic_cast<NodeGradient&>(g).node()),
        outer_(dynamic_cast<GraphEvaluator&>(Evaluator::current())) {
    for (const Ref<GraphImpl>& region : node_.regions()) {
      for (const auto& inner : region->nodes()) {
        if (inner->op().effect != Effect::random) continue;
        throw GradError(fmt::format("gradient of {}: a function inside draws random numbers, which "
                                    "the backward pass would draw anew; draw them outside and use "
                                    "them inside",
                                    node_.op().name),
                        node_.loc(), inner->loc());
      }
    }
  }

  [[nodiscard]] Tensor input(std::size_t i) const {
    return symbolic_tensor(outer_.graph(), node_.inputs()[i]);
  }
  [[nodiscard]] std::vector<Tensor> inputs(std::size_t begin, std::size_t end) const {
    std::vector<Tensor> tensors;
    for (std::size_t i = begin; i < end; ++i) tensors.push_back(input(i));
    return tensors;
  }
  [[nodiscard]] const Type& input_type(std::size_t i) const { return node_.inputs()[i].type(); }
  [[nodiscard]] std::size_t input_count() const { return node_.inputs().size(); }
  [[nodiscard]] const GraphImpl& region(std::size_t i) const { return *node_.regions()[i]; }
  [[nodiscard]] const Node& node() const { return node_; }

  /// Which of the inputs begin..end-1 want a gradient.
  [[nodiscard]] std::vector<std::size_t> wanted(std::size_t begin, std::size_t end) const {
    std::vector<std::size_t> positions;
    for (std::size_t i = begin; i < end; ++i) {
      if (is_differentiable(input_type(i)) && g_.needs(static_cast<int>(i))) positions.push_back(i);
    }
    return positions;
  }
  /// The gradient that came back to an output, zeros where none did.
  [[nodiscard]] Tensor grad(std::size_t output) const { return g_.grad(static_cast<int>(output)); }
  void set(std::size_t input, Tensor gradient) {
    g_.set(static_cast<int>(input), std::move(gradient));
  }

  std::vector<Tensor> append(const OpInfo& op, Ref<Attrs> attrs, std::span<const Tensor> inputs,
                             std::vector<Ref<GraphImpl>> regions, Types types) {
    return append_control(outer_, op, std::move(attrs), inputs, std::move(regions),
                          std::move(types), node_.loc());
  }

 private:
  Gradient& g_;
  Node& node_;
  GraphEvaluator& outer_;
};

/// Builds the graph that computes a region's gradient: the region once more, then its rules.
class GradientRegion {
 public:
  explicit GradientRegion(Loc loc) : graph_(make_ref<GraphImpl>()), evaluator_(graph_), loc_(loc) {}

  Value add_parameter(const Type& type) {
    return graph_->add_placeholder(fmt::format("p{}", graph_->placeholders().size()), type, loc_);
  }
  /// One for the gradient by a value of type `of`.
  Value add_weight(const Type& of) { return add_parameter(grad_type(of)); }
  std::vector<Value> add_parameters(std::span<const Type> types) {
    std::vector<Value> values;
    for (const Type& type : types) values.push_back(add_parameter(type));
    return values;
  }
  std::vector<Value> inline_forward(const GraphImpl& region, std::span<const Value> arguments) {
    return inline_region(region, graph_, arguments);
  }
  /// Gives each weight the shape of what it is for, whose sizes data may tell that decide them in
  /// this region alone.
  void shape_as(std::vector<Value>& weights, std::span<const Value> of) {
    const Evaluator::Scope current(evaluator_);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Shape& shape = of[i].type().shape();
      if (weights[i].type().shape().same_as(shape)) continue;
      const Tensor shaped = assume_shape(symbolic_tensor(graph_, weights[i]), shape, loc_);
      weights[i] = evaluator_.value_of(shaped, nullptr, loc_);
    }
  }
  /// The derivatives of `of` weighted by `weights`, by the values `by`; zeros where there are none.
  [[nodiscard]] std::vector<Tensor> gradients(std::span<const Value> of,
                                              std::span<const Value> weights,
                                              std::span<const Value> by) {
    std::vector<Tensor> found(by.size());
    if (!of.empty() && !by.empty()) {
      found = autograd::graph_gradients(tensors(of), tensors(weights), tensors(by), loc_);
    }
    const Evaluator::Scope current(evaluator_);
    for (std::size_t i = 0; i < by.size(); ++i) {
      if (!found[i].defined()) found[i] = zeros_of(grad_type(by[i].type()), loc_);
    }
    return found;
  }
  void add_outputs(std::span<const Tensor> outputs) {
    for (const Tensor& output : outputs) {
      graph_->outputs().push_back(evaluator_.value_of(output, nullptr, loc_));
    }
  }
  [[nodiscard]] std::vector<Tensor> tensors(std::span<const Value> values) const {
    std::vector<Tensor> symbolic;
    for (const Value v : values) symbolic.push_back(symbolic_tensor(graph_, v));
    return symbolic;
  }
  [[nodiscard]] GraphEvaluator& evaluator() noexcept { return evaluator_; }
  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return graph_; }

 private:
  Ref<GraphImpl> graph_;
  GraphEvaluator evaluator_;
  Loc loc_;
};

Types parameter_types(const GraphImpl& region, std::size_t begin, std::size_t end) {
  Types types;
  for (std::size_t i = begin; i < end; ++i) types.push_back(region.placeholders()[i].type());
  return types;
}

template <class T>
void append_all(std::vector<T>& to, std::span<const T> values) {
  to.insert(to.end(), values.begin(), values.end());
}

/// Positions of the differentiable ones among the outputs begin..end-1 of a region.
std::vector<std::size_t> differentiable_outputs(const GraphImpl& region, std::size_t begin,
                                                std::size_t end) {
  std::vector<std::size_t> positions;
  for (std::size_t i = begin; i < end; ++i) {
    if (is_differentiable(region.outputs()[i].type())) positions.push_back(i);
  }
  return positions;
}

}  // namespace

/// The gradient of whichever function ran.
void cond_grad(Gradient& g) {
  ControlNode node(g);
  const std::vector<std::size_t> by = node.wanted(1, node.input_count());
  if (by.empty()) return;
  const std::vector<std::size_t> of =
      differentiable_outputs(node.region(0), 0, node.region(0).outputs().size());

  std::vector<Tensor> inputs = node.inputs(0, node.input_count());
  for (const std::size_t output : of) inputs.push_back(node.grad(output));
  std::vector<Ref<GraphImpl>> regions;
  for (const std::size_t branch : {std::size_t{0}, std::size_t{1}}) {
    const GraphImpl& region = node.region(branch);
    GradientRegion made(node.node().loc());
    const std::vector<Value> operands =
        made.add_parameters(parameter_types(region, 0, region.placeholders().size()));
    std::vector<Value> weights, outputs, wanted;
    for (const std::size_t output : of) {
      weights.push_back(made.add_weight(node.node().types()[output]));
    }
    const std::vector<Value> forward = made.inline_forward(region, operands);
    for (const std::size_t output : of) outputs.push_back(forward[output]);
    made.shape_as(weights, outputs);
    for (const std::size_t input : by) wanted.push_back(operands[input - 1]);
    made.add_outputs(made.gradients(outputs, weights, wanted));
    regions.push_back(made.graph());
  }
  Types types;
  for (const std::size_t input : by) types.push_back(grad_type(node.input_type(input)));
  const std::vector<Tensor> grads = node.append(kCondOp, node.node().shared_attrs(), inputs,
                                                std::move(regions), std::move(types));
  for (std::size_t i = 0; i < by.size(); ++i) node.set(by[i], grads[i]);
}

namespace {

/// The gradient of a loop's body as a function of (gradients of differentiable states, sums of the
/// wanted captures' gradients, states before the step, slices, gradients of slices of results,
/// captures); gives the first two anew, then the gradients of the wanted slices. The sums go in as
/// weights of the captures themselves, so that contributions add up in the order in which the tape
/// adds them.
struct BodyGradient {
  Ref<GraphImpl> graph;
  std::vector<std::size_t> states;   // the differentiable ones
  std::vector<std::size_t> results;  // differentiable outputs after the states
};

BodyGradient body_gradient(const GraphImpl& body, std::size_t state_count, std::size_t slice_count,
                           std::span<const std::size_t> wanted_slices,
                           std::span<const std::size_t> wanted_captures, Loc loc) {
  BodyGradient made;
  made.states = differentiable_outputs(body, 0, state_count);
  made.results = differentiable_outputs(body, state_count, body.outputs().size());
  const std::size_t inputs = body.placeholders().size(), fixed = state_count + slice_count;

  GradientRegion region(loc);
  std::vector<Value> weights;
  for (const std::size_t s : made.states) {
    weights.push_back(region.add_weight(body.outputs()[s].type()));
  }
  std::vector<Value> sums;
  for (const std::size_t c : wanted_captures) {
    sums.push_back(region.add_weight(body.placeholders()[c].type()));
  }
  std::vector<Value> operands = region.add_parameters(parameter_types(body, 0, fixed));
  for (const std::size_t r : made.results) {
    weights.push_back(region.add_weight(body.outputs()[r].type()));
  }
  append_all<Value>(operands, region.add_parameters(parameter_types(body, fixed, inputs)));

  const std::vector<Value> forward = region.inline_forward(body, operands);
  std::vector<Value> of, by;
  for (const std::size_t s : made.states) of.push_back(forward[s]);
  for (const std::size_t r : made.results) of.push_back(forward[r]);
  for (const std::size_t c : wanted_captures) of.push_back(operands[c]);
  append_all<Value>(weights, sums);
  for (const std::size_t s : made.states) by.push_back(operands[s]);
  for (const std::size_t c : wanted_captures) by.push_back(operands[c]);
  for (const std::size_t s : wanted_slices) by.push_back(operands[s]);
  region.add_outputs(region.gradients(of, weights, by));
  made.graph = region.graph();
  return made;
}

Ref<Attrs> scan_attrs(std::size_t states, std::size_t slices, bool reverse) {
  const LoopAttrs attrs{static_cast<std::int64_t>(states), static_cast<std::int64_t>(slices),
                        reverse};
  return Attrs::copy_of(attrs_info<LoopAttrs>, &attrs);
}

/// The body once more, giving its states before the step as slices too: what backward needs.
Ref<GraphImpl> body_with_states(const GraphImpl& body, std::size_t state_count) {
  const Ref<GraphImpl> made = clone(body);
  made->outputs().resize(state_count);
  for (std::size_t i = 0; i < state_count; ++i) {
    made->outputs().push_back(made->placeholders()[i]);
  }
  return made;
}

Type stacked(const Type& type, Dim length) {
  Shape shape{length};
  for (const Dim d : type.shape()) shape.push_back(d);
  return {type.dtype(), shape};
}

}  // namespace

/// The states before each step, then a scan the other way round.
void scan_grad(Gradient& g) {
  ControlNode node(g);
  const auto attrs = node.node().attrs_as<LoopAttrs>();
  const auto states = static_cast<std::size_t>(attrs.states);
  const auto slices = static_cast<std::size_t>(attrs.slices);
  const std::size_t fixed = states + slices, count = node.input_count();
  const GraphImpl& body = node.region(0);
  const Dim length = node.input_type(states).shape()[0];
  const std::vector<std::size_t> wanted_slices = node.wanted(states, fixed);
  const std::vector<std::size_t> wanted_captures = node.wanted(fixed, count);
  const BodyGradient back =
      body_gradient(body, states, slices, wanted_slices, wanted_captures, node.node().loc());

  Types forward_types = parameter_types(body, 0, states);
  for (std::size_t i = 0; i < states; ++i) {
    forward_types.push_back(stacked(node.input_type(i), length));
  }
  const std::vector<Tensor> forward =
      node.append(kScanOp, scan_attrs(states, slices, attrs.reverse), node.inputs(0, count),
                  {body_with_states(body, states)}, std::move(forward_types));

  std::vector<Tensor> inputs;
  Types types;
  for (const std::size_t s : back.states) {
    inputs.push_back(node.grad(s));
    types.push_back(grad_type(node.input_type(s)));
  }
  for (const std::size_t c : wanted_captures) {
    inputs.push_back(zeros_of(grad_type(node.input_type(c)), node.node().loc()));
    types.push_back(grad_type(node.input_type(c)));
  }
  const std::size_t back_states = inputs.size();
  append_all<Tensor>(inputs, std::span<const Tensor>(forward).subspan(states));
  append_all<Tensor>(inputs, node.inputs(states, fixed));
  for (const std::size_t r : back.results) inputs.push_back(node.grad(r));
  const std::size_t back_slices = inputs.size() - back_states;
  append_all<Tensor>(inputs, node.inputs(fixed, count));
  for (const std::size_t s : wanted_slices) types.push_back(grad_type(node.input_type(s)));

  const std::vector<Tensor> grads =
      node.append(kScanOp, scan_attrs(back_states, back_slices, !attrs.reverse), inputs,
                  {back.graph}, std::move(types));
  std::size_t next = 0;
  for (const std::size_t s : back.states) node.set(s, grads[next++]);
  for (const std::size_t c : wanted_captures) node.set(c, grads[next++]);
  for (const std::size_t s : wanted_slices) node.set(s, grads[next++]);
}

namespace {

/// `steps`: how often a loop ran. Loops inside have lower levels, so that no two that are open at a
/// time have one symbol.
Dim steps_of_level(std::int64_t level) { return Dim::symbol(fmt::format("steps{}", level)); }

/// The highest level of the loops in a graph, 0 without any.
std::int64_t highest_level(const GraphImpl& graph) {
  std::int64_t highest = 0;
  for (const auto& node : graph.nodes()) {
    if (&node->op() == &kWhileStatesOp) {
      highest = std::max(highest, node->attrs_as<WhileStatesAttrs>().level);
    }
    for (const Ref<GraphImpl>& region : node->regions()) {
      highest = std::max(highest, highest_level(*region));
    }
  }
  return highest;
}

/// The steps of a loop backwards, in the region of a while_states: from the gradients of its
/// differentiable states and sums of those of the wanted captures to the same before the loop.
std::vector<Tensor> steps_backwards(GraphEvaluator& region, const BodyGradient& back,
                                    std::span<const Tensor> grads, std::span<const Tensor> stacks,
                                    std::span<const Tensor> stack_grads,
                                    std::span<const Tensor> captures, Loc loc) {
  std::vector<Tensor> inputs(grads.begin(), grads.end());
  append_all<Tensor>(inputs, stacks);
  for (const std::size_t r : back.results) inputs.push_back(stack_grads[r - stacks.size()]);
  const std::size_t slices = inputs.size() - grads.size();
  append_all<Tensor>(inputs, captures);
  Types types;
  for (const Tensor& grad : grads) types.push_back(type_of(grad));
  return append_control(region, kScanOp, scan_attrs(grads.size(), slices, /*reverse=*/true), inputs,
                        {back.graph}, std::move(types), loc);
}

}  // namespace

/// The loop again, keeping its states, and then its steps backwards.
void while_grad(Gradient& g) {
  ControlNode node(g);
  const Loc loc = node.node().loc();
  const auto states = static_cast<std::size_t>(node.node().attrs_as<LoopAttrs>().states);
  const std::size_t count = node.input_count();
  const std::vector<std::size_t> wanted_captures = node.wanted(states, count);
  const BodyGradient back = body_gradient(node.region(1), states, 0, {}, wanted_captures, loc);
  const std::int64_t inside = std::max(highest_level(node.region(0)), highest_level(*back.graph));
  const WhileStatesAttrs attrs{static_cast<std::int64_t>(states),
                               static_cast<std::int64_t>(count - states), inside + 1};

  std::vector<Tensor> inputs = node.inputs(0, count);
  Types stacks, captures, types;
  for (std::size_t i = 0; i < states; ++i) {
    stacks.push_back(stacked(node.input_type(i), steps_of_level(attrs.level)));
  }
  for (std::size_t i = states; i < count; ++i) captures.push_back(node.input_type(i));
  for (const std::size_t s : back.states) {
    inputs.push_back(node.grad(s));
    types.push_back(grad_type(node.input_type(s)));
  }
  GradientRegion after(loc);
  const std::vector<Tensor> kept = after.tensors(after.add_parameters(stacks)),
                            captured = after.tensors(after.add_parameters(captures));
  std::vector<Tensor> start = after.tensors(after.add_parameters(types));
  for (const std::size_t c : wanted_captures) {
    const Evaluator::Scope current(after.evaluator());
    start.push_back(zeros_of(grad_type(node.input_type(c)), loc));
    types.push_back(grad_type(node.input_type(c)));
  }
  after.add_outputs(steps_backwards(after.evaluator(), back, start, kept, {}, captured, loc));

  const std::vector<Tensor> grads = node.append(
      kWhileStatesOp, Attrs::copy_of(attrs_info<WhileStatesAttrs>, &attrs), inputs,
      {node.node().regions()[0], node.node().regions()[1], after.graph()}, std::move(types));
  std::size_t next = 0;
  for (const std::size_t s : back.states) node.set(s, grads[next++]);
  for (const std::size_t c : wanted_captures) node.set(c, grads[next++]);
}

/// The loop again, keeping its states: then the gradient of what was computed from them, and the
/// steps backwards, each with the gradient of the states before it.
void while_states_grad(Gradient& g) {
  ControlNode node(g);
  const Loc loc = node.node().loc();
  const auto& attrs = node.node().attrs_as<WhileStatesAttrs>();
  const auto states = static_cast<std::size_t>(attrs.states);
  const std::size_t fixed = states + static_cast<std::size_t>(attrs.captures);
  const std::size_t count = node.input_count();
  const GraphImpl& then = node.region(2);
  const std::vector<std::size_t> wanted_captures = node.wanted(states, fixed),
                                 wanted_operands = node.wanted(fixed, count);
  const std::vector<std::size_t> of = differentiable_outputs(then, 0, then.outputs().size());
  const Ref<GraphImpl> body = body_with_states(node.region(1), states);
  const BodyGradient back = body_gradient(*body, states, 0, {}, wanted_captures, loc);

  GradientRegion after(loc);
  const std::vector<Value> operands = after.add_parameters(parameter_types(then, 0, count));
  std::vector<Value> weights, outputs, by;
  std::vector<Tensor> inputs = node.inputs(0, count);
  for (const std::size_t output : of) {
    weights.push_back(after.add_weight(then.outputs()[output].type()));
    inputs.push_back(node.grad(output));
  }
  const std::vector<Value> forward = after.inline_forward(then, operands);
  for (const std::size_t output : of) outputs.push_back(forward[output]);
  for (const std::size_t s : back.states) by.push_back(operands[s]);
  for (const std::size_t c : wanted_captures) by.push_back(operands[c]);
  for (const std::size_t i : wanted_operands) by.push_back(operands[i]);
  const std::vector<Tensor> found = after.gradients(outputs, weights, by);

  Types types;
  std::vector<Tensor> stack_grads(states), start;
  std::size_t next = 0;
  for (const std::size_t s : back.states) {
    const Type type = grad_type(node.input_type(s));
    const Evaluator::Scope current(after.evaluator());
    start.push_back(zeros_of(type, loc));
    types.push_back(type);
    stack_grads[s] = found[next++];
  }
  for (const std::size_t c : wanted_captures) {
    start.push_back(found[next++]);
    types.push_back(grad_type(node.input_type(c)));
  }
  const std::vector<Tensor> parameters = after.tensors(operands);
  const std::span<const Tensor> all(parameters);
  after.add_outputs(steps_backwards(after.evaluator(), back, start, all.first(states), stack_grads,
                                    all.subspan(states, fixed - states), loc));
  for (const std::size_t i : wanted_operands) types.push_back(grad_type(node.input_type(i)));
  after.add_outputs(std::span(found).subspan(next));

  const std::vector<Tensor> grads = node.append(
      kWhileStatesOp, node.node().shared_attrs(), inputs,
      {node.node().regions()[0], node.node().regions()[1], after.graph()}, std::move(types));
  next = 0;
  for (const auto* positions : {&back.states, &wanted_captures, &wanted_operands}) {
    for (const std::size_t i : *positions) node.set(i, grads[next++]);
  }
}

}  // namespace dyad::exec
