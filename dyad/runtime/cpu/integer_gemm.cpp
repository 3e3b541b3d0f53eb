#include "dyad/runtime/cpu/integer_gemm.h"

#include <algorithm>
#include <vector>

#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/integer_words.h"
#include "dyad/runtime/cpu/lru.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

#ifndef DYAD_PLAIN_LOOPS

double flops_of(const IntegerGemm& g) {
  return 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
}

onednn::Held make_product(const IntegerGemm& g) {
  using dnnl::memory;
  const auto matrix = [](memory::data_type type, std::int64_t rows, std::int64_t columns,
                         std::int64_t row, std::int64_t column) {
    // A single row or column has no neighbour: any stride that holds the other axis will do.
    if (rows == 1) row = std::max(row, columns * column);
    if (columns == 1) column = std::max(column, column == 1 ? 1 : rows * row);
    return memory::desc(memory::dims{rows, columns}, type, memory::dims{row, column});
  };
  const auto a = matrix(memory::data_type::u8, g.m, g.k, g.a_row, 1);
  const auto b = matrix(memory::data_type::s8, g.k, g.n, g.b_row, g.b_column);
  const auto c = matrix(memory::data_type::s32, g.m, g.n, g.c_row, 1);
  const dnnl::matmul::primitive_desc pd({a, b, c}, onednn::engine());
  return {dnnl::matmul(pd), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}};
}

void library_product(const IntegerGemm& g, const std::uint8_t* a, const std::int8_t* b,
                     std::int32_t* c) {
  const int threads = worth_a_team(flops_of(g)) ? team_size() : 1;
  const PlanKey key{threads, g.m, g.n, g.k, g.a_row, g.b_row, g.b_column, g.c_row};
  constexpr std::size_t kHeld = 256;
  thread_local Lru<onednn::Held> held(kHeld);
  const LibraryTeam team(threads);
  try {
    held.get(key, [&] { return make_product(g); }).run({a, b, c});
  } catch (const dnnl::error& error) {
    onednn::fail(error);
  }
}

#endif

/// Rows of bytes as numbers of 32 bits, without gaps.
template <class T>
std::vector<std::int32_t> as_words(const T* from, std::int64_t rows, std::int64_t columns,
                                   std::int64_t row, std::int64_t column) {
  std::vector<std::int32_t> wide(static_cast<std::size_t>(rows * columns));

  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      wide[static_cast<std::size_t>(i * columns + j)] = from[i * row + j * column];
    }
  }
  return wide;
}

void loop_product(const IntegerGemm& g, const std::uint8_t* a, const std::int8_t* b,
                  std::int32_t* c) {
  const auto left = as_words(a, g.m, g.k, g.a_row, 1);
  const auto right = as_words(b, g.k, g.n, g.b_row, g.b_column);
  gemm_loops({.dtype = DType::i32,
              .m = g.m,
              .n = g.n,
              .k = g.k,
              .a_row = g.k,
              .a_column = 1,
              .b_row = g.n,
              .b_column = 1,
              .c_row = g.c_row},
             left.data(), right.data(), nullptr, c);
}

// Sums wrap: they are taken modulo 2^32, as the products are.
using Sums = std::vector<std::uint32_t>;

template <class T>
[[gnu::always_inline]] inline std::uint32_t sum_of(const T* data, std::int64_t count) {
  std::uint32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<std::uint32_t>(std::int32_t{data[i]});
  return sum;
}
DYAD_VECTOR_CLONES std::uint32_t unsigned_row_sum(const std::uint8_t* data, std::int64_t count) {
  return sum_of(data, count);
}
DYAD_VECTOR_CLONES void add_row(const std::int8_t* data, std::int64_t count, std::uint32_t* sums) {
  for (std::int64_t i = 0; i < count; ++i)
    sums[i] += static_cast<std::uint32_t>(std::int32_t{data[i]});
}

Sums row_sums(const IntegerGemm& g, const std::uint8_t* a) {
  Sums sums(static_cast<std::size_t>(g.m));
  parallel_for(0, g.m, grain_for({.bytes = static_cast<double>(g.k)}, g.m),
               [&](std::int64_t lo, std::int64_t hi) {
                 for (std::int64_t i = lo; i < hi; ++i) {
                   sums[static_cast<std::size_t>(i)] = unsigned_row_sum(a + i * g.a_row, g.k);
                 }
               });
  return sums;
}

/// How many rows of a product each thread computes by itself: all where the product is small, or
/// shares its threads out better than by rows.
std::int64_t rows_of_a_thread(const IntegerGemm& g) {
#ifndef DYAD_PLAIN_LOOPS
  constexpr std::int64_t kTile = 32;  // of the CPU's units for matrices
  if (integer_library_is_exact() && worth_a_team(flops_of(g))) {
    const std::int64_t threads = team_size(), even = (g.m + threads - 1) / threads;
    return (even + kTile - 1) / kTile * kTile;
  }
#endif
  return std::max<std::int64_t>(1, g.m);
}

