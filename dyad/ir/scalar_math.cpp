#include "dyad/ir/scalar_math.h"

#include "dyad/base/error.h"
#include "dyad/base/exp_constants.h"
#include "dyad/ir/scalar_calls.h"
#include "dyad/ir/scalar_math_detail.h"

namespace dyad::scalar {
namespace {

using namespace detail;

int mantissa_bits(Scalar x) { return is_f64(x) ? 52 : 23; }
std::int64_t bias(Scalar x) { return is_f64(x) ? 1023 : 127; }

/// 2^n for an integer n in the range of normal exponents, of the floating type of `like`.
Scalar power_of_two(Scalar n, Scalar like) {
  return bitcast((n + bias(like)) << mantissa_bits(like), like.type());
}

/// e^r - 1 - r for |r| <= ln 2 / 2.
Scalar exp_tail(Scalar r) {
  const Scalar q = is_f64(r) ? polynomial(r, ExpConstants<double>::kTail)
                             : polynomial(r, ExpConstants<float>::kTail);
  return r * r * q;
}

/// x = n ln 2 + r with |r| <= ln 2 / 2.
struct ExpParts {
  Scalar value, n, r;  ///< n as a float and as an integer
};
template <class T>
ExpParts exp_parts_of(Scalar x) {
  using C = ExpConstants<T>;
  const auto [value, n] = nearest(x, x.like(C::kLog2E));
  return {value, n, fma(value, -C::kLn2Low, fma(value, -C::kLn2High, x))};
}
ExpParts exp_parts(Scalar x) {
  return is_f64(x) ? exp_parts_of<double>(x) : exp_parts_of<float>(x);
}

Scalar sign_mask(Scalar x) {
  return x.program()->constant(bits_type(x), is_f64(x) ? std::numeric_limits<std::int64_t>::min()
                                                       : std::numeric_limits<std::int32_t>::min());
}

/// e ln 2 + log(1 + f) + low.
Scalar log_core(Scalar e, Scalar f, Scalar low) {
  const Scalar square = f * f, half_square = 0.5 * square;
  if (is_f64(f)) {
    const Scalar s = f / (2.0 + f), z = s * s;
    const Scalar tail =
        z * polynomial(z, {0x1.5555555555558p-1, 0x1.9999999995303p-2, 0x1.2492492df3035p-2,
                           0x1.c71c62e0b72ccp-3, 0x1.7462b661a65dp-3, 0x1.39fe212aec029p-3,
                           0x1.2b5b8533a200dp-3});
    const Scalar small = fma(s, half_square + tail, fma(e, 0x1.a39ef35793c76p-33, low));
    return fma(e, 0x1.62e42feep-1, f - (half_square - small));
  }
  const Scalar p =
      polynomial(f, {0x1.555554p-2, -0x1.fffff8p-3, 0x1.999d46p-3, -0x1.555c9p-3, 0x1.23d51p-3,
                     -0x1.fcbecp-4, 0x1.de362p-4, -0x1.d782cp-4, 0x1.204ap-4});
  const Scalar small = fma(square * f, p, fma(e, 0x1.7f7d1cp-20, low));
  return fma(e, 0x1.62e4p-1, f - (half_square - small));
}

}  // namespace

namespace detail {

Scalar require_floating(Scalar x, std::string_view function) {
  if (!is_floating(x.type())) {
    throw DTypeError(std::string(function) + "(" + std::string(name_of(x.type())) +
                     "): takes f32 or f64; convert first");
  }
  return x;
}

Scalar polynomial(Scalar x, std::initializer_list<double> coefficients) {
  const double* c = coefficients.end();
  Scalar y = x.like(*--c);
  while (c != coefficients.begin()) y = fma(y, x, *--c);
  return y;
}

Nearest nearest(Scalar x, Scalar scale) {
  if (CallRecorder::current()) {
    const Scalar value = rint(x * scale);
    return {value, convert(value, bits_type(x))};
  }
  const double magic = is_f64(x) ? 0x1.8p52 : 0x1.8p23;
  // Adding 1.5 * 2^52 leaves the integer in the low bits.
  const Scalar shifted = fma(x, scale, magic);
  return {shifted - magic, bitcast(shifted, bits_type(x)) - bitcast(x.like(magic), bits_type(x))};
}

Scalar sign_bit(Scalar x) {
  if (CallRecorder::current()) return (x < 0.0) | ((x == 0.0) & (1.0 / x < 0.0));
  return bitcast(x, bits_type(x)) < 0;
}

Scalar clamp(Scalar x, double low, double high) { return min(x.like(high), max(x.like(low), x)); }

Scalar exp_core(Scalar x, const Scalar* low) {
  if (CallRecorder::current()) return exp(low ? x + *low : x);
  const ExpParts parts = exp_parts(x);
  const Scalar r = parts.r, tail = exp_tail(r);
  return ldexp(1.0 + (r + (low != nullptr ? fma(*low, 1.0 + (r + tail), tail) : tail)),
               parts.value);
}

Scalar expm1_inside(Scalar x) {
  if (CallRecorder::current()) return expm1(x);
  const auto [value, n, r] = exp_parts(x);
  const Scalar scale = power_of_two(n, x);
  return fma(scale, r + exp_tail(r), scale - 1.0);
}

LogParts log_parts(Scalar x) {
  const Scalar bits = bitcast(x, bits_type(x));
  const Scalar low =
      bits.like(is_f64(x) ? std::int64_t{0x3fe6a09e667f3bcd} : std::int64_t{0x3f3504f3});
  const Scalar e = (bits - low) >> mantissa_bits(x);
  const Scalar m = bitcast(bits - (e << mantissa_bits(x)), x.type());
  // A small i64 becomes an f64 through its bits: there is no instruction for it before AVX-512.
  const Scalar real = is_f64(x) ? bitcast(e + std::int64_t{0x4338000000000000}, x.type()) - 0x1.8p52
                                : convert(e, x.type());
  return {real, m};
}

}  // namespace detail

Scalar exp(Scalar x) {
  require_floating(x, "exp");
  if (const auto call = recorded_call("exp", {x})) return *call;
  return exp_core(is_f64(x) ? clamp(x, -746, 710) : clamp(x, -104, 89), nullptr);
}

Scalar exp2(Scalar x) {
  require_floating(x, "exp2");
  if (const auto call = recorded_call("exp2", {x})) return *call;
  const Scalar inside = is_f64(x) ? clamp(x, -1076, 1025) : clamp(x, -151, 129);
  const Scalar value = nearest(inside, x.like(1.0)).value;
  const Scalar f = inside - value;
  // 2^f = e^(f ln 2), the product kept in two parts.
  const double ln2 = is_f64(x) ? 0x1.62e42fefa39efp-1 : 0x1.62e43p-1;
  const double rest = is_f64(x) ? 0x1.abc9e3b39803fp-56 : -0x1.05c610p-29;
  const Scalar high = f * ln2;
  const Scalar low = fma(f, rest, fma(f, ln2, -high));
  return ldexp(1.0 + (high + fma(low, 1.0 + high, exp_tail(high))), value);
}

Scalar expm1(Scalar x) {
  require_floating(x, "expm1");
  if (const auto call = recorded_call("expm1", {x})) return *call;
  const auto [value, n, r] = exp_parts(is_f64(x) ? clamp(x, -50, 710) : clamp(x, -25, 89));
  const Scalar half = power_of_two(n - 1, x);
  const Scalar y = 2.0 * fma(half, r + exp_tail(r), half - 0.5);
  return select(abs(x) < (is_f64(x) ? 0x1p-54 : 0x1p-25), x, y);
}

namespace {

/// The logarithm of 0, subnormal and negative numbers, infinity and NaN (and of all others).
Scalar log_of_any(Scalar x) {
  const Scalar tiny = x < (is_f64(x) ? 0x1p-1022 : 0x1p-126);
  const int up = mantissa_bits(x);
  const Scalar normal = select(tiny, x * (is_f64(x) ? 0x1p52 : 0x1p23), x);
  const auto [e, m] = log_parts(normal);
  Scalar y = log_core(select(tiny, e - up, e), m - 1.0, x.like(0.0));
  y = select(x < kInf, y, x);
  y = select(x < 0.0, kNan, y);
  return select(x == 0.0, -kInf, y);
}

/// Whether x is no positive normal number. The bits of these are one range, which begins at the
/// lowest integer once they are moved there.
Scalar is_special(Scalar x) {
  const Scalar bits = bitcast(x, bits_type(x));
  if (is_f64(x)) return bits + std::int64_t{0x7ff0000000000000} >= std::int64_t{-0x20000000000000};
  return bits + std::int64_t{0x7f800000} >= std::int64_t{-0x1000000};
}

}  // namespace

Scalar log(Scalar x) {
  require_floating(x, "log");
  if (const auto call = recorded_call("log", {x})) return *call;
  const auto [e, m] = log_parts(x);
  return select_rarely(is_special(x), log_of_any(x), log_core(e, m - 1.0, x.like(0.0)));
}

Scalar log2(Scalar x) {
  require_floating(x, "log2");
  if (const auto call = recorded_call("log2", {x})) return *call;
  return convert(log(convert(x, ScalarType::f64)) * 0x1.71547652b82fep0, x.type());
}

Scalar log10(Scalar x) {
  require_floating(x, "log10");
  if (const auto call = recorded_call("log10", {x})) return *call;
  return convert(log(convert(x, ScalarType::f64)) * 0x1.bcb7b1526e50ep-2, x.type());
}

Scalar log1p(Scalar x) {
  require_floating(x, "log1p");
  if (const auto call = recorded_call("log1p", {x})) return *call;
  const Scalar u = 1.0 + x;
  const Scalar back = u - 1.0;
  const Scalar error = (1.0 - (u - back)) + (x - back);
  const auto [e, m] = log_parts(u);
  Scalar y = log_core(e, m - 1.0, error / u);
  y = select(x < kInf, y, x);
  y = select(x < -1.0, kNan, y);
  y = select(x == -1.0, -kInf, y);
  return select(abs(x) < (is_f64(x) ? 0x1p-54 : 0x1p-25), x, y);
}

namespace {

/// e^2t - 1 for t up to 40: as expm1_inside, with fewer steps around the polynomial.
template <class T>
Scalar expm1_of_twice(Scalar t) {
  using C = ExpConstants<T>;
  // 2t = n ln 2 + r. The bits of `shifted` are n on top of what the shift to the exponent drops.
  const double magic = is_f64(t) ? 0x1.8p52 : 0x1.8p23;
  const Scalar shifted = fma(t, 2 * C::kLog2E, magic), value = shifted - magic;
  const Scalar half = fma(value, -C::kLn2Low / 2, fma(value, -C::kLn2High / 2, t));
  const Scalar r = half + half;
  const int up = mantissa_bits(t);
  const Scalar scale = bitcast((bitcast(shifted, bits_type(t)) << up) + (bias(t) << up), t.type());
  return fma(scale, fma(r * r, polynomial(r, C::kTail), r), scale - 1.0);
}

}  // namespace

Scalar tanh(Scalar x) {
  require_floating(x, "tanh");
  if (const auto call = recorded_call("tanh", {x})) return *call;
  // tanh(t) = (e^2t - 1) / (e^2t + 1), which is 1 from where the two are equal.
  const Scalar t = min(x.like(is_f64(x) ? 22.0 : 10.0), abs(x));
  const Scalar y = is_f64(x) ? expm1_of_twice<double>(t) : expm1_of_twice<float>(t);
  return copysign(y / (y + 2.0), x);
}

Scalar sigmoid(Scalar x) {
  require_floating(x, "sigmoid");
  if (const auto call = recorded_call("sigmoid", {x})) return *call;
  const Scalar z = exp(-abs(x));
  return select(x >= 0.0, 1.0, z) / (1.0 + z);
}

Scalar rsqrt(Scalar x) {
  require_floating(x, "rsqrt");
  return 1.0 / sqrt(x);
}

Scalar sign(Scalar x) {
  if (is_integer(x.type())) return select(x > 0, 1, select(x < 0, x.like(-1), x.like(0)));
  return select(x > 0.0, 1.0, select(x < 0.0, x.like(-1.0), x));
}

Scalar copysign(Scalar x, Scalar y) {
  if (CallRecorder::current()) return select(sign_bit(y), -abs(x), abs(x));
  const Scalar mask = sign_mask(x);
  return bitcast((bitcast(x, bits_type(x)) & ~mask) | (bitcast(y, bits_type(y)) & mask), x.type());
}

Scalar round(Scalar x) { return rint(x); }

Scalar minimum(Scalar a, Scalar b) {
  if (a.is_literal()) a = b.like(a);
  if (!is_floating(a.type())) return min(a, b);
  return select(a != a, a, min(a, b));  // min gives b when b is NaN
}

Scalar maximum(Scalar a, Scalar b) {
  if (a.is_literal()) a = b.like(a);
  if (!is_floating(a.type())) return max(a, b);
  return select(a != a, a, max(a, b));
}

Scalar isnan(Scalar x) { return x != x; }
Scalar isinf(Scalar x) { return abs(x) == kInf; }
Scalar isfinite(Scalar x) { return abs(x) < kInf; }

}  // namespace dyad::scalar
