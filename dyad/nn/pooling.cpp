#include "dyad/nn/pooling.h"

#include <fmt/format.h>

#include "dyad/base/error.h"

namespace dyad::nn {

Shape detail::sizes_over(std::size_t axes, const PerAxis& size, Loc loc) {
  const Ints sizes = size.over(axes);
  if (sizes.size() != axes) {
    throw ShapeError(fmt::format("an adaptive pooling over {} axes takes one size or {}, found {}",
                                 axes, axes, sizes.size()),
                     loc.user());
  }
  Shape shape;
  for (const std::int64_t each : sizes) shape.push_back(each);
  return shape;
}

Tensor MaxUnpool::operator()(const Tensor& x, const Tensor& indices, const Shape& size,
                             Loc loc) const {
  const auto pool = x.rank() <= 3 ? max_unpool1d : x.rank() == 4 ? max_unpool2d : max_unpool3d;
  return pool(x, indices, kernel, stride, padding, size, loc);
}

}  // namespace dyad::nn
