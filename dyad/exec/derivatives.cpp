#include "dyad/exec/derivatives.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/autograd/backward.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/graph_of_call.h"
#include "dyad/ir/recorded.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

void check_vectors(std::string_view transform, std::string_view given, std::string_view of,
                   std::span<const Tensor> vectors, std::span<const Tensor> tensors, Loc loc) {
  if (vectors.size() != tensors.size()) {
    throw ValueError(
        fmt::format("{}: {} {} for {} {}s", transform, vectors.size(), given, tensors.size(), of),
        loc);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!is_differentiable(tensors[i].dtype())) continue;
    bool fits = vectors[i].defined() && vectors[i].rank() == tensors[i].rank();
    for (int axis = 0; fits && axis < tensors[i].rank(); ++axis)
      fits = vectors[i].size(axis) == tensors[i].size(axis);
    if (fits) continue;
    throw ShapeError(
        fmt::format("{}: {} {} is {}, but the {} is {}; the two must have one shape", transform,
                    given, i, vectors[i].defined() ? type_string(vectors[i]) : "undefined", of,
                    type_string(tensors[i])),
        loc);
  }
}

/// Zeros as a gradient by `of`.
Tensor no_gradient(const Tensor& of) { return zeros(shape_of(of), grad_dtype(of.dtype())); }

/// A function called on inputs that nothing else is computed from, so that derivatives by them are
/// those of this call.
class Call {
 public:
  Call(std::string_view transform, const TensorFunction& fn, std::span<const Tensor> inputs,
       Loc loc)
      : transform_(transform), graph_(inputs), loc_(loc), outer_(grad_enabled()) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined()) {
        throw ValueError(fmt::format("{}: input {} is an undefined tensor", transform, i), loc);
      }
      starts_.push_back(start(inputs[i]));
      if (!is_differentiable(inputs[i].dtype())) continue;
      by_.push_back(starts_.back());
      positions_.push_back(i);
    }
    if (by_.empty()) {
      throw DTypeError(
          fmt::format("{}: no input is floating, so there is nothing to differentiate by",
                      transform),
          loc);
    }
    const GradMode on(true);
    outputs = fn(starts_);
    differentiable = outer_ && !in_graph() && depends_on_more();
  }

  std::vector<Tensor> outputs;
  bool differentiable = false;  ///< by what was there before

  [[nodiscard]] bool in_graph() const noexcept { return graph_.evaluator() != nullptr; }
  [[nodiscard]] std::span<const Tensor> by() const noexcept { return by_; }
  [[nodiscard]] std::span<const Tensor> starts() const noexcept { return starts_; }

  /// Derivatives of `of`, weighted, by `inputs`; undefined where there is no dependence.
  std::vector<Tensor> gradients(std::span<const Tensor> of, std::span<const Tensor> weights,
                                std::span<const Tensor> inputs, bool keep, bool create) const {
    std::vector<Tensor> tracked, grads;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (!of[i].defined() || !is_differentiable(of[i].dtype())) continue;
      if (!in_graph() && !of[i].tracks_grad()) continue;
      tracked.push_back(of[i]);
      grads.push_back(i < weights.size() ? weights[i] : Tensor());
    }
    if (tracked.empty()) return std::vector<Tensor>(inputs.size());
    if (in_graph()) return autograd::graph_gradients(tracked, grads, inputs, loc_);
    const GradMode on(true);
    return Evaluator::current().backward(tracked, grads, inputs, keep, create, loc_);
  }

  /// Derivatives by the floating inputs, in the places of all of them, zeros where there are none.
  [[nodiscard]] std::vector<Tensor> placed(std::vector<Tensor> found) const {
    std::vector<Tensor> all(starts_.size());
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      all[positions_[i]] = finished(found[i].defined() ? found[i] : no_gradient(by_[i]));
    }
    return all;
  }

  /// A result without the tape of this call, unless it is differentiable.
  [[nodiscard]] Tensor finished(const Tensor& result) const {
    return in_graph() || differentiable || !result.defined() ? result : result.detach();
  }
  [[nodiscard]] std::vector<Tensor> finished_outputs() const {
    std::vector<Tensor> all;
    for (const Tensor& output : outputs) all.push_back(finished(output));
    return all;
  }

  void require_scalar() const {
    if (outputs.size() == 1 && outputs[0].rank() == 0) return;
    throw ShapeError(
        fmt::format("{}: the function must give one scalar but gives {}; reduce it, as with sum()",
                    transform_,
                    outputs.size() == 1 ? type_string(outputs[0])
                                        : std::to_string(outputs.size()) + " tensors"),
        loc_);
  }

 private:
  Tensor start(const Tensor& input) const {
    if (!is_differentiable(input.dtype())) return input;
    if (in_graph() || (outer_ && input.tracks_grad())) return restart(input);
    const NoGrad apart;
    return restart(input).requires_grad();
  }

  /// Whether outputs track gradients of more than the starts of this call.
  [[nodiscard]] bool depends_on_more() const {
    std::vector<Tensor> tracked;
    for (const Tensor& output : outputs) {
      if (output.defined() && output.tracks_grad()) tracked.push_back(output);
    }
    const std::vector<Tensor> leaves = autograd::reachable_leaves(tracked);
    return std::ranges::any_of(leaves, [&](const Tensor& leaf) {
      return std::ranges::none_of(starts_, [&](const Tensor& s) { return s.is_same(leaf); });
    });
  }

  std::string_view transform_;
  GraphOfCall graph_;
  Loc loc_;
  bool outer_;
  std::vector<Tensor> starts_, by_;
  std::vector<std::size_t> positions_;
};

}  // namespace

