#include <vector>

#include "dyad/ir/scalar_calls.h"
#include "dyad/ir/scalar_math.h"
#include "dyad/ir/scalar_math_detail.h"
#include "dyad/ir/scalar_semantics.h"

namespace dyad::scalar {
namespace {

using namespace detail;

/// x = n pi/2 + r + low, |r| a little over pi/4 at most; `quadrant` is n modulo 4 as an integer.
struct TrigParts {
  Scalar quadrant, r, low;
};

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kPiOver2[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54,
                               -0x1.f1976b7ed8fbcp-110};

/// Up to here n pi/2 is exact enough with three parts of pi/2.
constexpr double kFar = 0x1p40;
enum class Range : std::uint8_t { near, all };  // up to kFar, or any number

/// A whole number below 2^52, times `unit`, a power of two.
Scalar times_unit(Scalar whole, double unit) {
  const Scalar magic = whole.program()->constant(ScalarType::f64, unit * 0x1p52);
  return bitcast(whole | bitcast(magic, ScalarType::i64), ScalarType::f64) - magic;
}

/// Any f64 of at most `bits` significant bits beyond kFar, by Payne and Hanek's method: x is a
/// whole number m times a power of two; of 2/pi the bits that give multiples of 4 drop out, and the
/// product of m and the next ones is exact, in digits of 27 bits.
TrigParts reduce_far(Scalar x, int bits) {
  constexpr int kDigit = semantics::kTwoOverPiWidth / 2;
  constexpr std::int64_t kMask = (std::int64_t{1} << kDigit) - 1;
  const int zeros = 53 - bits, count = bits > kDigit ? 8 : 4;
  const Scalar pattern = bitcast(x, ScalarType::i64);
  const Scalar significand = (pattern & 0xFFFFFFFFFFFFF) | 0x10000000000000;
  const Scalar m = shift_right_logical(significand, zeros), m_high = shift_right_logical(m, kDigit);
  const Scalar exponent = (shift_right_logical(pattern, 52) & 0x7FF) - (1075 - zeros);
  std::vector<Scalar> of_pi, digits(static_cast<std::size_t>(count), m);
  for (int i = 0; i < count; i += 2) {
    const Scalar from = exponent - 2 + i * kDigit;
    const Scalar two = x.program()->record(Op::two_over_pi, ScalarType::i64, {from});
    of_pi.insert(of_pi.end(), {shift_right_logical(two, kDigit), two & kMask});
  }
  // x 2/pi / 4 without its whole part, the first digit at the front.
  Scalar sum = m.like(0);
  for (int i = count; i-- > 0;) {
    sum = shift_right_logical(sum, kDigit) + (m & kMask) * of_pi[i];
    if (bits > kDigit && i + 1 < count) sum = sum + m_high * of_pi[i + 1];
    digits[i] = sum & kMask;
  }
  // The first two bits are the quadrant; half of one more makes it the nearest.
  const Scalar turn = digits[0] + (1 << (kDigit - 3));
  const Scalar quadrant = shift_right_logical(turn, kDigit - 2);
  const Scalar first = ((turn & (kMask >> 2)) << kDigit) | digits[1];
  const Scalar negative = x < 0.0;
  const Scalar head = times_unit(first, 0x1p-52) - 0.5, next = times_unit(digits[2], 0x1p-79);
  const Scalar share = head + next;
  Scalar high = share * kPiOver2[0], low = x.like(0.0);
  if (bits > kDigit) {
    const Scalar rest = times_unit((digits[3] << 25) | shift_right_logical(digits[4], 2), 0x1p-131);
    const Scalar share_low = (next - (share - head)) + rest;
    const Scalar product_low =
        fma(share, kPiOver2[0], -high) + fma(share, kPiOver2[1], share_low * kPiOver2[0]);
    const Scalar product = high;
    high = product + product_low;
    low = (product - high) + product_low;
    low = select(negative, -low, low);
  }
  high = select(negative, -high, high) + (x - x);  // NaN for infinity
  return {select(negative, -quadrant, quadrant), high, low};
}

TrigParts reduce(Scalar x, Range range) {
  const Scalar far = abs(x) > kFar;
  if (!is_f64(x)) {  // 53 + 53 bits of pi suffice for 24 bits of x, in f64
    const Scalar v = wide(x);
    auto [n, quadrant] = nearest(v, v.like(kTwoOverPi));
    Scalar r = fma(-n, kPiOver2[1], fma(-n, kPiOver2[0], v));
    if (range == Range::all) {
      const TrigParts other = reduce_far(v, 24);
      quadrant = select_rarely(far, other.quadrant, quadrant);
      r = select_rarely(far, other.r, r);
    }
    const Scalar high = convert(r, ScalarType::f32);
    const Scalar low = convert(r - convert(high, ScalarType::f64), ScalarType::f32);
    return {convert(quadrant, ScalarType::i32), high, low};
  }
  const auto [n, quadrant] = nearest(x, x.like(kTwoOverPi));
  const Scalar p0 = n * kPiOver2[0], p0_low = fma(n, kPiOver2[0], -p0);
  const Scalar p1 = n * kPiOver2[1], p1_low = fma(n, kPiOver2[1], -p1);
  const Scalar exact = x - p0;
  const Scalar sum = p0_low + p1, sum_b = sum - p0_low;
  const Scalar sum_low = (p0_low - (sum - sum_b)) + (p1 - sum_b);
  const Scalar r = exact - sum, r_b = r - exact;
  const Scalar r_low = (exact - (r - r_b)) - (sum + r_b);
  const Scalar rest = r_low - sum_low - p1_low - n * kPiOver2[2];
  const Scalar high = r + rest, low = (r - high) + rest;
  if (range == Range::near) return {quadrant, high, low};
  const TrigParts other = reduce_far(x, 53);
  return {select_rarely(far, other.quadrant, quadrant), select_rarely(far, other.r, high),
          select_rarely(far, other.low, low)};
}

/// sin(r + low) and cos(r + low) on [-0.79, 0.79].
Scalar sin_core(Scalar r, Scalar low) {
  const Scalar z = r * r;
  const Scalar p =
      is_f64(r)
          ? polynomial(z, {-0x1.5555555555555p-3, 0x1.1111111111024p-7, -0x1.a01a019feadc7p-13,
                           0x1.71de3a14eefep-19, -0x1.ae64004472f46p-26, 0x1.60ec575c15cbep-33,
                           -0x1.91270acd3b919p-41})
          : polynomial(z, {-0x1.555556p-3, 0x1.111196p-7, -0x1.a07f68p-13, 0x1.861fa4p-19});
  return r + fma(r * z, p, low * fma(z, -0.5, 1.0));
}
Scalar cos_core(Scalar r, Scalar low) {
  const Scalar z = r * r, half = 0.5 * z, w = 1.0 - half;
  const Scalar p =
      is_f64(r)
          ? polynomial(z, {0x1.5555555555555p-5, -0x1.6c16c16c16a3ep-10, 0x1.a01a019fbc532p-16,
                           -0x1.27e4faf81749ep-22, 0x1.1eece62bf5983p-29, -0x1.92bfee510d4eap-37,
                           0x1.43a0598b2361dp-45})
          : polynomial(z, {0x1.555556p-5, -0x1.6c17cep-10, 0x1.a0ec22p-16, -0x1.55ac28p-22});
  return w + (((1.0 - w) - half) + fma(z * z, p, -(r * low)));
}

Scalar sine(Scalar x, Range range) {
  require_floating(x, "sin");
  if (const auto call = recorded_call("sin", {x})) return *call;
  const auto [q, r, low] = reduce(x, range);
  const Scalar y = select((q & 1) == 0, sin_core(r, low), cos_core(r, low));
  const Scalar tiny = abs(x) < (is_f64(x) ? 0x1p-27 : 0x1p-13);
  return select(tiny, x, select((q & 2) == 0, y, -y));
}

Scalar cosine(Scalar x, Range range) {
  require_floating(x, "cos");
  if (const auto call = recorded_call("cos", {x})) return *call;
  const auto [q, r, low] = reduce(x, range);
  const Scalar y = select((q & 1) == 0, cos_core(r, low), sin_core(r, low));
  return select(((q + 1) & 2) == 0, y, -y);
}

Scalar tangent(Scalar x, Range range) {
  require_floating(x, "tan");
  if (const auto call = recorded_call("tan", {x})) return *call;
  const auto [q, r, low] = reduce(x, range);
  const Scalar s = sin_core(r, low), c = cos_core(r, low);
  const Scalar even = (q & 1) == 0;
  const Scalar y = select(even, s, -c) / select(even, c, s);
  return select(abs(x) < (is_f64(x) ? 0x1p-27 : 0x1p-13), x, y);
}

}  // namespace

Scalar sin(Scalar x) { return sine(x, Range::all); }
Scalar cos(Scalar x) { return cosine(x, Range::all); }
Scalar tan(Scalar x) { return tangent(x, Range::all); }
Scalar sin_near(Scalar x) { return sine(x, Range::near); }
Scalar cos_near(Scalar x) { return cosine(x, Range::near); }
Scalar tan_near(Scalar x) { return tangent(x, Range::near); }

}  // namespace dyad::scalar
