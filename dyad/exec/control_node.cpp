#include "dyad/exec/control_node.h"

#include <fmt/format.h>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/node_gradient.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/views.h"

namespace dyad::exec {

Tensor zeros_of(const Type& type, Loc loc) { return zeros(type.shape(), type.dtype(), loc); }

Tensor nothing_of(const Type& type, Loc loc) {
  // Of a complex number both parts; a number that fills has no imaginary one.
  return is_complex(type.dtype()) ? neg(zeros_of(type, loc), loc)
                                  : full(type.shape(), -0.0, type.dtype(), loc);
}

Tensor nothing_of(const Type& type, Dim steps, Loc loc) {
  if (steps.is_number()) {
    return steps.number() > 0 ? nothing_of(type, loc) : zeros_of(type, loc);
  }
  const Type one(type.dtype(), Shape{});
  const Tensor runs = gt(size_tensor(steps, loc), 0, loc);
  return expand(where(runs, nothing_of(one, loc), zeros_of(one, loc), loc), type.shape(), loc);
}

Types parameter_types(const GraphImpl& region, std::size_t begin, std::size_t end) {
  Types types;
  for (std::size_t i = begin; i < end; ++i) types.push_back(region.placeholders()[i].type());
  return types;
}

std::vector<std::size_t> differentiable_outputs(const GraphImpl& region, std::size_t begin,
                                                std::size_t end) {
  std::vector<std::size_t> positions;
  for (std::size_t i = begin; i < end; ++i) {
    if (is_differentiable(region.outputs()[i].type())) positions.push_back(i);
  }
  return positions;
}

ControlNode::ControlNode(Gradient& g)
    : g_(g),
      sums_(dynamic_cast<SumGradient&>(g)),
      node_(dynamic_cast<NodeGradient&>(g).node()),
      outer_(dynamic_cast<GraphEvaluator&>(Evaluator::current())) {}

Tensor ControlNode::input(std::size_t i) const {
  return symbolic_tensor(outer_.graph(), node_.inputs()[i]);
}

std::vector<Tensor> ControlNode::inputs(std::size_t begin, std::size_t end) const {
  std::vector<Tensor> tensors;
  for (std::size_t i = begin; i < end; ++i) tensors.push_back(input(i));
  return tensors;
}

std::vector<std::size_t> ControlNode::wanted(std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> positions;
  for (std::size_t i = begin; i < end; ++i) {
    if (is_differentiable(input_type(i)) && g_.needs(static_cast<int>(i))) positions.push_back(i);
  }
  return positions;
}

void ControlNode::add_to(std::size_t input, const Tensor& gradient) {
  const auto at = static_cast<int>(input);
  if (!g_.needs(at)) return;
  const Tensor sum = sums_.sum_so_far(at);
  sums_.set_sum(at, sum.defined() ? add(sum, gradient, node_.loc()) : gradient);
}

Tensor ControlNode::begin_sum(std::size_t input) const {
  return takes_sum(input) ? sums_.sum_so_far(static_cast<int>(input)) : Tensor();
}

void ControlNode::end_sum(std::size_t input, Tensor sum) {
  if (!takes_sum(input)) return set(input, std::move(sum));
  sums_.set_sum(static_cast<int>(input), std::move(sum));
}

std::vector<Tensor> ControlNode::append(const OpInfo& op, Ref<Attrs> attrs,
                                        std::span<const Tensor> inputs,
                                        std::vector<Ref<GraphImpl>> regions, Types types) {
  return append_control(outer_, op, std::move(attrs), inputs, std::move(regions), std::move(types),
                        node_.loc());
}

/// Not where a function of a cond is given what it captures.
bool ControlNode::takes_sum(std::size_t input) const {
  const auto inputs = node_.inputs();
  if (!g_.needs(static_cast<int>(input))) return false;
  if (&node_.op() != &kCondOp) return true;
  return std::ranges::count(inputs, inputs[input]) == 1;
}

Value GradientRegion::add_parameter(const Type& type) {
  return graph_->add_placeholder(fmt::format("p{}", graph_->placeholders().size()), type, loc_);
}

std::vector<Value> GradientRegion::add_parameters(std::span<const Type> types) {
  std::vector<Value> values;
  for (const Type& type : types) values.push_back(add_parameter(type));
  return values;
}

void GradientRegion::shape_as(std::vector<Value>& weights, std::span<const Value> of) {
  const Evaluator::Scope current(evaluator_);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Shape& shape = of[i].type().shape();
    if (weights[i].type().shape().same_as(shape)) continue;
    const Tensor shaped = assume_shape(symbolic_tensor(graph_, weights[i]), shape, loc_);
    weights[i] = evaluator_.value_of(shaped, nullptr, loc_);
  }
}

std::vector<Tensor> GradientRegion::gradients(std::span<const Value> of,
                                              std::span<const Value> weights,
                                              std::span<const Value> by) const {
  if (of.empty() || by.empty()) return std::vector<Tensor>(by.size());
  return autograd::graph_gradients(tensors(of), tensors(weights), tensors(by), loc_);
}

std::vector<Tensor> GradientRegion::all_gradients(std::span<const Value> of,
                                                  std::span<const Value> weights,
                                                  std::span<const Value> by) {
  std::vector<Tensor> found = gradients(of, weights, by);
  const Evaluator::Scope current(evaluator_);
  for (std::size_t i = 0; i < by.size(); ++i) {
    if (!found[i].defined()) found[i] = zeros_of(grad_type(by[i].type()), loc_);
  }
  return found;
}

void GradientRegion::add_outputs(std::span<const Tensor> outputs) {
  for (const Tensor& output : outputs) {
    graph_->outputs().push_back(evaluator_.value_of(output, nullptr, loc_));
  }
}

std::vector<Tensor> GradientRegion::tensors(std::span<const Value> values) const {
  std::vector<Tensor> symbolic;
  for (const Value v : values) symbolic.push_back(symbolic_tensor(graph_, v));
  return symbolic;
}

}  // namespace dyad::exec
