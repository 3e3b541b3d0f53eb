#include "dyad/ir/onnx_node.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

// ONNX's activations with attributes.

namespace dyad::ops {
namespace {

void selu_of(OnnxNode& n) {
  constexpr double kAlpha = 1.67326319217681884765625, kGamma = 1.05070102214813232421875;
  const double alpha = n.number("alpha", kAlpha), gamma = n.number("gamma", kGamma);
  n.output(0, mul(elu(n.input(0), alpha, n.loc()), gamma, n.loc()));
}

void prelu_with(OnnxNode& n, const Tensor& slope) {
  const Tensor x = n.input(0);
  n.output(0, where(ge(x, 0, n.loc()), x, mul(x, slope, n.loc()), n.loc()));
}
/// The slopes broadcast to x as NumPy broadcasts.
void prelu_of(OnnxNode& n) { prelu_with(n, n.input(1)); }
/// Before version 7: one slope, or one for each channel.
void prelu_of_channels(OnnxNode& n) {
  Tensor slope = n.input(1);
  while (slope.rank() + 1 < n.input(0).rank()) slope = unsqueeze(slope, -1, n.loc());
  prelu_with(n, slope);
}

/// x above lambda less the bias, x below -lambda plus the bias, 0 between.
void shrink(OnnxNode& n) {
  const Tensor x = n.input(0);
  const double lambda = n.number("lambd", 0.5), bias = n.number("bias", 0);
  const Tensor zero = mul(x, 0, n.loc());
  const Tensor below = where(lt(x, -lambda), to(add(x, bias), x.dtype()), zero, n.loc());
  n.output(0, where(gt(x, lambda), to(sub(x, bias), x.dtype()), below, n.loc()));
}

void hardmax_of_rest(OnnxNode& n) {
  const Tensor x = n.input(0);
  const Tensor flat = flatten(x, n.integer("axis", 1), -1, n.loc());
  n.output(0, reshape(hardmax(flat, -1, n.loc()), sizes_of(x, n.loc()), n.loc()));
}

template <Tensor (*f)(const Tensor&, double, Loc)>
void with_alpha(OnnxNode& n, double otherwise) {
  n.output(0, f(n.input(0), n.number("alpha", otherwise), n.loc()));
}

}  // namespace

std::span<const OnnxRule> activation_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"Elu", 6, [](OnnxNode& n) { with_alpha<elu>(n, 1); }},
      {"Celu", 12, [](OnnxNode& n) { with_alpha<celu>(n, 1); }},
      {"Selu", 6, selu_of},
      {"LeakyRelu", 6, [](OnnxNode& n) { with_alpha<leaky_relu>(n, 0.01); }},
      {"ThresholdedRelu", 10, [](OnnxNode& n) { with_alpha<thresholded_relu>(n, 1); }},
      {"PRelu", 1, prelu_of_channels},
      {"PRelu", 7, prelu_of},
      {"HardSigmoid", 6,
       [](OnnxNode& n) {
         n.output(0,
                  hardsigmoid(n.input(0), n.number("alpha", 0.2), n.number("beta", 0.5), n.loc()));
       }},
      {"HardSwish", 14, onnx_unary<hardswish>},
      {"Softplus", 1, [](OnnxNode& n) { n.output(0, softplus(n.input(0), 1, n.loc())); }},
      {"Softsign", 1, onnx_unary<softsign>},
      {"Mish", 18, onnx_unary<mish>},
      {"Swish", 24, [](OnnxNode& n) { with_alpha<swish>(n, 1); }},
      {"Shrink", 9, shrink},
      {"Hardmax", 1, hardmax_of_rest},
      {"Hardmax", 13,
       [](OnnxNode& n) { n.output(0, hardmax(n.input(0), n.integer("axis", -1), n.loc())); }},
  };
  return kRules;
}

}  // namespace dyad::ops
