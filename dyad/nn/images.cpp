#include "dyad/nn/images.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/layers.h"
#include "dyad/ops/rearrange.h"

namespace dyad::nn {

Tensor PixelShuffle::operator()(const Tensor& x, Loc loc) const {
  return pixel_shuffle(x, factor, loc);
}
Tensor PixelUnshuffle::operator()(const Tensor& x, Loc loc) const {
  return pixel_unshuffle(x, factor, loc);
}
Tensor ChannelShuffle::operator()(const Tensor& x, Loc loc) const {
  return channel_shuffle(x, groups, loc);
}
Tensor Upsample::operator()(const Tensor& x, Loc loc) const { return interpolate(x, options, loc); }
Tensor UpsamplingNearest2d::operator()(const Tensor& x, Loc loc) const {
  InterpolateOptions chosen = options;
  chosen.mode = "nearest";
  return interpolate(x, chosen, loc);
}
Tensor UpsamplingBilinear2d::operator()(const Tensor& x, Loc loc) const {
  InterpolateOptions chosen = options;
  chosen.mode = "bilinear";
  chosen.align_corners = true;
  return interpolate(x, chosen, loc);
}
Tensor Unfold::operator()(const Tensor& x, Loc loc) const {
  return im2col(x, kernel, options.dilation, options.padding, options.stride, loc);
}
Tensor Fold::operator()(const Tensor& columns, Loc loc) const {
  return col2im(columns, size, kernel, options.dilation, options.padding, options.stride, loc);
}

namespace detail {

PadLayer::PadLayer(std::string_view layer, std::size_t axes, std::string_view mode,
                   const PerAxis& sides, double value, Loc loc)
    : mode(mode), sides(sides.over(2 * axes)), value(value) {
  if (this->sides.size() != 2 * axes) {
    throw ValueError(fmt::format("{}{}d: sides must be one number or {}, found {}", layer, axes,
                                 2 * axes, this->sides.size()),
                     loc.user());
  }
}

Tensor PadLayer::operator()(const Tensor& x, Loc loc) const {
  const auto rank = static_cast<std::size_t>(x.rank());
  if (rank < sides.size() / 2) {
    throw ShapeError(fmt::format("a padding of {} axes of {}: there are fewer", sides.size() / 2,
                                 type_string(x)),
                     loc.user());
  }
  Shape low(rank, Dim(0)), high = low;
  for (std::size_t i = 0; i < sides.size() / 2; ++i) {
    low[rank - 1 - i] = sides[2 * i];
    high[rank - 1 - i] = sides[2 * i + 1];
  }
  if (mode == "constant") return pad(x, low, high, value, loc);
  return pad(x, low, high, mode, loc);
}

}  // namespace detail
}  // namespace dyad::nn
