#pragma once

#include <span>
#include <string_view>

#include "dyad/ir/onnx_node.h"
#include "dyad/ir/op_info.h"

namespace dyad::ops {

/// Adds the rows of every operator of this layer to the registry, once; later calls do nothing.
void register_builtin_ops();
/// The row of one of them, by its name.
[[nodiscard]] const OpInfo& builtin_op(std::string_view name);

/// The rows of each family, in the order of its file.
[[nodiscard]] std::span<const OpInfo* const> arithmetic_rows();
[[nodiscard]] std::span<const OpInfo* const> compare_rows();
[[nodiscard]] std::span<const OpInfo* const> elementary_rows();
[[nodiscard]] std::span<const OpInfo* const> trigonometry_rows();
[[nodiscard]] std::span<const OpInfo* const> special_rows();
[[nodiscard]] std::span<const OpInfo* const> numeric_rows();
[[nodiscard]] std::span<const OpInfo* const> bessel_rows();
[[nodiscard]] std::span<const OpInfo* const> division_rows();
[[nodiscard]] std::span<const OpInfo* const> bits_rows();
[[nodiscard]] std::span<const OpInfo* const> bitcast_rows();
[[nodiscard]] std::span<const OpInfo* const> activation_rows();
[[nodiscard]] std::span<const OpInfo* const> piecewise_rows();
[[nodiscard]] std::span<const OpInfo* const> reduce_rows();
[[nodiscard]] std::span<const OpInfo* const> extremes_rows();
[[nodiscard]] std::span<const OpInfo* const> moments_rows();
[[nodiscard]] std::span<const OpInfo* const> cumulative_rows();
[[nodiscard]] std::span<const OpInfo* const> sort_rows();
[[nodiscard]] std::span<const OpInfo* const> statistics_rows();
[[nodiscard]] std::span<const OpInfo* const> scatter_rows();
[[nodiscard]] std::span<const OpInfo* const> index_rows();
[[nodiscard]] std::span<const OpInfo* const> rearrange_rows();
[[nodiscard]] std::span<const OpInfo* const> views_rows();
[[nodiscard]] std::span<const OpInfo* const> slices_rows();
[[nodiscard]] std::span<const OpInfo* const> creation_rows();
[[nodiscard]] std::span<const OpInfo* const> indexing_rows();
[[nodiscard]] std::span<const OpInfo* const> linalg_rows();
[[nodiscard]] std::span<const OpInfo* const> einsum_rows();
[[nodiscard]] std::span<const OpInfo* const> solve_rows();
[[nodiscard]] std::span<const OpInfo* const> decompositions_rows();
[[nodiscard]] std::span<const OpInfo* const> conv_rows();
[[nodiscard]] std::span<const OpInfo* const> quantize_rows();
[[nodiscard]] std::span<const OpInfo* const> quantized_products_rows();
[[nodiscard]] std::span<const OpInfo* const> pooling_rows();
[[nodiscard]] std::span<const OpInfo* const> deform_conv_rows();
[[nodiscard]] std::span<const OpInfo* const> grid_sample_rows();
[[nodiscard]] std::span<const OpInfo* const> resize_rows();
[[nodiscard]] std::span<const OpInfo* const> roi_rows();
[[nodiscard]] std::span<const OpInfo* const> im2col_rows();
[[nodiscard]] std::span<const OpInfo* const> norm_rows();
[[nodiscard]] std::span<const OpInfo* const> group_norm_rows();
[[nodiscard]] std::span<const OpInfo* const> normalize_rows();
[[nodiscard]] std::span<const OpInfo* const> diagonal_rows();
[[nodiscard]] std::span<const OpInfo* const> loss_rows();
[[nodiscard]] std::span<const OpInfo* const> loss_function_rows();
[[nodiscard]] std::span<const OpInfo* const> random_rows();
[[nodiscard]] std::span<const OpInfo* const> checked_rows();
[[nodiscard]] std::span<const OpInfo* const> embedding_rows();
[[nodiscard]] std::span<const OpInfo* const> complex_rows();
[[nodiscard]] std::span<const OpInfo* const> fft_rows();
[[nodiscard]] std::span<const OpInfo* const> attention_rows();
[[nodiscard]] std::span<const OpInfo* const> recurrent_rows();
[[nodiscard]] std::span<const OpInfo* const> optimizer_step_rows();
[[nodiscard]] std::span<const OpInfo* const> positional_rows();
[[nodiscard]] std::span<const OpInfo* const> ctc_rows();
[[nodiscard]] std::span<const OpInfo* const> ctc_decode_rows();

/// What ONNX's operators mean, by the families of `<family>_onnx.cpp`.
[[nodiscard]] std::span<const OnnxRule> elementwise_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> reduce_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> shape_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> network_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> indexing_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> activation_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> sequences_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> fft_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> images_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> random_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> optimizers_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> quantize_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> quantize_contrib_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> fused_contrib_onnx_rules();
[[nodiscard]] std::span<const OnnxRule> attention_contrib_onnx_rules();

}  // namespace dyad::ops
