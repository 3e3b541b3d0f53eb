#include "dyad/ops/registry.h"

namespace dyad::ops {

void register_builtin_ops() {
  static const bool done = [] {
    register_ops(arithmetic_rows());
    register_ops(compare_rows());
    register_ops(elementary_rows());
    register_ops(trigonometry_rows());
    register_ops(special_rows());
    register_ops(numeric_rows());
    register_ops(bessel_rows());
    register_ops(division_rows());
    register_ops(bits_rows());
    register_ops(bitcast_rows());
    register_ops(activation_rows());
    register_ops(piecewise_rows());
    register_ops(reduce_rows());
    register_ops(extremes_rows());
    register_ops(moments_rows());
    register_ops(cumulative_rows());
    register_ops(sort_rows());
    register_ops(statistics_rows());
    register_ops(scatter_rows());
    register_ops(index_rows());
    register_ops(rearrange_rows());
    register_ops(views_rows());
    register_ops(slices_rows());
    register_ops(creation_rows());
    register_ops(indexing_rows());
    register_ops(linalg_rows());
    register_ops(einsum_rows());
    register_ops(solve_rows());
    register_ops(decompositions_rows());
    register_ops(conv_rows());
    register_ops(quantize_rows());
    register_ops(quantized_products_rows());
    register_ops(pooling_rows());
    register_ops(deform_conv_rows());
    register_ops(im2col_rows());
    register_ops(grid_sample_rows());
    register_ops(resize_rows());
    register_ops(roi_rows());
    register_ops(norm_rows());
    register_ops(group_norm_rows());
    register_ops(normalize_rows());
    register_ops(diagonal_rows());
    register_ops(loss_rows());
    register_ops(loss_function_rows());
    register_ops(random_rows());
    register_ops(checked_rows());
    register_ops(embedding_rows());
    register_ops(complex_rows());
    register_ops(fft_rows());
    register_ops(attention_rows());
    register_ops(recurrent_rows());
    register_ops(optimizer_step_rows());
    register_ops(positional_rows());
    register_ops(ctc_rows());
    register_ops(ctc_decode_rows());
    register_onnx_rules(elementwise_onnx_rules());
    register_onnx_rules(reduce_onnx_rules());
    register_onnx_rules(shape_onnx_rules());
    register_onnx_rules(network_onnx_rules());
    register_onnx_rules(indexing_onnx_rules());
    register_onnx_rules(activation_onnx_rules());
    register_onnx_rules(sequences_onnx_rules());
    register_onnx_rules(fft_onnx_rules());
    register_onnx_rules(images_onnx_rules());
    register_onnx_rules(random_onnx_rules());
    register_onnx_rules(optimizers_onnx_rules());
    register_onnx_rules(quantize_onnx_rules());
    register_onnx_rules(quantize_contrib_onnx_rules());
    register_onnx_rules(fused_contrib_onnx_rules());
    register_onnx_rules(attention_contrib_onnx_rules());
    return true;
  }();
  (void)done;
}

const OpInfo& builtin_op(std::string_view name) {
  register_builtin_ops();
  return *find_op(name);
}

}  // namespace dyad::ops
