#ifndef DYAD_PLAIN_LOOPS

#include "dyad/runtime/cpu/row_pieces.h"

#include <algorithm>
#include <bit>

#include "dyad/runtime/cpu/onednn.h"

namespace dyad::runtime::cpu {
namespace {

/// So few that little is computed twice, so many that first pieces have eight sizes at most between
/// two powers of two.
std::int64_t rows_of_last(std::int64_t rows) {
  if (rows < 32) return 16;
  return std::max<std::int64_t>(
      32, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows) / 8)));
}

/// Multiplications of rows that two pieces share, above which making a primitive is quicker.
constexpr std::int64_t kMostExtra = std::int64_t{1} << 24;
/// A batch, what is left of the data at the end, and the same of what is validated with.
constexpr int kFewNumbers = 4;
/// As often as it takes for the pieces' extra time to reach that of making a primitive.
constexpr int kTimesInPieces = 4;

/// Whether a row's bits do not depend on how many others there are. The library's kernels with
/// AVX-512 add up a row's products in the order of k; only where columns are too few for the
/// threads may they divide k among these, which the number of rows decides. Of AMX it is not known.
bool has_independent_rows(const RowPieces::Product& p) {
  constexpr std::int64_t kColumnsOfOneThread = 64;
  return onednn::uses(dnnl_cpu_isa_avx512_core) &&
         (p.dtype == DType::f32 || !onednn::uses(dnnl_cpu_isa_avx512_core_amx)) &&
         (p.threads == 1 || p.n >= kColumnsOfOneThread * p.threads);
}

}  // namespace

std::int64_t RowPieces::last_rows(const PlanKey& others, const Product& p) {
  const std::int64_t last = rows_of_last(p.rows);
  if (p.rows < last || p.rows % last == 0 || last * p.n * p.k > kMostExtra) return 0;
  if (!has_independent_rows(p)) return 0;
  int& numbers_of_rows = numbers_of_rows_.get(others, [] { return 0; });
  PlanKey key = others;
  key.push_back(p.rows);
  int& times = times_.get(key, [&] {
    ++numbers_of_rows;
    return 0;
  });
  return numbers_of_rows > kFewNumbers && ++times <= kTimesInPieces ? last : 0;
}

}  // namespace dyad::runtime::cpu

#endif
