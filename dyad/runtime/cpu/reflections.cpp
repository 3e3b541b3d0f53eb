#include "dyad/runtime/cpu/reflections.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dyad/base/error.h"
#include "dyad/runtime/cpu/lapack.h"
#include "dyad/runtime/cpu/matrices.h"
#include "dyad/runtime/cpu/tridiagonal.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/threads.h"

#ifndef DYAD_PLAIN_LOOPS
#include <dnnl.h>
#endif

namespace dyad::runtime::cpu {
namespace {

/// Reflections of a block: more cost more to combine, fewer make products slower.
constexpr std::int64_t kBlock = 32;
/// Columns that a thread takes at a time.
constexpr std::int64_t kColumns = 128;

/// c[m, n] := beta c + alpha op(a) op(b), by columns, on the caller's thread.
void reflector_product(bool turn_a, bool turn_b, std::int64_t m, std::int64_t n, std::int64_t k,
                       float alpha, const float* a, std::int64_t lda, const float* b,
                       std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
#ifndef DYAD_PLAIN_LOOPS
  // The library's products of rows: c^T = op(b)^T op(a)^T.
  const dnnl_status_t status = dnnl_sgemm(turn_b ? 'T' : 'N', turn_a ? 'T' : 'N', n, m, k, alpha, b,
                                          ldb, a, lda, beta, c, ldc);
  if (status != dnnl_success) {
    throw InternalError("oneDNN refused a matrix product: status " + std::to_string(status));
  }
#else
  lapack::gemm(turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
#endif
}
void reflector_product(bool turn_a, bool turn_b, std::int64_t m, std::int64_t n, std::int64_t k,
                       double alpha, const double* a, std::int64_t lda, const double* b,
                       std::int64_t ldb, double beta, double* c, std::int64_t ldc) {
  lapack::gemm(turn_a, turn_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/// The triangle t of a block from the products v^T v that it holds and the factors tau.
template <class W>
[[gnu::always_inline]] inline void triangle(W* t, const W* tau, std::int64_t n) {
  W column[kBlock];
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) column[i] = -tau[j] * t[i + j * n];
    std::fill_n(t + j * n, n, W(0));
    for (std::int64_t q = 0; q < j; ++q) {
      for (std::int64_t i = 0; i <= q; ++i) t[i + j * n] += t[i + q * n] * column[q];
    }
    t[j * (n + 1)] = tau[j];
  }
}
DYAD_VECTOR_CLONES void make_triangle(float* t, const float* tau, std::int64_t n) {
  triangle(t, tau, n);
}
DYAD_VECTOR_CLONES void make_triangle(double* t, const double* tau, std::int64_t n) {
  triangle(t, tau, n);
}

/// Runs `body(first, last, work)` for the pieces of `n` columns, `flops` each.
template <class W, class Body>
void for_columns(std::int64_t n, double flops, Body&& body) {
  const std::int64_t pieces = (n + kColumns - 1) / kColumns;
  parallel_for(0, pieces, grain_for({.flops = flops * kColumns}, pieces),
               [&](std::int64_t lo, std::int64_t hi) {
                 const lapack::Threads threads(1);
                 const auto work = scratch<W>(2 * kBlock * std::min(n, kColumns));
                 for (std::int64_t i = lo; i < hi; ++i) {
                   body(i * kColumns, std::min(n, (i + 1) * kColumns), work.get());
                 }
               });
}

/// Whether the elements are of a size that LAPACK's drivers do not scale before they begin.
template <class W>
bool well_scaled(const W* a, std::int64_t count) {
  W largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(a[i]));
  const W small = std::sqrt(std::numeric_limits<W>::min()) / std::numeric_limits<W>::epsilon();
  return largest == 0 || (largest >= 2 * small && largest <= 1 / (2 * small));
}

/// From so many operations on the library's threads gain at its long rows of small calls.
int library_threads(double flops) { return flops >= MatrixBatch::kReflections ? team_size() : 1; }

}  // namespace

template <class W>
Reflections<W>::Reflections(std::int64_t m, std::int64_t k, const W* a, std::int64_t row,
                            std::int64_t column, const W* tau)
    : m_(m) {
  for (std::int64_t i = 0; i < k; i += kBlock) {
    add(i, std::min(kBlock, k - i), a + i * (row + column), row, column, tau + i);
  }
}

template <class W>
void Reflections<W>::add(std::int64_t first, std::int64_t count, const W* a, std::int64_t row,
                         std::int64_t column, const W* tau) {
  const std::int64_t rows = m_ - first;
  Block block{first, count, rows, scratch<W>(rows * count), scratch<W>(count * count)};
  copy_tiles(a, row, column, block.v.get(), 1, rows, rows, count, [](W x) { return x; });
  for (std::int64_t j = 0; j < count; ++j) {
    std::fill_n(block.v.get() + j * rows, j, W(0));
    block.v[j * (rows + 1)] = 1;
  }
  reflector_product(true, false, count, count, rows, W(1), block.v.get(), rows, block.v.get(), rows,
                    W(0), block.t.get(), count);
  make_triangle(block.t.get(), tau, count);
  blocks_.push_back(std::move(block));
}  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the vector has them

template <class W>
void Reflections<W>::reflect(const Block& block, bool transpose, W* c, std::int64_t ldc,
                             std::int64_t n, W* work) {
  const std::int64_t r = block.rows, b = block.count;
  W *const first = work, *const second = work + b * n;
  reflector_product(true, false, b, n, r, W(1), block.v.get(), r, c, ldc, W(0), first, b);
  reflector_product(transpose, false, b, n, b, W(1), block.t.get(), b, first, b, W(0), second, b);
  reflector_product(false, false, r, n, b, W(-1), block.v.get(), r, second, b, W(1), c, ldc);
}

template <class W>
Reflections<W> Reflections<W>::of_qr(std::int64_t m, std::int64_t n, W* a) {
  Reflections q(m);
  W tau[kBlock];
  for (std::int64_t i = 0; i < std::min(m, n); i += kBlock) {
    const std::int64_t count = std::min(kBlock, std::min(m, n) - i), next = i + count;
    W* const corner = a + i * (m + 1);
    const lapack::Threads threads(1);
    lapack::geqr2(m - i, count, corner, m, tau);
    q.add(i, count, corner, 1, m, tau);
    const Block& block = q.blocks_.back();
    const double flops = 4.0 * static_cast<double>(block.rows * count);
    for_columns<W>(n - next, flops, [&](std::int64_t lo, std::int64_t hi, W* work) {
      reflect(block, true, a + i + (next + lo) * m, m, hi - lo, work);
    });
  }
  return q;
}

template <class W>
void Reflections<W>::apply(W* c, std::int64_t ldc, std::int64_t n) const {
  const double flops = 4.0 * static_cast<double>(m_) * static_cast<double>(blocks_.size() * kBlock);
  for_columns<W>(n, flops, [&](std::int64_t lo, std::int64_t hi, W* work) {
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
      reflect(*block, false, c + block->first + lo * ldc, ldc, hi - lo, work);
    }
  });
}

