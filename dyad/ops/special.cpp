#include "dyad/ops/special.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "dyad/core/promotion.h"
#include "dyad/ir/scalar_error.h"
#include "dyad/ir/scalar_quantile.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

constexpr double kLn2 = std::numbers::ln2, kLn10 = std::numbers::ln10;
constexpr double kSqrtPi = 1 / std::numbers::inv_sqrtpi;

void write_scaled_log(OnnxEmitter& e, double scale) {
  const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
  e.output(0,
           e.node("Div", {e.node("Log", {e.cast(e.operand(0), dtype)}), e.scalar(scale, dtype)}));
}

struct Exp2 {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "exp2", "2 to the power x.", {},
      {.edges = "0 -0 1 -1 1e-8 127.5 128 -126 -150 1023 1025 -1075 inf -inf nan"}, 0, kFirst);
  static Scalar eval(Scalar x) { return scalar::exp2(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * (g.output() * kLn2)); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const std::string x = e.operand(0);
    e.output(0, e.node("Pow", {e.scalar(2, e.output_type().dtype()), x}));
  }
};

struct Log2 {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "log2", "Logarithm to base 2: NaN below 0, -inf at 0.", {},
      {.low = 0.2, .high = 4, .edges = "0 -0 1 1.0000001 8 1e-30 3e38 -1 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::log2(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() / (g.input(0) * kLn2)); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_scaled_log(e, kLn2); }
};

struct Log10 {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "log10", "Logarithm to base 10: NaN below 0, -inf at 0.", {},
      {.low = 0.2, .high = 4, .edges = "0 -0 1 1.0000001 1000 1e-30 3e38 -1 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::log10(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() / (g.input(0) * kLn10)); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_scaled_log(e, kLn10); }
};

struct Erfc {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      unary_function("erfc", "1 - erf(x), exact where it is tiny.", {},
                     {.edges = "0 -0 1e-20 0.5 -1 2 5 -4 9.9 26 30 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::erfc(x); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, g.grad() * (exp(neg(square(g.input(0)))) * (-2 / kSqrtPi)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const std::string one = e.scalar(1, e.output_type().dtype());
    e.output(0, e.node("Sub", {one, e.node("Erf", {e.operand(0)})}));
  }
};

struct Erfcx {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "erfcx", "exp(x^2) erfc(x), which does not vanish for large x.", {},
      {.edges = "0 -0 1e-20 0.5 -1 2 5 -4 -9 9.9 26 27.9 28.1 1000 1e20 inf -inf nan"}, kFirst,
      kFirst);
  static Scalar eval(Scalar x) { return scalar::erfcx(x); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, widened(g.grad()) * (widened(g.input(0)) * 2 * widened(g.output()) - 2 / kSqrtPi));
  }
};

struct Erfinv {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "erfinv", "The number whose error function is x.", {},
      {.low = -0.95, .high = 0.95, .edges = "0 -0 1e-20 0.5 -0.9 0.9999 -0.99999 1 -1 1.5 inf nan"},
      0, kFirst);
  static Scalar eval(Scalar x) { return scalar::erfinv(x); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, g.grad() * (exp(square(g.output())) * (kSqrtPi / 2)));
  }
};

struct Ndtri {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "ndtri", "The number below which a standard normal one lies with probability x.", {},
      {.low = 0.02, .high = 0.98, .edges = "0 -0 1e-300 1e-20 0.075 0.5 0.925 0.9999 1 -1 1.5 nan"},
      0, kFirst);
  static Scalar eval(Scalar x) { return scalar::ndtri(x); }
  static void grad(Gradient& g, const Attrs&) {
    constexpr double kRoot = 1 / (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    g.set(0, g.grad() * (exp(square(g.output()) * 0.5) * kRoot));
  }
};

struct Lgamma {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "lgamma", "Logarithm of the absolute value of the gamma function.", {},
      {.low = 0.3, .high = 6, .edges = "1 2 0.5 1e-20 3 8.5 30 1e30 0 -0 -1 -0.5 -2.5 inf nan"},
      kFirst);
  static Scalar eval(Scalar x) { return scalar::lgamma(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * digamma(g.input(0))); }
};

