#include "dyad/runtime/cpu/gemm_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

#ifndef DYAD_PLAIN_LOOPS

Placement placement(std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                    std::int64_t column_stride) {
  if ((columns == 1 || column_stride == 1) && (rows == 1 || row_stride >= columns)) {
    return Placement::rows;
  }
  if ((rows == 1 || row_stride == 1) && (columns == 1 || column_stride >= rows)) {
    return Placement::columns;
  }
  return Placement::other;
}

/// Whether the library takes the innermost axis of the batch as the matrices lie: not one before
/// the other, as flipped ones do, nor with elements in common, as windows over a tensor have.
bool takes_batch(std::int64_t items, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                 std::int64_t row_stride, std::int64_t column_stride) {
  if (stride < 0) return false;
  if (items == 1 || stride == 0) return true;
  std::array<std::pair<std::int64_t, std::int64_t>, 3> axes{
      {{stride, items}, {row_stride, rows}, {column_stride, columns}}};
  std::ranges::sort(axes);
  std::int64_t free = 0;  // from here on
  for (const auto& [apart, size] : axes) {
    if (size == 1) continue;
    if (apart < free) return false;
    free = apart * size;
  }
  return true;
}

/// Rows or columns so far apart share a few sets of a cache.
bool collide(std::int64_t apart, std::int64_t least) {
  return apart >= least && std::has_single_bit(static_cast<std::uint64_t>(apart));
}

/// Without AVX-512 oneDNN 2.6 reads what collides in place, at half the speed of OpenBLAS, which
/// copies it first: worth it for some rows.
bool better_by_blas(const Gemm& g, Placement a, Placement b) {
  if (onednn::uses(dnnl_cpu_isa_avx512_core) || g.m < 32 || g.k < 128) return false;
  if (a == Placement::columns) return collide(g.a_column, 256) || collide(g.b_row, 256);
  if (b == Placement::columns) return g.m >= 1024 && collide(g.b_column, 1024);
  return g.k >= 256 && collide(g.b_row, g.m < 64 ? 1024 : 512);
}

/// With AVX-512 the plain product copies a transposed A whose elements collide at two thirds of its
/// speed, where B has so few columns that the copy shows: a weight's gradient of many samples.
bool copies_slowly(const Gemm& g) {
  return collide(g.a_column, 1024) && g.k >= 1024 && 2 * g.n <= g.m;
}

/// Where rows of B collide, threads that share a part of A lose a tenth to waiting for each other.
bool better_by_columns(const Gemm& g, Placement a, Placement b) {
  return a == Placement::columns && b == Placement::rows && collide(g.b_row, 1024) &&
         2 * g.m <= g.n;
}

/// The plain product reads B as it lies, and wins for few rows and for many; the primitive copies B
/// into blocks, which pays in between, sooner where B lies transposed, and for few columns.
GemmPlan::Method library_method(const Gemm& g, Placement a, Placement b) {
  constexpr auto product = GemmPlan::Method::product, matmul = GemmPlan::Method::matmul;
  if (g.dtype == DType::f64) return GemmPlan::Method::blas;
  if (g.dtype != DType::f32 || cpu::product(g.batch) > 1) return matmul;
  if (better_by_blas(g, a, b)) return GemmPlan::Method::blas;
  if (a == Placement::columns) return copies_slowly(g) ? matmul : product;
  if (b == Placement::columns) return g.m < 16 ? product : matmul;
  if (g.n <= 16 && g.m >= 64) return matmul;
  return g.m < 48 || g.m >= 128 ? product : matmul;
}

#endif

}  // namespace

GemmPlan plan_gemm([[maybe_unused]] const Gemm& g, [[maybe_unused]] int threads) {
  GemmPlan plan;
#ifndef DYAD_PLAIN_LOOPS
  const double flops = 2.0 * static_cast<double>(product(g.batch)) * static_cast<double>(g.m) *
                       static_cast<double>(g.n) * static_cast<double>(g.k);
  // A call of OpenBLAS costs what the loops need for a few small rows.
  constexpr double kFewOfF64 = 4096;
  const bool taken = onednn::takes(g.dtype) || (g.dtype == DType::f64 && flops >= kFewOfF64);
  if (taken && g.m > 0 && g.n > 0 && g.k > 0) {
    plan.a = placement(g.m, g.k, g.a_row, g.a_column);
    plan.b = placement(g.k, g.n, g.b_row, g.b_column);
    plan.method = library_method(g, plan.a, plan.b);
    if (plan.method == GemmPlan::Method::matmul) {
      // It takes the innermost axis of the batch itself.
      if (!g.batch.empty()) {
        const std::int64_t items = g.batch.back();
        if (!takes_batch(items, g.a_batch.back(), g.m, g.k, g.a_row, g.a_column))
          plan.a = Placement::other;
        if (!takes_batch(items, g.b_batch.back(), g.k, g.n, g.b_row, g.b_column))
          plan.b = Placement::other;
      }
    }
    plan.threads = worth_a_team(flops) ? threads : 1;
    plan.by_columns = plan.method == GemmPlan::Method::product && plan.threads > 1 &&
                      cpu::product(g.batch) == 1 && better_by_columns(g, plan.a, plan.b);
  }
#endif
  return plan;
}

}  // namespace dyad::runtime::cpu
