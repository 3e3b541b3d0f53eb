#pragma once

#include <concepts>
#include <utility>

#include "dyad/core/tensor.h"

namespace dyad {

// Over `axes` (negative from the end; none: all), which vanish from the shape, or stay with size 1
// with keepdim. IndexError for an axis out of range, ValueError for one named twice. A scalar takes
// axis 0 or -1 as well and stays one; so it does in all functions along an axis, as in PyTorch.

/// Integers and bool add up in i64.
[[nodiscard]] Tensor sum(const Tensor& x, Ints axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
/// Floating (f32 for integers and bool, whose sum is an i64); of no elements NaN.
[[nodiscard]] Tensor mean(const Tensor& x, Ints axes = {}, bool keepdim = false,
                          Loc loc = std::source_location::current());
/// The mean square distance from the mean, with the divisor count - correction (not below 0: then
/// NaN or inf). Floating only.
[[nodiscard]] Tensor var(const Tensor& x, Ints axes = {}, std::int64_t correction = 1,
                         bool keepdim = false, Loc loc = std::source_location::current());
/// The square root of var(); its derivative where nothing varies is 0. After `using namespace dyad`
/// the name alone is that of the standard library's namespace too: x.std() or dyad::std(x) say it.
[[nodiscard]] Tensor std(const Tensor& x, Ints axes = {}, std::int64_t correction = 1,
                         bool keepdim = false, Loc loc = std::source_location::current());
/// var() and mean().
[[nodiscard]] std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Ints& axes = {},
                                                 std::int64_t correction = 1, bool keepdim = false,
                                                 Loc loc = std::source_location::current());
/// std() and mean().
[[nodiscard]] std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Ints& axes = {},
                                                 std::int64_t correction = 1, bool keepdim = false,
                                                 Loc loc = std::source_location::current());
/// (sum of |x|^p)^(1/p); infinity: the largest |x|, -infinity: the smallest, 0: how many are not 0.
/// Floating only. The derivative is 0 at elements that are 0 and where the norm is 0; equal largest
/// or smallest ones share the gradient evenly. ShapeError for p < 0 over no elements.
[[nodiscard]] Tensor norm(const Tensor& x, double p = 2, Ints axes = {}, bool keepdim = false,
                          Loc loc = std::source_location::current());
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
/// Whether any element is not 0: bool.
[[nodiscard]] Tensor any(const Tensor& x, Ints axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
/// Whether every element is not 0: bool.
[[nodiscard]] Tensor all(const Tensor& x, Ints axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
/// The i64 position of the first (or last) largest element along one axis; NaN counts as such.
/// ShapeError over no elements.
[[nodiscard]] Tensor argmax(const Tensor& x, std::int64_t axis, bool keepdim = false,
                            bool last = false, Loc loc = std::source_location::current());
/// The i64 position of the first (or last) smallest element along one axis; NaN counts as such.
/// ShapeError over no elements.
[[nodiscard]] Tensor argmin(const Tensor& x, std::int64_t axis, bool keepdim = false,
                            bool last = false, Loc loc = std::source_location::current());
/// The same over all elements, in row-major order.
[[nodiscard]] Tensor argmax(const Tensor& x, Loc loc = std::source_location::current());
[[nodiscard]] Tensor argmin(const Tensor& x, Loc loc = std::source_location::current());
/// log(sum(exp(x))) without overflow, -inf of no elements. Floating only.
[[nodiscard]] Tensor logsumexp(const Tensor& x, Ints axes = {}, bool keepdim = false,
                               Loc loc = std::source_location::current());

// Of x converted to `dtype` first, which the result has too, as in PyTorch.

[[nodiscard]] Tensor sum(const Tensor& x, Ints axes, bool keepdim, DType dtype,
                         Loc loc = std::source_location::current());
/// Over all axes. (`{}` is no dtype: it means all axes.)
template <std::same_as<DType> D>
[[nodiscard]] Tensor sum(const Tensor& x, D dtype, Loc loc = std::source_location::current()) {
  return sum(x, {}, false, dtype, loc);
}
/// DTypeError for a dtype that is neither floating nor complex.
[[nodiscard]] Tensor mean(const Tensor& x, Ints axes, bool keepdim, DType dtype,
                          Loc loc = std::source_location::current());
/// Over all axes. (`{}` is no dtype: it means all axes.)
template <std::same_as<DType> D>
[[nodiscard]] Tensor mean(const Tensor& x, D dtype, Loc loc = std::source_location::current()) {
  return mean(x, {}, false, dtype, loc);
}
[[nodiscard]] Tensor prod(const Tensor& x, Ints axes, bool keepdim, DType dtype,
                          Loc loc = std::source_location::current());
/// Over all axes. (`{}` is no dtype: it means all axes.)
template <std::same_as<DType> D>
[[nodiscard]] Tensor prod(const Tensor& x, D dtype, Loc loc = std::source_location::current()) {
  return prod(x, {}, false, dtype, loc);
}

namespace ops {

/// The gradient of what was repeated along axes of sizes that are not known: of one element that
/// element, where sum() would make 0 of -0.
[[nodiscard]] Tensor sum_of_repeats(const Tensor& x, Ints axes);

}  // namespace ops
}  // namespace dyad
