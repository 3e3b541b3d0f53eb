#include "dyad/runtime/cpu/softmax_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "dyad/runtime/cpu/norm_rows.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"

namespace dyad::runtime::cpu {
namespace {

template <class T>
[[gnu::always_inline]] inline T larger(T a, T b) {
  return a > b ? a : b;
}

using vector_math::kSumChunk;
using vector_math::over_lanes;
using vector_math::Unaligned;
using vector_math::Vector;
template <class T, int kBytes>
inline constexpr std::int64_t kLanes = vector_math::kVectorLanes<T, kBytes>;

/// Sums are kept in 64 bytes of lanes, in as many vectors, whatever the CPU: so their bits are the
/// same on all.
template <class T>
inline constexpr std::int64_t kSumLanes = 64 / static_cast<std::int64_t>(sizeof(T));
template <int kBytes>
inline constexpr std::int64_t kParts = 64 / kBytes;

/// The largest; NaN are passed over, they make the sum of powers NaN.
template <int kBytes, class T>
[[gnu::always_inline]] inline T max_loop(const T* x, std::int64_t n) {
  constexpr std::int64_t kWidth = kLanes<T, kBytes>;
  using V = Vector<T, kBytes>;
  using U = Unaligned<T, kBytes>;
  V a = V{} - std::numeric_limits<T>::infinity(), b = a, c = a, d = a;
  std::int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    const auto* v = reinterpret_cast<const U*>(x + i);
    a = v[0] > a ? v[0] : a;
    b = v[1] > b ? v[1] : b;
    c = v[2] > c ? v[2] : c;
    d = v[3] > d ? v[3] : d;
  }
  for (; i + kWidth <= n; i += kWidth) {
    const V v = *reinterpret_cast<const U*>(x + i);
    a = v > a ? v : a;
  }
  const V rest = *reinterpret_cast<const U*>(x + n - kWidth);
  b = rest > b ? rest : b;
  a = a > b ? a : b;
  c = c > d ? c : d;
  a = a > c ? a : c;
  return over_lanes<T, kBytes>(a, [](auto& p, const auto& q) { p = q > p ? q : p; });
}

/// The row that comes next, which a loop fetches on its way: memory works while powers are computed
/// (0.72 ms in the place of 0.85 for 4096 rows of 1024). Null where there is none, or where it is
/// so long that it would be gone from the first cache before its turn comes. Loops that only add
/// and multiply are as fast as memory, and lose by it.
template <class T>
struct Ahead {
  const T* read = nullptr;
  const T* written = nullptr;
};

/// The sum of e^(x - most), in lanes over chunks and those in f64; the powers go to `out` unless it
/// is null. The last lanes of the row are taken whole: they may meet the ones before.
template <int kBytes, class T>
[[gnu::always_inline]] inline double powers_loop(const T* x, T most, T* out, std::int64_t n,
                                                 const Ahead<T>& ahead) {
  constexpr std::int64_t kWidth = kLanes<T, kBytes>;
  using V = Vector<T, kBytes>;
  using U = Unaligned<T, kBytes>;
  V last[kParts<kBytes>];
  for (std::int64_t k = 0; k < kParts<kBytes>; ++k) {
    last[k] = *reinterpret_cast<const U*>(x + n - kSumLanes<T> + k * kWidth);
  }
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSumChunk) {
    const std::int64_t end = std::min(n, begin + kSumChunk);
    V sums[kParts<kBytes>] = {};
    std::int64_t i = begin;
    for (; i + kSumLanes<T> <= end; i += kSumLanes<T>) {
      for (std::int64_t k = 0; k < kParts<kBytes>; ++k) {
        V e = *reinterpret_cast<const U*>(x + i + k * kWidth) - most;
        vector_math::exp_of_negative<T, kBytes>(e);
        sums[k] += e;
        if (out) *reinterpret_cast<U*>(out + i + k * kWidth) = e;
      }
      if (ahead.read) __builtin_prefetch(ahead.read + i);
      if (ahead.written) __builtin_prefetch(ahead.written + i, 1);
    }
    if (i < end) {
      for (std::int64_t k = 0; k < kParts<kBytes>; ++k) {
        V e = last[k] - most;
        vector_math::exp_of_negative<T, kBytes>(e);
        if (out) *reinterpret_cast<U*>(out + n - kSumLanes<T> + k * kWidth) = e;
        V counted{};
        vector_math::set_from<T, kBytes>(kSumLanes<T> - (end - i) - k * kWidth, counted, e);
        sums[k] += counted;
      }
    }
    for (std::int64_t half = kParts<kBytes> / 2; half > 0; half /= 2) {
      for (std::int64_t k = 0; k < half; ++k) sums[k] += sums[k + half];
    }
    total +=
        static_cast<double>(over_lanes<T, kBytes>(sums[0], [](auto& p, const auto& q) { p += q; }));
  }
  return total;
}

