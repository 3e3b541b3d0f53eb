#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/lapack.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/threads.h"

/// What kernels share that work on each matrix of a batch.
namespace dyad::runtime::cpu {

/// What elements of type T are computed in: f32 for half precision.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
[[nodiscard]] Computed<T> widened_element(T value) noexcept {
  if constexpr (is_half<T>) {
    return to_float(value);
  } else {
    return value;
  }
}
template <class T>
[[nodiscard]] T narrowed_element(Computed<T> value) noexcept {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

/// Where the matrices of a tensor lie: the last two axes, or the last one as a row.
struct MatrixAt {
  std::int64_t rows, columns, row, column;
};
[[nodiscard]] MatrixAt matrix_of(const TensorImpl& t);

/// Copies rows x columns elements between strided places, in tiles, by `convert`.
template <class From, class To, class Convert>
void copy_tiles(const From* from, std::int64_t from_row, std::int64_t from_column, To* to,
                std::int64_t to_row, std::int64_t to_column, std::int64_t rows,
                std::int64_t columns, Convert convert) {
  if constexpr (std::is_same_v<From, To>) {
    if (from_column == 1 && to_column == 1) {
      for (std::int64_t i = 0; i < rows; ++i) {
        std::copy_n(from + i * from_row, columns, to + i * to_row);
      }
      return;
    }
  }
  constexpr std::int64_t kTile = 16;
  for (std::int64_t i0 = 0; i0 < rows; i0 += kTile) {
    for (std::int64_t j0 = 0; j0 < columns; j0 += kTile) {
      const std::int64_t i1 = std::min(rows, i0 + kTile), j1 = std::min(columns, j0 + kTile);
      for (std::int64_t i = i0; i < i1; ++i) {
        for (std::int64_t j = j0; j < j1; ++j) {
          to[i * to_row + j * to_column] = convert(from[i * from_row + j * from_column]);
        }
      }
    }
  }
}

/// The matrix at `from` as a dense one, by rows or by columns.
template <class T>
void read_matrix(const T* from, const MatrixAt& at, Computed<T>* to, bool by_columns = false) {
  copy_tiles(from, at.row, at.column, to, by_columns ? 1 : at.columns, by_columns ? at.rows : 1,
             at.rows, at.columns, [](T x) { return widened_element(x); });
}
/// The symmetric part of the square matrix at `from`, dense.
template <class T>
void read_symmetric(const T* from, const MatrixAt& at, Computed<T>* to) {
  using W = Computed<T>;
  read_matrix(from, at, to);
  constexpr std::int64_t kTile = 16;
  const std::int64_t n = at.rows;
  for (std::int64_t i0 = 0; i0 < n; i0 += kTile) {
    for (std::int64_t j0 = 0; j0 <= i0; j0 += kTile) {
      for (std::int64_t i = i0; i < std::min(n, i0 + kTile); ++i) {
        for (std::int64_t j = j0; j < std::min(i, j0 + kTile); ++j) {
          W &below = to[i * n + j], &above = to[j * n + i];
          if (below != above) below = above = W(0.5) * below + W(0.5) * above;
        }
      }
    }
  }
}
/// A dense matrix by rows, or by columns, as the row-major one at `to`.
template <class T>
void write_matrix(const Computed<T>* from, std::int64_t rows, std::int64_t columns, T* to,
                  bool by_columns = false) {
  copy_tiles(from, by_columns ? 1 : columns, by_columns ? rows : 1, to, columns, 1, rows, columns,
             [](Computed<T> x) { return narrowed_element<T>(x); });
}

/// Memory to compute in: that of the result where its elements are what is computed, otherwise
/// `work`, which write_back then rounds.
template <class T>
class Target {
 public:
  using W = Computed<T>;
  Target(T* result, std::int64_t count) : result_(result), count_(count) {
    if constexpr (is_half<T>) work_.resize(static_cast<std::size_t>(count));
  }
  [[nodiscard]] W* data() noexcept {
    if constexpr (is_half<T>) {
      return work_.data();
    } else {
      return result_;
    }
  }
  void write_back() {
    if constexpr (is_half<T>)
      std::transform(work_.begin(), work_.end(), result_, narrowed_element<T>);
  }

 private:
  T* result_;
  std::int64_t count_;
  std::vector<W> work_;
};

template <class W>
[[nodiscard]] std::unique_ptr<W[]> scratch(std::int64_t count) {
  return std::make_unique_for_overwrite<W[]>(
      static_cast<std::size_t>(std::max<std::int64_t>(count, 1)));
}

/// `holds NaN at [3, 2]` for the first element in memory that is not finite, or nothing.
template <class W>
[[nodiscard]] std::string not_finite(const W* matrix, std::int64_t rows, std::int64_t columns,
                                     bool by_columns = false) {
  const std::int64_t lines = by_columns ? rows : columns;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    if (std::isfinite(matrix[i])) continue;
    const std::int64_t line = i / lines, place = i % lines;
    return "holds " + std::string(std::isnan(matrix[i]) ? "NaN" : "an infinity") + " at [" +
           std::to_string(by_columns ? place : line) + ", " +
           std::to_string(by_columns ? line : place) + "]";
  }
  return {};
}

/// Runs `body(offsets)` for each matrix of the batch: `batch` are its sizes, `strides` those of the
/// N operands along it. What body returns is empty, or what is wrong with its matrix: then a
/// ValueError names the first such matrix. Many matrices are shared out over the team, a single
/// large one is left to the library's threads.
class MatrixBatch {
 public:
  MatrixBatch(const OpCall& call, std::span<const std::int64_t> batch, double flops,
              double worth_threads = kProducts)
      : call_(call), batch_(batch), flops_(flops), worth_threads_(worth_threads) {}

