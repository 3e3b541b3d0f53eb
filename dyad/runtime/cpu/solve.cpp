#include <limits>

#include "dyad/ops/attrs/linalg.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/matrices.h"

// A row-major matrix is to LAPACK its transpose, which is what gets factored here: a^T = p l u.

namespace dyad::runtime::cpu {
namespace {

using lapack::Triangle;

double cube(std::int64_t n) {
  const auto x = static_cast<double>(n);
  return x * x * x;
}

std::string singular(int pivot) {
  return "is singular: pivot " + std::to_string(pivot) +
         " of its LU factors is 0; pinv() and lstsq() take singular matrices";
}

/// Exchanges rows of x[n, k] as the factors did with theirs, or back.
template <class W>
void exchange_rows(W* x, std::int64_t k, const int* pivots, std::int64_t n, bool back) {
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t i = back ? n - 1 - step : step, j = pivots[i] - 1;
    if (i != j) std::swap_ranges(x + i * k, x + (i + 1) * k, x + j * k);
  }
}

/// Rows of a right side that are solved for together: a function of their number alone, so that
/// threads do not change bits.
std::int64_t rows_at_a_time(std::int64_t count) {
  return std::max<std::int64_t>(32, (count + 3) / 4);
}

/// Runs `solve(first, rows)` for all rows of a right side, in `flops` operations: at once where
/// these are so many that the library has the team, otherwise some at a time on each thread of it.
template <class Solve>
void share_rows(std::int64_t count, double flops, const Solve& solve) {
  if (flops >= MatrixBatch::kProducts) return solve(0, count);
  const std::int64_t some = rows_at_a_time(count), blocks = (count + some - 1) / some;
  parallel_for(0, blocks, grain_for({.flops = flops / static_cast<double>(blocks)}, blocks),
               [&](std::int64_t lo, std::int64_t hi) {
                 const lapack::Threads threads(1);
                 for (std::int64_t i = lo * some; i < std::min(count, hi * some); i += some) {
                   solve(i, std::min(some, count - i));
                 }
               });
}

/// x[n, k] := a^-1 x, or a^-T x, by the factors of a^T = p l u, in `flops` operations.
template <class W>
void apply_inverse(const W* lu, const int* pivots, std::int64_t n, W* x, std::int64_t k,
                   bool transpose, double flops) {
  // Transposed: x^T p l u = b^T, or x^T (p l u)^T = b^T.
  if (transpose) exchange_rows(x, k, pivots, n, false);
  const auto lower = [&](std::int64_t i, std::int64_t rows) {
    lapack::trsm_right(Triangle::lower, transpose, true, rows, n, lu, n, x + i, k);
  };
  const auto upper = [&](std::int64_t i, std::int64_t rows) {
    lapack::trsm_right(Triangle::upper, transpose, false, rows, n, lu, n, x + i, k);
  };
  share_rows(k, flops, [&](std::int64_t i, std::int64_t rows) {
    if (transpose) {
      lower(i, rows);
      upper(i, rows);
    } else {
      upper(i, rows);
      lower(i, rows);
    }
  });
  if (!transpose) exchange_rows(x, k, pivots, n, true);
}

/// Factors as lu_factors gives them, or those of a matrix, each for its place in the batch.
template <class T>
class Factors {
 public:
  using W = Computed<T>;
  explicit Factors(const OpCall& call) : a_(*call.inputs[0].impl()) {
    if (call.inputs.size() < 4 || !call.inputs[2].defined()) return;
    given_ = call.inputs[2].impl();
    pivots_ = call.inputs[3].impl();
  }
  /// The operands whose batch is walked along.
  [[nodiscard]] const TensorImpl& first() const { return given_ ? *given_ : a_; }
  [[nodiscard]] const TensorImpl& second() const { return pivots_ ? *pivots_ : a_; }

  /// Finds those at the operands' offsets. What is wrong with the matrix, or nothing.
  std::string find(std::int64_t first, std::int64_t second) {
    const MatrixAt at = matrix_of(this->first());
    const std::int64_t n = at.rows;
    if (!lu_) {
      lu_ = scratch<W>(n * n);
      rows_ = scratch<int>(n);
    }
    if (!given_) {
      read_matrix(elements_of<T>(a_, first), at, lu_.get());
      const int info = lapack::getrf(n, n, lu_.get(), rows_.get());
      return info > 0 ? singular(info) : std::string();
    }
    copy_tiles(elements_of<W>(*given_, first), at.row, at.column, lu_.get(), n, 1, n, n,
               [](W x) { return x; });
    const std::int64_t step = matrix_of(*pivots_).column;
    for (std::int64_t i = 0; i < n; ++i) {
      rows_[i] = elements_of<std::int32_t>(*pivots_, second)[i * step];
      if (lu_[i * (n + 1)] == 0) return singular(static_cast<int>(i + 1));
    }
    return {};
  }
  [[nodiscard]] const W* lu() const noexcept { return lu_.get(); }
  [[nodiscard]] const int* pivots() const noexcept { return rows_.get(); }

