#include "dyad/exec/before_call.h"

#include <cstring>

#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"

namespace dyad::exec {

void BeforeCall::keep(const Tensor& written) {
  const Ref<Storage>& storage = written.impl()->storage;
  if (!storage || copy_of_.contains(storage.get())) return;
  Ref<Storage> copy = Storage::allocate(storage->bytes(), storage->device());
  if (storage->bytes() > 0) std::memcpy(copy->data(), storage->data(), storage->bytes());
  copy_of_.emplace(storage.get(), std::move(copy));
}

void BeforeCall::keep_grad(const GradLeaf& leaf, const Tensor& grad) {
  const Evaluator::Scope eager(EagerEvaluator::instance());  // nothing that a recording must know
  if (grad.defined()) grads_.emplace_back(leaf, row_major_copy(grad));
}

Tensor BeforeCall::find(const Tensor& tensor) const {
  const auto known = copy_of_.find(tensor.impl()->storage.get());
  if (known == copy_of_.end()) return tensor;
  const TensorImpl& impl = *tensor.impl();
  Tensor found = make_view(tensor, impl.shape, impl.strides, 0);
  found.impl()->data = known->second->data() + (impl.data - impl.storage->data());
  found.impl()->storage = known->second;
  return found;
}

Tensor BeforeCall::find_grad(const GradLeaf& leaf) const {
  for (const auto& [of, grad] : grads_) {
    if (of.is_same(leaf)) return grad;
  }
  return {};
}

}  // namespace dyad::exec
