#pragma once

#include <span>
#include <string_view>

#include "dyad/core/tensor.h"
#include "dyad/ops/cumulative.h"

namespace dyad {

// Numbers in a row, and statistics of samples. Axes count from the end when negative (IndexError
// out of range); none named: all of them.

/// x[i + 1] - x[i] along the axis, n times over (ValueError below 0); of bool whether they differ.
/// `before` and `after`, when given, stand at the ends of x first.
[[nodiscard]] Tensor diff(const Tensor& x, std::int64_t n = 1, std::int64_t axis = -1,
                          const Tensor& before = {}, const Tensor& after = {},
                          Loc loc = std::source_location::current());
/// The slope of f along the axis at points `step` apart, or at `points` (of the shape of f, or a
/// vector along the axis): in the middle that of the parabola through three neighbours, at the ends
/// the difference of two. ShapeError for fewer than two points.
[[nodiscard]] Tensor gradient(const Tensor& f, double step = 1, std::int64_t axis = -1,
                              Loc loc = std::source_location::current());
[[nodiscard]] Tensor gradient(const Tensor& f, const Tensor& points, std::int64_t axis = -1,
                              Loc loc = std::source_location::current());
/// The integral of y along the axis by the trapezoidal rule, at points `step` apart, or at x (of
/// the shape of y, or a vector along the axis).
[[nodiscard]] Tensor trapezoid(const Tensor& y, double step = 1, std::int64_t axis = -1,
                               Loc loc = std::source_location::current());
[[nodiscard]] Tensor trapezoid(const Tensor& y, const Tensor& x, std::int64_t axis = -1,
                               Loc loc = std::source_location::current());
/// The same up to each point but the first.
[[nodiscard]] Tensor cumulative_trapezoid(const Tensor& y, double step = 1, std::int64_t axis = -1,
                                          Loc loc = std::source_location::current());
[[nodiscard]] Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, std::int64_t axis = -1,
                                          Loc loc = std::source_location::current());
/// sum of a[i] * v[k - i] of two floating vectors for each k: "full", all of them; "same", as many
/// as the longer one has, the middle; "valid", those where one lies within the other. ValueError
/// for another mode, ShapeError for another rank or a vector without elements.
[[nodiscard]] Tensor convolve(const Tensor& a, const Tensor& v, std::string_view mode = "full",
                              Loc loc = std::source_location::current());
/// convolve() with v backwards.
[[nodiscard]] Tensor correlate(const Tensor& a, const Tensor& v, std::string_view mode = "valid",
                               Loc loc = std::source_location::current());
/// The line through the points (points[i], values[i]), two floating vectors, the first ascending,
/// at x: the first and the last value beyond them.
[[nodiscard]] Tensor interp(const Tensor& x, const Tensor& points, const Tensor& values,
                            Loc loc = std::source_location::current());
/// The polynomial with these coefficients, a vector from the highest power down, at x.
[[nodiscard]] Tensor polyval(const Tensor& coefficients, const Tensor& x,
                             Loc loc = std::source_location::current());
/// Angles along the axis, moved by whole periods so that none is further than half a period from
/// the one before it. Floating.
[[nodiscard]] Tensor unwrap(const Tensor& x, double period = 6.283185307179586,
                            std::int64_t axis = -1, Loc loc = std::source_location::current());

/// The covariances of variables, the rows of x[variables, samples] (of a vector its variance): sums
/// of products of distances from the means over the number of samples - correction. `repeats` says
/// how often each sample counts, `weights` how much. Floating.
[[nodiscard]] Tensor cov(const Tensor& x, std::int64_t correction = 1, const Tensor& repeats = {},
                         const Tensor& weights = {}, Loc loc = std::source_location::current());
