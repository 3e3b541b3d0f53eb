#pragma once

#include <cstdint>

#include "dyad/runtime/cpu/integer_gemm.h"

namespace dyad::runtime::cpu {

/// The product of bytes, exact modulo 2^32, by words of 16 bits: two products of u8 and i8 and
/// their sum fit the i32 of VPMADDWD, where VPMADDUBSW would saturate. False, and nothing done,
/// where the CPU has no AVX2.
[[nodiscard]] bool integer_words_product(const IntegerGemm& problem, const std::uint8_t* a,
                                         const std::int8_t* b, std::int32_t* c);

}  // namespace dyad::runtime::cpu
