#include "dyad/runtime/cpu/gemm.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/storage.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/gemm_plan.h"
#include "dyad/runtime/cpu/lapack.h"
#include "dyad/runtime/cpu/matmul_primitive.h"
#include "dyad/runtime/cpu/onednn.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

#ifndef DYAD_PLAIN_LOOPS

/// One operand of a product, moved to where the library can read it if it must be.
struct Operand {
  const std::byte* data;
  std::int64_t row, column;
  Ints batch;
  Ref<Storage> copy;
};

Operand placed(const Gemm& g, Placement placement, const void* data, std::int64_t rows,
               std::int64_t columns, std::int64_t row, std::int64_t column, const Ints& batch) {
  Operand operand{static_cast<const std::byte*>(data), row, column, batch, {}};
  if (placement != Placement::other) return operand;
  // Batch axes along which the operand is shared are copied once.
  Ints sizes, from, to(g.batch.size() + 2, 0);
  for (std::size_t i = 0; i < g.batch.size(); ++i) {
    sizes.push_back(batch[i] == 0 ? 1 : g.batch[i]);
    from.push_back(batch[i]);
  }
  sizes.push_back(rows);
  sizes.push_back(columns);
  from.push_back(row);
  from.push_back(column);
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0; step *= sizes[i]) to[i] = step;
  operand.copy = Storage::allocate(static_cast<std::size_t>(step) * size_of(g.dtype));
  copy_elements(g.dtype, sizes, operand.copy->data(), to, data, from);
  operand.data = operand.copy->data();
  operand.row = columns;
  operand.column = 1;
  for (std::size_t i = 0; i < g.batch.size(); ++i) operand.batch[i] = batch[i] == 0 ? 0 : to[i];
  return operand;
}

/// What the library calls the leading dimension.
std::int64_t leading(Placement placement, const Operand& o, std::int64_t rows,
                     std::int64_t columns) {
  if (placement == Placement::columns)
    return columns == 1 ? std::max<std::int64_t>(1, rows) : o.column;
  return rows == 1 ? std::max<std::int64_t>(1, columns) : o.row;
}

MatmulOperand for_primitive(Placement placement, const Operand& o, std::int64_t rows,
                            std::int64_t columns) {
  return {.data = o.data,
          .by_columns = placement == Placement::columns,
          .leading = leading(placement, o, rows, columns),
          .batch = o.batch};
}

/// op(a) op(b), added to c or in its place.
void plain_product(const Gemm& g, GemmPlan::Method method, bool turn_a, bool turn_b, const float* a,
                   std::int64_t lda, const float* b, std::int64_t ldb, bool accumulate, float* c,
                   std::int64_t ldc) {
  if (method == GemmPlan::Method::blas) {  // which has C by columns: C^T = B^T A^T
    return lapack::gemm(turn_b, turn_a, g.n, g.m, g.k, 1.0f, b, ldb, a, lda,
                        accumulate ? 1.0f : 0.0f, c, ldc);
  }
  const dnnl_status_t status = dnnl_sgemm(turn_a ? 'T' : 'N', turn_b ? 'T' : 'N', g.m, g.n, g.k,
                                          1.0f, a, lda, b, ldb, accumulate ? 1.0f : 0.0f, c, ldc);
  if (status != dnnl_success) {
    throw InternalError("oneDNN refused a matrix product: status " + std::to_string(status));
  }
}
void plain_product(const Gemm& g, GemmPlan::Method, bool turn_a, bool turn_b, const double* a,
                   std::int64_t lda, const double* b, std::int64_t ldb, bool accumulate, double* c,
                   std::int64_t ldc) {
  lapack::gemm_rows(turn_a, turn_b, g.m, g.n, g.k, a, lda, b, ldb, accumulate, c, ldc);
}

