#pragma once

#include <string>
#include <vector>

#include "dyad/ops/op_support.h"
#include "dyad/ops/per_axis.h"
#include "dyad/ops/views.h"

/// What the operators that slide windows over spatial axes share. For the .cpp files of this layer.
namespace dyad::ops {

/// What ONNX's convolution and pools take.
inline constexpr DTypeSet kOnnxImage = kFloat & ~set_of(DType::bf16);

/// What is added before and after each axis.
struct Sides {
  Shape low, high;
};

/// Windows as the numbers of one call.
struct Windows {
  Shape kernel;
  const Ints &stride, &dilation;
  const Shape &low, &high;
  bool ceil_mode = false;
};

/// The spatial sizes of x, none when it has not `axes` of them (infer refuses it).
[[nodiscard]] Shape spatial_sizes(const Tensor& x, std::size_t axes, Loc loc);
[[nodiscard]] Shape spatial_sizes(const Shape& shape);

/// What `images`, which takes x[n, c, ...], gives of x; of x[c, ...] it is the one image's.
template <class Images>
[[nodiscard]] Tensor of_images(const Tensor& x, std::size_t axes, Loc loc, Images&& images) {
  const bool alone = x.defined() && x.rank() == static_cast<int>(axes) + 1;
  return alone ? squeeze(images(unsqueeze(x, 0, loc)), {0}, loc) : images(x);
}

/// `padding` for windows of `kernel` elements over these sizes; lists of no fitting length come out
/// as they are, for infer to refuse. ValueError for a name that there is not.
[[nodiscard]] Sides sides_of(const Padding& padding, std::string_view function, Loc loc,
                             std::size_t axes, const Shape& sizes, const Shape& kernel,
                             const Ints& stride, const Ints& dilation);

/// ValueError for windows of more than three spatial axes: kernels have room for three.
void require_spatial(const InferIn& in, std::size_t axes);
/// Input i must be [n, channels, ...] with `axes` spatial axes.
void require_image(const InferIn& in, std::size_t i, std::size_t axes);
/// One number of at least `least` for each spatial axis.
void require_numbers(const InferIn& in, const Ints& values, std::size_t axes, std::int64_t least,
                     std::string_view name);
/// stride, dilation and both sides of the padding.
void require_windows(const InferIn& in, const Windows& windows);
/// The first operand must have this shape, as far as sizes are known.
void require_shape(const InferIn& in, const Shape& wanted);

/// How many windows fit along each spatial axis: appended to `shape`.
void append_window_counts(const InferIn& in, const Shape& sizes, const Windows& windows,
                          Shape& shape);

/// `values` as ONNX has them, or nothing when one is no number.
[[nodiscard]] std::vector<std::int64_t> onnx_list(const Ints& values);
/// ONNX's `pads`; the export fails when they depend on an open size.
[[nodiscard]] std::vector<std::int64_t> onnx_pads(OnnxEmitter& e, const Shape& low,
                                                  const Shape& high);

}  // namespace dyad::ops