 private:
  const TensorImpl& a_;
  const TensorImpl *given_ = nullptr, *pivots_ = nullptr;
  std::unique_ptr<W[]> lu_;
  std::unique_ptr<int[]> rows_;
};

void solve(const OpCall& call) {
  const bool transpose = call.attrs_as<ops::SolveAttrs>().transpose;
  const TensorImpl &a = *call.inputs[0].impl(), &b = *call.inputs[1].impl();
  const TensorImpl& out = *call.outputs[0].impl();
  const MatrixAt at_b = matrix_of(b);
  const std::int64_t n = at_b.rows, k = at_b.columns;
  if (out.numel() == 0) return;
  const auto batch = batch_of(out);
  const double flops = cube(n) + 2.0 * static_cast<double>(n) * static_cast<double>(n * k);
  with_floating(a.dtype, [&]<class T>(T) {
    const Factors<T> from(call);
    MatrixBatch(call, batch, flops)
        .run<4>({batch_strides(from.first(), batch), batch_strides(from.second(), batch),
                 batch_strides(b, batch), batch_strides(out, batch)},
                [&](const RowWalk<4>& at) -> std::string {
                  Factors<T> factors(call);
                  if (auto problem = factors.find(at[0], at[1]); !problem.empty()) return problem;
                  Target<T> x(elements_of<T>(out, at[3]), n * k);
                  read_matrix(elements_of<T>(b, at[2]), at_b, x.data());
                  apply_inverse(factors.lu(), factors.pivots(), n, x.data(), k, transpose, flops);
                  x.write_back();
                  return {};
                });
  });
}

void lu_factors(const OpCall& call) {
  const TensorImpl& x = *call.inputs[0].impl();
  const TensorImpl &factors = *call.outputs[0].impl(), &pivots = *call.outputs[1].impl();
  if (x.numel() == 0) return;
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t n = at_x.rows;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, cube(n))
        .run<3>(
            {batch_strides(x, batch), batch_strides(factors, batch), batch_strides(pivots, batch)},
            [&](const RowWalk<3>& at) -> std::string {
              W* const lu = elements_of<W>(factors, at[1]);
              read_matrix(elements_of<T>(x, at[0]), at_x, lu);
              (void)lapack::getrf(n, n, lu, elements_of<std::int32_t>(pivots, at[2]));
              return {};
            });
  });
}

void triangular_solve(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::TriangularSolveAttrs>();
  const TensorImpl &a = *call.inputs[0].impl(), &b = *call.inputs[1].impl();
  const TensorImpl& out = *call.outputs[0].impl();
  const MatrixAt at_a = matrix_of(a), at_b = matrix_of(b);
  const std::int64_t n = at_b.rows, k = at_b.columns;
  if (out.numel() == 0) return;
  const auto batch = batch_of(out);
  const double flops = static_cast<double>(n) * static_cast<double>(n * k);
  with_floating(a.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    // Where a lies in dense rows or columns it is read there, if they are not too far apart for
    // LAPACK to count.
    const auto dense = [n](std::int64_t along, std::int64_t apart) {
      return !is_half<T> && along == 1 && apart >= n && apart <= std::numeric_limits<int>::max();
    };
    const bool by_rows = dense(at_a.column, at_a.row);
    const bool by_columns = dense(at_a.row, at_a.column);
    MatrixBatch(call, batch, flops)
        .run<3>({batch_strides(a, batch), batch_strides(b, batch), batch_strides(out, batch)},
                [&](const RowWalk<3>& at) -> std::string {
                  const T* const from = elements_of<T>(a, at[0]);
                  if (!attrs.unit_diagonal) {
                    for (std::int64_t i = 0; i < n; ++i) {
                      if (widened_element(from[i * (at_a.row + at_a.column)]) != 0) continue;
                      return "is singular: element " + std::to_string(i) + " of its diagonal is 0";
                    }
                  }
                  std::unique_ptr<W[]> copy;
                  const W* stored = nullptr;
                  std::int64_t lead = n;
                  if constexpr (!is_half<T>) {
                    if (by_rows || by_columns) {
                      stored = from;
                      lead = by_columns ? at_a.column : at_a.row;
                    }
                  }
                  if (stored == nullptr) {
                    copy = scratch<W>(n * n);
                    read_matrix(from, at_a, copy.get());
                    stored = copy.get();
                  }
                  Target<T> x(elements_of<T>(out, at[2]), n * k);
                  read_matrix(elements_of<T>(b, at[1]), at_b, x.data());
                  // Transposed: x^T op(a)^T = b^T, where stored rows are columns of a^T.
                  const bool is_turned = !by_columns;
                  const auto through = [&](std::int64_t i, std::int64_t rows) {
                    lapack::trsm_right(attrs.upper != is_turned ? Triangle::upper : Triangle::lower,
                                       attrs.transpose == is_turned, attrs.unit_diagonal, rows, n,
                                       stored, lead, x.data() + i, k);
                  };
                  share_rows(k, flops, through);
                  x.write_back();
                  return {};
                });
  });
}