struct Digamma {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "digamma", "The derivative of lgamma.", {},
      {.low = 0.3, .high = 6, .edges = "1 2 0.5 3 8.5 30 1e30 0 -0 -1 -0.5 -2.5 inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::digamma(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * polygamma(1, g.input(0))); }
};

struct PolygammaAttrs {
  std::int64_t n = 1;
};

struct Polygamma {
  using Attrs = PolygammaAttrs;
  static constexpr Schema schema = unary_function(
      "polygamma", "The n-th derivative of digamma.", {},
      {.low = 0.3, .high = 6, .edges = "1 2 0.5 3 8.5 30 -0.5 -2.5 inf nan"}, kFirst);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (attrs.n < 0 || attrs.n > 20) {
      fail_value(in, "the order n must be from 0 to 20");
    }
    return infer_pointwise(in);
  }
  static Scalar eval(const Attrs& attrs, Scalar x) {
    return scalar::polygamma(static_cast<int>(attrs.n), x);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, g.grad() * polygamma(attrs.n + 1, g.input(0)));
  }
};

struct Logaddexp {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      binary_function("logaddexp", "log(exp(a) + exp(b)) without overflow.",
                      {.edges = "0 -0 1 -1 1000 -1000 3e38 inf -inf nan"}, kFirst | kSecond);
  static Scalar eval(Scalar a, Scalar b) {
    // Of equal infinities the difference is NaN.
    const Scalar larger = scalar::maximum(a, b);
    const Scalar sum = larger + scalar::log1p(scalar::exp(-scalar::abs(a - b)));
    return scalar::select((a == b) & scalar::isinf(a), a, sum);
  }
  static void grad(Gradient& g, const Attrs&) {
    const DType dtype = g.grad().dtype();
    const Tensor a = to(g.input(0), dtype), b = to(g.input(1), dtype);
    const Tensor difference = where(logical_and(a == b, logical_not(isfinite(a))), 0, a - b);
    if (g.needs(0)) g.set(0, g.grad() * sigmoid(difference));
    if (g.needs(1)) g.set(1, g.grad() * sigmoid(neg(difference)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string a = e.cast(e.operand(0), dtype), b = e.cast(e.operand(1), dtype);
    const std::string equal = e.node("Equal", {a, b}), one = e.scalar(1, dtype);
    const std::string gap = e.node("Where", {equal, e.scalar(0, dtype), e.node("Sub", {a, b})});
    const std::string small = e.node("Exp", {e.node("Neg", {e.node("Abs", {gap})})});
    const std::string sum = e.node("Log", {e.node("Add", {small, one})});
    e.output(0, e.node("Add", {e.node("Max", {a, b}), sum}));
  }
};

struct Xlogy {
  using Attrs = NoAttrs;
  static constexpr Schema schema = [] {
    Schema made =
        binary_function("xlogy", "x * log(y), 0 where x is 0.",
                        {.low = 0.2, .high = 3, .edges = "0 -0 1 -1 2.5 1e-20 3e38 inf -inf nan"},
                        kFirst | kSecond);
    made.inputs = kXAndY;
    return made;
  }();
  static Scalar eval(Scalar x, Scalar y) {
    const Scalar vanishes = (x == 0.0) & (y == y);
    return scalar::select(vanishes, x.like(0.0), x * scalar::log(y));
  }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0), y = to(g.input(1), g.grad().dtype());
    const Tensor none = logical_and(x == 0, y <= 0), inside = where(none, 1, y);
    if (g.needs(0)) g.set(0, g.grad() * log(inside));
    if (g.needs(1)) g.set(1, g.grad() * (x / inside));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string x = e.cast(e.operand(0), dtype), y = e.cast(e.operand(1), dtype);
    const std::string zero = e.scalar(0, dtype), is_zero = e.node("Equal", {x, zero});
    const std::string vanishes = e.node("And", {is_zero, e.node("Not", {e.node("IsNaN", {y})})});
    const std::string product = e.node("Mul", {x, e.node("Log", {y})});
    e.output(0, e.node("Where", {vanishes, zero, product}));
  }
};

}  // namespace

