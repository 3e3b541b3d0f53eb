#include <cmath>

#include "dyad/ir/scalar.h"

// The small dtypes: a kernel sees them as bytes, and these programs stand between the bytes and the
// numbers, so that no back end needs to know the formats.

namespace dyad::scalar {
namespace {

constexpr ScalarType kBits = ScalarType::i32;

Scalar power_of_two_code(Scalar x, bool saturate) {
  const Scalar bits = bitcast(x, kBits);
  const Scalar exponent = (bits >> 23) & 0xFF;
  // Below 2^-126 there is one more, 2^-127.
  const Scalar exact = select(exponent == 0, bits.like(0x400000), bits.like(0));
  const Scalar up = ((bits & 0x7FFFFF) > exact) & (exponent < (saturate ? 0xFE : 0xFF));
  return exponent + convert(up, kBits);
}

Scalar power_of_two(Scalar code) {
  const Scalar bits = select(code == 0, code.like(0x00400000), code << 23);
  return bitcast(select(code == 0xFF, code.like(0x7FC00000), bits), ScalarType::f32);
}

Scalar float_code(Scalar x, DType dtype, bool saturate) {
  const SmallFloatFormat f = small_float_format(dtype);
  const int lowest = 127 + 1 - f.bias;
  // Larger numbers than 2^17 all overflow.
  const Scalar magnitude = min(abs(x), x.like(0x1p17));
  const Scalar exponent = max(bitcast(magnitude, kBits) >> 23, Scalar(lowest));
  // The distance between neighbours is a power of two, and so is its reciprocal: the product is
  // exact.
  const Scalar reciprocal =
      bitcast((exponent.like(2 * 127 + f.mantissa_bits) - exponent) << 23, ScalarType::f32);
  const Scalar steps = convert(rint(magnitude * reciprocal), kBits);
  Scalar code = ((exponent - lowest) << f.mantissa_bits) + steps;
  code = select(code > static_cast<int>(f.largest),
                code.like(static_cast<int>(saturate ? f.largest : f.overflow)), code);
  const Scalar sign_bit = code.like(1 << (f.width() - 1));
  Scalar negative = bitcast(x, kBits) < 0;
  if (!f.negative_zero) negative = negative & (code != 0);
  if (!saturate && f.overflow == f.nan) negative = negative & (code != static_cast<int>(f.nan));
  code = select(negative, code | sign_bit, code);
  return select(x != x, code.like(static_cast<int>(f.nan)), code);
}

Scalar float_value(Scalar code, DType dtype) {
  const SmallFloatFormat f = small_float_format(dtype);
  const int sign_bit = 1 << (f.width() - 1);
  const Scalar magnitude = code & (sign_bit - 1);
  const Scalar exponent = magnitude >> f.mantissa_bits;
  const Scalar mantissa = magnitude & ((1 << f.mantissa_bits) - 1);
  const Scalar normal = bitcast(
      ((exponent + (127 - f.bias)) << 23) | (mantissa << (23 - f.mantissa_bits)), ScalarType::f32);
  const Scalar smallest = normal.like(std::ldexp(1.0, 1 - f.bias - f.mantissa_bits));
  Scalar value = select(exponent == 0, convert(mantissa, ScalarType::f32) * smallest, normal);
  if (f.is_ieee) {
    value = select(magnitude == static_cast<int>(f.overflow),
                   bitcast(code.like(0x7F800000), ScalarType::f32), value);
  }
  value = select((code & sign_bit) != 0, -value, value);
  if (!f.has_nan) return value;
  const Scalar is_nan = f.is_ieee         ? magnitude > static_cast<int>(f.overflow)
                        : f.negative_zero ? magnitude == static_cast<int>(f.nan)
                                          : code == static_cast<int>(f.nan);
  return select(is_nan, bitcast(code.like(0x7FC00000), ScalarType::f32), value);
}

Scalar integer_value(Scalar code, DType dtype) {
  const int shift = 32 - small_int_width(dtype);
  return small_int_is_signed(dtype) ? (code << shift) >> shift
                                    : shift_right_logical(code << shift, shift);
}

}  // namespace

Scalar to_code(Scalar x, DType dtype, bool saturate) {
  if (contains(kSmallFloat, dtype)) {
    const Scalar single = convert(x, ScalarType::f32);
    return dtype == f8e8m0 ? power_of_two_code(single, saturate)
                           : float_code(single, dtype, saturate);
  }
  const Scalar whole = convert(x, kBits);
  if (!is_floating(x.type())) return integer_value(whole, dtype);
  const int width = small_int_width(dtype);
  const int low = small_int_is_signed(dtype) ? -(1 << (width - 1)) : 0;
  return min(max(whole, whole.like(low)), whole.like(low + (1 << width) - 1));
}

Scalar from_code(Scalar code, DType dtype) {
  if (dtype == f8e8m0) return power_of_two(code);
  return contains(kSmallFloat, dtype) ? float_value(code, dtype) : integer_value(code, dtype);
}

}  // namespace dyad::scalar
