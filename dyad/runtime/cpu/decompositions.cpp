#include <limits>
#include <utility>

#include "dyad/ops/attrs/linalg.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/matrices.h"

namespace dyad::runtime::cpu {
namespace {

using lapack::Triangle;

double volume(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// The first NaN on a diagonal, or -1.
template <class W>
std::int64_t first_nan(const W* matrix, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(matrix[i * (n + 1)])) return i;
  }
  return -1;
}

void cholesky(const OpCall& call) {
  const bool upper = call.attrs_as<ops::CholeskyAttrs>().upper;
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t n = at_x.rows;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    MatrixBatch(call, batch, volume(n, n, n) / 3)
        .run<2>({batch_strides(x, batch), batch_strides(out, batch)},
                [&](const RowWalk<2>& at) -> std::string {
                  Target<T> factor(elements_of<T>(out, at[1]), n * n);
                  auto* const l = factor.data();
                  read_symmetric(elements_of<T>(x, at[0]), at_x, l);
                  // Our lower triangle is the upper one of columns.
                  const int info = lapack::potrf(upper ? Triangle::lower : Triangle::upper, n, l);
                  // The library takes NaN for a positive number.
                  const std::int64_t order = info > 0 ? info : first_nan(l, n) + 1;
                  if (order > 0) {
                    const bool nan = std::isnan(l[(order - 1) * (n + 1)]);
                    return "is not positive definite: its leading minor of order " +
                           std::to_string(order) + (nan ? " is NaN" : " is not positive");
                  }
                  for (std::int64_t i = 0; i < n; ++i) {
                    std::fill(l + i * n + (upper ? 0 : i + 1), l + i * n + (upper ? i : n),
                              Computed<T>(0));
                  }
                  factor.write_back();
                  return {};
                });
  });
}

void qr(const OpCall& call) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl &q = *call.outputs[0].impl(), &r = *call.outputs[1].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, least = std::min(m, n);
  const std::int64_t k = matrix_of(q).columns;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 4 * volume(m, n, least), MatrixBatch::kReflections)
        .run<3>({batch_strides(x, batch), batch_strides(q, batch), batch_strides(r, batch)},
                [&](const RowWalk<3>& at) -> std::string {
                  const auto factors = scratch<W>(m * std::max(n, k));
                  const auto tau = scratch<W>(least), signs = scratch<W>(k);
                  read_matrix(elements_of<T>(x, at[0]), at_x, factors.get(), true);
                  lapack::geqrf(m, n, factors.get(), tau.get());
                  for (std::int64_t i = 0; i < k; ++i) {
                    signs[i] = i < least && factors[i * (m + 1)] < 0 ? W(-1) : W(1);
                  }
                  T* const to_r = elements_of<T>(r, at[2]);
                  for (std::int64_t i = 0; i < k; ++i) {
                    for (std::int64_t j = 0; j < n; ++j) {
                      to_r[i * n + j] =
                          narrowed_element<T>(j < i ? W(0) : signs[i] * factors[i + j * m]);
                    }
                  }
                  lapack::orgqr(m, k, least, factors.get(), tau.get());
                  for (std::int64_t j = 0; j < k; ++j) {
                    if (signs[j] > 0) continue;
                    for (std::int64_t i = 0; i < m; ++i) factors[i + j * m] = -factors[i + j * m];
                  }
                  write_matrix(factors.get(), m, k, elements_of<T>(q, at[1]), true);
                  return {};
                });
  });
}

/// For each of the `count` vectors, the sign that makes the first of its `length` elements positive
/// that is at least half as large as the largest. Vectors are columns of a row-major matrix of
/// `width` columns.
template <class W>
std::vector<W> column_signs(const W* matrix, std::int64_t length, std::int64_t width,
                            std::int64_t count) {
  std::vector<W> largest(static_cast<std::size_t>(count), 0), signs(largest.size(), 0);
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < count; ++j) {
      largest[static_cast<std::size_t>(j)] =
          std::max(largest[static_cast<std::size_t>(j)], std::abs(matrix[i * width + j]));
    }
  }
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < count; ++j) {
      const W value = matrix[i * width + j];
      W& sign = signs[static_cast<std::size_t>(j)];
      if (sign == 0 && 2 * std::abs(value) >= largest[static_cast<std::size_t>(j)]) {
        sign = value < 0 ? W(-1) : W(1);
      }
    }
  }
  return signs;
}

/// Multiplies the first columns of a row-major matrix by their signs.
template <class W>
void turn_columns(W* matrix, std::int64_t rows, std::int64_t width, const std::vector<W>& signs) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < signs.size(); ++j)
      matrix[i * width + static_cast<std::int64_t>(j)] *= signs[j];
  }
}