template <int kBytes, class T>
[[gnu::always_inline]] inline void rows_loop(const T* x, T* out, std::int64_t n, std::int64_t rows,
                                             bool logarithm) {
  for (; rows-- > 0; x += n, out += n) {
    const T most = max_loop<kBytes>(x, n);
    constexpr std::int64_t kLongRow = 16384 / sizeof(T);
    Ahead<T> ahead;
    if (rows > 0 && n <= kLongRow) ahead = {.read = x + n, .written = out + n};
    if (logarithm) {
      const T rest = std::log(static_cast<T>(powers_loop<kBytes, T>(x, most, nullptr, n, ahead)));
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - most) - rest;
    } else {
      const T factor = static_cast<T>(1 / powers_loop<kBytes>(x, most, out, n, ahead));
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) out[i] *= factor;
    }
  }
}

template <int kBytes, class T>
[[gnu::always_inline]] inline void row_grad_loop(const T* grad, const T* y, T* out, std::int64_t n,
                                                 bool logarithm) {
  if (!logarithm) {
    const T total = static_cast<T>(sum_products_loop<kBytes>(grad, y, T{}, n));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = y[i] * (grad[i] - total);
    return;
  }
  const T total = static_cast<T>(sum_loop<kBytes>(grad, n));
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = grad[i] - vector_math::exp(y[i]) * total;
}

template <int kBytes, class T>
[[gnu::always_inline]] inline void rows_grad_loop(const T* grad, const T* y, T* out, std::int64_t n,
                                                  std::int64_t rows, bool logarithm) {
  for (; rows-- > 0; grad += n, y += n, out += n) row_grad_loop<kBytes>(grad, y, out, n, logarithm);
}

/// Sums of `term(k, i)` over k for each column i: in T over a few rows, those in f64.
template <class T, class Term>
[[gnu::always_inline]] inline void sum_columns(std::int64_t n, std::int64_t width, T* sums,
                                               Term term) {
  constexpr std::int64_t kRows = 64;
  double totals[kSoftmaxColumns] = {};
  for (std::int64_t begin = 0; begin < n; begin += kRows) {
    std::fill_n(sums, width, T{});
    for (std::int64_t k = begin; k < std::min(n, begin + kRows); ++k) {
      for (std::int64_t i = 0; i < width; ++i) sums[i] += term(k, i);
    }
    for (std::int64_t i = 0; i < width; ++i) totals[i] += static_cast<double>(sums[i]);
  }
  for (std::int64_t i = 0; i < width; ++i) sums[i] = static_cast<T>(totals[i]);
}

