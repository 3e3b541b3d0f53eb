#pragma once

#include <utility>

#include "dyad/core/tensor.h"
#include "dyad/ir/onnx_node.h"
#include "dyad/ops/quantize.h"

/// What the operators on quantised numbers share. For the .cpp files of this layer.
namespace dyad::ops {

inline constexpr DTypeSet kF32 = set_of(DType::f32);
/// What quantisation writes.
inline constexpr DTypeSet kQuantized =
    set_of({DType::u8, DType::i8, DType::u16, DType::i16, DType::f4e2m1}) | kSmallInteger |
    (kFloat8 & ~set_of(DType::f8e8m0));

struct QuantizeLinearAttrs {
  DType dtype = DType::u8;
  bool saturate = true;
  DType precision = DType::f32;
  bool by_factor = false;  ///< `scale` is what x is multiplied with, not divided by
};

/// The smallest and the largest number of an integer dtype of up to 32 bits.
[[nodiscard]] std::pair<double, double> bounds_of(DType dtype);

/// saturate(round(sums * factor) + zero_point) in the dtype of the zero point; the operands
/// broadcast to `sums`.
[[nodiscard]] Tensor requantize(const Tensor& sums, const Tensor& factor, const Tensor& zero_point,
                                Loc loc);

/// Three inputs of a node: values, scale and zero point.
[[nodiscard]] Quantized quantized_input(OnnxNode& n, int first);
/// What QuantizeLinear and DequantizeLinear mean, in ONNX and in ONNX Runtime's domain.
void read_quantize_linear(OnnxNode& n);
void read_dequantize_linear(OnnxNode& n);

}  // namespace dyad::ops