template <class W>
void Reflections<W>::apply_right_transposed(W* c, std::int64_t ldc, std::int64_t n) const {
  const double flops = 4.0 * static_cast<double>(m_) * static_cast<double>(blocks_.size() * kBlock);
  for_columns<W>(n, flops, [&](std::int64_t lo, std::int64_t hi, W* work) {
    const std::int64_t some = hi - lo;
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
      const std::int64_t r = block->rows, b = block->count;
      W *const rows = c + lo + block->first * ldc, *const second = work + some * b;
      reflector_product(false, false, some, b, r, W(1), rows, ldc, block->v.get(), r, W(0), work,
                        some);
      reflector_product(false, true, some, b, b, W(1), work, some, block->t.get(), b, W(0), second,
                        some);
      reflector_product(false, true, some, r, b, W(-1), second, some, block->v.get(), r, W(1), rows,
                        ldc);
    }
  });
}

template <class W>
void Reflections<W>::columns(W* q, std::int64_t n) const {
  const double flops = 2.0 * static_cast<double>(m_) * static_cast<double>(blocks_.size() * kBlock);
  for_columns<W>(n, flops, [&](std::int64_t lo, std::int64_t hi, W* work) {
    std::fill_n(q + lo * m_, (hi - lo) * m_, W(0));
    for (std::int64_t j = lo; j < std::min(hi, m_); ++j) q[j * (m_ + 1)] = 1;
    for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
      // Columns to the left of the block's first row are still 0 where it works.
      const std::int64_t from = std::max(lo, block->first);
      if (from >= hi) continue;
      reflect(*block, false, q + block->first + from * m_, m_, hi - from, work);
    }
  });
}

