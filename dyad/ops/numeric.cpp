#include "dyad/ops/numeric.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "dyad/core/promotion.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/bits.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/division.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/special.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

using std::numbers::pi;
constexpr double kInf = std::numeric_limits<double>::infinity();

DType dtype_of_parts(const OnnxEmitter& e) {
  return e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
}

struct Cbrt {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "cbrt", "The real number whose cube is x.", {},
      {.low = 0.2, .high = 4, .edges = "0 -0 1 -1 8 -27 2 1e-30 -3e38 inf -inf nan"}, 0, kFirst);
  static Scalar eval(Scalar x) {
    // The cube of a subnormal number's root is too coarse to be compared with it.
    const Scalar tiny = scalar::abs(x) < 1e-30;
    const Scalar size = scalar::select(tiny, scalar::abs(x) * 0x1p66, scalar::abs(x));
    const Scalar near = scalar::exp(scalar::log(size) * (1.0 / 3));
    // One step of Newton's method, with the error of the square.
    const Scalar square = near * near, rest = scalar::fma(near, near, -square);
    const Scalar error = scalar::fma(square, near, -size) + rest * near;
    const Scalar root = near - error / (square * 3.0);
    return scalar::select((x == 0.0) | scalar::isinf(x), x,
                          scalar::copysign(scalar::select(tiny, root * 0x1p-22, root), x));
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() / (square(g.output()) * 3)); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = dtype_of_parts(e);
    const std::string x = e.cast(e.operand(0), dtype);
    const std::string size = e.node("Pow", {e.node("Abs", {x}), e.scalar(1.0 / 3, dtype)});
    e.output(0, e.node("Mul", {e.node("Sign", {x}), size}));
  }
};

struct SincAttrs {
  std::int64_t derivative = 0;
};

/// sin(pi x) and cos(pi x), exact in that multiples of 1/2 are.
struct SinAndCos {
  explicit SinAndCos(Scalar x) {
    const Scalar whole = scalar::rint(x), rest = (x - whole) * pi;
    const Scalar half = whole * 0.5;
    const Scalar odd = half != scalar::floor(half);
    sin = scalar::select(odd, -scalar::sin_near(rest), scalar::sin_near(rest));
    cos = scalar::select(odd, -scalar::cos_near(rest), scalar::cos_near(rest));
  }
  Scalar sin = 0.0, cos = 0.0;
};

/// The n-th derivative of sin(z) / z by z, near 0: the series of z^(2k - n) / ((2k - n)! (2k + 1)).
Scalar sinc_series(Scalar z, int n) {
  const Scalar square = z * z;
  const int first = (n + 1) / 2, terms = 22;
  Scalar sum = z.like(0.0);
  for (int k = first + terms; k >= first; --k) {
    const double c = (k % 2 == 0 ? 1 : -1) / (std::tgamma(2 * k - n + 1) * (2 * k + 1));
    sum = scalar::fma(sum, square, z.like(c));
  }
  return n % 2 == 0 ? sum : sum * z;
}

struct Sinc {
  using Attrs = SincAttrs;
  static constexpr Schema schema =
      unary_function("sinc", "The derivative of an order (0: itself) of sin(pi x) / (pi x).", {},
                     {.edges = "0 -0 1 -1 0.5 1e-9 0.3 -2.75 12.3 1e6 nan"}, kFirst);
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (attrs.derivative < 0 || attrs.derivative > 8) {
      fail_value(in, "the order of the derivative must be from 0 to 8");
    }
    return infer_pointwise(in);
  }
  static Scalar eval(const Attrs& attrs, Scalar x) {
    const int n = static_cast<int>(attrs.derivative);
    const Scalar z = x * pi;
    const SinAndCos of(x);
    Scalar far = of.sin / z;
    if (n == 0) return scalar::select(x == 0.0, 1.0, far);
    // z s[n] + n s[n - 1] is the n-th derivative of sin(z).
    for (int k = 1; k <= n; ++k) {
      const Scalar wave = k % 2 == 0 ? of.sin : of.cos;
      far = ((k % 4 < 2 ? wave : -wave) - far * static_cast<double>(k)) / z;
    }
    const Scalar near = sinc_series(z, n);
    return scalar::select(scalar::abs(z) < std::floor(n / 2.0) + 1.5, near, far) * std::pow(pi, n);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, g.grad() * sinc(g.input(0), attrs.derivative + 1));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    if (attrs.derivative != 0) e.fail("ONNX has no derivatives of sinc");
    const DType dtype = dtype_of_parts(e);
    const std::string x = e.cast(e.operand(0), dtype);
    const std::string at_zero = e.node("Equal", {x, e.scalar(0, dtype)});
    const std::string one = e.scalar(1, dtype);
    const std::string z = e.node("Mul", {e.node("Where", {at_zero, one, x}), e.scalar(pi, dtype)});
    e.output(0, e.node("Where", {at_zero, one, e.node("Div", {e.node("Sin", {z}), z})}));
  }
};

