#pragma once

#include <cstdint>
#include <vector>

namespace dyad::runtime::cpu {

/// C[m, n] = A[m, k] B[k, n] of u8 and i8. Strides are in elements: columns of A and of C are
/// neighbours, of B either columns or rows are.
struct IntegerGemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, b_row = 0, b_column = 1, c_row = 0;
  const std::int16_t* b_words = nullptr;  ///< B as pack_words() makes it, where it is made already
};

/// Whether the library adds products of bytes up in i32 on this CPU. Those without such
/// instructions (VPMADDUBSW of AVX2 and the first AVX-512) saturate sums of two at 16 bits.
[[nodiscard]] bool integer_library_is_exact();

/// The product, exact modulo 2^32 on any CPU: by the library where its instructions add up in i32,
/// otherwise (they would saturate pairs of products at 16 bits) by integer_words_product or,
/// without AVX2, a loop nest.
void integer_gemm(const IntegerGemm& problem, const std::uint8_t* a, const std::int8_t* b,
                  std::int32_t* c);

/// Numbers that are taken off the operands: one for all rows of A (stride 0) or one for each; the
/// same for the columns of B. Null: 0.
struct ZeroPoints {
  const std::int32_t* a = nullptr;
  std::int64_t a_stride = 0;
  const std::int32_t* b = nullptr;
  std::int64_t b_stride = 0;
  const std::uint32_t* b_sums = nullptr;  ///< the sums of B's columns where they are known
};

/// The sums of B's columns, modulo 2^32.
[[nodiscard]] std::vector<std::uint32_t> column_sums(const IntegerGemm& problem,
                                                     const std::int8_t* b);

/// The sum of `count` numbers, modulo 2^32.
[[nodiscard]] std::uint32_t row_sum(const std::int8_t* data, std::int64_t count);
/// c[j] -= by_column[j] * x + y * of_column[j], modulo 2^32.
void take_off(std::int32_t* c, std::int64_t count, const std::uint32_t* by_column, std::uint32_t x,
              std::uint32_t y, const std::uint32_t* of_column);

/// (A - zero points) (B - zero points), modulo 2^32.
void integer_gemm(const IntegerGemm& problem, const ZeroPoints& zero, const std::uint8_t* a,
                  const std::int8_t* b, std::int32_t* c);

}  // namespace dyad::runtime::cpu
