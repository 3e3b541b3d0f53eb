#include "dyad/nn/linear.h"

#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
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

}  // namespace dyad::nn
