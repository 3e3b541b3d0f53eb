#include "dyad/core/promotion.h"

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {
namespace {

/// What `lower` leaves of the dtype of those who come before it.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) noexcept {
  if (!higher || !lower) return higher ? higher : lower;
  const DTypeCategory of = category_of(*higher);
  if (category_of(*lower) <= of) return higher;
  // Parts of complex numbers are as wide as the floating numbers that they meet.
  if (is_complex(*lower) && of == DTypeCategory::floating) return complex_dtype(*higher);
  return promote(*higher, *lower);
}

/// A number of the host has a category, and no width of its own.
DType dtype_of_number(DType given) noexcept {
  switch (category_of(given)) {
    case DTypeCategory::integer:
      return DType::i64;
    case DTypeCategory::floating:
      return DType::f32;
    case DTypeCategory::complex:
      return DType::c64;
    default:
      return given;
  }
}

DType checked(const ResultType& result) {
  const std::optional<DType> dtype = result.dtype();
  if (!dtype) throw ValueError("result_type() needs an operand");
  return *dtype;
}

}  // namespace

void ResultType::add(TypedOperand operand) noexcept {
  std::optional<DType>& level = operand.is_number   ? numbers_
                                : operand.rank == 0 ? without_axes_
                                                    : with_axes_;
  const DType dtype = operand.is_number ? dtype_of_number(operand.dtype) : operand.dtype;
  level = level ? promote(*level, dtype) : dtype;
}

void ResultType::add(const Tensor& operand) noexcept {
  const TensorImpl* const impl = operand.impl();
  if (impl != nullptr) add({impl->dtype, impl->shape.rank(), impl->is_number});
}

std::optional<DType> ResultType::dtype() const noexcept {
  return combine(with_axes_, combine(without_axes_, numbers_));
}

DType result_type(std::initializer_list<TypedOperand> operands) {
  ResultType result;
  for (const TypedOperand& operand : operands) result.add(operand);
  return checked(result);
}

DType result_type(std::initializer_list<Arg> operands) {
  ResultType result;
  for (const Arg& operand : operands) result.add(operand.tensor());
  return checked(result);
}

}  // namespace dyad
