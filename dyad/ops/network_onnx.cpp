#include "dyad/ir/onnx_node.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

// What ONNX's operators of networks mean.

namespace dyad::ops {
namespace {

void gemm(OnnxNode& n) {
  Tensor a = n.input(0), b = n.input(1);
  if (n.flag("transA")) a = transpose(a, 0, 1, n.loc());
  if (n.flag("transB")) b = transpose(b, 0, 1, n.loc());
  const double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  Tensor product = matmul(a, b, n.loc());
  if (alpha != 1) product = mul(product, alpha, n.loc());
  if (n.has(2)) {
    const Tensor c = n.input(2);
    product = add(product, beta == 1 ? c : mul(c, beta, n.loc()), n.loc());
  }
  n.output(0, product);
}

void batch_normalization(OnnxNode& n) {
  if (n.flag("training_mode")) n.fail("it trains; models are run as in inference");
  n.output(0, batch_norm(n.input(0), n.input(1), n.input(2), n.input(3), n.input(4),
                         n.number("epsilon", 1e-5), n.loc()));
}

constexpr OnnxRule kRules[] = {
    {"MatMul", 1, [](OnnxNode& n) { n.output(0, matmul(n.input(0), n.input(1), n.loc())); }},
    {"Gemm", 7, gemm},
    {"BatchNormalization", 7, batch_normalization},
};

}  // namespace

std::span<const OnnxRule> network_onnx_rules() { return kRules; }

}  // namespace dyad::ops
