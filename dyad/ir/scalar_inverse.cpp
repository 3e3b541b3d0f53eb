#include <numbers>

#include "dyad/ir/scalar_calls.h"
#include "dyad/ir/scalar_math.h"
#include "dyad/ir/scalar_math_detail.h"

// Hyperbolic functions, and the inverses of these and of the trigonometric ones. f32 is computed in
// f64 and rounded once.
namespace dyad::scalar {
namespace {

using namespace detail;

constexpr double kHalfPi = kPi / 2, kQuarterPi = kPi / 4;
constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;  // pi/2 - kHalfPi

/// (atan(s) - s) / s for |s| <= tan(pi/8), with z = s^2.
Scalar atan_tail(Scalar z) {
  return z * polynomial(z, {-0x1.5555555555555p-2, 0x1.9999999999816p-3, -0x1.2492492481dc7p-3,
                            0x1.c71c71bcb5153p-4, -0x1.745d156a44848p-4, 0x1.3b137c610dce5p-4,
                            -0x1.110d3322d701ap-4, 0x1.e17f947820cabp-5, -0x1.abcea1277f62bp-5,
                            0x1.7220f482c9afdp-5, -0x1.14d6c99d34876p-5, 0x1.fbecc77ff34cep-7});
}

/// (asin(s) - s) / s for |s| <= 1/2, with z = s^2.
Scalar asin_tail(Scalar z) {
  return z * polynomial(z, {0x1.5555555555556p-3, 0x1.3333333332dcdp-4, 0x1.6db6db6e4397cp-5,
                            0x1.f1c71c14da09cp-6, 0x1.6e8bb2fe2329ap-6, 0x1.1c4d1bf9d28bap-6,
                            0x1.c9d1cecf332ddp-7, 0x1.780cd7fa32c2cp-7, 0x1.52df0d2513b5cp-7,
                            0x1.60a47d90796c8p-8, 0x1.205df5d5ae1eap-6, -0x1.f07d84dfcd2dbp-7,
                            0x1.da67301f78fdep-6});
}

/// The angle of (large, small) for 0 <= small <= large, both finite: in [0, pi/4].
Scalar first_octant(Scalar small, Scalar large) {
  const Scalar turned = small > 0.41421356237309503 * large;
  const Scalar half = select(large > 1e300, large.like(0.5), 1.0);  // so that no sum overflows
  const Scalar over = select(turned, small * half - large * half, small);
  const Scalar under = select(turned, small * half + large * half, large);
  const Scalar s = over / under;
  const Scalar angle = fma(s, atan_tail(s * s), s);
  return select(turned, angle + kQuarterPi, angle);
}

/// sqrt((1 - |x|) / 2) in two parts.
struct Root {
  Scalar square, high, low;
};
Root half_complement(Scalar size) {
  const Scalar w = fma(size, -0.5, 0.5);
  const Scalar s = sqrt(w);
  return {w, s, select(s > 0.0, fma(-s, s, w) / (2.0 * s), s)};
}

}  // namespace

Scalar asin(Scalar x) {
  require_floating(x, "asin");
  if (const auto call = recorded_call("asin", {x})) return *call;
  const Scalar v = wide(x), size = abs(v), z = v * v;
  const auto [w, s, low] = half_complement(size);
  const Scalar tail = asin_tail(select(size <= 0.5, z, w));
  const Scalar outer = (kHalfPi - 2.0 * s) - (2.0 * fma(s, tail, low) - kHalfPiLow);
  return narrow(select(size <= 0.5, fma(v, tail, v), copysign(outer, v)), x);
}

Scalar acos(Scalar x) {
  require_floating(x, "acos");
  if (const auto call = recorded_call("acos", {x})) return *call;
  const Scalar v = wide(x), size = abs(v), z = v * v;
  const auto [w, s, low] = half_complement(size);
  const Scalar tail = asin_tail(select(size <= 0.5, z, w));
  const Scalar inner = kHalfPi - (v - (kHalfPiLow - v * tail));
  const Scalar near_one = 2.0 * (s + fma(s, tail, low));
  const Scalar near_minus_one = kPi - 2.0 * (s + (fma(s, tail, low) - kHalfPiLow));
  return narrow(select(size <= 0.5, inner, select(v > 0.0, near_one, near_minus_one)), x);
}

Scalar atan(Scalar x) {
  require_floating(x, "atan");
  if (const auto call = recorded_call("atan", {x})) return *call;
  const Scalar v = wide(x), size = abs(v), steep = size > 1.0;
  const Scalar inside = min(v.like(0x1p1023), size);
  const Scalar angle = first_octant(select(steep, 1.0, inside), select(steep, inside, v.like(1.0)));
  const Scalar y = copysign(select(steep, kHalfPi - (angle - kHalfPiLow), angle), v);
  return narrow(select(v != v, v, y), x);
}

Scalar atan2(Scalar y, Scalar x) {
  if (y.is_literal()) y = x.like(y);
  if (x.is_literal()) x = y.like(x);
  require_floating(y, "atan2");
  const Scalar v = wide(y), u = wide(x), height = abs(v), width = abs(u);
  const Scalar steep = height > width, both_infinite = (height == kInf) & (width == kInf);
  Scalar small = select(both_infinite, 1.0, select(steep, width, height));
  Scalar large = select(both_infinite, 1.0, select(steep, height, width));
  // An infinite side, or none at all, decides alone.
  small = select(large == kInf, 0.0, small);
  large = select((large == kInf) | (large == 0.0), 1.0, large);
  Scalar angle = first_octant(small, large);
  angle = select(steep, kHalfPi - (angle - kHalfPiLow), angle);
  angle = select(sign_bit(u), kPi - (angle - 2 * kHalfPiLow), angle);
  angle = copysign(angle, v);
  return narrow(select((v != v) | (u != u), kNan, angle), y);
}

Scalar sinh(Scalar x) {
  require_floating(x, "sinh");
  if (const auto call = recorded_call("sinh", {x})) return *call;
  const Scalar v = wide(x), size = abs(v);
  const Scalar e = expm1(min(v.like(30.0), size));
  const Scalar root = exp(0.5 * size);
  const Scalar y = select(size < 22.0, 0.5 * (e + e / (e + 1.0)), 0.5 * root * root);
  return narrow(select(v != v, v, copysign(y, v)), x);
}

Scalar cosh(Scalar x) {
  require_floating(x, "cosh");
  if (const auto call = recorded_call("cosh", {x})) return *call;
  const Scalar v = wide(x), size = abs(v);
  const Scalar e = exp(size), root = exp(0.5 * size);
  return narrow(select(size < 22.0, fma(e, 0.5, 0.5 / e), 0.5 * root * root), x);
}

Scalar asinh(Scalar x) {
  require_floating(x, "asinh");
  if (const auto call = recorded_call("asinh", {x})) return *call;
  const Scalar v = wide(x), size = abs(v), large = size > 0x1p28;
  const Scalar inside = select(large, 1.0, size), square = inside * inside;
  const Scalar small = log1p(inside + square / (1.0 + sqrt(square + 1.0)));
  const Scalar y = select(large, log(size) + std::numbers::ln2, small);
  return narrow(select(v != v, v, copysign(y, v)), x);
}

Scalar acosh(Scalar x) {
  require_floating(x, "acosh");
  if (const auto call = recorded_call("acosh", {x})) return *call;
  const Scalar v = wide(x), t = select(v > 0x1p28, 1.0, v - 1.0);
  const Scalar small = log1p(t + sqrt(fma(t, t, 2.0 * t)));
  const Scalar y = select(v > 0x1p28, log(v) + std::numbers::ln2, small);
  return narrow(select(v < 1.0, kNan, y), x);
}

Scalar atanh(Scalar x) {
  require_floating(x, "atanh");
  if (const auto call = recorded_call("atanh", {x})) return *call;
  const Scalar v = wide(x), size = abs(v), twice = size + size, rest = 1.0 - size;
  const Scalar ratio = select(size < 0.5, fma(twice, size / rest, twice), twice / rest);
  return narrow(copysign(0.5 * log1p(ratio), v), x);
}

}  // namespace dyad::scalar
