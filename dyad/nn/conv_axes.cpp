#include "dyad/nn/conv_axes.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/conv.h"

namespace dyad::nn {
namespace detail {

ConvParameters::ConvParameters(std::string_view layer, std::size_t axes, bool transposed,
                               std::int64_t in, std::int64_t out, const PerAxis& kernel,
                               std::int64_t groups, bool with_bias, DType dtype, Loc loc) {
  require_positive(layer, {{"in", in}, {"out", out}, {"groups", groups}}, loc);
  if (in % groups != 0 || out % groups != 0) {
    throw ValueError(
        fmt::format("{}: groups must divide in and out, found in = {}, out = {}, groups = {}",
                    layer, in, out, groups),
        loc.user());
  }
  const Ints sizes = kernel.over(axes);
  if (sizes.size() != axes) {
    throw ValueError(
        fmt::format("{}: kernel must be one number or {}, found {}", layer, axes, sizes.size()),
        loc.user());
  }
  Shape shape{transposed ? in : out, (transposed ? out : in) / groups};
  std::int64_t fan_in = (transposed ? out : in) / groups;
  for (const std::int64_t size : sizes) {
    require_positive(layer, {{"kernel", size}}, loc);
    shape.push_back(size);
    fan_in *= size;
  }
  weight = Parameter(init::fan_in_uniform(shape, fan_in, dtype, loc), loc);
  if (with_bias) bias = Parameter(init::fan_in_uniform({out}, fan_in, dtype, loc), loc);
}

}  // namespace detail

Conv1d::Conv1d(std::int64_t in, std::int64_t out, const PerAxis& kernel, const ConvOptions& o,
               Loc loc)
    : ConvParameters("Conv1d", 1, false, in, out, kernel, o.groups, o.bias, o.dtype, loc),
      options(o) {}
Tensor Conv1d::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return conv1d(x, weight, bias, options.stride, options.padding, options.dilation, options.groups,
                loc);
}

Conv3d::Conv3d(std::int64_t in, std::int64_t out, const PerAxis& kernel, const ConvOptions& o,
               Loc loc)
    : ConvParameters("Conv3d", 3, false, in, out, kernel, o.groups, o.bias, o.dtype, loc),
      options(o) {}
Tensor Conv3d::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return conv3d(x, weight, bias, options.stride, options.padding, options.dilation, options.groups,
                loc);
}

ConvTranspose1d::ConvTranspose1d(std::int64_t in, std::int64_t out, const PerAxis& kernel,
                                 const ConvTransposeOptions& o, Loc loc)
    : ConvParameters("ConvTranspose1d", 1, true, in, out, kernel, o.groups, o.bias, o.dtype, loc),
      options(o) {}
Tensor ConvTranspose1d::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return conv_transpose1d(x, weight, bias, options.stride, options.padding, options.output_padding,
                          options.groups, options.dilation, loc);
}

ConvTranspose2d::ConvTranspose2d(std::int64_t in, std::int64_t out, const PerAxis& kernel,
                                 const ConvTransposeOptions& o, Loc loc)
    : ConvParameters("ConvTranspose2d", 2, true, in, out, kernel, o.groups, o.bias, o.dtype, loc),
      options(o) {}
Tensor ConvTranspose2d::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return conv_transpose2d(x, weight, bias, options.stride, options.padding, options.output_padding,
                          options.groups, options.dilation, loc);
}

ConvTranspose3d::ConvTranspose3d(std::int64_t in, std::int64_t out, const PerAxis& kernel,
                                 const ConvTransposeOptions& o, Loc loc)
    : ConvParameters("ConvTranspose3d", 3, true, in, out, kernel, o.groups, o.bias, o.dtype, loc),
      options(o) {}
Tensor ConvTranspose3d::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return conv_transpose3d(x, weight, bias, options.stride, options.padding, options.output_padding,
                          options.groups, options.dilation, loc);
}

}  // namespace dyad::nn
