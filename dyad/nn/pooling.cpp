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
  if (size.rank() > 0) return max_unpool(x, indices, size, loc);
  const auto axes = static_cast<std::size_t>(x.rank() - 2);
  const Ints kernels = kernel.over(axes), pads = padding.over(axes);
  Ints strides = stride.over(axes);
  Shape made;
  for (std::size_t i = 0; i < axes; ++i) {
    if (strides[i] == 0) strides[i] = kernels[i];
    const Dim windows = x.size(static_cast<std::int64_t>(i) + 2, loc);
    made.push_back((windows - 1) * strides[i] - 2 * pads[i] + kernels[i]);
  }
  return max_unpool(x, indices, made, loc);
}

}  // namespace dyad::nn
