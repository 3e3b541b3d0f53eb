#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "dyad/core/tensor.h"
#include "dyad/ops/cumulative.h"

namespace dyad {

// Axes count from the end when negative (IndexError out of range); none named: all of them.

/// The largest along one axis and where the first one is. The gradient goes to that element alone;
/// max() shares it among equal ones. ShapeError over no elements.
[[nodiscard]] ValuesAndIndices max_with_indices(const Tensor& x, std::int64_t axis,
                                                bool keepdim = false,
                                                Loc loc = std::source_location::current());
/// The smallest along one axis and where the first one is. The gradient goes to that element alone;
/// min() shares it among equal ones. ShapeError over no elements.
[[nodiscard]] ValuesAndIndices min_with_indices(const Tensor& x, std::int64_t axis,
                                                bool keepdim = false,
                                                Loc loc = std::source_location::current());
/// max() by its other name.
[[nodiscard]] Tensor amax(const Tensor& x, Ints axes = {}, bool keepdim = false,
                          Loc loc = std::source_location::current());
/// min() by its other name.
[[nodiscard]] Tensor amin(const Tensor& x, Ints axes = {}, bool keepdim = false,
                          Loc loc = std::source_location::current());
/// min() and max().
[[nodiscard]] std::pair<Tensor, Tensor> aminmax(const Tensor& x, const Ints& axes = {},
                                                bool keepdim = false,
                                                Loc loc = std::source_location::current());

/// How many elements are not 0: i64.
[[nodiscard]] Tensor count_nonzero(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                                   Loc loc = std::source_location::current());
/// sum() of what is not NaN: 0 where nothing is left.
[[nodiscard]] Tensor nansum(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                            Loc loc = std::source_location::current());
/// mean() of what is not NaN: NaN where nothing is left.
[[nodiscard]] Tensor nanmean(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                             Loc loc = std::source_location::current());
/// The sum of squares.
[[nodiscard]] Tensor sum_square(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                                Loc loc = std::source_location::current());
/// The logarithm of the sum.
[[nodiscard]] Tensor log_sum(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                             Loc loc = std::source_location::current());

/// The element in the middle of sort(x), the lower of two, and where it is; NaN if there is one.
/// ShapeError over no elements.
[[nodiscard]] ValuesAndIndices median(const Tensor& x, std::int64_t axis, bool keepdim = false,
                                      Loc loc = std::source_location::current());
/// Of all elements.
[[nodiscard]] Tensor median(const Tensor& x, Loc loc = std::source_location::current());
/// The same of what is not NaN; NaN where nothing is left.
[[nodiscard]] ValuesAndIndices nanmedian(const Tensor& x, std::int64_t axis, bool keepdim = false,
                                         Loc loc = std::source_location::current());
[[nodiscard]] Tensor nanmedian(const Tensor& x, Loc loc = std::source_location::current());
/// The value below which the part q (0 to 1, ValueError) of the elements along the axis lies: at
/// q * (n - 1) in sort(x), between two elements by interpolation "linear", "lower", "higher",
/// "midpoint" or "nearest" (the even one of two). NaN if there is one. Floating; ShapeError for an
/// axis without elements.
[[nodiscard]] Tensor quantile(const Tensor& x, double q, std::int64_t axis, bool keepdim = false,
                              std::string_view interpolation = "linear",
                              Loc loc = std::source_location::current());
/// Of all elements.
[[nodiscard]] Tensor quantile(const Tensor& x, double q, Loc loc = std::source_location::current());
/// The same for each of q, a floating vector (or a number): the quantiles lie along a new first
/// axis (no axis of a number). ValueError, when it runs, for one that is not from 0 to 1.
[[nodiscard]] Tensor quantile(const Tensor& x, const Tensor& q, std::int64_t axis,
                              bool keepdim = false, std::string_view interpolation = "linear",
                              Loc loc = std::source_location::current());
/// Of all elements.
[[nodiscard]] Tensor quantile(const Tensor& x, const Tensor& q,
                              Loc loc = std::source_location::current());

/// How often each number from 0 on occurs in x (integers, none negative: ValueError), as i64; how
/// many counts there are, the largest element tells, but at least `least`.
[[nodiscard]] Tensor bincount(const Tensor& x, Dim least = 0,
                              Loc loc = std::source_location::current());
/// The same with a weight for each element, added up in their dtype (floating). Weights have a
/// gradient.
[[nodiscard]] Tensor bincount(const Tensor& x, const Tensor& weights, Dim least = 0,
                              Loc loc = std::source_location::current());
/// How many elements lie in each of `bins` equal parts of [low, high], the last one with its upper
/// bound, in the dtype of x. What lies outside (and NaN) does not count. With low == high the
/// smallest and the largest element are the bounds. ValueError for bounds in the wrong order.
[[nodiscard]] Tensor histc(const Tensor& x, std::int64_t bins = 100, double low = 0,
                           double high = 0, Loc loc = std::source_location::current());
/// How many elements (or weight, when given) lie between each edge (ascending, a vector of two or
/// more: ShapeError) and the next, the last part with its upper bound; `density`: as parts of the
/// whole, per length. In the dtype of x.
[[nodiscard]] Tensor histogram(const Tensor& x, const Tensor& edges, const Tensor& weights = {},
                               bool density = false, Loc loc = std::source_location::current());
/// What histogram() by a number of bins gives.
struct Histogram {
  Tensor counts;
  Tensor edges;  ///< one more than counts
};
/// The same of `bins` equal parts of [low, high], or, with low == high, of the range of the
/// elements (of equal ones half to each side of them). Floating.
[[nodiscard]] Histogram histogram(const Tensor& x, std::int64_t bins = 10, double low = 0,
                                  double high = 0, const Tensor& weights = {}, bool density = false,
                                  Loc loc = std::source_location::current());

}  // namespace dyad