struct Copysign {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      binary_function("copysign", "|a| with the sign of b.",
                      {.edges = "0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf"}, kFirst, kFirst);
  static Scalar eval(Scalar a, Scalar b) { return scalar::copysign(a, b); }
  static void grad(Gradient& g, const Attrs&) {
    if (g.needs(0)) g.set(0, g.grad() * (sign(g.output()) * sign(g.input(0))));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = dtype_of_parts(e);
    const std::string size = e.node("Abs", {e.cast(e.operand(0), dtype)});
    const std::string b = e.cast(e.operand(1), dtype), zero = e.scalar(0, dtype);
    // 1 / -0 is below 0.
    const std::string inverse = e.node("Div", {e.scalar(1, dtype), b});
    const std::string minus =
        e.node("Or", {e.node("Less", {b, zero}), e.node("Less", {inverse, zero})});
    e.output(0, e.node("Where", {minus, e.node("Neg", {size}), size}));
  }
};

constexpr ArgInfo kNextAfterInputs[] = {{"x", set_of({DType::f64, DType::f32})},
                                        {"y", set_of({DType::f64, DType::f32})}};

struct NextAfter {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "nextafter",
      .inputs = kNextAfterInputs,
      .outputs = kOut,
      .doc = "x moved to the next number of its dtype towards y.",
      .samples = {.edges = "0 -0 1 -1 2.5 1e-20 3e38 inf -inf nan", .differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) {
    require_one_dtype(in);
    return infer_pointwise(in);
  }
  static Scalar eval(Scalar x, Scalar y) {
    const bool wide = x.type() == ScalarType::f64;
    const ScalarType bits = wide ? ScalarType::i64 : ScalarType::i32;
    const double tiny = wide ? 0x1p-1074 : 0x1p-149;
    const Scalar away = (y > x) == (x > 0.0);
    const Scalar number = scalar::bitcast(x, bits);
    const Scalar moved = scalar::bitcast(scalar::select(away, number + 1, number - 1), x.type());
    const Scalar from_zero = scalar::select(y > 0.0, x.like(tiny), x.like(-tiny));
    const Scalar next = scalar::select(x == y, y, scalar::select(x == 0.0, from_zero, moved));
    return scalar::select((x != x) | (y != y), x + y, next);
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad()); }
};

constexpr ArgInfo kIntegers[] = {{"a", kInteger}, {"b", kInteger}};

struct Gcd {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "gcd",
                                 .inputs = kIntegers,
                                 .outputs = kOut,
                                 .doc = "The greatest common divisor of whole numbers.",
                                 .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) {
    require_one_dtype(in);
    if (!(in[0].shape() == in[1].shape())) {
      fail_shape(in, "a and b must have one shape; broadcast_tensors() makes it");
    }
    return {in[0]};
  }
};

/// Integers and bool as f32, others as they are.
Tensor as_floating(const Tensor& x) {
  return x.defined() && contains(kInteger | kBool, x.dtype()) ? to(x, DType::f32) : x;
}
/// Two operands, which may be numbers, in the floating dtype that they are promoted to.
std::array<Tensor, 2> both_floating(const Arg& a, const Arg& b) {
  const DType promoted = result_type({a, b});
  if (is_complex(promoted)) return {a.tensor(), b.tensor()};
  const DType dtype = is_floating(promoted) ? promoted : DType::f32;
  return {as_dtype(a, dtype), as_dtype(b, dtype)};
}

