#include "dyad/nn/init.h"

#include <cmath>

#include "dyad/autograd/grad_mode.h"
#include "dyad/exec/eager.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/random.h"

namespace dyad::nn::init {

Tensor uniform(const Shape& shape, double bound, DType dtype, Loc loc) {
  const LocScope scope(loc);
  const Evaluator::Scope eager(EagerEvaluator::instance());
  const NoGrad no_grad;
  return dyad::uniform(shape, -bound, bound, dtype, loc);
}

Tensor normal(const Shape& shape, double std, DType dtype, Loc loc) {
  const LocScope scope(loc);
  const Evaluator::Scope eager(EagerEvaluator::instance());
  const NoGrad no_grad;
  return dyad::normal(shape, 0, std, dtype, loc);
}

Tensor full(const Shape& shape, double value, DType dtype, Loc loc) {
  const LocScope scope(loc);
  const Evaluator::Scope eager(EagerEvaluator::instance());
  const NoGrad no_grad;
  return dyad::full(shape, value, dtype, loc);
}

Tensor fan_in_uniform(const Shape& shape, std::int64_t fan_in, DType dtype, Loc loc) {
  return uniform(shape, fan_in == 0 ? 0 : 1 / std::sqrt(static_cast<double>(fan_in)), dtype, loc);
}

}  // namespace dyad::nn::init