/// The signs of u[m, ku] and vh[kv, n], of which `pairs` vectors belong together.
template <class W>
void fix_signs(W* u, std::int64_t m, std::int64_t ku, W* vh, std::int64_t kv, std::int64_t n,
               std::int64_t pairs) {
  const std::vector<W> signs = column_signs(u, m, ku, ku);
  turn_columns(u, m, ku, signs);
  for (std::int64_t i = 0; i < kv; ++i) {
    W* const row = vh + i * n;
    const W sign = i < pairs ? signs[static_cast<std::size_t>(i)] : column_signs(row, n, 1, 1)[0];
    if (sign < 0) std::transform(row, row + n, row, [](W x) { return -x; });
  }
}

constexpr const char* kNoConvergence = "has singular values or eigenvalues that do not converge";

void svd(const OpCall& call) {
  const bool full = call.attrs_as<ops::SvdAttrs>().full_matrices;
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl &u = *call.outputs[0].impl(), &s = *call.outputs[1].impl(),
                   &vh = *call.outputs[2].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, k = std::min(m, n);
  const std::int64_t ku = matrix_of(u).columns, kv = matrix_of(vh).rows;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 10 * volume(m, n, k), MatrixBatch::kReflections)
        .run<4>({batch_strides(x, batch), batch_strides(u, batch), batch_strides(s, batch, 1),
                 batch_strides(vh, batch)},
                [&](const RowWalk<4>& at) -> std::string {
                  Target<T> to_u(elements_of<T>(u, at[1]), m * ku);
                  Target<T> to_s(elements_of<T>(s, at[2]), k);
                  Target<T> to_vh(elements_of<T>(vh, at[3]), kv * n);
                  const auto copy = scratch<W>(m * n);
                  read_matrix(elements_of<T>(x, at[0]), at_x, copy.get());
                  if (auto problem = not_finite(copy.get(), m, n); !problem.empty()) return problem;
                  if (k == 0) {
                    // No singular values: the vectors of full matrices are those of the identity.
                    for (auto& [to, size] :
                         {std::pair(&to_u, ku == m ? m : 0), std::pair(&to_vh, kv == n ? n : 0)}) {
                      for (std::int64_t i = 0; i < size * size; ++i) {
                        to->data()[i] = i % (size + 1) == 0 ? W(1) : W(0);
                      }
                    }
                  } else {
                    // To LAPACK x is x^T = v s u^T.
                    const int info = lapack::gesdd(full ? 'A' : 'S', n, m, copy.get(), to_s.data(),
                                                   to_vh.data(), to_u.data());
                    if (info > 0) return kNoConvergence;
                    fix_signs(to_u.data(), m, ku, to_vh.data(), kv, n, k);
                  }
                  to_u.write_back();
                  to_s.write_back();
                  to_vh.write_back();
                  return {};
                });
  });
}

void svdvals(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &s = *call.outputs[0].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, k = std::min(m, n);
  if (k == 0) return;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 3 * volume(m, n, k), MatrixBatch::kReflections)
        .run<2>({batch_strides(x, batch), batch_strides(s, batch, 1)},
                [&](const RowWalk<2>& at) -> std::string {
                  Target<T> to(elements_of<T>(s, at[1]), k);
                  const auto copy = scratch<W>(m * n);
                  W none = 0;
                  read_matrix(elements_of<T>(x, at[0]), at_x, copy.get());
                  if (auto problem = not_finite(copy.get(), m, n); !problem.empty()) return problem;
                  if (lapack::gesdd('N', n, m, copy.get(), to.data(), &none, &none) > 0) {
                    return kNoConvergence;
                  }
                  to.write_back();
                  return {};
                });
  });
}

