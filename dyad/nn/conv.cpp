#include "dyad/nn/conv.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/pooling.h"

namespace dyad::nn {

Conv2d::Conv2d(std::int64_t in, std::int64_t out, Pair kernel, const Conv2dOptions& options,
               Loc loc)
    : stride(options.stride),
      padding(options.padding),
      dilation(options.dilation),
      groups(options.groups) {
  require_positive("Conv2d",
                   {{"in", in},
                    {"out", out},
                    {"kernel rows", kernel.rows},
                    {"kernel columns", kernel.columns},
                    {"groups", groups}},
                   loc);
  if (in % groups != 0 || out % groups != 0) {
    throw ValueError(
        fmt::format("Conv2d: groups must divide in and out, found in = {}, out = {}, groups = {}",
                    in, out, groups),
        loc.user());
  }
  const std::int64_t fan_in = in / groups * kernel.rows * kernel.columns;
  weight = Parameter(init::fan_in_uniform({out, in / groups, kernel.rows, kernel.columns}, fan_in,
                                          options.dtype, loc),
                     loc);
  if (options.bias) bias = Parameter(init::fan_in_uniform({out}, fan_in, options.dtype, loc), loc);
}

Tensor Conv2d::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return conv2d(x, weight, bias, stride, padding, dilation, groups, loc);
}

Tensor MaxPool2d::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return max_pool2d(x, kernel, stride, padding, 1, false, loc);
}

Tensor AvgPool2d::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return avg_pool2d(x, kernel, stride, padding, true, false, 0, loc);
}

}  // namespace dyad::nn
