#pragma once

#include <cstdint>
#include <vector>

#include "dyad/runtime/cpu/integer_gemm.h"

// Products of bytes, exact modulo 2^32, by words of 16 bits: two products of u8 and i8 and their
// sum fit the i32 of VPMADDWD, where VPMADDUBSW would saturate.
namespace dyad::runtime::cpu {

/// Whether the CPU has AVX2. Without it there is nothing here.
[[nodiscard]] bool has_integer_words() noexcept;

/// Columns of a panel of B, and the rows of A that pass by it at once.
inline constexpr std::int64_t kWordColumns = 16, kWordRows = 6;
/// Rows of a panel that stay in the first cache while rows of A pass by.
inline constexpr std::int64_t kWordDepth = 512;

/// B in panels of kWordColumns columns: for each pair of its rows the two elements of every column
/// as words side by side, so that one instruction multiplies them by the same pair of A and adds
/// both. What is not there is 0.
[[nodiscard]] std::vector<std::int16_t> pack_words(const IntegerGemm& problem,
                                                   const std::int8_t* b);
/// Bytes as words; behind an odd number of them comes a 0.
void widen_to_words(const std::uint8_t* from, std::int64_t count, std::int16_t* to);
/// c[rows][kWordColumns] = or += a[rows][2 pairs] times a panel of as many pairs; 1 to kWordRows
/// rows. Strides are in elements.
void multiply_words(std::int64_t rows, const std::int16_t* a, std::int64_t a_row,
                    const std::int16_t* panel, std::int64_t pairs, bool add, std::int32_t* c,
                    std::int64_t c_row);

/// The product. False, and nothing done, without AVX2.
[[nodiscard]] bool integer_words_product(const IntegerGemm& problem, const std::uint8_t* a,
                                         const std::int8_t* b, std::int32_t* c);

}  // namespace dyad::runtime::cpu
