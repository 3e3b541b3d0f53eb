#include "dyad/nn/conv.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/rearrange.h"

namespace dyad::nn::detail {

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

Tensor padded(std::string_view layer, const Tensor& x, std::size_t axes, const ConvOptions& options,
              Loc loc) {
  Ints sides = options.padding.values();
  if (sides.size() == 1) sides = Ints(axes, sides[0]);
  const bool both = sides.size() == axes;
  if (!options.padding.name().empty() || (!both && sides.size() != 2 * axes)) {
    throw ValueError(fmt::format("{}: with padding_mode \"{}\" the padding is one number, {} or {}",
                                 layer, options.padding_mode, axes, 2 * axes),
                     loc.user());
  }
  Shape low(static_cast<std::size_t>(x.rank()), Dim(0)), high = low;
  const std::size_t first = static_cast<std::size_t>(x.rank()) - axes;
  for (std::size_t i = 0; i < axes; ++i) {
    low[first + i] = sides[i];
    high[first + i] = sides[both ? i : axes + i];
  }
  return pad(x, low, high, options.padding_mode, loc);
}

}  // namespace dyad::nn::detail
