#include "dyad/ir/promoted_inputs.h"

#include "dyad/core/promotion.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/elementary.h"

namespace dyad {
namespace {

/// Whether input `i` is a tensor, no number, that is promoted with the others.
bool is_promoted(const OpInfo& op, TensorRefs inputs, std::size_t i) noexcept {
  const TensorImpl* const impl = inputs[i]->impl();
  const ArgInfo* const info = input_info(op, i);
  return impl != nullptr && !impl->is_number && info != nullptr && takes_part_in_promotion(*info);
}

/// The dtype that tensors without axes must be cast to, if any must.
std::optional<DType> dtype_of_casts(const OpInfo& op, TensorRefs inputs) noexcept {
  ResultType wanted, of_row;
  bool without_axes = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_promoted(op, inputs, i)) continue;
    const TensorImpl& impl = *inputs[i]->impl();
    // The refusal names what was given.
    if (!contains(input_info(op, i)->dtypes, impl.dtype)) return std::nullopt;
    without_axes = without_axes || impl.shape.empty();
    wanted.add(*inputs[i]);
    of_row.add({.dtype = impl.dtype, .rank = 1});
  }
  const bool same = !without_axes || wanted.dtype() == of_row.dtype();
  return same || wanted.dtype() == DType::string ? std::nullopt : wanted.dtype();
}

}  // namespace

PromotedInputs::PromotedInputs(const OpInfo& op, TensorRefs inputs, Loc loc) : inputs_(inputs) {
  if (op.kind != BodyKind::pointwise || op.own_types || inputs.size() < 2) return;
  if (const std::optional<DType> dtype = dtype_of_casts(op, inputs)) cast_to(*dtype, op, loc);
}

void PromotedInputs::cast_to(DType dtype, const OpInfo& op, Loc loc) {
  casts_.emplace(inputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Tensor* const input = inputs_[i];
    refs_.push_back(input);
    if (!is_promoted(op, inputs_, i) || !input->shape().empty()) continue;
    (*casts_)[i] = to(*input, dtype, loc);
    refs_.back() = &(*casts_)[i];
  }
  inputs_ = {refs_.data(), refs_.size()};
}

}  // namespace dyad
