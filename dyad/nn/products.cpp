#include "dyad/nn/products.h"

#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/layers.h"
#include "dyad/ops/loss.h"

namespace dyad::nn {

Bilinear::Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out,
                   const BilinearOptions& options, Loc loc) {
  require_positive("Bilinear", {{"in1", in1}, {"in2", in2}, {"out", out}}, loc);
  weight = Parameter(init::fan_in_uniform({out, in1, in2}, in1, options.dtype, loc), loc);
  if (options.bias) bias = Parameter(init::fan_in_uniform({out}, in1, options.dtype, loc), loc);
}
Tensor Bilinear::operator()(const Tensor& a, const Tensor& b, Loc loc) const {
  return bilinear(a, b, weight, bias, loc);
}
Tensor CosineSimilarity::operator()(const Tensor& a, const Tensor& b, Loc loc) const {
  return cosine_similarity(a, b, axis, eps, loc);
}
Tensor PairwiseDistance::operator()(const Tensor& a, const Tensor& b, Loc loc) const {
  return pairwise_distance(a, b, p, eps, keepdim, loc);
}

}  // namespace dyad::nn