/// Runs `body(factors, pivots, info, result)` on the LU factors of each matrix.
template <class Body>
void with_factors(const OpCall& call, double flops, std::size_t inner, Body&& body) {
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t n = at_x.rows;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, flops)
        .run<2>({batch_strides(x, batch), batch_strides(out, batch, inner)},
                [&](const RowWalk<2>& at) -> std::string {
                  const auto pivots = scratch<int>(n);
                  const auto factors = scratch<W>(n * n);
                  read_matrix(elements_of<T>(x, at[0]), at_x, factors.get());
                  const int info = lapack::getrf(n, n, factors.get(), pivots.get());
                  return body(factors.get(), pivots.get(), info, at[1], T{});
                });
  });
}

/// x[n, n] := a^-1 by the factors of a^T = p l u, in `flops` operations.
template <class W>
void invert(const W* lu, const int* pivots, std::int64_t n, double flops, W* x) {
  std::fill_n(x, n * n, W(0));
  for (std::int64_t i = 0; i < n; ++i) x[i * (n + 1)] = 1;
  // x^T = u^-1 l^-1 p^T. Nothing is left of the diagonal in u^-1, so a few rows at a time need only
  // what is right of the first.
  const std::int64_t some = rows_at_a_time(n);
  const auto through_upper = [&](std::int64_t i) {
    lapack::trsm_right(Triangle::upper, false, false, std::min(some, n - i), n - i,
                       lu + i * (n + 1), n, x + i * (n + 1), n);
  };
  const auto through_lower = [&](std::int64_t i, std::int64_t rows) {
    lapack::trsm_right(Triangle::lower, false, true, rows, n, lu, n, x + i, n);
  };
  if (flops >= MatrixBatch::kProducts) {
    for (std::int64_t i = 0; i < n; i += some) through_upper(i);
    through_lower(0, n);
  } else {
    share_rows(n, flops, [&](std::int64_t i, std::int64_t rows) {
      through_upper(i);
      through_lower(i, rows);
    });
  }
  exchange_rows(x, n, pivots, n, true);
}

void inverse(const OpCall& call) {
  const TensorImpl& out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const std::int64_t n = matrix_of(out).rows;
  const double flops = 2 * cube(n);
  // By triangles rather than by the library's own inverse, most of which runs on one thread.
  with_factors(call, flops, 2,
               [&]<class T>(Computed<T>* factors, const int* pivots, int info, std::int64_t at,
                            T) -> std::string {
                 if (info > 0) return singular(info);
                 Target<T> x(elements_of<T>(out, at), n * n);
                 invert(factors, pivots, n, flops, x.data());
                 x.write_back();
                 return {};
               });
}

/// The product of the pivots.
template <class W>
W determinant(const W* factors, const int* pivots, std::int64_t n) {
  W value = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    value *= factors[i * (n + 1)];
    if (pivots[i] != i + 1) value = -value;
  }
  return value;
}

void det(const OpCall& call) {
  const TensorImpl& out = *call.outputs[0].impl();
  const std::int64_t n = matrix_of(*call.inputs[0].impl()).rows;
  with_factors(call, 2 * cube(n) / 3, 0,
               [&]<class T>(Computed<T>* factors, const int* pivots, int, std::int64_t at,
                            T) -> std::string {
                 *elements_of<T>(out, at) = narrowed_element<T>(determinant(factors, pivots, n));
                 return {};
               });
}

