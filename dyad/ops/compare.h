#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Element by element; shapes broadcast, dtypes are promoted, results are bool. A comparison with
// NaN is false (ne: true).

/// a == b
[[nodiscard]] Tensor eq(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a != b
[[nodiscard]] Tensor ne(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a < b
[[nodiscard]] Tensor lt(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a <= b
[[nodiscard]] Tensor le(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a > b
[[nodiscard]] Tensor gt(const Arg& a, const Arg& b, Loc loc = std::source_location::current());
/// a >= b
[[nodiscard]] Tensor ge(const Arg& a, const Arg& b, Loc loc = std::source_location::current());

/// Whether both are true; operands of any dtype, of which what is not 0 is true.
[[nodiscard]] Tensor logical_and(const Arg& a, const Arg& b,
                                 Loc loc = std::source_location::current());
/// Whether one of the two is true, or both; operands as those of logical_and().
[[nodiscard]] Tensor logical_or(const Arg& a, const Arg& b,
                                Loc loc = std::source_location::current());
/// Whether exactly one of the two is true; operands as those of logical_and().
[[nodiscard]] Tensor logical_xor(const Arg& a, const Arg& b,
                                 Loc loc = std::source_location::current());
/// Whether x is 0 (or false); of any dtype.
[[nodiscard]] Tensor logical_not(const Arg& x, Loc loc = std::source_location::current());

/// condition ? a : b for each element; `condition` is bool (DTypeError), the three broadcast.
/// No gradient passes an element that was not chosen.
[[nodiscard]] Tensor where(const Tensor& condition, const Arg& a, const Arg& b,
                           Loc loc = std::source_location::current());
/// Is NaN; of integers and bool none is, nor infinite.
[[nodiscard]] Tensor isnan(const Tensor& x, Loc loc = std::source_location::current());
/// Is infinite, of the signs that are asked for.
[[nodiscard]] Tensor isinf(const Tensor& x, bool detect_positive = true,
                           bool detect_negative = true, Loc loc = std::source_location::current());
/// Is neither NaN nor infinite.
[[nodiscard]] Tensor isfinite(const Tensor& x, Loc loc = std::source_location::current());

// Element by element like the named functions: compare two handles with Tensor::is_same.
[[nodiscard]] Tensor operator==(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator!=(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator<(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator<=(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator>(const Arg& a, const Arg& b);
[[nodiscard]] Tensor operator>=(const Arg& a, const Arg& b);

}  // namespace dyad
