#include <numbers>

#include "dyad/ir/scalar_calls.h"
#include "dyad/ir/scalar_error.h"
#include "dyad/ir/scalar_math.h"
#include "dyad/ir/scalar_math_detail.h"

namespace dyad::scalar {
namespace {

using namespace detail;

struct Breakpoint {
  double c, log_high, log_low;  // log_high is a multiple of 2^-42
};
constexpr Breakpoint kBreakpoints[] = {
    {0.7109375, -0x1.5d5bddf596000p-2, 0x1.a0b2a08a465dcp-47},
    {0.7734375, -0x1.07138604d6000p-2, 0x1.e76324e912b17p-44},
    {0.84375, -0x1.5bf406b544000p-3, 0x1.27023eb68981cp-46},
    {0.9140625, -0x1.700d30aeac000p-4, -0x1.c1e8da99ded32p-49},
    {1.0, 0.0, 0.0},
    {1.09375, 0x1.6f0d28ae58000p-4, -0x1.4b4641b664613p-44},
    {1.1875, 0x1.5ff3070a7a000p-3, -0x1.8586f183bebf2p-44},
    {1.296875, 0x1.0a324e2739000p-2, 0x1.c6bee7ef4030ep-47},
    {1.4140625, 0x1.62c82f2b9c000p-2, 0x1.e54bdbd7c8a98p-44},
};
constexpr double kBetween[] = {0.742, 0.808, 0.878, 0.956, 1.046, 1.140, 1.241, 1.354};

/// log(x) of a positive f64 as an unevaluated sum with about 68 bits: e ln 2 + log c + log(m / c),
/// c near m.
struct Pair {
  Scalar high, low;
};
Pair log_pair(Scalar x) {
  const Scalar tiny = x < 0x1p-1022;
  const auto [exponent, m] = log_parts(select(tiny, x * 0x1p52, x));
  const Scalar e = select(tiny, exponent - 52.0, exponent);
  Scalar c = x.like(kBreakpoints[0].c), high = x.like(kBreakpoints[0].log_high),
         low = x.like(kBreakpoints[0].log_low);
  for (int i = 0; i < 8; ++i) {
    const Scalar above = m > kBetween[i];
    c = select(above, kBreakpoints[i + 1].c, c);
    high = select(above, kBreakpoints[i + 1].log_high, high);
    low = select(above, kBreakpoints[i + 1].log_low, low);
  }
  const Scalar difference = m - c, d = m + c, d_b = d - m;
  const Scalar d_low = (m - (d - d_b)) + (c - d_b);
  const Scalar s = difference / d;
  const Scalar s_low = fma(-s, d_low, fma(-s, d, difference)) / d;
  const Scalar z = s * s;
  const Scalar tail = s * z * polynomial(z, {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11});
  const Scalar exact = fma(e, 0x1.62e42fefa3800p-1, high);
  const Scalar twice = 2.0 * s;
  const Scalar sum = exact + twice, b = sum - exact;
  const Scalar error = (exact - (sum - b)) + (twice - b);
  const Scalar rest = error + (fma(e, 0x1.ef35793c76730p-45, low) + fma(s_low, 2.0, tail));
  const Scalar result = sum + rest;
  return {result, (sum - result) + rest};
}

/// |x|^y for f64, without the cases that depend on signs.
Scalar pow_positive(Scalar x, Scalar y) {
  const auto [high, low] = log_pair(x);
  const Scalar logarithm = select(x < kInf, select(x == 0.0, x.like(-kInf), high), x);
  const Scalar product = y * logarithm;
  const Scalar product_low = fma(y, logarithm, -product) + y * low;
  const Scalar correction = select(abs(product) < 800.0, product_low, 0.0);
  return exp_core(clamp(product, -746, 710), &correction);
}

/// |x|^y for f32, in f64 with as many bits as one rounding at the end needs: 2^-34 in the logarithm
/// and 2^-32 in the exponential are left out.
Scalar pow_positive_f32(Scalar x, Scalar y) {
  const Scalar base = wide(x);
  const auto [e, m] = log_parts(base);
  const Scalar s = (m - 1.0) / (m + 1.0), z = s * s;
  const Scalar p = polynomial(z, {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13});
  const Scalar inside = fma(s, p, e * std::numbers::ln2);
  const Scalar logarithm = select(base < kInf, select(base == 0.0, -kInf, inside), base);
  // Beyond these f32 has only 0 and infinity.
  const Scalar product = clamp(wide(y) * logarithm, -110, 95);
  const auto [n, integer] = nearest(product, product.like(std::numbers::log2e));
  const Scalar r = fma(-n, std::numbers::ln2, product);
  const Scalar power = polynomial(
      r, {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320});
  const Scalar scale = bitcast((integer + std::int64_t{1023}) << 52, ScalarType::f64);
  return narrow(power * scale, x);
}

}  // namespace

Scalar erf(Scalar x) {
  require_floating(x, "erf");
  if (const auto call = recorded_call("erf", {x})) return *call;
  const Scalar t = abs(x);
  if (is_f64(x)) {
    // Odd polynomial on [0, 1]; log(erfc(t)) from there to where erf rounds to 1.
    const Scalar z = t * t;
    const Scalar p =
        polynomial(z, {0x1.06eba8214db69p-3, -0x1.812746b0379fep-2, 0x1.ce2f21a043773p-4,
                       -0x1.b82ce312b4d8ap-6, 0x1.565bcd147db6ap-8, -0x1.c02db510a4673p-11,
                       0x1.f9a3470837a19p-14, -0x1.f4d4f90a06f79p-17, 0x1.ba0cffa3179afp-20,
                       -0x1.60fa904d1cd38p-23, 0x1.090786087a597p-26, -0x1.b24675c32a5e6p-30,
                       0x1.cc717f6c32359p-33, -0x1.8cd9b21379165p-36});
    const Scalar u = min(x.like(6.0), t) - 2.0;
    const Scalar g =
        polynomial(u, {-0x1.575b329b1f514p2, -0x1.1ac3258a8dc2ap2, -0x1.d8f5dece92965p-1,
                       -0x1.0dc3b5fb31012p-6, 0x1.d406b378bfe61p-9, -0x1.7ffcfb023de6bp-11,
                       0x1.1bc3a4d1f37abp-13, -0x1.5b659d0f25d4ep-16, 0x1.0604a1794b6f1p-19,
                       0x1.b58014b4a38adp-23, -0x1.73e22db7924d9p-23, 0x1.ef9bc4492de1bp-25,
                       -0x1.e0b0e43e08e1ap-27, 0x1.66a53e50e93c9p-29, -0x1.1a74897a014ap-32,
                       -0x1.3a97e31b73421p-34, 0x1.4222d35900acep-35, -0x1.5661e28420b2ep-38});
    return copysign(select(t >= 1.0, -expm1_inside(g), fma(t, p, t)), x);
  }
  // erf(t) = 1 - e^g, with g(t) = log(erfc(t)) = t (h(t) - 1) on [0, 4].
  const Scalar u = min(x.like(4.0), t);
  const Scalar h =
      polynomial(u, {-0x1.06eba8p-3, -0x1.45f2fap-1, -0x1.a4fa5ep-4, 0x1.39cdc6p-6, 0x1.505ff8p-13,
                     -0x1.b50052p-10, 0x1.4bc9ecp-11, -0x1.ed6c58p-14, 0x1.3696b4p-17});
  return copysign(expm1_inside(fma(u, h, -u)), x);
}

NormalTail normal_tail(Scalar x) {
  require_floating(x, "normal_tail");
  const Scalar size = min(x.like(is_f64(x) ? 38.75 : 14.25), abs(x));
  if (CallRecorder::current()) return {size, 0.5 - 0.5 * erf(size * (1 / std::numbers::sqrt2))};
  if (is_f64(x)) return {size, 0.5 * erfc(size * (1 / std::numbers::sqrt2))};
  // The logarithm to the base 2: -1 at 0, so that nothing is lost there, and off by as much as the
  // tail leaves room for elsewhere.
  const Scalar g =
      polynomial(size, {-1.0, -0x1.26aee2p0, -0x1.d639acp-2, -0x1.ae025ap-5, 0x1.cbfba8p-8,
                        -0x1.d4daap-15, -0x1.0b2488p-12, 0x1.266912p-14, -0x1.56e48ap-17,
                        0x1.cfbe8ep-21, -0x1.51e4a4p-25, 0x1.96c2e4p-31});
  const Scalar whole = nearest(g, x.like(1.0)).value, r = g - whole;
  const Scalar power = polynomial(
      r, {1.0, 0x1.62e42ap-1, 0x1.ebf9bcp-3, 0x1.c6b752p-5, 0x1.3cea88p-7, 0x1.5bba14p-10});
  return {size, ldexp(power, whole)};
}

Scalar pow(Scalar x, Scalar y) {
  if (x.is_literal()) x = y.like(x);
  if (y.is_literal()) y = x.like(y);
  require_floating(x, "pow");
  if (const auto call = recorded_call("pow", {x, y})) return *call;
  const Scalar size = abs(x);
  Scalar r = is_f64(x) ? pow_positive(size, y) : pow_positive_f32(size, y);
  r = select(size == 1.0, 1.0, r);
  const Scalar whole = floor(y) == y;
  const Scalar odd = whole & (floor(0.5 * y) * 2.0 != y);
  r = select(odd, copysign(r, x), r);
  r = select((x < 0.0) & (size < kInf) & !whole, kNan, r);
  // NaN where an operand is NaN, except x^0 and 1^y.
  r = select((x != x) | (y != y), kNan, r);
  return select((y == 0.0) | (x == 1.0), 1.0, r);
}

}  // namespace dyad::scalar
