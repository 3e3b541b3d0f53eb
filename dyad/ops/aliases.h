#pragma once

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/im2col.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/layers.h"
#include "dyad/ops/products.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/series.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/solve.h"
#include "dyad/ops/sort.h"

namespace dyad {

// Functions by the other names that NumPy or PyTorch have for them: each is the one that it calls.

/// sub()
[[nodiscard]] inline Tensor subtract(const Arg& a, const Arg& b,
                                     Loc loc = std::source_location::current()) {
  return sub(a, b, loc);
}
/// mul()
[[nodiscard]] inline Tensor multiply(const Arg& a, const Arg& b,
                                     Loc loc = std::source_location::current()) {
  return mul(a, b, loc);
}
/// div()
[[nodiscard]] inline Tensor divide(const Arg& a, const Arg& b,
                                   Loc loc = std::source_location::current()) {
  return div(a, b, loc);
}
/// pow()
[[nodiscard]] inline Tensor power(const Arg& a, const Arg& b,
                                  Loc loc = std::source_location::current()) {
  return pow(a, b, loc);
}
/// neg()
[[nodiscard]] inline Tensor negative(const Tensor& x, Loc loc = std::source_location::current()) {
  return neg(x, loc);
}
/// abs()
[[nodiscard]] inline Tensor absolute(const Tensor& x, Loc loc = std::source_location::current()) {
  return abs(x, loc);
}
/// clamp()
[[nodiscard]] inline Tensor clip(const Tensor& x, Number low,
                                 Number high = std::numeric_limits<double>::infinity(),
                                 Loc loc = std::source_location::current()) {
  return clamp(x, low, high, loc);
}
[[nodiscard]] inline Tensor clip(const Tensor& x, const Tensor& low, const Tensor& high = {},
                                 Loc loc = std::source_location::current()) {
  return clamp(x, low, high, loc);
}

/// concat()
[[nodiscard]] inline Tensor cat(std::span<const Tensor> tensors, std::int64_t axis = 0,
                                Loc loc = std::source_location::current()) {
  return concat(tensors, axis, loc);
}
[[nodiscard]] inline Tensor cat(std::initializer_list<Tensor> tensors, std::int64_t axis = 0,
                                Loc loc = std::source_location::current()) {
  return concat(tensors, axis, loc);
}
/// concat()
[[nodiscard]] inline Tensor concatenate(std::span<const Tensor> tensors, std::int64_t axis = 0,
                                        Loc loc = std::source_location::current()) {
  return concat(tensors, axis, loc);
}
[[nodiscard]] inline Tensor concatenate(std::initializer_list<Tensor> tensors,
                                        std::int64_t axis = 0,
                                        Loc loc = std::source_location::current()) {
  return concat(tensors, axis, loc);
}
/// movedim()
[[nodiscard]] inline Tensor moveaxis(const Tensor& x, const Ints& from, const Ints& to,
                                     Loc loc = std::source_location::current()) {
  return movedim(x, from, to, loc);
}
[[nodiscard]] inline Tensor moveaxis(const Tensor& x, std::int64_t from, std::int64_t to,
                                     Loc loc = std::source_location::current()) {
  return movedim(x, from, to, loc);
}
/// take_along_axis()
[[nodiscard]] inline Tensor take_along_dim(const Tensor& x, const Tensor& index, std::int64_t axis,
                                           Loc loc = std::source_location::current()) {
  return take_along_axis(x, index, axis, loc);
}
/// searchsorted() of x among the ascending edges, in NumPy's sense of `right`: part i has the edge
/// before it, or, with `right`, the one behind it.
[[nodiscard]] inline Tensor digitize(const Tensor& x, const Tensor& edges, bool right = false,
                                     Loc loc = std::source_location::current()) {
  return searchsorted(edges, x, !right, loc);
}

/// inverse()
[[nodiscard]] inline Tensor inv(const Tensor& x, Loc loc = std::source_location::current()) {
  return inverse(x, loc);
}
/// vecdot() of all elements in row-major order.
[[nodiscard]] inline Tensor vdot(const Tensor& a, const Tensor& b,
                                 Loc loc = std::source_location::current()) {
  return vecdot(ravel(a, loc), ravel(b, loc), -1, loc);
}
/// trapezoid()
[[nodiscard]] inline Tensor trapz(const Tensor& y, double step = 1, std::int64_t axis = -1,
                                  Loc loc = std::source_location::current()) {
  return trapezoid(y, step, axis, loc);
}
[[nodiscard]] inline Tensor trapz(const Tensor& y, const Tensor& x, std::int64_t axis = -1,
                                  Loc loc = std::source_location::current()) {
  return trapezoid(y, x, axis, loc);
}

/// col2im()
[[nodiscard]] inline Tensor fold(const Tensor& columns, const Shape& size, const PerAxis& kernel,
                                 const PerAxis& dilation = 1, const PerAxis& padding = 0,
                                 const PerAxis& stride = 1,
                                 Loc loc = std::source_location::current()) {
  return col2im(columns, size, kernel, dilation, padding, stride, loc);
}
/// feature_dropout() of one spatial axis; of all three the number is that of x.
[[nodiscard]] inline Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true,
                                      Loc loc = std::source_location::current()) {
  return feature_dropout(x, p, training, loc);
}
/// feature_dropout() of two spatial axes.
[[nodiscard]] inline Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true,
                                      Loc loc = std::source_location::current()) {
  return feature_dropout(x, p, training, loc);
}
/// feature_dropout() of three spatial axes.
[[nodiscard]] inline Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true,
                                      Loc loc = std::source_location::current()) {
  return feature_dropout(x, p, training, loc);
}

}  // namespace dyad
