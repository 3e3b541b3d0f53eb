#pragma once

#include <limits>
#include <string_view>

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element on numbers; shapes broadcast, dtypes are promoted.

/// 1 / x, floating (f32 for integers and bool)
[[nodiscard]] Tensor reciprocal(const Tensor& x, Loc loc = std::source_location::current());
/// a / b rounded to minus infinity: Python's //. Integers: 0 where b is 0. Its derivatives are 0.
[[nodiscard]] Tensor floor_divide(const Arg& a, const Arg& b,
                                  Loc loc = std::source_location::current());
/// a / b rounded to whole numbers: "floor" is floor_divide(), "trunc" rounds towards 0 (integers: 0
/// where b is 0), in the promoted dtype; its derivatives are 0. ValueError for another rounding.
[[nodiscard]] Tensor div(const Arg& a, const Arg& b, std::string_view rounding,
                         Loc loc = std::source_location::current());
/// a - b * floor_divide(a, b), with the sign of b: Python's %. Exact; 0 where an integer b is 0,
/// NaN where a floating one is. Its derivatives are 1 and -floor_divide(a, b).
[[nodiscard]] Tensor remainder(const Arg& a, const Arg& b,
                               Loc loc = std::source_location::current());
[[nodiscard]] Tensor operator%(const Arg& a, const Arg& b);
/// The remainder with the sign of a, as in C. Exact; 0 where an integer b is 0, NaN where a
/// floating one is. The derivatives are 1 and -trunc(a / b).
[[nodiscard]] Tensor fmod(const Arg& a, const Arg& b, Loc loc = std::source_location::current());

/// To the nearest whole number between x and 0, in the dtype of x; its derivative is 0.
[[nodiscard]] Tensor trunc(const Tensor& x, Loc loc = std::source_location::current());
/// x - trunc(x), floating only; its derivative is 1.
[[nodiscard]] Tensor frac(const Tensor& x, Loc loc = std::source_location::current());
/// What modf() gives.
struct Modf {
  Tensor fraction;  ///< x - trunc(x) with the sign of x, 0 of an infinity; its derivative is 1
  Tensor whole;     ///< trunc(x)
};
/// x in two parts, in the dtype of x (f32 for integers and bool).
[[nodiscard]] Modf modf(const Tensor& x, Loc loc = std::source_location::current());

/// The larger of a and b, the other one where one is NaN. The gradient of equal operands is split
/// in halves.
[[nodiscard]] Tensor fmax(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// The smaller of a and b, the other one where one is NaN. The gradient of equal operands is split
/// in halves.
[[nodiscard]] Tensor fmin(const Arg& a, const Arg& b, Loc loc = std::source_location::current());

/// a + weight * (b - a), exactly b where the weight is 1; floating, the three broadcast.
[[nodiscard]] Tensor lerp(const Arg& a, const Arg& b, const Arg& weight,
                          Loc loc = std::source_location::current());
/// x with numbers in the place of NaN and the infinities: of an infinity the largest finite number
/// of that sign unless another is given. Its derivative is 0 there.
[[nodiscard]] Tensor nan_to_num(const Tensor& x, double nan = 0,
                                double posinf = std::numeric_limits<double>::infinity(),
                                double neginf = -std::numeric_limits<double>::infinity(),
                                Loc loc = std::source_location::current());

}  // namespace dyad