void slogdet(const OpCall& call) {
  const TensorImpl &out = *call.outputs[0].impl(), &log = *call.outputs[1].impl();
  const std::int64_t n = matrix_of(*call.inputs[0].impl()).rows;
  with_factors(call, 2 * cube(n) / 3, 0,
               [&]<class T>(Computed<T>* factors, const int* pivots, int, std::int64_t at,
                            T) -> std::string {
                 using W = Computed<T>;
                 W sign = 1, sum = 0;
                 for (std::int64_t i = 0; i < n; ++i) {
                   const W pivot = factors[i * (n + 1)];
                   const bool negative = (pivot < 0) != (pivots[i] != i + 1);
                   sign = pivot == 0 || std::isnan(pivot) ? sign * pivot : negative ? -sign : sign;
                   sum += std::log(std::abs(pivot));
                 }
                 if (sign == 0) sum = -std::numeric_limits<W>::infinity();
                 *elements_of<T>(out, at) = narrowed_element<T>(sign == 0 ? W(0) : sign);
                 // Both outputs are dense and of one shape.
                 *elements_of<T>(log, at) = narrowed_element<T>(sum);
                 return {};
               });
}

/// The matrix of cofactors of a (nearly) singular matrix by its singular values: det(u) det(v) u d
/// vh, where d[i] is the product of the other singular values.
template <class W>
void singular_cofactors(W* x, std::int64_t n, W* result) {
  const auto s = scratch<W>(n), u = scratch<W>(n * n), vh = scratch<W>(n * n), d = scratch<W>(n);
  // Row-major x is x^T = v s u^T to LAPACK, whose u is our vh by rows, whose vt our u by rows.
  lapack::gesdd('S', n, n, x, s.get(), vh.get(), u.get());
  W sign = 1;
  const auto pivots = scratch<int>(n);
  for (const W* factor : {u.get(), vh.get()}) {
    std::copy_n(factor, n * n, x);
    lapack::getrf(n, n, x, pivots.get());
    sign *= determinant(x, pivots.get(), n) < 0 ? W(-1) : W(1);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    d[i] = sign;
    for (std::int64_t j = 0; j < n; ++j) d[i] *= i == j ? W(1) : s[j];
  }
  std::fill_n(result, n * n, W(0));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < n; ++k) {
      const W scale = u[i * n + k] * d[k];
      for (std::int64_t j = 0; j < n; ++j) result[i * n + j] += scale * vh[k * n + j];
    }
  }
}

void cofactor(const OpCall& call) {
  const TensorImpl &x = *call.inputs[0].impl(), &out = *call.outputs[0].impl();
  if (out.numel() == 0) return;
  const MatrixAt at_x = matrix_of(x);
  const std::int64_t n = at_x.rows;
  const auto batch = batch_of(x);
  with_floating(x.dtype, [&]<class T>(T) {
    using W = Computed<T>;
    MatrixBatch(call, batch, 2 * cube(n))
        .run<2>({batch_strides(x, batch), batch_strides(out, batch)},
                [&](const RowWalk<2>& at) -> std::string {
                  const auto pivots = scratch<int>(n);
                  const auto factors = scratch<W>(n * n), result = scratch<W>(n * n);
                  read_matrix(elements_of<T>(x, at[0]), at_x, factors.get());
                  if (!not_finite(factors.get(), n, n).empty()) {
                    std::fill_n(elements_of<T>(out, at[1]), n * n,
                                narrowed_element<T>(std::numeric_limits<W>::quiet_NaN()));
                    return {};
                  }
                  const int info = lapack::getrf(n, n, factors.get(), pivots.get());
                  W smallest = std::numeric_limits<W>::infinity(), largest = 0;
                  for (std::int64_t i = 0; i < n; ++i) {
                    smallest = std::min(smallest, std::abs(factors[i * (n + 1)]));
                    largest = std::max(largest, std::abs(factors[i * (n + 1)]));
                  }
                  const W little = std::sqrt(std::numeric_limits<W>::epsilon());
                  T* const to = elements_of<T>(out, at[1]);
                  if (info > 0 || smallest < little * largest) {
                    read_matrix(elements_of<T>(x, at[0]), at_x, factors.get());
                    singular_cofactors(factors.get(), n, result.get());
                    write_matrix(result.get(), n, n, to);
                    return {};
                  }
                  const W value = determinant(factors.get(), pivots.get(), n);
                  lapack::getri(n, factors.get(), pivots.get());
                  std::transform(factors.get(), factors.get() + n * n, factors.get(),
                                 [value](W y) { return value * y; });
                  write_matrix(factors.get(), n, n, to, /*by_columns=*/true);
                  return {};
                });
  });
}

}  // namespace

std::span<const NamedKernel> solve_kernels() {
  static constexpr NamedKernel kernels[] = {{"solve", {solve}},
                                            {"lu_factors", {lu_factors}},
                                            {"triangular_solve", {triangular_solve}},
                                            {"inverse", {inverse}},
                                            {"det", {det}},
                                            {"slogdet", {slogdet}},
                                            {"cofactor", {cofactor}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
