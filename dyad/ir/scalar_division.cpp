#include <cmath>

#include "dyad/ir/scalar_math.h"
#include "dyad/ir/scalar_math_detail.h"

// Quotients and remainders, and the length of a pair. f32 is computed in f64 and rounded once.
namespace dyad::scalar {
namespace {

using namespace detail;

/// Gives a number the type of the operand that it meets.
void match(Scalar& a, Scalar& b) {
  if (a.is_literal()) a = b.like(a);
  if (b.is_literal()) b = a.like(b);
}

/// Of a whole number r of less than 1.5 n the nearest to 0 that is the same modulo n.
Scalar balanced(Scalar r, Scalar n) { return select(abs(r) > 0.5 * n, r - copysign(n, r), r); }

/// a b modulo n, balanced, for whole numbers a and b of at most n / 2, with n from 2^52 to 2^53:
/// the quotient is off by less than 1, and the rest is exact.
Scalar product_modulo(Scalar a, Scalar b, Scalar n) {
  const Scalar p = a * b, low = fma(a, b, -p);
  return balanced(fma(-rint(p / n), n, p) + low, n);
}

/// The remainder of finite numbers whose quotient is 2^144 or more: with both as whole numbers of
/// 53 bits times powers of two, m 2^k modulo n, by squaring.
Scalar far_remainder(Scalar dividend, Scalar divisor) {
  const Scalar tiny = divisor < 0x1p-1022, scaled = select(tiny, divisor * 0x1p54, divisor);
  const auto whole = [](Scalar x) {
    const Scalar bits = bitcast(x, ScalarType::i64) & 0xFFFFFFFFFFFFF;
    return bitcast(bits | 0x4330000000000000, ScalarType::f64);
  };
  const auto exponent = [](Scalar x) {
    return shift_right_logical(bitcast(x, ScalarType::i64), 52);
  };
  const Scalar n = whole(scaled);
  const Scalar k = exponent(dividend) - exponent(scaled) + select(tiny, exponent(n).like(54), 0);
  Scalar power = bitcast((shift_right_logical(k, 6) + 1023) << 52, ScalarType::f64);
  for (int bit = 5; bit >= 0; --bit) {
    power = product_modulo(power, power, n);
    power = select((shift_right_logical(k, bit) & 1) != 0, balanced(power + power, n), power);
  }
  const Scalar m = balanced(balanced(whole(dividend), n), n);
  const Scalar rest = product_modulo(m, power, n);
  return select(rest < 0.0, rest + n, rest) * (scaled / n) *
         select(tiny, scaled.like(0x1p-54), 1.0);
}

}  // namespace

Scalar hypot(Scalar x, Scalar y) {
  match(x, y);
  require_floating(x, "hypot");
  const Scalar a = abs(wide(x)), b = abs(wide(y));
  const Scalar large = max(a, b), tiny = large < 1e-150, huge = large > 1e150;
  const Scalar down = select(tiny, 0x1p600, select(huge, 0x1p-600, a.like(1.0)));
  const Scalar up = select(tiny, 0x1p-600, select(huge, 0x1p600, a.like(1.0)));
  const Scalar p = a * down, q = b * down;
  const Scalar length = sqrt(fma(p, p, q * q)) * up;
  return narrow(select((a == kInf) | (b == kInf), kInf, length), x);
}

Scalar fmod(Scalar x, Scalar y) {
  match(x, y);
  if (is_integer(x.type())) return x % y;
  require_floating(x, "fmod");
  const Scalar dividend = abs(wide(x)), divisor = abs(wide(y));
  Scalar rest = dividend;
  // A step takes a quotient below 2^48 off, exactly: rounded up, it is one too large.
  for (int bits = is_f64(x) ? 96 : 240; bits >= 0; bits -= 48) {
    const Scalar unit = divisor * std::exp2(bits);
    const Scalar next = fma(-trunc(rest / unit), unit, rest);
    const Scalar reduced = select(next < 0.0, next + unit, next);
    rest = bits == 0 ? reduced : select((rest >= unit) & (unit < kInf), reduced, rest);
  }
  if (is_f64(x)) {
    const Scalar far = (dividend / divisor >= 0x1p144) & (divisor > 0.0) & (dividend < kInf);
    rest = select_rarely(far, far_remainder(dividend, divisor), rest);
  }
  rest = select((divisor == kInf) & (dividend < kInf), dividend, rest);
  return narrow(copysign(rest, wide(x)), x);
}

Scalar floor_mod(Scalar a, Scalar b) {
  match(a, b);
  const Scalar r = fmod(a, b);
  if (is_integer(a.type())) return select((r != 0) & ((r ^ b) < 0), r + b, r);
  return select(r == 0.0, copysign(r, b), select((r < 0.0) != (b < 0.0), r + b, r));
}

Scalar floor_div(Scalar a, Scalar b) {
  match(a, b);
  const Scalar r = fmod(a, b);
  if (is_integer(a.type())) {
    return a / b - select((r != 0) & ((r ^ b) < 0), a.like(1), a.like(0));
  }
  // The quotient that goes with the remainder is whole but for its rounding.
  const Scalar quotient = (a - r) / b;
  const Scalar whole =
      rint(select((r != 0.0) & ((r < 0.0) != (b < 0.0)), quotient - 1.0, quotient));
  return select(b == 0.0, a / b, select(whole == 0.0, copysign(whole, a / b), whole));
}

}  // namespace dyad::scalar
