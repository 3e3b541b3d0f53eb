#pragma once

#include <initializer_list>
#include <limits>
#include <numbers>
#include <string_view>

#include "dyad/ir/scalar.h"

/// What the files of scalar_math share. Coefficients are minimax polynomials computed with Sollya
/// (remez, fpminimax), or by least squares with Lawson's weights, on the intervals named beside
/// them.
namespace dyad::scalar::detail {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi = std::numbers::pi;

inline bool is_f64(Scalar x) { return x.type() == ScalarType::f64; }
inline ScalarType bits_type(Scalar x) { return is_f64(x) ? ScalarType::i64 : ScalarType::i32; }
/// For functions that compute f32 in f64 and round once.
inline Scalar wide(Scalar x) { return convert(x, ScalarType::f64); }
inline Scalar narrow(Scalar y, Scalar like) { return convert(y, like.type()); }

/// x itself when it is f32 or f64; otherwise a DTypeError.
Scalar require_floating(Scalar x, std::string_view function);
/// c0 + c1 x + c2 x^2 + ... by Horner's rule.
Scalar polynomial(Scalar x, std::initializer_list<double> coefficients);

/// The nearest integer to x * scale, of small size, as a float and as an integer.
struct Nearest {
  Scalar value, integer;
};
Nearest nearest(Scalar x, Scalar scale);

/// Whether the bit of the sign is set: that of zeros too.
Scalar sign_bit(Scalar x);
/// Into [low, high]; NaN passes.
Scalar clamp(Scalar x, double low, double high);
/// e^(x + low) for x that a clamp has passed; `low` may be null.
Scalar exp_core(Scalar x, const Scalar* low);
/// e^x - 1 for x from -50 to 50, or NaN; as exact for small x as elsewhere.
Scalar expm1_inside(Scalar x);

/// x = m 2^e with m in [sqrt(1/2), sqrt(2)), for normal x > 0.
struct LogParts {
  Scalar e, m;
};
LogParts log_parts(Scalar x);

}  // namespace dyad::scalar::detail
