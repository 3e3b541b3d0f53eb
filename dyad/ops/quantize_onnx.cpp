#include <string>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/conv_support.h"
#include "dyad/ops/quantize.h"
#include "dyad/ops/quantize_support.h"
#include "dyad/ops/registry.h"

// What ONNX's operators on quantised numbers mean.

namespace dyad::ops {
namespace {

void dynamic_quantize(OnnxNode& n) {
  const auto [values, scale, zero_point] = dynamic_quantize_linear(n.input(0), n.loc());
  n.output(0, values);
  n.output(1, scale);
  n.output(2, zero_point);
}

void integer_product(OnnxNode& n) {
  n.output(0, matmul_integer(n.input(0), n.input(1), n.input(2), n.input(3), n.loc()));
}

void integer_conv(OnnxNode& n) {
  n.output(
      0, conv_integer(n.input(0), n.input(1), n.input(2), n.input(3), n.integers("strides", {1}),
                      padding_of(n), n.integers("dilations", {1}), n.integer("group", 1), n.loc()));
}

void quantized_product(OnnxNode& n) {
  n.output(0, qlinear_matmul(quantized_input(n, 0), quantized_input(n, 3), n.input(6), n.input(7),
                             n.loc()));
}

void quantized_conv(OnnxNode& n) {
  n.output(0, qlinear_conv(quantized_input(n, 0), quantized_input(n, 3), n.input(6), n.input(7),
                           n.input(8), n.integers("strides", {1}), padding_of(n),
                           n.integers("dilations", {1}), n.integer("group", 1), n.loc()));
}

}  // namespace

std::span<const OnnxRule> quantize_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"QuantizeLinear", 10, read_quantize_linear},
      {"DequantizeLinear", 10, read_dequantize_linear},
      {"DynamicQuantizeLinear", 11, dynamic_quantize},
      {"MatMulInteger", 10, integer_product},
      {"ConvInteger", 10, integer_conv},
      {"QLinearMatMul", 10, quantized_product},
      {"QLinearConv", 10, quantized_conv},
  };
  return kRules;
}

Quantized quantized_input(OnnxNode& n, int first) {
  return {n.input(first), n.input(first + 1), n.input(first + 2)};
}

void read_quantize_linear(OnnxNode& n) {
  QuantizeArgs args{.axis = n.integer("axis", 1),
                    .block_size = n.integer("block_size", 0),
                    .saturate = n.flag("saturate", true)};
  if (n.integer("output_dtype", 0) != 0) args.dtype = n.dtype("output_dtype", DType::u8);
  if (n.integer("precision", 0) != 0) args.precision = n.dtype("precision", DType::f32);
  n.output(0, quantize_linear(n.input(0), n.input(1), n.input(2), args, n.loc()));
}

void read_dequantize_linear(OnnxNode& n) {
  DequantizeArgs args{.axis = n.integer("axis", 1), .block_size = n.integer("block_size", 0)};
  if (n.integer("output_dtype", 0) != 0) args.dtype = n.dtype("output_dtype", DType::f32);
  n.output(0, dequantize_linear(n.input(0), n.input(1), n.input(2), args, n.loc()));
}

}  // namespace dyad::ops
