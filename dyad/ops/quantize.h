#pragma once

#include <optional>

#include "dyad/core/tensor.h"
#include "dyad/ops/per_axis.h"

namespace dyad {

// Quantisation as ONNX has it: a tensor of small numbers q stands for (q - zero_point) * scale.
// Scales and zero points are scalars (for the whole tensor), vectors (for each index along an axis)
// or, with a block size, tensors of x's rank with one element for so many along the axis.
// ShapeError when they do not fit x, DTypeError, ValueError.

/// A quantised tensor and what its numbers mean.
struct Quantized {
  Tensor values;
  Tensor scale;
  Tensor zero_point;
};

struct QuantizeArgs {
  /// Of the result; that of the zero point when there is one, otherwise u8. One of u8 i8 u16 i16 u4
  /// i4 u2 i2, f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz and f4e2m1.
  std::optional<DType> dtype = {};
  std::int64_t axis = 1;        ///< of vectors and blocks
  std::int64_t block_size = 0;  ///< elements along the axis that share a scale; 0: no blocks
  bool saturate = true;  ///< floats of 8 bits: too large numbers become the largest one, otherwise
                         ///< infinity or NaN
  /// What x / scale is computed in; the dtype of scale unless said.
  std::optional<DType> precision = {};
};

/// saturate(round(x / scale) + zero_point), ties to even, NaN gives the smallest number; for floats
/// of 8 bits x / scale rounded to them, and the zero point must be 0. The result is no
/// differentiable tensor: training goes through fake_quantize().
[[nodiscard]] Tensor quantize_linear(const Tensor& x, const Arg& scale,
                                     const Tensor& zero_point = {}, const QuantizeArgs& args = {},
                                     Loc loc = std::source_location::current());

struct DequantizeArgs {
  std::int64_t axis = 1;
  std::int64_t block_size = 0;
  std::optional<DType> dtype = {};  ///< of the result; that of scale unless said
};

/// (x - zero_point) * scale, computed in f32 (f64 when the scale is); differentiable by scale.
[[nodiscard]] Tensor dequantize_linear(const Tensor& x, const Arg& scale,
                                       const Tensor& zero_point = {},
                                       const DequantizeArgs& args = {},
                                       Loc loc = std::source_location::current());

/// x f32 as u8 by its own range, which 0 always belongs to: scale = (max - min) / 255, zero_point =
/// round(-min / scale). Of zeros alone the scale is 1.
[[nodiscard]] Quantized dynamic_quantize_linear(const Tensor& x,
                                                Loc loc = std::source_location::current());

/// What quantisation to the numbers `low` to `high` leaves of x: (clamp(round(x / scale) +
/// zero_point, low, high) - zero_point) * scale, in x's dtype. Gradients go straight through the
/// rounding: that by x is the result's where x lies in the range and 0 beyond it (as in PyTorch's
/// fake_quantize_per_tensor_affine and fake_quantize_per_channel_affine), those by scale and a
/// floating zero point are those of learned step size quantisation (Esser et al., 2020).
[[nodiscard]] Tensor fake_quantize(const Tensor& x, const Arg& scale, const Arg& zero_point,
                                   std::int64_t low, std::int64_t high, std::int64_t axis = 0,
                                   Loc loc = std::source_location::current());

// Products of i8 and u8 numbers, exact in i32 (modulo 2^32), on any CPU.

/// (a - a_zero_point) @ (b - b_zero_point), as matmul(). a_zero_point is a scalar, [rows] or
/// [..., rows, 1]; b_zero_point a scalar, [columns] or [..., 1, columns].
[[nodiscard]] Tensor matmul_integer(const Tensor& a, const Tensor& b,
                                    const Tensor& a_zero_point = {},
                                    const Tensor& b_zero_point = {},
                                    Loc loc = std::source_location::current());
/// The convolution of (x - x_zero_point), with zeros around it, and (weight - weight_zero_point)
/// over one to three spatial axes: see conv2d(). x_zero_point is a scalar, weight_zero_point a
/// scalar or [o].
[[nodiscard]] Tensor conv_integer(const Tensor& x, const Tensor& weight,
                                  const Tensor& x_zero_point = {},
                                  const Tensor& weight_zero_point = {}, const PerAxis& stride = 1,
                                  const Padding& padding = 0, const PerAxis& dilation = 1,
                                  std::int64_t groups = 1,
                                  Loc loc = std::source_location::current());

/// The product of quantised matrices, quantised by `scale` and `zero_point` (which has the dtype of
/// the result): saturate(round(p * (a.scale * b.scale / scale)) + zero_point) with p from
/// matmul_integer(). Scales and zero points of a may be for each row, those of b for each column.
/// Floats of 8 bits are multiplied in f32.
[[nodiscard]] Tensor qlinear_matmul(const Quantized& a, const Quantized& b, const Arg& scale,
                                    const Tensor& zero_point,
                                    Loc loc = std::source_location::current());
/// The same of conv_integer(); `bias` [o] is i32, in units of x.scale * weight.scale. Scale and
/// zero point of the weight may be for each output channel.
[[nodiscard]] Tensor qlinear_conv(const Quantized& x, const Quantized& weight, const Arg& scale,
                                  const Tensor& zero_point, const Tensor& bias = {},
                                  const PerAxis& stride = 1, const Padding& padding = 0,
                                  const PerAxis& dilation = 1, std::int64_t groups = 1,
                                  Loc loc = std::source_location::current());

}  // namespace dyad
