#include "dyad/runtime/cpu/table_sums.h"

#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {
namespace {

/// Rows lie anywhere: while some are added, those that come so much later are fetched.
constexpr std::int64_t kAhead = 8;
constexpr std::int64_t kLine = 64;

/// sums[kVectors] of columns from `column` on, kept in registers.
template <int kBytes, int kVectors, bool kScaled, class T>
[[gnu::always_inline]] inline void sum_columns(const TableRows<T>& rows, std::int64_t column,
                                               T* sums) {
  using Vector = vector_math::Vector<T, kBytes>;
  using Unaligned = vector_math::Unaligned<T, kBytes>;
  constexpr std::int64_t kSpan = kBytes * kVectors;
  const auto count = static_cast<std::int64_t>(rows.index.size());
  const std::int64_t* const index = rows.index.data();
  Vector sum[kVectors] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count + rows.known) {
      const auto* const later =
          reinterpret_cast<const char*>(rows.table + index[i + kAhead] * rows.width + column);
#pragma GCC unroll 8
      for (std::int64_t at = 0; at < kSpan; at += kLine) __builtin_prefetch(later + at);
    }
    if (index[i] == rows.left_out) continue;
    const auto* const from =
        reinterpret_cast<const Unaligned*>(rows.table + index[i] * rows.width + column);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kScaled) {
        sum[v] += from[v] * rows.scale[i];
      } else {
        sum[v] += from[v];
      }
    }
  }
  auto* const to = reinterpret_cast<Unaligned*>(sums + column);
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) to[v] = sum[v];
}

template <int kBytes, bool kScaled, class T>
[[gnu::always_inline]] inline void sum_all_columns(const TableRows<T>& rows, T* sums) {
  constexpr int kVectors = 8;
  constexpr std::int64_t kWidth = kBytes / static_cast<std::int64_t>(sizeof(T));
  std::int64_t column = 0;
  for (; column + kVectors * kWidth <= rows.width; column += kVectors * kWidth) {
    sum_columns<kBytes, kVectors, kScaled>(rows, column, sums);
  }
  for (; column + kWidth <= rows.width; column += kWidth) {
    sum_columns<kBytes, 1, kScaled>(rows, column, sums);
  }
  for (; column < rows.width; ++column) {
    sum_columns<sizeof(T), 1, kScaled>(rows, column, sums);
  }
}

template <int kBytes, class T>
[[gnu::always_inline]] inline void sum_rows(const TableRows<T>& rows, T* sums) {
  if (rows.scale != nullptr) {
    sum_all_columns<kBytes, true>(rows, sums);
  } else {
    sum_all_columns<kBytes, false>(rows, sums);
  }
}

}  // namespace

DYAD_VECTOR_VERSIONS(void, sum_table_rows, (const TableRows<float>& rows, float* sums), sum_rows,
                     (rows, sums))
DYAD_VECTOR_VERSIONS(void, sum_table_rows, (const TableRows<double>& rows, double* sums), sum_rows,
                     (rows, sums))

}  // namespace dyad::runtime::cpu
