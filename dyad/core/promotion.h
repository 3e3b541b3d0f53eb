#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>

#include "dyad/core/dtype.h"
#include "dyad/core/tensor.h"

namespace dyad {

/// The kinds of dtypes that promotion tells apart, each above those before it.
enum class DTypeCategory : std::uint8_t { boolean, integer, floating, complex, string };
[[nodiscard]] constexpr DTypeCategory category_of(DType t) noexcept {
  if (t == DType::string) return DTypeCategory::string;
  if (is_complex(t)) return DTypeCategory::complex;
  if (is_floating(t) || contains(kSmallFloat, t)) return DTypeCategory::floating;
  return is_integer(t) || contains(kSmallInteger, t) ? DTypeCategory::integer
                                                     : DTypeCategory::boolean;
}

/// What the dtype of a result depends on: an operand's own, and whether it has axes, is a tensor
/// without axes or a number of the host.
struct TypedOperand {
  DType dtype;
  int rank = 0;
  bool is_number = false;
};

/// The dtype that operands meet in, one after another; see result_type().
class ResultType {
 public:
  void add(TypedOperand operand) noexcept;
  /// An undefined tensor counts for nothing.
  void add(const Tensor& operand) noexcept;
  /// Nothing before the first operand.
  [[nodiscard]] std::optional<DType> dtype() const noexcept;

 private:
  std::optional<DType> with_axes_, without_axes_, numbers_;
};

/// The dtype in which operands meet, as torch.result_type has it. Tensors with axes decide (by
/// promote(), whatever their shapes). A tensor without axes changes the dtype only where it is of a
/// higher category (bool < integer < floating < complex) than all of them, and a number of the host
/// only where it is of a higher one than all tensors, as f32 or i64:
///
///     f32[2] and f64[]: f32          i32[2] and f64[]: f64         f16[] and f64[]: f64
///     u8[2] and i64[]: u8            f32[2] and c128[]: c64        i32[2] and 1.5: f32
///
/// ValueError without operands.
[[nodiscard]] DType result_type(std::initializer_list<TypedOperand> operands);
/// The same of tensors and numbers: `result_type({x, y, 2})`.
[[nodiscard]] DType result_type(std::initializer_list<Arg> operands);

}  // namespace dyad
