#include <algorithm>
#include <cmath>
#include <numbers>

#include "dyad/ir/literal.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/checked.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/random.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/special.h"
#include "dyad/ops/trigonometry.h"
#include "dyad/ops/views.h"

// Distributions made from uniform and normal numbers by other operators.
namespace dyad {
namespace {

/// f16 and bf16 are rounded from f32.
DType exact_dtype(DType dtype) { return dtype == f64 ? f64 : f32; }

/// Half of the distance between uniform numbers: what stands for a draw of 0 where 0 will not do.
double half_step(DType exact) { return exact == f64 ? 0x1p-54 : 0x1p-25; }

/// Standard exponential numbers, f32 or f64, above 0.
Tensor exponential_above_zero(Shape shape, DType exact, Loc loc) {
  const Tensor u = uniform(std::move(shape), 0, 1, exact, loc);
  return maximum(neg(log1p(neg(u, loc), loc), loc), half_step(exact), loc);
}

[[noreturn]] void fail_positive(std::string_view call, double value, Loc loc) {
  throw ValueError(std::string(call) + " = " + number_text(value) + "): it must be above 0",
                   loc.user());
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

}  // namespace

Tensor normal(const Arg& mean, const Arg& std, Loc loc) {
  const LocScope scope(loc);
  const Tensor scale = add(mul(mean, 0, loc), std, loc);  // broadcast, of the promoted dtype
  if (!is_floating(scale.dtype())) {
    throw DTypeError("normal(mean: " + type_string(mean.tensor()) +
                         ", std: " + type_string(std.tensor()) + "): one of them must be floating",
                     loc.user());
  }
  return add(mul(randn_like(scale, loc), std, loc), mean, loc);
}

Tensor rand(Sizes shape, DType dtype, Loc loc) {
  return uniform(std::move(shape), 0, 1, dtype, loc);
}
Tensor randn(Sizes shape, DType dtype, Loc loc) {
  return normal(std::move(shape), 0, 1, dtype, loc);
}
Tensor rand_like(const Tensor& x, Loc loc) { return rand(ops::sizes_of(x, loc), x.dtype(), loc); }
Tensor randn_like(const Tensor& x, Loc loc) { return randn(ops::sizes_of(x, loc), x.dtype(), loc); }

Tensor truncated_normal(Shape shape, double mean, double std, double low, double high, DType dtype,
                        Loc loc) {
  if (!(std > 0)) fail_positive("truncated_normal(std", std, loc);
  if (!(low < high)) {
    throw ValueError("truncated_normal(low = " + number_text(low) +
                         ", high = " + number_text(high) + "): low must be below high",
                     loc.user());
  }
  const LocScope scope(loc);
  // On the left of the mean, where the distribution function is exact; mirrored where all of the
  // interval is on its right.
  const bool mirrored = low > mean;
  const double from = (mirrored ? mean - high : low - mean) / std;
  const double to_end = (mirrored ? mean - low : high - mean) / std;
  const double p = normal_cdf(from), q = normal_cdf(to_end);
  const Tensor u = uniform(std::move(shape), 0, 1, f64, loc) * (q - p) + p;
  const Tensor z = erfinv(u * 2 - 1) * (std::numbers::sqrt2 * (mirrored ? -std : std)) + mean;
  return to(clamp(z, low, high, loc), dtype, loc);
}

Tensor exponential(Shape shape, double rate, DType dtype, Loc loc) {
  if (!(rate > 0)) fail_positive("exponential(rate", rate, loc);
  const LocScope scope(loc);
  const Tensor u = uniform(std::move(shape), 0, 1, exact_dtype(dtype), loc);
  return to(log1p(neg(u)) * (-1 / rate), dtype, loc);
}

Tensor gumbel(Shape shape, DType dtype, Loc loc) {
  const LocScope scope(loc);
  return to(neg(log(exponential_above_zero(std::move(shape), exact_dtype(dtype), loc))), dtype,
            loc);
}

Tensor gumbel_softmax(const Tensor& logits, double temperature, bool hard, std::int64_t axis,
                      Loc loc) {
  if (!(temperature > 0)) fail_positive("gumbel_softmax(temperature", temperature, loc);
  const LocScope scope(loc);
  const Tensor noise = gumbel(ops::sizes_of(logits, loc), logits.dtype(), loc);
  Tensor soft = softmax((logits + noise) / temperature, axis, loc);
  if (!hard) return soft;
  return hardmax(soft, axis, loc) + soft - detach(soft, loc);
}

Tensor gamma(const Tensor& alpha, double rate, Loc loc) {
  if (!(rate > 0)) fail_positive("gamma(rate", rate, loc);
  const Tensor drawn = ops::gamma_numbers(alpha, false, loc);
  return rate == 1 ? drawn : div(drawn, rate, loc);
}

Tensor chi2(const Tensor& freedom, Loc loc) {
  return mul(ops::gamma_numbers(mul(freedom, 0.5, loc), false, loc), 2, loc);
}

Tensor student_t(const Tensor& freedom, Loc loc) {
  const LocScope scope(loc);
  // By logarithms: few degrees of freedom give sums of squares below the smallest number.
  const Tensor square = ops::gamma_numbers(freedom * 0.5, true, loc);
  return randn_like(freedom, loc) * exp((log(freedom * 0.5) - square) * 0.5);
}

Tensor beta(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const Tensor operands[] = {a, b};
  const std::vector<Tensor> both = broadcast_tensors(operands, loc);
  const Tensor first = ops::gamma_numbers(both[0], true, loc);
  return sigmoid(first - ops::gamma_numbers(both[1], true, loc));
}

Tensor dirichlet(const Tensor& concentration, Loc loc) {
  return softmax(ops::gamma_numbers(concentration, true, loc), -1, loc);
}

Tensor laplace(Shape shape, double mean, double scale, DType dtype, Loc loc) {
  if (!(scale > 0)) fail_positive("laplace(scale", scale, loc);
  const LocScope scope(loc);
  const Tensor u = uniform(shape, 0, 1, exact_dtype(dtype), loc);
  const Tensor size = exponential_above_zero(std::move(shape), exact_dtype(dtype), loc) * scale;
  return to(where(u < 0.5, neg(size), size) + mean, dtype, loc);
}

Tensor cauchy(Shape shape, double median, double scale, DType dtype, Loc loc) {
  if (!(scale > 0)) fail_positive("cauchy(scale", scale, loc);
  const LocScope scope(loc);
  const Tensor u = uniform(std::move(shape), 0, 1, exact_dtype(dtype), loc);
  return to(tan((u - 0.5) * std::numbers::pi) * scale + median, dtype, loc);
}

Tensor log_normal(Shape shape, double mean, double std, DType dtype, Loc loc) {
  if (!(std > 0)) fail_positive("log_normal(std", std, loc);
  const LocScope scope(loc);
  return to(exp(normal(std::move(shape), mean, std, exact_dtype(dtype), loc)), dtype, loc);
}

Tensor bernoulli(Shape shape, double p, DType dtype, Loc loc) {
  if (!(p >= 0 && p <= 1)) {
    throw ValueError("bernoulli(p = " + number_text(p) + "): p must be from 0 to 1", loc.user());
  }
  const LocScope scope(loc);
  return to(uniform(std::move(shape), 0, 1, f64, loc) < p, dtype, loc);
}
Tensor bernoulli(const Tensor& p, Loc loc) {
  if (!is_floating(p.dtype())) {
    throw DTypeError(
        "bernoulli(p: " + type_string(p) + "): p must be floating; convert it with to()",
        loc.user());
  }
  const LocScope scope(loc);
  const DType exact = exact_dtype(p.dtype());
  const Tensor valid = ops::checked(p, {.of = "bernoulli", .argument = "p", .most = 1}, loc);
  return to(uniform(ops::sizes_of(p, loc), 0, 1, exact, loc) < valid, p.dtype(), loc);
}

Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high, Loc loc) {
  return randint(low, high, ops::sizes_of(x, loc), x.dtype(), loc);
}

}  // namespace dyad
