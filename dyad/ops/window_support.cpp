#include "dyad/ops/window_support.h"

namespace dyad::ops {
namespace {

constexpr std::string_view kSides[] = {"depth", "height", "width"};

/// The name of a spatial axis: the last is the width.
std::string side_name(std::size_t axis, std::size_t axes) {
  return std::string(axes == 1 ? "length" : kSides[axis + 3 - axes]);
}

Dim reach_of(Dim kernel, std::int64_t dilation) { return (kernel - 1) * dilation + 1; }

void require_sides(const InferIn& in, const Shape& sides, std::size_t axes, std::string_view name) {
  bool fits = sides.size() == axes;
  for (const Dim side : sides) fits = fits && (side.is_symbolic() || side.number() >= 0);
  if (!fits) {
    fail_value(in, "padding must be one number from 0 for all sides, one for each of the " +
                       std::to_string(axes) + " spatial axes, or two for each; " +
                       std::string(name) + " is " + to_string(sides));
  }
}

}  // namespace

Shape spatial_sizes(const Shape& shape) {
  Shape sizes;
  for (std::size_t i = 2; i < shape.size(); ++i) sizes.push_back(shape[i]);
  return sizes;
}

Shape spatial_sizes(const Tensor& x, std::size_t axes, Loc loc) {
  if (!x.defined() || static_cast<std::size_t>(x.rank()) != axes + 2) return {};
  return spatial_sizes(sizes_of(x, loc));
}

Sides sides_of(const Padding& padding, std::string_view function, Loc loc, std::size_t axes,
               const Shape& sizes, const Shape& kernel, const Ints& stride, const Ints& dilation) {
  const std::string& name = padding.name();
  const Ints& values = padding.values();
  Sides sides;
  if (name.empty() || name == "valid") {
    const bool each = values.size() == axes, both = values.size() == 2 * axes;
    if (values.size() != 1 && !each && !both) return {Shape(values), Shape(values)};
    for (std::size_t i = 0; i < axes; ++i) {
      sides.low.push_back(values[values.size() == 1 ? 0 : i]);
      sides.high.push_back(values[values.size() == 1 ? 0 : both ? axes + i : i]);
    }
    return sides;
  }
  if (name != "same" && name != "same_upper" && name != "same_lower") {
    throw ValueError(std::string(function) + ": padding = \"" + name +
                         "\" must be numbers, \"valid\", \"same\", \"same_upper\" or "
                         "\"same_lower\"",
                     loc.user());
  }
  sides.low = sides.high = Shape(axes, 0);
  if (sizes.size() != axes || kernel.size() != axes || stride.size() != axes ||
      dilation.size() != axes) {
    return sides;
  }
  for (std::size_t i = 0; i < axes; ++i) {
    if (stride[i] < 1) return sides;
    const Dim reach = reach_of(kernel[i], dilation[i]);
    const Dim total =
        stride[i] == 1 ? reach - 1
                       : max((ceil_div(sizes[i], stride[i]) - 1) * stride[i] + reach - sizes[i], 0);
    sides.low[i] = name == "same_lower" ? ceil_div(total, 2) : total / 2;
    sides.high[i] = total - sides.low[i];
  }
  return sides;
}

void require_spatial(const InferIn& in, std::size_t axes) {
  if (axes <= 3) return;
  fail_value(in, "windows have one to three spatial axes, not " + std::to_string(axes));
}

void require_image(const InferIn& in, std::size_t i, std::size_t axes) {
  require_spatial(in, axes);
  if (static_cast<std::size_t>(in[i].rank()) == axes + 2) return;
  std::string wanted = "n, c";
  for (std::size_t a = 0; a < axes; ++a) wanted += ", " + side_name(a, axes);
  fail_shape(in, std::string(input_info(in.op, i)->name) + " must be [" + wanted + "] but has " +
                     std::to_string(in[i].rank()) + " axes");
}

void require_numbers(const InferIn& in, const Ints& values, std::size_t axes, std::int64_t least,
                     std::string_view name) {
  bool fits = values.size() == axes;
  for (const std::int64_t value : values) fits = fits && value >= least;
  if (!fits) {
    fail_value(in, std::string(name) + " must be one number from " + std::to_string(least) +
                       " for all spatial axes or one for each of the " + std::to_string(axes));
  }
}

void require_windows(const InferIn& in, const Windows& windows) {
  const std::size_t axes = windows.kernel.size();
  require_numbers(in, windows.stride, axes, 1, "stride");
  require_numbers(in, windows.dilation, axes, 1, "dilation");
  require_sides(in, windows.low, axes, "low");
  require_sides(in, windows.high, axes, "high");
}

void require_shape(const InferIn& in, const Shape& wanted) {
  const Shape& shape = in[0].shape();
  bool fits = shape.size() == wanted.size();
  for (std::size_t i = 0; fits && i < wanted.size(); ++i) {
    fits = !shape[i].is_number() || !wanted[i].is_number() || shape[i].same_as(wanted[i]);
  }
  if (!fits) {
    fail_shape(in, std::string(input_info(in.op, 0)->name) + " is " + to_string(shape) +
                       " but must be " + to_string(wanted));
  }
}

void append_window_counts(const InferIn& in, const Shape& sizes, const Windows& windows,
                          Shape& shape) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Dim reach = reach_of(windows.kernel[i], windows.dilation[i]);
    const Dim padded = sizes[i] + windows.low[i] + windows.high[i];
    const std::int64_t stride = windows.stride[i];
    // With ceil_mode a window may reach beyond the end if the next one would not begin there.
    const Dim least = windows.ceil_mode ? reach - stride + 1 : reach;
    if (padded.is_number() && reach.is_number() && padded < least) {
      fail_shape(in, "the " + side_name(i, sizes.size()) + " with padding is " + to_string(padded) +
                         ", less than the kernel's " + to_string(reach));
    }
    shape.push_back(windows.ceil_mode ? min(ceil_div(padded - reach, stride) + 1,
                                            ceil_div(sizes[i] + windows.low[i], stride))
                                      : (padded - reach) / stride + 1);
  }
}

std::vector<std::int64_t> onnx_list(const Ints& values) { return {values.begin(), values.end()}; }

std::vector<std::int64_t> onnx_pads(OnnxEmitter& e, const Shape& low, const Shape& high) {
  std::vector<std::int64_t> pads;
  for (const Shape* sides : {&low, &high}) {
    for (const Dim side : *sides) {
      if (side.is_symbolic()) {
        e.fail("its padding depends on a size that is open (" + to_string(side) +
               "); fix the size, or pad() by numbers");
      }
      pads.push_back(side.number());
    }
  }
  return pads;
}

}  // namespace dyad::ops
