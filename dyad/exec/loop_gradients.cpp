#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "dyad/base/error.h"
#include "dyad/exec/body_gradient.h"
#include "dyad/exec/control_flow_gradients.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_node.h"
#include "dyad/exec/drawn_keys.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

/// Gives the states before a loop what came through its steps.
void add_to_states(ControlNode& node, const BodyGradient& back, std::span<const Tensor> grads) {
  for (std::size_t k = 0; k < back.states.size(); ++k) {
    // Where no gradient comes from any step there is none, but for a loop without steps.
    node.add_to(back.states[k], back.end_here[k] ? add(grads[k], 0, node.node().loc()) : grads[k]);
  }
}

/// The body without what it gives beside the states.
Ref<GraphImpl> body_of_states(const Ref<GraphImpl>& body, std::size_t state_count) {
  if (body->outputs().size() == state_count) return body;
  Ref<GraphImpl> made = clone(*body);
  made->outputs().resize(state_count);
  return made;
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

/// A gradient of stacked slices with one more in front of the first step's, that of no step.
Tensor with_no_step(const Tensor& gradient, const Type& type, bool reverse, Loc loc) {
  Shape one{1};
  for (std::size_t i = 1; i < type.shape().size(); ++i) one.push_back(type.shape()[i]);
  const Tensor none = nothing_of({type.dtype(), one}, loc);
  return reverse ? concat({gradient, none}, 0, loc) : concat({none, gradient}, 0, loc);
}

}  // namespace

/// The states before each step, then a scan the other way round.
void scan_grad(Gradient& g) {
  if (drawing_grad(g)) return;
  ControlNode node(g);
  const Loc loc = node.node().loc();
  const auto attrs = node.node().attrs_as<LoopAttrs>();
  const auto states = static_cast<std::size_t>(attrs.states);
  const auto slices = static_cast<std::size_t>(attrs.slices);
  const std::size_t fixed = states + slices, count = node.input_count();
  const GraphImpl& body = node.region(0);
  const Dim length = node.input_type(states).shape()[0];
  const std::vector<std::size_t> wanted_slices = node.wanted(states, fixed);
  const std::vector<std::size_t> wanted_captures = node.wanted(fixed, count);
  Reached reached;
  for (std::size_t i = 0; i < body.outputs().size(); ++i) {
    (i < states ? reached.states : reached.results).push_back(node.has_grad(i));
  }
  const BodyGradient back =
      body_gradient(body, states, slices, reached, wanted_slices, wanted_captures, loc);

  Types forward_types = parameter_types(body, 0, states);
  for (std::size_t i = 0; i < states; ++i) {
    forward_types.push_back(stacked(node.input_type(i), length));
  }
  const std::vector<Tensor> forward =
      node.append(kScanOp, loop_attrs(states, slices, attrs.reverse), node.inputs(0, count),
                  {body_with_states(body, states)}, std::move(forward_types));

  std::vector<Tensor> inputs, result_grads;
  Types types;
  for (const std::size_t s : back.states) {
    types.push_back(grad_type(node.input_type(s)));
    inputs.push_back(node.has_grad(s) ? node.grad(s) : Tensor());
  }
  for (const BodyGradient::Result& r : back.results) {
    const Tensor& whole = result_grads.emplace_back(node.grad(r.output));
    if (!r.state) continue;
    const Type type = grad_type(node.node().types()[r.output]);
    const Tensor more = with_no_step(whole, type, attrs.reverse, loc);
    Tensor& last = inputs[*r.state];
    const Tensor of_last = select(more, 0, attrs.reverse ? 0 : -1, loc);
    last = last.defined() ? add(last, of_last, loc) : of_last;
    result_grads.back() =
        attrs.reverse ? slice(more, 0, 1, kEnd, 1, loc) : slice(more, 0, 0, -1, 1, loc);
  }
  for (const std::size_t c : back.captures) {
    inputs.push_back(node.begin_sum(c));
    types.push_back(grad_type(node.input_type(c)));
  }
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].defined()) inputs[k] = nothing_of(types[k], length, loc);
  }
  const std::size_t back_states = inputs.size();
  append_all<Tensor>(inputs, std::span<const Tensor>(forward).subspan(states));
  append_all<Tensor>(inputs, node.inputs(states, fixed));
  append_all<Tensor>(inputs, result_grads);
  const std::size_t back_slices = inputs.size() - back_states;
  append_all<Tensor>(inputs, node.inputs(fixed, count));
  for (const std::size_t s : back.slices) types.push_back(grad_type(node.input_type(s)));

  const std::vector<Tensor> grads =
      node.append(kScanOp, loop_attrs(back_states, back_slices, !attrs.reverse), inputs,
                  {back.graph}, std::move(types));
  std::size_t next = back.states.size();
  for (const std::size_t c : back.captures) node.end_sum(c, grads[next++]);
  for (const std::size_t s : back.slices) {
    // Gradients of slices are added up, each with zeros for the others.
    node.add_to(s, add(grads[next++], 0, loc));
  }
  add_to_states(node, back, grads);
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
  for (const BodyGradient::Result& r : back.results) {
    inputs.push_back(stack_grads[r.output - stacks.size()]);
  }
  const std::size_t slices = inputs.size() - grads.size();
  append_all<Tensor>(inputs, captures);
  Types types;
  for (const Tensor& grad : grads) types.push_back(type_of(grad));
  return append_control(region, kScanOp, loop_attrs(grads.size(), slices, /*reverse=*/true), inputs,
                        {back.graph}, std::move(types), loc);
}

}  // namespace