/// cov() over the square roots of the variances: from -1 to 1.
[[nodiscard]] Tensor corrcoef(const Tensor& x, Loc loc = std::source_location::current());
/// The mean with a weight for each element (of the shape of x, or a vector along the one axis).
[[nodiscard]] Tensor average(const Tensor& x, const Tensor& weights, const Ints& axes = {},
                             bool keepdim = false, Loc loc = std::source_location::current());
/// The largest less the smallest.
[[nodiscard]] Tensor ptp(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                         Loc loc = std::source_location::current());
/// The most frequent element along the axis, the smallest of several, and the last place where it
/// is. A NaN equals nothing.
[[nodiscard]] ValuesAndIndices mode(const Tensor& x, std::int64_t axis = -1, bool keepdim = false,
                                    Loc loc = std::source_location::current());
/// quantile() of p percent.
[[nodiscard]] Tensor percentile(const Tensor& x, double p, std::int64_t axis, bool keepdim = false,
                                std::string_view interpolation = "linear",
                                Loc loc = std::source_location::current());

/// max() of what is not NaN; NaN where nothing is left.
[[nodiscard]] Tensor nanmax(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                            Loc loc = std::source_location::current());
/// min() of what is not NaN; NaN where nothing is left.
[[nodiscard]] Tensor nanmin(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                            Loc loc = std::source_location::current());
/// prod() of what is not NaN; 1 where nothing is left.
[[nodiscard]] Tensor nanprod(const Tensor& x, const Ints& axes = {}, bool keepdim = false,
                             Loc loc = std::source_location::current());
/// var() of what is not NaN; NaN where too little is left.
[[nodiscard]] Tensor nanvar(const Tensor& x, const Ints& axes = {}, std::int64_t correction = 1,
                            bool keepdim = false, Loc loc = std::source_location::current());
/// std() of what is not NaN; NaN where too little is left.
[[nodiscard]] Tensor nanstd(const Tensor& x, const Ints& axes = {}, std::int64_t correction = 1,
                            bool keepdim = false, Loc loc = std::source_location::current());
/// cumsum() with 0 in the place of NaN.
[[nodiscard]] Tensor nancumsum(const Tensor& x, std::int64_t axis,
                               Loc loc = std::source_location::current());
/// cumprod() with 1 in the place of NaN.
[[nodiscard]] Tensor nancumprod(const Tensor& x, std::int64_t axis,
                                Loc loc = std::source_location::current());
/// The i64 position along the axis of the first largest of what is not NaN; 0 where nothing is
/// left.
[[nodiscard]] Tensor nanargmax(const Tensor& x, std::int64_t axis, bool keepdim = false,
                               Loc loc = std::source_location::current());
/// The i64 position along the axis of the first smallest of what is not NaN; 0 where nothing is
/// left.
[[nodiscard]] Tensor nanargmin(const Tensor& x, std::int64_t axis, bool keepdim = false,
                               Loc loc = std::source_location::current());
/// The same over all elements, in row-major order.
[[nodiscard]] Tensor nanargmax(const Tensor& x, Loc loc = std::source_location::current());
[[nodiscard]] Tensor nanargmin(const Tensor& x, Loc loc = std::source_location::current());
/// quantile() of what is not NaN, by linear interpolation.
[[nodiscard]] Tensor nanquantile(const Tensor& x, double q, std::int64_t axis, bool keepdim = false,
                                 Loc loc = std::source_location::current());

/// norm(a - b, p)
[[nodiscard]] Tensor dist(const Tensor& a, const Tensor& b, double p = 2,
                          Loc loc = std::source_location::current());
/// cdist() of each row of a matrix from each later one, a vector.
[[nodiscard]] Tensor pdist(const Tensor& x, double p = 2,
                           Loc loc = std::source_location::current());
/// x with each slice along the axis whose p-norm is above `most` scaled down to it. ValueError
/// unless p and most are above 0.
[[nodiscard]] Tensor renorm(const Tensor& x, double p, std::int64_t axis, double most,
                            Loc loc = std::source_location::current());

}  // namespace dyad