bool any(const std::int32_t* values, std::int64_t count, std::int64_t stride) {
  if (values == nullptr) return false;
  for (std::int64_t i = 0; i < (stride == 0 ? 1 : count); ++i) {
    if (values[i * stride] != 0) return true;
  }
  return false;
}

}  // namespace

bool integer_library_is_exact() {
#ifdef DYAD_PLAIN_LOOPS
  return false;
#else
  return onednn::uses(dnnl_cpu_isa_avx512_core_vnni) || onednn::uses(dnnl_cpu_isa_avx2_vnni);
#endif
}

DYAD_VECTOR_CLONES std::uint32_t row_sum(const std::int8_t* data, std::int64_t count) {
  return sum_of(data, count);
}

DYAD_VECTOR_CLONES void take_off(std::int32_t* c, std::int64_t count,
                                 const std::uint32_t* by_column, std::uint32_t x, std::uint32_t y,
                                 const std::uint32_t* of_column) {
  if (x == 0) {  // half the products, which are slow ones
    for (std::int64_t j = 0; j < count; ++j) {
      c[j] = static_cast<std::int32_t>(static_cast<std::uint32_t>(c[j]) - y * of_column[j]);
    }
    return;
  }
  for (std::int64_t j = 0; j < count; ++j) {
    c[j] = static_cast<std::int32_t>(static_cast<std::uint32_t>(c[j]) - by_column[j] * x -
                                     y * of_column[j]);
  }
}

std::vector<std::uint32_t> column_sums(const IntegerGemm& g, const std::int8_t* b) {
  Sums sums(static_cast<std::size_t>(g.n));
  if (g.b_column == 1) {
    for (std::int64_t i = 0; i < g.k; ++i) add_row(b + i * g.b_row, g.n, sums.data());
  } else {
    for (std::int64_t j = 0; j < g.n; ++j) {
      sums[static_cast<std::size_t>(j)] = row_sum(b + j * g.b_column, g.k);
    }
  }
  return sums;
}

void integer_gemm(const IntegerGemm& g, const std::uint8_t* a, const std::int8_t* b,
                  std::int32_t* c) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    for (std::int64_t i = 0; i < g.m; ++i) std::fill_n(c + i * g.c_row, g.n, 0);
    return;
  }
#ifndef DYAD_PLAIN_LOOPS
  if (integer_library_is_exact()) return library_product(g, a, b, c);
#endif
  if (!integer_words_product(g, a, b, c)) loop_product(g, a, b, c);
}

void integer_gemm(const IntegerGemm& g, const ZeroPoints& zero, const std::uint8_t* a,
                  const std::int8_t* b, std::int32_t* c) {
  const bool any_a = any(zero.a, g.m, zero.a_stride), any_b = any(zero.b, g.n, zero.b_stride);
  if (!any_a && !any_b) return integer_gemm(g, a, b, c);
  // (A - za)(B - zb) = AB - zb (rows of A - k za) - za (columns of B)
  Sums own;
  if (!any_a) own.resize(static_cast<std::size_t>(g.n));
  if (any_a && zero.b_sums == nullptr) own = column_sums(g, b);
  const std::uint32_t* const columns = own.empty() ? zero.b_sums : own.data();
  Sums of_b(static_cast<std::size_t>(g.n));
  for (std::int64_t j = 0; any_b && j < g.n; ++j) {
    of_b[static_cast<std::size_t>(j)] = static_cast<std::uint32_t>(zero.b[j * zero.b_stride]);
  }
  // A thread takes off what belongs to its own rows, which lie in its cache.
  const std::int64_t block = rows_of_a_thread(g);
  parallel_for(0, (g.m + block - 1) / block, 1, [&](std::int64_t lo, std::int64_t hi) {
    IntegerGemm part = g;
    const std::int64_t first = lo * block;
    part.m = std::min(g.m, hi * block) - first;
    integer_gemm(part, a + first * g.a_row, b, c + first * g.c_row);
    const Sums rows = any_b ? row_sums(part, a + first * g.a_row) : Sums();
    const auto take_rows = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        const std::uint32_t za =
            any_a ? static_cast<std::uint32_t>(zero.a[(first + i) * zero.a_stride]) : 0;
        const std::uint32_t row =
            any_b ? rows[static_cast<std::size_t>(i)] - static_cast<std::uint32_t>(g.k) * za : 0;
        take_off(c + (first + i) * g.c_row, g.n, of_b.data(), row, za, columns);
      }
    };
    parallel_for(0, part.m, grain_for({.bytes = 8.0 * static_cast<double>(g.n)}, part.m),
                 take_rows);
  });
}

}  // namespace dyad::runtime::cpu