/// The loop again, keeping its states, and then its steps backwards. What it gives of each step
/// begins with the rows that it was given of it, whose gradient is that part of the whole.
void while_grad(Gradient& g) {
  if (drawing_grad(g)) return;
  ControlNode node(g);
  const Loc loc = node.node().loc();
  const auto& loop = node.node().attrs_as<LoopAttrs>();
  const auto states = static_cast<std::size_t>(loop.states),
             slices = static_cast<std::size_t>(loop.slices);
  const std::size_t fixed = states + slices, count = node.input_count();
  // The body's parameters have no places for those rows.
  std::vector<std::size_t> wanted_captures = node.wanted(fixed, count);
  for (std::size_t& capture : wanted_captures) capture -= slices;
  Reached reached{.states = {}, .results = {}, .a_step_later = false};
  for (std::size_t i = 0; i < node.node().types().size(); ++i) {
    (i < states ? reached.states : reached.results).push_back(node.has_grad(i));
  }
  const BodyGradient back =
      body_gradient(node.region(1), states, 0, reached, {}, wanted_captures, loc);
  const std::int64_t inside = std::max(highest_level(node.region(0)), highest_level(*back.graph));
  const WhileStatesAttrs attrs{static_cast<std::int64_t>(states),
                               static_cast<std::int64_t>(count - fixed), inside + 1};
  const Dim steps = steps_of_level(attrs.level);

  std::vector<Tensor> inputs = node.inputs(0, states), start;
  append_all<Tensor>(inputs, node.inputs(fixed, count));
  Types stacks, captures, types, given;
  for (std::size_t i = 0; i < states; ++i) stacks.push_back(stacked(node.input_type(i), steps));
  for (std::size_t i = fixed; i < count; ++i) captures.push_back(node.input_type(i));
  for (const std::size_t s : back.states) {
    types.push_back(grad_type(node.input_type(s)));
    start.push_back(node.has_grad(s) ? node.grad(s) : Tensor());
  }
  for (const std::size_t c : back.captures) {
    types.push_back(grad_type(node.input_type(c + slices)));
    start.push_back(node.begin_sum(c + slices));
  }
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (!start[i].defined()) continue;
    inputs.push_back(start[i]);
    given.push_back(types[i]);
  }
  for (const BodyGradient::Result& r : back.results) {
    const Tensor all = node.grad(r.output);
    inputs.push_back(
        slices == 0 ? all : slice(all, 0, node.input_type(r.output).shape()[0], kEnd, 1, loc));
    given.push_back(stacked(grad_type(node.region(1).outputs()[r.output].type()), steps));
  }
  GradientRegion after(loc);
  const std::vector<Tensor> kept = after.tensors(after.add_parameters(stacks)),
                            captured = after.tensors(after.add_parameters(captures)),
                            begun = after.tensors(after.add_parameters(given));
  std::size_t next = 0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    const Evaluator::Scope current(after.evaluator());
    start[i] = start[i].defined() ? begun[next++] : nothing_of(types[i], steps, loc);
  }
  std::vector<Tensor> row_grads(reached.results.size());
  for (const BodyGradient::Result& r : back.results) row_grads[r.output - states] = begun[next++];
  after.add_outputs(
      steps_backwards(after.evaluator(), back, start, kept, row_grads, captured, loc));

  const std::vector<Tensor> grads = node.append(
      kWhileStatesOp, Attrs::copy_of(attrs_info<WhileStatesAttrs>, &attrs), inputs,
      {node.node().regions()[0], body_of_states(node.node().regions()[1], states), after.graph()},
      std::move(types));
  next = back.states.size();
  for (const std::size_t c : back.captures) node.end_sum(c + slices, grads[next++]);
  for (const std::size_t s : node.wanted(states, fixed)) {
    if (!node.has_grad(s)) continue;
    node.add_to(s, slice(node.grad(s), 0, 0, node.input_type(s).shape()[0], 1, loc));
  }
  add_to_states(node, back, grads);
}

