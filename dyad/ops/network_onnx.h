#pragma once

#include "dyad/ir/onnx_node.h"

namespace dyad::ops {

// Meanings of ONNX's operators that fused operators begin or end with.

/// What Gemm and Conv compute of a node's inputs and attributes.
[[nodiscard]] Tensor read_gemm(OnnxNode& n);
[[nodiscard]] Tensor read_conv(OnnxNode& n);

/// Output 0: x normalised over its last axes, whose sizes are given; where they are wanted, 1 and
/// 2: the mean and 1 over the deviation. weight and bias broadcast, and may be undefined.
void read_layer_norm(OnnxNode& n, const Tensor& x, const Shape& sizes, const Tensor& weight,
                     const Tensor& bias, double eps);
/// The sizes of x from the axis on that the node names, the last one unless it does.
[[nodiscard]] Shape normalized_sizes(OnnxNode& n, const Tensor& x);

/// [b, l, heads * d] -> [b, heads, l, d]; what has four axes stays.
[[nodiscard]] Tensor with_heads(const Tensor& x, std::int64_t heads, Loc loc);
/// [b, heads, l, d] -> [b, l, heads * d]
[[nodiscard]] Tensor without_heads(const Tensor& x, Loc loc);

}  // namespace dyad::ops