  /// The operations from which the library's threads gain: factors by products of large blocks (LU,
  /// Cholesky), and those by long rows of small calls (QR, eigenvalues), where threads that wait
  /// for one another cost more than they bring.
  static constexpr double kProducts = 2e8, kReflections = 1.5e10;
  /// For a body that shares out its own work.
  static constexpr double kOwnTeam = std::numeric_limits<double>::infinity();

  template <std::size_t N, class Body>
  void run(const std::array<Ints, N>& strides, Body&& body) {
    const std::int64_t count = product(batch_);
    if (count == 0) return;
    const auto range = [&](std::int64_t lo, std::int64_t hi) {
      RowWalk<N> at(batch_, strides, lo);
      for (std::int64_t i = lo; i < hi; ++i, at.next()) note(i, body(at));
    };
    const int team = team_size();
    if (count > 1 && (flops_ < worth_threads_ || count >= team)) {
      parallel_for(0, count, grain_for({.flops = flops_}, count),
                   [&](std::int64_t lo, std::int64_t hi) {
                     const lapack::Threads threads(1);
                     range(lo, hi);
                   });
    } else {
      const lapack::Threads threads(flops_ < worth_threads_ ? 1 : team);
      range(0, count);
    }
    if (worst_ >= 0) fail();
  }

 private:
  void note(std::int64_t index, std::string problem) {
    if (problem.empty()) return;
    const std::lock_guard lock(mutex_);
    if (worst_ >= 0 && worst_ < index) return;
    worst_ = index;
    problem_ = std::move(problem);
  }
  [[noreturn]] void fail() const;

  const OpCall& call_;
  std::span<const std::int64_t> batch_;
  double flops_, worth_threads_;
  std::mutex mutex_;
  std::int64_t worst_ = -1;
  std::string problem_;
};

/// The batch axes of a tensor: all but the last `inner`.
[[nodiscard]] std::span<const std::int64_t> batch_of(const TensorImpl& t, std::size_t inner = 2);
/// Its strides along them, or along axes that it broadcasts to.
[[nodiscard]] Ints batch_strides(const TensorImpl& t, std::span<const std::int64_t> batch,
                                 std::size_t inner = 2);

template <class T>
[[nodiscard]] T* elements_of(const TensorImpl& t, std::int64_t offset) {
  return reinterpret_cast<T*>(t.data) + offset;
}

}  // namespace dyad::runtime::cpu