/// The loop again, keeping its states: then the gradient of what was computed from them, and the
/// steps backwards, each with the gradient of the states before it.
void while_states_grad(Gradient& g) {
  if (drawing_grad(g)) return;
  ControlNode node(g);
  const Loc loc = node.node().loc();
  const auto& attrs = node.node().attrs_as<WhileStatesAttrs>();
  const auto states = static_cast<std::size_t>(attrs.states);
  const std::size_t fixed = states + static_cast<std::size_t>(attrs.captures);
  const std::size_t count = node.input_count();
  const GraphImpl& then = node.region(2);
  const std::vector<std::size_t> wanted_captures = node.wanted(states, fixed);
  const std::vector<std::size_t> of = differentiable_outputs(then, 0, then.outputs().size());
  const Ref<GraphImpl> body = body_with_states(node.region(1), states);
  const BodyGradient back = body_gradient(
      *body, states, 0, {std::vector<bool>(states, true), std::vector<bool>(states, true), false},
      {}, wanted_captures, loc);

  // What no step has a part in comes from the other computation alone.
  std::vector<std::size_t> others;
  std::ranges::set_difference(wanted_captures, back.captures, std::back_inserter(others));
  append_all<std::size_t>(others, node.wanted(fixed, count));
  std::vector<std::size_t> places = back.states;
  append_all<std::size_t>(places, back.captures);
  append_all<std::size_t>(places, others);

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
  for (const std::size_t i : places) by.push_back(operands[i]);
  const std::vector<Tensor> found = after.all_gradients(outputs, weights, by);

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
  for (const std::size_t c : back.captures) {
    start.push_back(found[next++]);
    types.push_back(grad_type(node.input_type(c)));
  }
  const std::vector<Tensor> parameters = after.tensors(operands);
  const std::span<const Tensor> all(parameters);
  after.add_outputs(steps_backwards(after.evaluator(), back, start, all.first(states), stack_grads,
                                    all.subspan(states, fixed - states), loc));
  for (const std::size_t i : others) types.push_back(grad_type(node.input_type(i)));
  after.add_outputs(std::span(found).subspan(next));

  const std::vector<Tensor> grads = node.append(
      kWhileStatesOp, node.node().shared_attrs(), inputs,
      {node.node().regions()[0], node.node().regions()[1], after.graph()}, std::move(types));
  next = 0;
  for (const std::size_t i : places) node.set(i, grads[next++]);
}

}  // namespace dyad::exec
