#include "dyad/autograd/gradients.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/recording_notes.h"
#include "dyad/ir/recorded.h"

namespace dyad {

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         const GradOptions& options, Loc loc) {
  if (outputs.empty()) throw ValueError("grad: there is no output to differentiate", loc);
  std::vector<Tensor> found = Evaluator::current().backward(
      outputs, options.weights, inputs, options.retain_graph, options.create_graph, loc);
  if (options.allow_unused) return found;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined()) continue;
    throw GradError("grad: the outputs do not depend on input " + std::to_string(i) + " (" +
                        type_string(inputs[i]) +
                        "); pass allow_unused to get an undefined tensor instead",
                    loc);
  }
  return found;
}

std::vector<Tensor> grad(const Tensor& output, std::span<const Tensor> inputs,
                         const GradOptions& options, Loc loc) {
  return grad({&output, 1}, inputs, options, loc);
}

std::vector<Tensor> grad(const Tensor& output, std::initializer_list<Tensor> inputs,
                         const GradOptions& options, Loc loc) {
  return grad(output, std::span(inputs.begin(), inputs.size()), options, loc);
}

std::vector<Tensor> gradients(const Tensor& output, std::span<const Tensor> inputs, Loc loc) {
  return grad(output, inputs, {}, loc);
}

std::vector<Tensor> gradients(const Tensor& output, std::initializer_list<Tensor> inputs, Loc loc) {
  return gradients(output, {inputs.begin(), inputs.size()}, loc);
}

Tensor& Tensor::requires_grad(bool on, Loc loc) {
  if (!impl_) throw ValueError("requires_grad of an undefined tensor", loc);
  if (on && !is_differentiable(impl_->dtype)) {
    throw DTypeError("requires_grad(" + type_string(*this) +
                         "): only floating and complex tensors have gradients",
                     loc);
  }
  if (!is_leaf()) {
    throw GradError(
        "requires_grad(" + type_string(*this) +
            "): only a leaf can be marked, and this tensor was computed from others; use detach()",
        loc);
  }
  impl_->requires_grad = on;
  return *this;
}

bool Tensor::is_leaf() const noexcept { return !impl_ || !autograd::node_of(*impl_); }

Tensor Tensor::grad() const {
  if (!impl_) return {};
  const Tensor dense = autograd::dense_grad(*this);
  const SparseRows rows = sparse_grad(*this);
  return rows.defined() ? autograd::with_rows(dense, rows, shape()) : dense;
}

void Tensor::set_grad(Tensor grad) const {
  if (!impl_) throw ValueError("set_grad of an undefined tensor");
  Evaluator::current().note_grad(*this, true);
  autograd::LeafGrad* const before = autograd::leaf_grad_of(*impl_);
  if (before && before->index.defined()) {
    before->index.set_grad(Tensor());
    before->rows.set_grad(Tensor());
  }
  if (!grad.defined()) {
    if (before) before->grad = Tensor();
    return;
  }
  if (!is_leaf()) {
    throw GradError("set_grad(" + type_string(*this) +
                    "): only a leaf keeps a gradient, and this tensor was computed from others; "
                    "pass a gradient to its backward() instead");
  }
  if (!(grad.shape() == shape()) || grad.dtype() != grad_dtype(dtype())) {
    throw ShapeError("set_grad: the gradient is " + type_string(grad) + " but the tensor is " +
                     type_string(*this));
  }
  autograd::make_leaf_grad(*impl_).grad = std::move(grad);
}

void Tensor::register_hook(std::function<Tensor(const Tensor&)> hook, Loc loc) const {
  if (!tracks_grad()) {
    throw GradError(
        "register_hook on a tensor that does not track gradients: no gradient would reach it", loc);
  }
  if (!Evaluator::is_eager()) {
    if (auto* const notes = dynamic_cast<RecordingNotes*>(&Evaluator::current()))
      notes->note_hook(*this, loc);
  }
  autograd::TapeNode* node = autograd::node_of(*impl_);
  if (!node) {
    autograd::make_leaf_grad(*impl_).hooks.push_back(std::move(hook));
    return;
  }
  auto& hooks = node->outputs()[impl_->grad_output].hooks;
  if (!hooks) hooks = std::make_unique<std::vector<autograd::Hook>>();
  hooks->push_back(std::move(hook));
}

}  // namespace dyad
