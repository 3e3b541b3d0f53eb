#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element on integers and bool (DTypeError for floats); shapes broadcast, dtypes are
// promoted. Of bool tensors: and, or, xor and not of truths.

/// The bits that both have.
[[nodiscard]] Tensor bitwise_and(const Arg& a, const Arg& b,
                                 Loc loc = std::source_location::current());
/// The bits that one of the two has, or both.
[[nodiscard]] Tensor bitwise_or(const Arg& a, const Arg& b,
                                Loc loc = std::source_location::current());
/// The bits that exactly one of the two has.
[[nodiscard]] Tensor bitwise_xor(const Arg& a, const Arg& b,
                                 Loc loc = std::source_location::current());
/// The bits that x has not.
[[nodiscard]] Tensor bitwise_not(const Arg& x, Loc loc = std::source_location::current());
/// a * 2^count, wrapping; integers only. 0 where the count is negative or no less than the bits of
/// the dtype.
[[nodiscard]] Tensor bitwise_left_shift(const Arg& a, const Arg& count,
                                        Loc loc = std::source_location::current());
/// a / 2^count rounded to minus infinity; integers only. The sign alone (0 or -1) where the count
/// is negative or no less than the bits of the dtype.
[[nodiscard]] Tensor bitwise_right_shift(const Arg& a, const Arg& count,
                                         Loc loc = std::source_location::current());

/// The bits of x read as another dtype of the same width (f32 as i32, u8 as i8 or f8e4m3fn): a
/// view, without a gradient. DTypeError for another width, for complex numbers and for bool.
[[nodiscard]] Tensor bitcast(const Tensor& x, DType dtype,
                             Loc loc = std::source_location::current());

[[nodiscard]] Tensor operator&(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator|(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator^(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator~(const Arg& x);
[[nodiscard]] Tensor operator<<(const Arg& a, const Arg& count);
[[nodiscard]] Tensor operator>>(const Arg& a, const Arg& count);

}  // namespace dyad