template <class W>
int singular_vectors(bool full, std::int64_t m, std::int64_t n, W* a, W* s, W* u, W* vt) {
  if (!well_scaled(a, m * n)) return lapack::gesdd(full ? 'A' : 'S', m, n, a, s, u, vt);
  const double flops = 10.0 * static_cast<double>(m) * static_cast<double>(n * n);
  const int threads = library_threads(flops);
  const std::int64_t wide = full ? m : n;
  std::unique_ptr<W[]> triangle;
  Reflections<W> outer(m);
  std::int64_t rows = m;
  // As LAPACK: of a tall matrix first the triangle, whose reflections are shorter.
  const bool tall = m >= n * 11 / 6 && m > n;
  if (tall) {
    outer = Reflections<W>::of_qr(m, n, a);
    triangle = scratch<W>(n * n);
    for (std::int64_t j = 0; j < n; ++j) {
      std::copy_n(a + j * m, j + 1, triangle.get() + j * n);
      std::fill_n(triangle.get() + j * n + j + 1, n - j - 1, W(0));
    }
    a = triangle.get();
    rows = n;
  }
  const auto off = scratch<W>(n), tau_q = scratch<W>(n), tau_p = scratch<W>(n);
  std::fill_n(u, m * wide, W(0));
  {
    const lapack::Threads team(threads);
    lapack::gebrd(rows, n, a, s, off.get(), tau_q.get(), tau_p.get());
    if (const int info = lapack::bdsdc(n, s, off.get(), u, m, vt, n); info != 0) return info;
  }
  for (std::int64_t j = n; j < wide; ++j) u[j * (m + 1)] = 1;
  Reflections<W>(rows, n, a, 1, rows, tau_q.get()).apply(u, m, tall ? n : wide);
  Reflections<W>(n - 1, n - 1, a + rows, rows, 1, tau_p.get()).apply_right_transposed(vt + n, n, n);
  if (tall) outer.apply(u, m, wide);
  return 0;
}

template <class W>
int symmetric_eigenvectors(std::int64_t n, W* a, W* w, W* z) {
  if (!well_scaled(a, n * n)) {
    const int info = lapack::syevd(true, n, a, w);
    std::copy_n(a, n * n, z);
    return info;
  }
  const auto off = scratch<W>(n), tau = scratch<W>(n);
  {
    const lapack::Threads team(
        library_threads(9.0 * static_cast<double>(n) * static_cast<double>(n * n)));
    lapack::sytrd(n, a, w, off.get(), tau.get());
    if (const int info = tridiagonal_eigenvectors(n, w, off.get(), z); info != 0) return info;
  }
  Reflections<W>(n - 1, n - 1, a + 1, 1, n, tau.get()).apply(z + 1, n, n);
  return 0;
}

// NOLINTBEGIN(bugprone-macro-parentheses): arguments are parts of declarations.
#define DYAD_FOR(W)                                                                   \
  template class Reflections<W>;                                                      \
  template int singular_vectors<W>(bool, std::int64_t, std::int64_t, W*, W*, W*, W*); \
  template int symmetric_eigenvectors<W>(std::int64_t, W*, W*, W*);
// NOLINTEND(bugprone-macro-parentheses)
DYAD_FOR(float)
DYAD_FOR(double)
#undef DYAD_FOR

}  // namespace dyad::runtime::cpu
