#include "dyad/core/evaluator.h"
#include "dyad/core/tensor.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/diagonal.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/index.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/numeric.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/random.h"
#include "dyad/ops/views.h"

namespace dyad {

Tensor& Tensor::copy_(const Arg& value, Loc loc) {
  const Tensor converted = dyad::to(value.tensor(), dtype(), loc);
  Evaluator::current().write(*this, dyad::expand(converted, ops::sizes_of(*this, loc), loc), loc);
  return *this;
}
Tensor& Tensor::fill_(Number value, Loc loc) {
  Evaluator::current().write(*this, full_like(*this, value, loc), loc);
  return *this;
}
Tensor& Tensor::zero_(Loc loc) { return fill_(0, loc); }

Tensor& Tensor::abs_(Loc loc) { return ops::overwrite(*this, dyad::abs(*this, loc), "abs_", loc); }
Tensor& Tensor::neg_(Loc loc) { return ops::overwrite(*this, dyad::neg(*this, loc), "neg_", loc); }
Tensor& Tensor::square_(Loc loc) {
  return ops::overwrite(*this, dyad::square(*this, loc), "square_", loc);
}
Tensor& Tensor::sqrt_(Loc loc) {
  return ops::overwrite(*this, dyad::sqrt(*this, loc), "sqrt_", loc);
}
Tensor& Tensor::rsqrt_(Loc loc) {
  return ops::overwrite(*this, dyad::rsqrt(*this, loc), "rsqrt_", loc);
}
Tensor& Tensor::reciprocal_(Loc loc) {
  return ops::overwrite(*this, dyad::reciprocal(*this, loc), "reciprocal_", loc);
}
Tensor& Tensor::exp_(Loc loc) { return ops::overwrite(*this, dyad::exp(*this, loc), "exp_", loc); }
Tensor& Tensor::log_(Loc loc) { return ops::overwrite(*this, dyad::log(*this, loc), "log_", loc); }
Tensor& Tensor::sin_(Loc loc) { return ops::overwrite(*this, dyad::sin(*this, loc), "sin_", loc); }
Tensor& Tensor::cos_(Loc loc) { return ops::overwrite(*this, dyad::cos(*this, loc), "cos_", loc); }
Tensor& Tensor::tanh_(Loc loc) {
  return ops::overwrite(*this, dyad::tanh(*this, loc), "tanh_", loc);
}
Tensor& Tensor::sigmoid_(Loc loc) {
  return ops::overwrite(*this, dyad::sigmoid(*this, loc), "sigmoid_", loc);
}
Tensor& Tensor::relu_(Loc loc) {
  return ops::overwrite(*this, dyad::relu(*this, loc), "relu_", loc);
}
Tensor& Tensor::floor_(Loc loc) {
  return ops::overwrite(*this, dyad::floor(*this, loc), "floor_", loc);
}
Tensor& Tensor::ceil_(Loc loc) {
  return ops::overwrite(*this, dyad::ceil(*this, loc), "ceil_", loc);
}
Tensor& Tensor::round_(Loc loc) {
  return ops::overwrite(*this, dyad::round(*this, loc), "round_", loc);
}
Tensor& Tensor::trunc_(Loc loc) {
  return ops::overwrite(*this, dyad::trunc(*this, loc), "trunc_", loc);
}

Tensor& Tensor::pow_(const Arg& exponent, Loc loc) {
  return ops::overwrite(*this, dyad::pow(*this, exponent, loc), "pow_", loc);
}
Tensor& Tensor::remainder_(const Arg& divisor, Loc loc) {
  return ops::overwrite(*this, dyad::remainder(*this, divisor, loc), "remainder_", loc);
}
Tensor& Tensor::lerp_(const Arg& end, const Arg& weight, Loc loc) {
  return ops::overwrite(*this, dyad::lerp(*this, end, weight, loc), "lerp_", loc);
}
Tensor& Tensor::clamp_(Number low, Number high, Loc loc) {
  return ops::overwrite(*this, dyad::clamp(*this, low, high, loc), "clamp_", loc);
}
Tensor& Tensor::clamp_(const Tensor& low, const Tensor& high, Loc loc) {
  return ops::overwrite(*this, dyad::clamp(*this, low, high, loc), "clamp_", loc);
}
Tensor& Tensor::addcmul_(const Tensor& a, const Tensor& b, double value, Loc loc) {
  return ops::overwrite(*this, dyad::addcmul(*this, a, b, value, loc), "addcmul_", loc);
}
Tensor& Tensor::addcdiv_(const Tensor& a, const Tensor& b, double value, Loc loc) {
  return ops::overwrite(*this, dyad::addcdiv(*this, a, b, value, loc), "addcdiv_", loc);
}
Tensor& Tensor::tril_(std::int64_t k, Loc loc) {
  return ops::overwrite(*this, dyad::tril(*this, k, loc), "tril_", loc);
}
Tensor& Tensor::triu_(std::int64_t k, Loc loc) {
  return ops::overwrite(*this, dyad::triu(*this, k, loc), "triu_", loc);
}

Tensor& Tensor::masked_fill_(const Tensor& mask, const Arg& value, Loc loc) {
  return ops::overwrite(*this, dyad::masked_fill(*this, mask, value, loc), "masked_fill_", loc);
}
Tensor& Tensor::masked_scatter_(const Tensor& mask, const Tensor& source, Loc loc) {
  return ops::overwrite(*this, dyad::masked_scatter(*this, mask, source, loc), "masked_scatter_",
                        loc);
}
Tensor& Tensor::index_put_(std::initializer_list<Index> indices, const Arg& value, bool accumulate,
                           Loc loc) {
  return ops::overwrite(*this, dyad::index_put(*this, indices, value, accumulate, loc),
                        "index_put_", loc);
}
Tensor& Tensor::index_put_(std::span<const Index> indices, const Arg& value, bool accumulate,
                           Loc loc) {
  return ops::overwrite(*this, dyad::index_put(*this, indices, value, accumulate, loc),
                        "index_put_", loc);
}

Tensor& Tensor::uniform_(double low, double high, Loc loc) {
  Evaluator::current().write(*this, uniform(ops::sizes_of(*this, loc), low, high, dtype(), loc),
                             loc);
  return *this;
}
Tensor& Tensor::normal_(double mean, double std, Loc loc) {
  Evaluator::current().write(*this, normal(ops::sizes_of(*this, loc), mean, std, dtype(), loc),
                             loc);
  return *this;
}

}  // namespace dyad