/// Both operands of one dtype and shape.
std::vector<Tensor> alike(const Tensor& a, const Tensor& b) {
  const DType dtype = result_type({a, b});
  return broadcast_tensors(std::array{to(a, dtype), to(b, dtype)});
}

}  // namespace

std::span<const OpInfo* const> numeric_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Gcd>, &op_info<Cbrt>, &op_info<Sinc>,
                                            &op_info<Copysign>, &op_info<NextAfter>};
  return kRows;
}

}  // namespace ops

Tensor cbrt(const Tensor& x, Loc loc) { return apply<ops::Cbrt>({}, loc, x); }
Tensor sinc(const Tensor& x, Loc loc) { return sinc(x, 0, loc); }
Tensor sinc(const Tensor& x, std::int64_t n, Loc loc) {
  return apply<ops::Sinc>({.derivative = n}, loc, x);
}
Tensor copysign(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Copysign>({}, loc, a.tensor(), b.tensor());
}
Tensor nextafter(const Tensor& x, const Tensor& y, Loc loc) {
  return apply<ops::NextAfter>({}, loc, x, y);
}

Tensor gcd(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const std::vector<Tensor> both = ops::alike(a, b);
  return apply<ops::Gcd>({}, loc, both[0], both[1]);
}
Tensor lcm(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const std::vector<Tensor> both = ops::alike(a, b);
  return abs(floor_divide(both[0], gcd(a, b, loc)) * both[1]);
}

Tensor heaviside(const Tensor& x, const Arg& at_zero, Loc loc) {
  const LocScope called(loc, "heaviside");
  const Tensor step = where(x == 0, at_zero, x > 0);
  return is_floating(x.dtype()) ? where(isnan(x), x, step) : step;
}
Tensor logit(const Tensor& x, double eps, Loc loc) {
  if (!(eps >= 0 && eps <= 0.5)) {
    throw ValueError("logit(" + type_string(x) + ", eps = " + std::to_string(eps) +
                         "): eps must be from 0 to 0.5",
                     loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) {
        const Tensor given = ops::as_floating(x);
        const Tensor p = eps == 0 ? given : clamp(given, eps, 1 - eps);
        return log(p / (1 - p));
      },
      x);
}
Tensor logaddexp2(const Arg& a, const Arg& b, Loc loc) {
  const LocScope scope(loc);
  constexpr double kLn2 = std::numbers::ln2;
  const auto [first, second] = ops::both_floating(a, b);
  return ops::in_f32(
      [&](const Tensor& left, const Tensor& right) {
        return logaddexp(left * kLn2, right * kLn2) / kLn2;
      },
      first, second);
}
Tensor xlog1py(const Arg& factor, const Arg& argument, Loc loc) {
  const LocScope scope(loc);
  const auto [x, y] = ops::both_floating(factor, argument);
  const Tensor outside = logical_or(y <= -1, y == ops::kInf);
  return x * log1p(where(logical_and(x == 0, outside), 0, y));
}
Tensor entr(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  return where(x < 0, -ops::kInf, neg(xlogy(x, x)));
}
Tensor ndtr(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  return erfc(x * (-1 / std::numbers::sqrt2)) * 0.5;
}
Tensor log_ndtr(const Tensor& given, Loc loc) {
  const LocScope scope(loc);
  const Tensor x = ops::as_floating(given);
  // On the far left erfc vanishes, what it is scaled by does not. Neither side sees the other's
  // numbers, so that no infinity comes back with the gradient.
  const Tensor left = minimum(x, -1), right = maximum(x, -1);
  // left * left may overflow where half of it does not.
  const Tensor far = log(erfcx(left * (-1 / std::numbers::sqrt2)) * 0.5) - left * 0.5 * left;
  const Tensor near = log1p(erfc(right * (1 / std::numbers::sqrt2)) * -0.5);
  return where(x < -1, far, near);
}
Frexp frexp(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  struct Layout {
    DType bits;
    int mantissa, bias;
  };
  const auto layout = [&]() -> Layout {
    if (x.dtype() == f64) return {i64, 52, 1022};
    if (x.dtype() == f32) return {i32, 23, 126};
    if (x.dtype() == f16) return {i16, 10, 14};
    if (x.dtype() == bf16) return {i16, 7, 126};
    throw DTypeError("frexp(" + type_string(x) + "): x must be floating; convert it with to()",
                     loc);
  }();
  const std::int64_t most = 2 * layout.bias + 3;  // the exponent's bits of infinities
  const auto exponent_bits = [&](const Tensor& y) {
    return to(bitwise_right_shift(bitcast(y, layout.bits), layout.mantissa), i32) & most;
  };
  // Numbers below the normal ones are moved up among them.
  const int up = layout.mantissa + 1;
  const Tensor fixed = detach(x), size = abs(fixed);
  const Tensor raised = exponent_bits(size * std::ldexp(1.0, up)) - up, plain = exponent_bits(size);
  const Tensor special = logical_or(fixed == 0, plain == most);
  const Tensor exponent = where(special, 0, where(plain == 0, raised, plain) - layout.bias);
  // In two steps: the power of the smallest numbers' exponents is not finite.
  const Tensor half = bitwise_right_shift(exponent, 1);
  return {ldexp(ldexp(x, -half), half - exponent), exponent};
}
Tensor deg2rad(const Tensor& x, Loc loc) { return mul(x, std::numbers::pi / 180, loc); }
Tensor rad2deg(const Tensor& x, Loc loc) { return mul(x, 180 / std::numbers::pi, loc); }
Tensor ldexp(const Tensor& x, const Arg& n, Loc loc) {
  const LocScope scope(loc);
  const Tensor& count = n.tensor();
  const bool floating = count.defined() && is_floating(count.dtype()) && !count.impl()->is_number;
  const DType dtype = floating ? result_type({x, n}) : is_floating(x.dtype()) ? x.dtype() : f32;
  return x * exp2(ops::as_dtype(n, dtype));
}
Tensor float_power(const Arg& a, const Arg& b, Loc loc) {
  const LocScope scope(loc);
  return pow(ops::as_dtype(a, f64), ops::as_dtype(b, f64));
}
Tensor addcmul(const Tensor& input, const Tensor& a, const Tensor& b, double value, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& input, const Tensor& a, const Tensor& b) {
        const DType dtype = result_type({input, a, b});
        return to(input, dtype) + to(a, dtype) * to(b, dtype) * value;
      },
      input, a, b);
}
Tensor addcdiv(const Tensor& input, const Tensor& a, const Tensor& b, double value, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& input, const Tensor& a, const Tensor& b) {
        const DType dtype = result_type({input, a, b});
        return to(input, dtype) + to(a, dtype) / to(b, dtype) * value;
      },
      input, a, b);
}