Derived run_vjp(const TensorFunction& fn, std::span<const Tensor> inputs,
                std::span<const Tensor> cotangents, Loc loc) {
  Call call("vjp", fn, inputs, loc);
  if (cotangents.empty()) {
    call.require_scalar();
  } else {
    check_vectors("vjp", "cotangent", "output", cotangents, call.outputs, loc);
  }
  return {call.finished_outputs(), call.placed(call.gradients(call.outputs, cotangents, call.by(),
                                                              false, call.differentiable))};
}

Derived run_jvp(const TensorFunction& fn, std::span<const Tensor> inputs,
                std::span<const Tensor> tangents, Loc loc) {
  Call call("jvp", fn, inputs, loc);
  check_vectors("jvp", "tangent", "input", tangents, inputs, loc);
  // The backward pass as a function of the gradients that it starts from: at any, as it is linear.
  std::vector<Tensor> dummies, tracked_dummies;
  for (const Tensor& output : call.outputs) {
    if (!is_differentiable(output.dtype())) {
      dummies.emplace_back();
      continue;
    }
    const NoGrad apart;
    Tensor dummy = restart(no_gradient(output));
    if (!call.in_graph()) dummy.requires_grad();
    tracked_dummies.push_back(dummy);
    dummies.push_back(std::move(dummy));
  }
  const std::vector<Tensor> backward =
      call.gradients(call.outputs, dummies, call.by(), true, /*create=*/true);
  std::vector<Tensor> along;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_differentiable(inputs[i].dtype())) along.push_back(tangents[i]);
  }
  const std::vector<Tensor> found =
      call.gradients(backward, along, tracked_dummies, false, call.differentiable);
  Derived made{call.finished_outputs(), {}};
  std::size_t next = 0;
  for (const Tensor& dummy : dummies) {
    if (!dummy.defined()) {
      made.derivatives.emplace_back();
      continue;
    }
    const Tensor& derivative = found[next++];
    made.derivatives.push_back(
        call.finished(derivative.defined() ? derivative : zeros_like(dummy)));
  }
  return made;
}

std::vector<Tensor> run_jacobian(const TensorFunction& fn, std::span<const Tensor> inputs,
                                 Loc loc) {
  Call call("jacobian", fn, inputs, loc);
  if (call.outputs.size() != 1) {
    throw ValueError(fmt::format("jacobian: the function must give one tensor but gives {}",
                                 call.outputs.size()),
                     loc);
  }
  const Tensor& output = call.outputs[0];
  const Shape shape = shape_of(output);
  const Dim count = shape.numel();
  if (!count.is_number() && !output.is_concrete()) {
    throw GraphError(
        fmt::format("jacobian: the result is {}, whose number of elements is not known "
                    "in this graph; a backward pass for each of them needs it",
                    type_string(output)),
        loc);
  }
  const std::int64_t rows = output.is_concrete() ? output.numel().number() : count.number();
  std::vector<std::vector<Tensor>> found(inputs.size());
  const Tensor number = reshape(arange(0, rows), shape);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Tensor weight = to(number == row, grad_dtype(output.dtype()));
    const std::vector<Tensor> of_row = call.placed(
        call.gradients({&output, 1}, {&weight, 1}, call.by(), true, call.differentiable));
    for (std::size_t i = 0; i < of_row.size(); ++i) found[i].push_back(of_row[i]);
  }
  std::vector<Tensor> jacobians;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_differentiable(inputs[i].dtype())) {
      jacobians.emplace_back();
      continue;
    }
    Shape full = shape;
    for (const Dim d : shape_of(inputs[i])) full.push_back(d);
    jacobians.push_back(rows == 0 ? zeros(full, grad_dtype(inputs[i].dtype()))
                                  : reshape(stack(found[i]), full));
  }
  return jacobians;
}

Derived run_hvp(const TensorFunction& fn, std::span<const Tensor> inputs,
                std::span<const Tensor> vectors, Loc loc) {
  Call call("hvp", fn, inputs, loc);
  call.require_scalar();
  check_vectors("hvp", "vector", "input", vectors, inputs, loc);
  const std::vector<Tensor> first = call.gradients(call.outputs, {}, call.by(), true, true);
  std::vector<Tensor> along;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_differentiable(inputs[i].dtype())) along.push_back(vectors[i]);
  }
  return {call.finished_outputs(),
          call.placed(call.gradients(first, along, call.by(), false, call.differentiable))};
}

}  // namespace dyad::exec
