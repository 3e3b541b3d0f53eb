#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element on numbers: shapes broadcast as in NumPy (ShapeError), dtypes are promoted as
// in PyTorch (result_type): a tensor without axes, and more so a host number, takes the dtype of
// the tensors with axes unless it is of a higher category.

/// a + b; of two bool tensors: a or b.
[[nodiscard]] Tensor add(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a - b; DTypeError for two bool tensors.
[[nodiscard]] Tensor sub(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a * b; of two bool tensors: a and b.
[[nodiscard]] Tensor mul(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a / b, floating: integers give f32.
[[nodiscard]] Tensor div(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a to the power b. Integers: exact, wrapping; a negative exponent gives 0 unless |a| is 1.
[[nodiscard]] Tensor pow(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// The larger of a and b, NaN if either is. The gradient of equal operands is split in halves.
[[nodiscard]] Tensor maximum(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// The smaller of a and b, NaN if either is. The gradient of equal operands is split in halves.
[[nodiscard]] Tensor minimum(const Arg& a, const Arg& b, Loc loc = std::source_location::current());

/// -x
[[nodiscard]] Tensor neg(const Tensor& x, Loc loc = std::source_location::current());
/// |x|; its derivative at 0 is 0.
[[nodiscard]] Tensor abs(const Tensor& x, Loc loc = std::source_location::current());
/// -1, 0 or 1 (NaN stays); its derivative is 0.
[[nodiscard]] Tensor sign(const Tensor& x, Loc loc = std::source_location::current());
/// x * x
[[nodiscard]] Tensor square(const Tensor& x, Loc loc = std::source_location::current());

[[nodiscard]] Tensor operator+(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator-(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator*(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator/(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator-(const Arg& x);

/// In place: as add_, sub_, mul_ and div_.
Tensor& operator+=(Tensor& target, const Arg& value);
Tensor& operator-=(Tensor& target, const Arg& value);
Tensor& operator*=(Tensor& target, const Arg& value);
Tensor& operator/=(Tensor& target, const Arg& value);

}  // namespace dyad
