#include "dyad/base/error.h"
#include "dyad/ir/scalar_math.h"
#include "dyad/ir/scalar_math_detail.h"

namespace dyad::scalar {
namespace {

constexpr std::int64_t kWord = 0xFFFFFFFF;

/// Word in [0, 1), of 24 bits (f32), the lowest `dropped` of them 0, or with another word of 53
/// (f64).
Scalar fraction(ScalarType type, Scalar word, Scalar more, int dropped = 0) {
  if (type == ScalarType::f32) {
    const Scalar bits = dropped > 0 ? word >> (8 + dropped) << dropped : word >> 8;
    return convert(convert(bits, ScalarType::i32), type) * 0x1p-24;
  }
  if (type != ScalarType::f64) {
    throw DTypeError("uniform random numbers are f32 or f64, not " + std::string(name_of(type)));
  }
  return convert((word << 21) | (more >> 11), type) * 0x1p-53;
}

}  // namespace

std::array<Scalar, 4> philox(Scalar key, Scalar counter) {
  Scalar k0 = key & kWord, k1 = shift_right_logical(key, 32);
  std::array<Scalar, 4> c{counter & kWord, shift_right_logical(counter, 32), counter.like(0),
                          counter.like(0)};
  for (int round = 0; round < 10; ++round) {
    const Scalar p0 = c[0] * std::int64_t{0xD2511F53}, p1 = c[2] * std::int64_t{0xCD9E8D57};
    c = {shift_right_logical(p1, 32) ^ c[1] ^ k0, p1 & kWord,
         shift_right_logical(p0, 32) ^ c[3] ^ k1, p0 & kWord};
    k0 = (k0 + std::int64_t{0x9E3779B9}) & kWord;
    k1 = (k1 + std::int64_t{0xBB67AE85}) & kWord;
  }
  return c;
}

Scalar uniform(Scalar key, Scalar counter, ScalarType type) {
  return uniform(key, counter, dtype_of_type(type));
}

Scalar uniform(Scalar key, Scalar counter, DType dtype) {
  const int dropped = dtype == DType::f16 ? 13 : dtype == DType::bf16 ? 16 : 0;
  const auto words = philox(key, counter);
  return fraction(compute_type(dtype), words[0], words[1], dropped);
}

Scalar normal(Scalar key, Scalar counter, ScalarType type) {
  const auto words = philox(key, counter);
  const Scalar radius = sqrt(-2.0 * log(1.0 - fraction(type, words[0], words[1])));
  return radius * cos_near(0x1.921fb54442d18p2 * fraction(type, words[2], words[3]));
}

}  // namespace dyad::scalar