std::span<const OpInfo* const> special_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Exp2>,    &op_info<Log2>,      &op_info<Log10>,     &op_info<Erfc>,
      &op_info<Erfcx>,   &op_info<Erfinv>,    &op_info<Ndtri>,     &op_info<Lgamma>,
      &op_info<Digamma>, &op_info<Polygamma>, &op_info<Logaddexp>, &op_info<Xlogy>,
  };
  return kRows;
}

}  // namespace ops

Tensor exp2(const Tensor& x, Loc loc) { return apply<ops::Exp2>({}, loc, x); }
Tensor log2(const Tensor& x, Loc loc) { return apply<ops::Log2>({}, loc, x); }
Tensor log10(const Tensor& x, Loc loc) { return apply<ops::Log10>({}, loc, x); }
Tensor erfc(const Tensor& x, Loc loc) { return apply<ops::Erfc>({}, loc, x); }
Tensor erfcx(const Tensor& x, Loc loc) { return apply<ops::Erfcx>({}, loc, x); }
Tensor erfinv(const Tensor& x, Loc loc) { return apply<ops::Erfinv>({}, loc, x); }
Tensor ndtri(const Tensor& x, Loc loc) { return apply<ops::Ndtri>({}, loc, x); }
Tensor lgamma(const Tensor& x, Loc loc) { return apply<ops::Lgamma>({}, loc, x); }
Tensor digamma(const Tensor& x, Loc loc) { return apply<ops::Digamma>({}, loc, x); }
Tensor polygamma(std::int64_t n, const Tensor& x, Loc loc) {
  return apply<ops::Polygamma>({.n = n}, loc, x);
}
Tensor mvlgamma(const Tensor& x, std::int64_t p, Loc loc) {
  if (p < 1) {
    throw ValueError(
        "mvlgamma(" + type_string(x) + ", p = " + std::to_string(p) + "): p must be 1 or more",
        loc.user());
  }
  const LocScope called(loc, "mvlgamma");
  const auto count = static_cast<double>(p);
  Tensor made = lgamma(x);
  for (std::int64_t i = 1; i < p; ++i) made = made + lgamma(x - 0.5 * static_cast<double>(i));
  return made + std::log(std::numbers::pi) * (count * (count - 1) / 4);
}
Tensor zeta(const Arg& x, const Arg& q, Loc loc) {
  const LocScope called(loc, "zeta");
  const DType met = result_type({x, q}), dtype = is_floating(met) ? met : f32;
  const Tensor s = to(x.tensor(), f64), from = to(q.tensor(), f64);
  // Where the sum is not taken, numbers at which it is defined.
  const Tensor valid = logical_and(s > 1, from > 0);
  const Tensor power = where(valid, s, 2), start = where(valid, from, 1);
  // Ten terms, the others by Euler and Maclaurin's formula.
  constexpr int kTerms = 10;
  Tensor sum = pow(start, -power);
  for (int k = 1; k < kTerms; ++k) sum = sum + pow(start + k, -power);
  const Tensor end = start + kTerms, last = pow(end, -power);
  Tensor rest = end / (power - 1) + 0.5, rising = power / end;
  constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                   5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  double factorial = 2;
  for (int j = 1; j <= static_cast<int>(std::size(kBernoulli)); ++j) {
    rest = rest + rising * (kBernoulli[j - 1] / factorial);
    rising = rising * ((power + (2 * j - 1)) / end) * ((power + 2 * j) / end);
    factorial *= (2.0 * j + 1) * (2.0 * j + 2);
  }
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const Tensor pole = logical_or(s == 1, logical_and(from <= 0, from == floor(from)));
  const Tensor outside = where(logical_and(pole, s >= 1), kInf, full({}, kNaN, f64));
  return to(where(valid, sum + last * rest, outside), dtype);
}
Tensor logaddexp(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Logaddexp>({}, loc, a.tensor(), b.tensor());
}
Tensor xlogy(const Arg& x, const Arg& y, Loc loc) {
  return apply<ops::Xlogy>({}, loc, x.tensor(), y.tensor());
}

}  // namespace dyad
