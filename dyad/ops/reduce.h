#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

// Over `axes` (negative from the end; none: all), which vanish from the shape, or stay with size 1
// with keepdim. IndexError for an axis out of range, ValueError for one named twice.

/// Integers and bool add up in i64.
[[nodiscard]] Tensor sum(const Tensor& x, Ints axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
/// Floating (f32 for integers and bool); of no elements NaN.
[[nodiscard]] Tensor mean(const Tensor& x, Ints axes = {}, bool keepdim = false,
                          Loc loc = std::source_location::current());
/// The mean square distance from the mean, with the divisor count - correction. Floating only.
[[nodiscard]] Tensor var(const Tensor& x, Ints axes = {}, std::int64_t correction = 1,
                         bool keepdim = false, Loc loc = std::source_location::current());
/// The largest, NaN if there is one. Equal ones share the gradient evenly. ShapeError over no
/// elements.
[[nodiscard]] Tensor max(const Tensor& x, Ints axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
/// The smallest, NaN if there is one. Equal ones share the gradient evenly. ShapeError over no
/// elements.
[[nodiscard]] Tensor min(const Tensor& x, Ints axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
/// Integers and bool multiply in i64.
[[nodiscard]] Tensor prod(const Tensor& x, Ints axes = {}, bool keepdim = false,
                          Loc loc = std::source_location::current());
/// Whether any, or every, element is not 0: bool.
[[nodiscard]] Tensor any(const Tensor& x, Ints axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
[[nodiscard]] Tensor all(const Tensor& x, Ints axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
/// The i64 position of the first largest, or smallest, element along one axis; NaN counts as such.
/// ShapeError over no elements.
[[nodiscard]] Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdim = false,
                            Loc loc = std::source_location::current());
[[nodiscard]] Tensor argmin(const Tensor& x, std::int64_t axis, bool keepdim = false,
                            Loc loc = std::source_location::current());
/// log(sum(exp(x))) without overflow. Floating only.
[[nodiscard]] Tensor logsumexp(const Tensor& x, Ints axes = {}, bool keepdim = false,
                               Loc loc = std::source_location::current());

}  // namespace dyad