/// Eigenvalues, and with a second output eigenvectors.
void eigh(const OpCall& call) {
  const bool vectors = call.outputs.size() > 1;
  const TensorImpl &x = *call.inputs[0].impl(), &w = *call.outputs[0].impl();
  const TensorImpl& v = *call.outputs.back().impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t n = at_x.rows;
  if (n == 0) return;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, (vectors ? 9 : 2) * volume(n, n, n), MatrixBatch::kReflections)
        .run<3>({batch_strides(x, batch), batch_strides(w, batch, 1),
                 batch_strides(v, batch, vectors ? 2 : 1)},
                [&](const RowWalk<3>& at) -> std::string {
                  Target<T> values(elements_of<T>(w, at[1]), n);
                  const auto copy = scratch<W>(n * n);
                  read_symmetric(elements_of<T>(x, at[0]), at_x, copy.get());
                  if (auto problem = not_finite(copy.get(), n, n); !problem.empty()) return problem;
                  if (lapack::syevd(vectors, n, copy.get(), values.data()) > 0) {
                    return kNoConvergence;
                  }
                  values.write_back();
                  if (!vectors) return {};
                  for (std::int64_t j = 0; j < n; ++j) {
                    W* const column = copy.get() + j * n;
                    if (column_signs(column, n, 1, 1)[0] > 0) continue;
                    std::transform(column, column + n, column, [](W y) { return -y; });
                  }
                  write_matrix(copy.get(), n, n, elements_of<T>(v, at[2]), true);
                  return {};
                });
  });
}

void lu(const OpCall& call) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl &p = *call.outputs[0].impl(), &l = *call.outputs[1].impl(),
                   &u = *call.outputs[2].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, k = std::min(m, n);
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 2 * volume(m, n, k) / 3)
        .run<4>({batch_strides(x, batch), batch_strides(p, batch, 1), batch_strides(l, batch),
                 batch_strides(u, batch)},
                [&](const RowWalk<4>& at) -> std::string {
                  const auto factors = scratch<W>(m * n);
                  const auto pivots = scratch<int>(k);
                  read_matrix(elements_of<T>(x, at[0]), at_x, factors.get(), true);
                  if (k > 0) (void)lapack::getrf(m, n, factors.get(), pivots.get());
                  auto* const order = elements_of<std::int64_t>(p, at[1]);
                  for (std::int64_t i = 0; i < m; ++i) order[i] = i;
                  for (std::int64_t i = 0; i < k; ++i) std::swap(order[i], order[pivots[i] - 1]);
                  copy_tiles(factors.get(), 1, m, elements_of<T>(l, at[2]), k, 1, m, k,
                             narrowed_element<T>);
                  copy_tiles(factors.get(), 1, m, elements_of<T>(u, at[3]), n, 1, k, n,
                             narrowed_element<T>);
                  const T zero = narrowed_element<T>(0), one = narrowed_element<T>(1);
                  for (std::int64_t i = 0; i < k; ++i) {
                    T *const row_l = elements_of<T>(l, at[2]) + i * k, *const row_u =
                                                                           elements_of<T>(u,
                                                                                          at[3]) +
                                                                           i * n;
                    std::fill(row_l + i + 1, row_l + k, zero);
                    row_l[i] = one;
                    std::fill(row_u, row_u + i, zero);
                  }
                  return {};
                });
  });
}

void pinv(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t m = at_x.rows, n = at_x.columns, k = std::min(m, n);
  const double given = call.attrs_as<ops::PinvAttrs>().rcond;
  const double rcond =
      given >= 0 ? given : static_cast<double>(std::max(m, n)) * ops::spacing_at_one(x.dtype);
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 12 * volume(m, n, k), MatrixBatch::kReflections)
        .run<2>({batch_strides(x, batch), batch_strides(out, batch)},
                [&](const RowWalk<2>& at) -> std::string {
                  Target<T> to(elements_of<T>(out, at[1]), n * m);
                  const auto copy = scratch<W>(m * n), s = scratch<W>(k);
                  const auto v = scratch<W>(n * k), ut = scratch<W>(k * m);
                  read_matrix(elements_of<T>(x, at[0]), at_x, copy.get());
                  if (auto problem = not_finite(copy.get(), m, n); !problem.empty()) return problem;
                  // To LAPACK x is x^T = v s u^T.
                  if (lapack::gesdd('S', n, m, copy.get(), s.get(), v.get(), ut.get()) > 0) {
                    return kNoConvergence;
                  }
                  const auto bound = static_cast<W>(rcond) * s[0];
                  for (std::int64_t j = 0; j < k; ++j) {
                    const W scale = s[j] > bound ? 1 / s[j] : W(0);
                    for (std::int64_t i = 0; i < n; ++i) v[j * n + i] *= scale;
                  }
                  // By columns the result is its transpose, u s^-1 v^T.
                  lapack::gemm(true, true, m, n, k, ut.get(), v.get(), to.data());
                  to.write_back();
                  return {};
                });
  });
}

}  // namespace

std::span<const NamedKernel> decompositions_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"cholesky", {cholesky}}, {"qr", {qr}},         {"svd", {svd}}, {"svdvals", {svdvals}},
      {"eigh", {eigh}},         {"eigvalsh", {eigh}}, {"lu", {lu}},   {"pinv", {pinv}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