/// Some rows or columns of a result.
struct Part {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

/// A part of product number `at` of the batch.
template <class T>
void run_part(const Gemm& g, const GemmPlan& plan, const Operand& a, const Operand& b,
              const T* bias, T* c, const RowWalk<3>& at, const Part& part) {
  const std::int64_t lda = leading(plan.a, a, g.m, g.k), ldb = leading(plan.b, b, g.k, g.n);
  const std::int64_t ldc = g.m == 1 ? g.n : g.c_row;
  const bool turn_a = plan.a == Placement::columns, turn_b = plan.b == Placement::columns;
  T* const target = c + at[2] + part.row * ldc + part.column;
  if (bias != nullptr) {
    for (std::int64_t i = 0; i < part.rows; ++i) {
      std::copy_n(bias + part.column, part.columns, target + i * ldc);
    }
  }
  Gemm sizes = g;
  sizes.m = part.rows;
  sizes.n = part.columns;
  plain_product(sizes, plan.method, turn_a, turn_b,
                reinterpret_cast<const T*>(a.data) + at[0] + part.row * (turn_a ? 1 : lda), lda,
                reinterpret_cast<const T*>(b.data) + at[1] + part.column * (turn_b ? ldb : 1), ldb,
                bias != nullptr, target, ldc);
}

void run_product(const Gemm& g, const GemmPlan& plan, const Operand& a, const Operand& b,
                 const float* bias, float* c) {
  RowWalk<3> at(g.batch, {a.batch, b.batch, g.c_batch}, 0);
  for (std::int64_t item = 0, items = product(g.batch); item < items; ++item, at.next()) {
    run_part(g, plan, a, b, bias, c, at, {.rows = g.m, .columns = g.n});
  }
}

/// Each part, some rows or columns of one of the products, on one thread. Libraries would divide a
/// product into more steps that wait for one another.
template <class T>
void run_parts(const Gemm& g, const GemmPlan& plan, const Operand& a, const Operand& b,
               const T* bias, T* c) {
  const std::int64_t items = product(g.batch);
  const std::int64_t wanted = items >= plan.threads ? 1 : plan.threads;
  constexpr std::int64_t kLines = 8;  // those of the libraries' kernels divide them
  const std::int64_t all = plan.by_columns ? g.n : g.m;
  const std::int64_t lines = ((all + wanted - 1) / wanted + kLines - 1) / kLines * kLines;
  const std::int64_t parts = (all + lines - 1) / lines;
  const std::int64_t grain = plan.threads > 1 ? 1 : items * parts;
  parallel_for(0, items * parts, grain, [&](std::int64_t first, std::int64_t last) {
    const lapack::Threads threads(1);
    for (std::int64_t i = first; i < last; ++i) {
      const RowWalk<3> at(g.batch, {a.batch, b.batch, g.c_batch}, i / parts);
      const std::int64_t first_line = i % parts * lines;
      const std::int64_t count = std::min(lines, all - first_line);
      run_part(g, plan, a, b, bias, c, at,
               plan.by_columns ? Part{.rows = g.m, .column = first_line, .columns = count}
                               : Part{.row = first_line, .rows = count, .columns = g.n});
    }
  });
}

#endif

}  // namespace

void gemm(const Gemm& g, const void* a, const void* b, const void* bias, void* c) {
  [[maybe_unused]] const GemmPlan plan = plan_gemm(g, team_size());
#ifndef DYAD_PLAIN_LOOPS
  if (plan.method != GemmPlan::Method::loops) {
    const Operand left = placed(g, plan.a, a, g.m, g.k, g.a_row, g.a_column, g.a_batch);
    const Operand right = placed(g, plan.b, b, g.k, g.n, g.b_row, g.b_column, g.b_batch);
    if (g.dtype == DType::f64) {
      run_parts(g, plan, left, right, static_cast<const double*>(bias), static_cast<double*>(c));
      return;
    }
    if (plan.method == GemmPlan::Method::blas || plan.by_columns) {
      const LibraryTeam alone(1);
      run_parts(g, plan, left, right, static_cast<const float*>(bias), static_cast<float*>(c));
      return;
    }
    const LibraryTeam team(plan.threads);
    if (plan.method == GemmPlan::Method::product) {
      run_product(g, plan, left, right, static_cast<const float*>(bias), static_cast<float*>(c));
    } else {
      run_matmul(g, plan.threads, for_primitive(plan.a, left, g.m, g.k),
                 for_primitive(plan.b, right, g.k, g.n), bias, c);
    }
    return;
  }
#endif
  gemm_loops(g, a, b, bias, c);
}

}  // namespace dyad::runtime::cpu