Tensor signbit(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  const Tensor below = x < 0;
  // 1 / -0 is below 0.
  return is_floating(x.dtype()) ? logical_or(below, div(1, x) < 0) : below;
}
Tensor isposinf(const Tensor& x, Loc loc) { return isinf(x, true, false, loc); }
Tensor isneginf(const Tensor& x, Loc loc) { return isinf(x, false, true, loc); }
Tensor isclose(const Arg& a, const Arg& b, double rtol, double atol, bool equal_nan, Loc loc) {
  if (!(rtol >= 0 && atol >= 0)) {
    throw ValueError("isclose(rtol = " + std::to_string(rtol) + ", atol = " + std::to_string(atol) +
                         "): tolerances must be at least 0",
                     loc.user());
  }
  const LocScope scope(loc);
  const auto wide = [](const Arg& x) {
    return is_floating(x.tensor().dtype()) ? x.tensor() : ops::as_dtype(x, f64);
  };
  const Tensor first = wide(a), second = wide(b);
  const Tensor distance = abs(first - second);
  const Tensor near = logical_and(isfinite(distance), distance <= abs(second) * rtol + atol);
  Tensor close = logical_or(first == second, near);
  if (!equal_nan) return close;
  return logical_or(close, logical_and(isnan(first), isnan(second)));
}
Tensor allclose(const Arg& a, const Arg& b, double rtol, double atol, bool equal_nan, Loc loc) {
  return all(isclose(a, b, rtol, atol, equal_nan, loc), {}, false, loc);
}
Tensor equal(const Tensor& a, const Tensor& b, Loc loc) {
  const LocScope scope(loc);
  const Shape first = ops::sizes_of(a), second = ops::sizes_of(b);
  if (!(first == second)) return full({}, 0, boolean);
  return all(a == b);
}

}  // namespace dyad
