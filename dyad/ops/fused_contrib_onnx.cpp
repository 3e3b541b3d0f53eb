#include <optional>
#include <string>
#include <vector>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/embedding.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/network_onnx.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

// What the operators mean that ONNX Runtime writes in the place of several of ONNX's.

namespace dyad::ops {
namespace {

/// x normalised by its root mean square; where they are wanted, output 2 (or 1) is 1 over it.
void read_rms_norm(OnnxNode& n, const Tensor& x, const Shape& sizes, const Tensor& weight,
                   double eps, int deviation) {
  const DType dtype = weight.dtype();
  const DType common = x.dtype() == dtype ? dtype : f32;
  const Tensor y =
      rms_norm(to(x, common), expand(to(weight, common), sizes, n.loc()), eps, n.loc());
  n.output(0, to(y, dtype));
  if (!n.wants(deviation)) return;
  Ints axes;
  for (int i = x.rank() - sizes.rank(); i < x.rank(); ++i) axes.push_back(i);
  const Tensor wide = to(x, x.dtype() == f64 ? f64 : f32);
  n.output(deviation, rsqrt(add(mean(square(wide), axes, true, n.loc()), eps), n.loc()));
}

void simplified_layer_norm(OnnxNode& n) {
  const LocScope scope(n.loc());
  const Tensor x = n.input(0);
  read_rms_norm(n, x, normalized_sizes(n, x), n.input(1), n.number("epsilon", 1e-5), 1);
}

/// What a normalisation with a residual works on, and its last result: the sum of two inputs and a
/// bias.
Tensor residual_sum(OnnxNode& n, int bias) {
  Tensor sum = n.input(0) + n.input(1);
  if (n.has(bias)) sum = sum + n.input(bias);
  if (n.wants(3)) n.output(3, sum);
  return sum;
}

constexpr double kFusedEpsilon = 1e-12;

void skip_layer_norm(OnnxNode& n) {
  const LocScope scope(n.loc());
  const Tensor sum = residual_sum(n, 4);
  read_layer_norm(n, sum, {sum.size(-1)}, n.input(2), n.input(3),
                  n.number("epsilon", kFusedEpsilon));
}

void skip_simplified_layer_norm(OnnxNode& n) {
  const LocScope scope(n.loc());
  if (n.wants(1)) n.fail("its second result, the mean, is not computed");
  const Tensor sum = residual_sum(n, 3);
  read_rms_norm(n, sum, {sum.size(-1)}, n.input(2), n.number("epsilon", kFusedEpsilon), 2);
}

void embed_layer_norm(OnnxNode& n) {
  const LocScope scope(n.loc());
  const Tensor ids = n.input(0);
  const Tensor places = n.has(8) ? n.input(8) : arange(ids.size(1), i64);
  Tensor sum = embedding(ids, n.input(2)) + embedding(places, n.input(3));
  if (n.has(1) && n.has(4)) sum = sum + embedding(n.input(1), n.input(4));
  const double eps = n.number("epsilon", kFusedEpsilon);
  n.output(0, layer_norm(sum, n.input(5), n.input(6), eps));
  if (n.wants(1)) {
    n.output(1, n.has(7) ? to(dyad::sum(to(eq(n.input(7), 1), i64), {1}), i32)
                         : zeros({ids.size(0)}, i32));
  }
  if (n.wants(2)) n.output(2, sum);
}

void bias_gelu(OnnxNode& n) { n.output(0, gelu(add(n.input(0), n.input(1)), false, n.loc())); }

void fast_gelu(OnnxNode& n) {
  const Tensor x = n.input(0);
  n.output(0, gelu(n.has(1) ? add(x, n.input(1), n.loc()) : x, true, n.loc()));
}

void exact_gelu(OnnxNode& n) { n.output(0, gelu(n.input(0), false, n.loc())); }

void quick_gelu_of(OnnxNode& n) {
  n.output(0, swish(n.input(0), n.number("alpha", 1.702), n.loc()));
}

/// An operand with its first axis behind the axes of the batch, or its last two swapped.
Tensor operand_of(OnnxNode& n, int i, const char* batch_first, const char* swapped) {
  Tensor x = n.input(i);
  if (x.rank() < 2) return x;
  if (n.flag(batch_first)) {
    Ints axes;
    for (int a = 1; a + 1 < x.rank(); ++a) axes.push_back(a);
    axes.push_back(0);
    axes.push_back(x.rank() - 1);
    x = permute(x, axes, n.loc());
  }
  return n.flag(swapped) ? transpose(x, -2, -1, n.loc()) : x;
}

void fused_matmul(OnnxNode& n) {
  const Tensor product = matmul(operand_of(n, 0, "transBatchA", "transA"),
                                operand_of(n, 1, "transBatchB", "transB"), n.loc());
  const double alpha = n.number("alpha", 1);
  n.output(0, alpha == 1 ? product : mul(product, alpha, n.loc()));
}

/// y through the activation that the node names, with these numbers or those that ONNX's operator
/// of that name has by default.
Tensor activated(OnnxNode& n, const Tensor& y, const std::vector<std::optional<double>>& numbers) {
  const auto number = [&](std::size_t i, double otherwise) {
    return i < numbers.size() ? numbers[i].value_or(otherwise) : otherwise;
  };
  const std::string name = n.text("activation", "");
  const Loc loc = n.loc();
  if (name.empty()) return y;
  if (name == "Relu") return relu(y, loc);
  if (name == "Tanh") return tanh(y, loc);
  if (name == "Sigmoid") return sigmoid(y, loc);
  if (name == "LeakyRelu") return leaky_relu(y, number(0, 0.01), loc);
  if (name == "Clip") return clamp(y, number(0, -kInfinity), number(1, kInfinity), loc);
  if (name == "HardSigmoid") return hardsigmoid(y, number(0, 0.2), number(1, 0.5), loc);
  if (name == "Elu") return elu(y, number(0, 1), loc);
  if (name == "Softplus") return softplus(y, 1, loc);
  if (name == "Softsign") return softsign(y, loc);
  if (name != "ThresholdedRelu") n.fail("its activation is '" + name + "'");
  return thresholded_relu(y, number(0, 1), loc);
}

void fused_gemm(OnnxNode& n) {
  std::vector<std::optional<double>> numbers;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    numbers.push_back(n.has_attribute(name) ? std::optional(n.number(name, 0)) : std::nullopt);
  }
  n.output(0, activated(n, read_gemm(n), numbers));
}

void fused_conv(OnnxNode& n) {
  Tensor y = read_conv(n);
  if (n.has(3)) y = add(y, n.input(3), n.loc());
  std::vector<std::optional<double>> numbers;
  for (const double number : n.numbers("activation_params")) numbers.emplace_back(number);
  n.output(0, activated(n, y, numbers));
}

}  // namespace

std::span<const OnnxRule> fused_contrib_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      // ONNX Runtime writes it into ONNX's own domain.
      {"SimplifiedLayerNormalization", 1, simplified_layer_norm},
      {"SimplifiedLayerNormalization", 1, simplified_layer_norm, kRuntimeDomain},
      {"SkipLayerNormalization", 1, skip_layer_norm, kRuntimeDomain},
      {"SkipSimplifiedLayerNormalization", 1, skip_simplified_layer_norm, kRuntimeDomain},
      {"EmbedLayerNormalization", 1, embed_layer_norm, kRuntimeDomain},
      {"BiasGelu", 1, bias_gelu, kRuntimeDomain},
      {"FastGelu", 1, fast_gelu, kRuntimeDomain},
      {"Gelu", 1, exact_gelu, kRuntimeDomain},
      {"QuickGelu", 1, quick_gelu_of, kRuntimeDomain},
      {"FusedMatMul", 1, fused_matmul, kRuntimeDomain},
      {"TransposeMatMul", 1, fused_matmul, kRuntimeDomain},
      {"FusedGemm", 1, fused_gemm, kRuntimeDomain},
      {"FusedConv", 1, fused_conv, kRuntimeDomain},
  };
  return kRules;
}

}  // namespace dyad::ops
