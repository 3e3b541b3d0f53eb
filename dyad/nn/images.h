#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dyad/nn/visitor.h"
#include "dyad/ops/im2col.h"
#include "dyad/ops/per_axis.h"
#include "dyad/ops/resize.h"

namespace dyad::nn {

// Layers that move or resample elements: they hold settings only.

/// pixel_shuffle(x, factor)
struct PixelShuffle {
  std::int64_t factor;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// pixel_unshuffle(x, factor)
struct PixelUnshuffle {
  std::int64_t factor;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// channel_shuffle(x, groups)
struct ChannelShuffle {
  std::int64_t groups;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

/// interpolate(x, options): the spatial axes of x[n, c, ...] in other sizes.
struct Upsample {
  InterpolateOptions options;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// Images by "nearest", and by "bilinear" with align_corners: `UpsamplingNearest2d({.scale_factor =
/// {2}})`. The mode of the options does not count.
struct UpsamplingNearest2d {
  InterpolateOptions options;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
struct UpsamplingBilinear2d {
  InterpolateOptions options;
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

struct WindowOptions {
  PerAxis dilation = 1;
  PerAxis padding = 0;
  PerAxis stride = 1;
};
/// im2col(): the windows of x[n, c, ...] as columns.
struct Unfold {
  PerAxis kernel;
  WindowOptions options = {};
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};
/// col2im(): columns added up to an image of these sizes.
struct Fold {
  Shape size;
  PerAxis kernel;
  WindowOptions options = {};
  Tensor operator()(const Tensor& columns, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}
};

namespace detail {

/// pad() of the last axes: the numbers of elements by side are those of PyTorch, the last axis
/// first (left, right, top, bottom, front, back), or one for all sides.
class PadLayer {
 public:
  PadLayer(std::string_view layer, std::size_t axes, std::string_view mode, const PerAxis& sides,
           double value, Loc loc);
  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor&) {}

  std::string mode;
  Ints sides;  ///< two for each axis
  double value;
};

}  // namespace detail

// Elements around the last one to three axes of x: one number for all sides, or two for each axis,
// the last axis first: ReflectionPad2d({left, right, top, bottom}). ValueError for another count;
// what may be mirrored is what pad() says.

template <std::size_t axes>
class ConstantPad : public detail::PadLayer {
 public:
  ConstantPad(const PerAxis& sides, double value, Loc loc = std::source_location::current())
      : PadLayer("ConstantPad", axes, "constant", sides, value, loc) {}
};
template <std::size_t axes>
class ZeroPad : public detail::PadLayer {
 public:
  explicit ZeroPad(const PerAxis& sides, Loc loc = std::source_location::current())
      : PadLayer("ZeroPad", axes, "constant", sides, 0, loc) {}
};
template <std::size_t axes>
class ReflectionPad : public detail::PadLayer {
 public:
  explicit ReflectionPad(const PerAxis& sides, Loc loc = std::source_location::current())
      : PadLayer("ReflectionPad", axes, "reflect", sides, 0, loc) {}
};
template <std::size_t axes>
class ReplicationPad : public detail::PadLayer {
 public:
  explicit ReplicationPad(const PerAxis& sides, Loc loc = std::source_location::current())
      : PadLayer("ReplicationPad", axes, "replicate", sides, 0, loc) {}
};
template <std::size_t axes>
class CircularPad : public detail::PadLayer {
 public:
  explicit CircularPad(const PerAxis& sides, Loc loc = std::source_location::current())
      : PadLayer("CircularPad", axes, "circular", sides, 0, loc) {}
};

using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;
using ZeroPad1d = ZeroPad<1>;
using ZeroPad2d = ZeroPad<2>;
using ZeroPad3d = ZeroPad<3>;
using ReflectionPad1d = ReflectionPad<1>;
using ReflectionPad2d = ReflectionPad<2>;
using ReflectionPad3d = ReflectionPad<3>;
using ReplicationPad1d = ReplicationPad<1>;
using ReplicationPad2d = ReplicationPad<2>;
using ReplicationPad3d = ReplicationPad<3>;
using CircularPad1d = CircularPad<1>;
using CircularPad2d = CircularPad<2>;
using CircularPad3d = CircularPad<3>;

}  // namespace dyad::nn
