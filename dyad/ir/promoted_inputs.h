#pragma once

#include <optional>

#include "dyad/base/inline_vector.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/tensor_list.h"
#include "dyad/ir/op_info.h"

namespace dyad {

/// The inputs of a call as its row takes them: result_type() asks whether a tensor has axes, and
/// the types of nodes do not, so that graphs mean the same when their ranks change (vmap). Where
/// the two differ, tensors without axes are cast, by the operator, before the row is called.
///
/// The calls of public functions pass through here (apply() in ir/op.h); those of nodes that are
/// run again do not. Defined where operators can be called (ops/promoted_inputs.cpp).
class PromotedInputs {
 public:
  PromotedInputs(const OpInfo& op, TensorRefs inputs, Loc loc);
  PromotedInputs(const PromotedInputs&) = delete;
  PromotedInputs& operator=(const PromotedInputs&) = delete;

  /// Valid while this object and the original inputs live.
  [[nodiscard]] TensorRefs inputs() const noexcept { return inputs_; }

 private:
  void cast_to(DType dtype, const OpInfo& op, Loc loc);

  TensorRefs inputs_;
  std::optional<TensorList> casts_;
  InlineVector<const Tensor*, 4> refs_;
};

/// What `call` gives for the promoted inputs. Most calls have inputs of one dtype, and find that
/// out in a nanosecond.
template <class Call>
decltype(auto) with_promoted_inputs(const OpInfo& op, TensorRefs inputs, Loc loc,
                                    const Call& call) {
  const TensorImpl* first = nullptr;
  bool without_axes = false, mixed = false;
  for (const Tensor* input : inputs) {
    const TensorImpl* const impl = input->impl();
    if (impl == nullptr || impl->is_number) continue;
    if (first == nullptr) first = impl;
    mixed = mixed || impl->dtype != first->dtype;
    without_axes = without_axes || impl->shape.empty();
  }
  if (mixed && without_axes) return call(PromotedInputs(op, inputs, loc).inputs());
  return call(inputs);
}

}  // namespace dyad
