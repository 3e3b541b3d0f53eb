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
  if (is_f64(x)) rest = select(dividend / divisor < 0x1p144, rest, kNan);
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
