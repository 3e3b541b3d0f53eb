#include "dyad/nn/linear.h"

#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"

namespace dyad::nn {

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options, Loc loc) {
  require_positive("Linear", {{"in", in}, {"out", out}}, loc);
  weight = Parameter(init::fan_in_uniform({out, in}, in, options.dtype, loc), loc);
  if (options.bias) bias = Parameter(init::fan_in_uniform({out}, in, options.dtype, loc), loc);
}

Tensor Linear::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return linear(x, weight, bias, loc);
}

Embedding::Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options,
                     Loc loc) {
  require_positive("Embedding", {{"count", count}, {"width", width}}, loc);
  weight = Parameter(init::normal({count, width}, 1, options.dtype, loc), loc);
}

Tensor Embedding::operator()(const Tensor& indices, Loc loc) const {
  const LocScope scope(loc);
  return embedding(indices, weight, loc);
}

}  // namespace dyad::nn