template <class T>
[[gnu::always_inline]] inline void columns_loop(const T* x, T* out, std::int64_t n,
                                                std::int64_t step, std::int64_t width,
                                                bool logarithm) {
  T most[kSoftmaxColumns], sums[kSoftmaxColumns];
  std::fill_n(most, width, -std::numeric_limits<T>::infinity());
  for (std::int64_t k = 0; k < n; ++k) {
    for (std::int64_t i = 0; i < width; ++i) most[i] = larger(x[k * step + i], most[i]);
  }
  if (!logarithm) {
    sum_columns<T>(n, width, sums, [=, &most](std::int64_t k, std::int64_t i) {
      return out[k * step + i] = vector_math::exp(x[k * step + i] - most[i]);
    });
    for (std::int64_t i = 0; i < width; ++i) sums[i] = 1 / sums[i];
    for (std::int64_t k = 0; k < n; ++k) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) out[k * step + i] *= sums[i];
    }
    return;
  }
  sum_columns<T>(n, width, sums, [=, &most](std::int64_t k, std::int64_t i) {
    return vector_math::exp(x[k * step + i] - most[i]);
  });
  for (std::int64_t i = 0; i < width; ++i) sums[i] = std::log(sums[i]);
  for (std::int64_t k = 0; k < n; ++k) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) {
      out[k * step + i] = (x[k * step + i] - most[i]) - sums[i];
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void columns_grad_loop(const T* grad, const T* y, T* out,
                                                     std::int64_t n, std::int64_t step,
                                                     std::int64_t width, bool logarithm) {
  T sums[kSoftmaxColumns];
  if (!logarithm) {
    sum_columns<T>(n, width, sums, [=](std::int64_t k, std::int64_t i) {
      return grad[k * step + i] * y[k * step + i];
    });
    for (std::int64_t k = 0; k < n; ++k) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) {
        out[k * step + i] = y[k * step + i] * (grad[k * step + i] - sums[i]);
      }
    }
    return;
  }
  sum_columns<T>(n, width, sums,
                 [=](std::int64_t k, std::int64_t i) { return grad[k * step + i]; });
  for (std::int64_t k = 0; k < n; ++k) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) {
      out[k * step + i] = grad[k * step + i] - vector_math::exp(y[k * step + i]) * sums[i];
    }
  }
}

}  // namespace

DYAD_VECTOR_VERSIONS(void, softmax_rows,
                     (const float* x, float* out, std::int64_t n, std::int64_t rows,
                      bool logarithm),
                     rows_loop, (x, out, n, rows, logarithm))
DYAD_VECTOR_VERSIONS(void, softmax_rows,
                     (const double* x, double* out, std::int64_t n, std::int64_t rows,
                      bool logarithm),
                     rows_loop, (x, out, n, rows, logarithm))
DYAD_VECTOR_VERSIONS(void, softmax_rows_grad,
                     (const float* grad, const float* y, float* out, std::int64_t n,
                      std::int64_t rows, bool logarithm),
                     rows_grad_loop, (grad, y, out, n, rows, logarithm))
DYAD_VECTOR_VERSIONS(void, softmax_rows_grad,
                     (const double* grad, const double* y, double* out, std::int64_t n,
                      std::int64_t rows, bool logarithm),
                     rows_grad_loop, (grad, y, out, n, rows, logarithm))
DYAD_VECTOR_CLONES void softmax_columns(const float* x, float* out, std::int64_t n,
                                        std::int64_t step, std::int64_t width, bool logarithm) {
  columns_loop(x, out, n, step, width, logarithm);
}
DYAD_VECTOR_CLONES void softmax_columns(const double* x, double* out, std::int64_t n,
                                        std::int64_t step, std::int64_t width, bool logarithm) {
  columns_loop(x, out, n, step, width, logarithm);
}
DYAD_VECTOR_CLONES void softmax_columns_grad(const float* grad, const float* y, float* out,
                                             std::int64_t n, std::int64_t step, std::int64_t width,
                                             bool logarithm) {
  columns_grad_loop(grad, y, out, n, step, width, logarithm);
}
DYAD_VECTOR_CLONES void softmax_columns_grad(const double* grad, const double* y, double* out,
                                             std::int64_t n, std::int64_t step, std::int64_t width,
                                             bool logarithm) {
  columns_grad_loop(grad, y, out, n, step, width, logarithm);
}

}  // namespace dyad::runtime::cpu
