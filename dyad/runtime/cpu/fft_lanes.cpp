#include "dyad/runtime/cpu/fft_lanes.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/threads.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"

#define DYAD_INLINE [[gnu::always_inline]] inline
#define DYAD_INLINE_LAMBDA __attribute__((always_inline))

namespace dyad::runtime::cpu {
namespace {

// Each with its store past the caches, to where a whole vector may begin, and what puts such stores
// before all that follows.
namespace plain {
constexpr int kVectorBytes = 16;
using Floats [[gnu::vector_size(kVectorBytes)]] = float;
DYAD_INLINE void stream(float* to, const Floats& v) { __builtin_memcpy(to, &v, sizeof(v)); }
DYAD_INLINE void fence() {}
#include "dyad/runtime/cpu/fft_lanes.inl"
}  // namespace plain

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(DYAD_PLAIN_LOOPS)
#define DYAD_FFT_VECTORS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace v3 {
constexpr int kVectorBytes = 32;
using Floats [[gnu::vector_size(kVectorBytes)]] = float;
DYAD_INLINE void stream(float* to, const Floats& v) { __builtin_ia32_movntps256(to, v); }
DYAD_INLINE void fence() { __builtin_ia32_sfence(); }
#include "dyad/runtime/cpu/fft_lanes.inl"
}  // namespace v3
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
namespace v4 {
constexpr int kVectorBytes = 64;
using Floats [[gnu::vector_size(kVectorBytes)]] = float;
DYAD_INLINE void stream(float* to, const Floats& v) { __builtin_ia32_movntps512(to, v); }
DYAD_INLINE void fence() { __builtin_ia32_sfence(); }
#include "dyad/runtime/cpu/fft_lanes.inl"
}  // namespace v4
#pragma GCC pop_options
#endif

/// Memory for so many numbers, which begins where vectors may.
template <class T>
Tensor numbers(std::int64_t count) {
  return make_empty(dtype_of<T>, {count});
}

/// `n` complex numbers at `from` to `to`, by the plan's matrix.
template <class T>
void run_matrix(const LinePlan<T>& plan, const T* from, FftLayout from_layout, bool exchange_in,
                T* to, FftLayout to_layout, bool exchange_out, T scale, bool streams,
                FftWork<T>& work) {
  const FftCode<T>& code = fft_code<T>();
  const std::int64_t w = code.lanes;
  const FftMatrix<T> matrix{plan.n1, plan.n2, plan.columns.get(), plan.rows.get(),
                            plan.twiddles.data()};
  const std::int64_t column_blocks = (plan.n2 + w - 1) / w, row_blocks = (plan.n1 + w - 1) / w;
  const auto walk = [&](std::int64_t blocks, const LanesPlan<T>& lanes, auto&& body) {
    const double size = static_cast<double>(lanes.n * w);
    const std::int64_t grain = grain_for({.bytes = 32 * size, .flops = 40 * size}, blocks);
    if (blocks < 2 * grain || team_size() == 1) return body(0, blocks, elements_of<T>(work.buffer));
    parallel_for(0, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      const Tensor buffer = numbers<T>(4 * w * lanes.capacity);
      body(begin, end, elements_of<T>(buffer));
    });
  };
  walk(column_blocks, *plan.columns, [&](std::int64_t begin, std::int64_t end, T* buffer) {
    code.columns(matrix, from, from_layout, exchange_in, begin, end, elements_of<T>(work.matrix),
                 buffer);
  });
  walk(row_blocks, *plan.rows, [&](std::int64_t begin, std::int64_t end, T* buffer) {
    code.rows(matrix, elements_of<T>(work.matrix), begin, end, to, to_layout, exchange_out, scale,
              streams, buffer);
  });
}

constexpr FftLayout kDense{2, 1};

/// A line of complex numbers. The inverse is the transform with the parts exchanged before and
/// after.
template <class T>
void run_line(const LinePlan<T>& plan, const T* from, FftLayout from_layout, bool exchange_in,
              T* to, FftLayout to_layout, bool exchange_out, T scale, bool streams,
              FftWork<T>& work) {
  if (!plan.inner) {
    return run_matrix(plan, from, from_layout, exchange_in, to, to_layout, exchange_out, scale,
                      streams, work);
  }
  const LinePlan<T>& inner = *plan.inner;
  const auto times = [](T re, T im, const std::complex<T>& w) {
    return std::pair(re * w.real() - im * w.imag(), re * w.imag() + im * w.real());
  };
  T *a = elements_of<T>(work.first), *b = elements_of<T>(work.second);
  for (std::int64_t k = 0; k < plan.n; ++k) {
    const T* x = from + k * from_layout.along;
    const T re = x[exchange_in ? from_layout.part : 0], im = x[exchange_in ? 0 : from_layout.part];
    std::tie(a[2 * k], a[2 * k + 1]) = times(re, im, plan.chirp[static_cast<std::size_t>(k)]);
  }
  std::fill(a + 2 * plan.n, a + 2 * inner.n, T(0));
  run_matrix(inner, a, kDense, false, b, kDense, false, T(1), false, work);
  for (std::int64_t k = 0; k < inner.n; ++k) {
    std::tie(b[2 * k], b[2 * k + 1]) =
        times(b[2 * k], b[2 * k + 1], plan.filter[static_cast<std::size_t>(k)]);
  }
  run_matrix(inner, b, kDense, true, a, kDense, true, T(1), false, work);
  for (std::int64_t k = 0; k < plan.n; ++k) {
    const auto [re, im] = times(a[2 * k], a[2 * k + 1], plan.chirp[static_cast<std::size_t>(k)]);
    T* y = to + k * to_layout.along;
    y[exchange_out ? to_layout.part : 0] = re * scale;
    y[exchange_out ? 0 : to_layout.part] = im * scale;
  }
}

}  // namespace

template <class T>
const FftCode<T>& fft_code() noexcept {
#ifdef DYAD_FFT_VECTORS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd")) {
    return v4::kCode<T>;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) return v3::kCode<T>;
#endif
  return plain::kCode<T>;
}

template <class T>
FftWork<T>::FftWork(const FftJob<T>& job) {
  const LinePlan<T>& line = *job.line;
  const LinePlan<T>& matrix_plan = line.inner ? *line.inner : line;
  const std::int64_t w = fft_code<T>().lanes, blocks = (matrix_plan.n1 + w - 1) / w;
  const std::int64_t capacity = std::max(matrix_plan.columns->capacity, matrix_plan.rows->capacity);
  matrix = numbers<T>(blocks * matrix_plan.n2 * 2 * w);
  buffer = numbers<T>(4 * w * capacity);
  if (line.inner) {
    first = numbers<T>(2 * line.inner->n);
    second = numbers<T>(2 * line.inner->n);
  }
  if (job.kind != FftKind::complex) room = numbers<T>(2 * (job.n + 1));
}

template <class T>
void run_fft_line(const FftJob<T>& job, const T* from, T* to, FftWork<T>& work) {
  const std::int64_t n = job.n, h = n / 2;
  const FftLayout &in = job.from, &out = job.to;
  if (job.kind == FftKind::complex) {
    return run_line(*job.line, from, in, job.inverse, to, out, job.inverse, job.scale, job.streams,
                    work);
  }
  const bool even = n % 2 == 0;
  const T scale = job.scale, middle = job.middle;
  T* z = elements_of<T>(work.room);
  const auto put = [&](std::int64_t k, T re, T im) {
    T* y = to + k * out.along;
    y[0] = re * scale;
    y[out.part] = im * scale;
  };
  if (job.kind == FftKind::half && even) {
    run_line(*job.line, from, {2 * in.along, in.along}, false, z, kDense, false, T(1), false, work);
    put(0, z[0] + z[1], 0);
    put(h, z[0] - z[1], 0);
    fft_code<T>().untangle(z, h, job.real_twiddles, middle, scale, to, out);
  } else if (job.kind == FftKind::half) {
    for (std::int64_t k = 0; k < n; ++k) {
      z[2 * k] = from[k * in.along];
      z[2 * k + 1] = 0;
    }
    run_line(*job.line, z, kDense, false, z, kDense, false, T(1), false, work);
    put(0, z[0], z[1]);
    for (std::int64_t k = 1; k <= h; ++k) put(k, z[2 * k] * middle, z[2 * k + 1] * middle);
  } else if (even) {
    const auto x = [&](std::int64_t k) { return from + k * in.along; };
    z[0] = x(0)[0] + x(h)[0];
    z[1] = x(0)[0] - x(h)[0];
    for (std::int64_t k = 1; 2 * k <= h; ++k) {
      const T *a = x(k), *b = x(h - k), *w = job.real_twiddles + 2 * k;
      const T even_re = (a[0] + b[0]) * middle, even_im = (a[in.part] - b[in.part]) * middle;
      const T odd_re = (a[0] - b[0]) * middle, odd_im = (a[in.part] + b[in.part]) * middle;
      const T re = odd_re * w[0] + odd_im * w[1], im = odd_im * w[0] - odd_re * w[1];
      z[2 * k] = even_re - im;
      z[2 * k + 1] = even_im + re;
      z[2 * (h - k)] = even_re + im;
      z[2 * (h - k) + 1] = re - even_im;
    }
    run_line(*job.line, z, kDense, true, to, {2 * out.along, out.along}, true, scale, job.streams,
             work);
  } else {
    z[0] = from[0];
    z[1] = 0;
    for (std::int64_t k = 1; k <= h; ++k) {
      const T* x = from + k * in.along;
      z[2 * k] = z[2 * (n - k)] = x[0] * middle;
      z[2 * k + 1] = x[in.part] * middle;
      z[2 * (n - k) + 1] = -z[2 * k + 1];
    }
    run_line(*job.line, z, kDense, true, z, kDense, true, scale, false, work);
    for (std::int64_t k = 0; k < n; ++k) to[k * out.along] = z[2 * k];
  }
}

void transform_in_place(std::vector<std::complex<double>>& numbers) {
  const auto n = static_cast<std::int64_t>(numbers.size());
  const FftCode<double>& code = fft_code<double>();
  const bool by_line = runs_by_line(n, false, 1, code.lanes);
  const auto plan = plan_fft<double>(n, false, by_line, code.lanes);
  auto* x = reinterpret_cast<double*>(numbers.data());
  FftJob<double> job{.n = n, .lanes = plan->lanes.get(), .line = plan->line.get()};
  job.from = job.to = kDense;
  if (by_line) {
    FftWork<double> work(job);
    return run_fft_line(job, x, x, work);
  }
  const Tensor buffer = make_empty(DType::f64, {4 * plan->lanes->capacity * code.lanes});
  const std::int64_t at[kFftMostLanes] = {};
  code.block(job, x, at, x, at, 1, elements_of<double>(buffer));
}

template const FftCode<float>& fft_code() noexcept;
template const FftCode<double>& fft_code() noexcept;
template struct FftWork<float>;
template struct FftWork<double>;
template void run_fft_line(const FftJob<float>&, const float*, float*, FftWork<float>&);
template void run_fft_line(const FftJob<double>&, const double*, double*, FftWork<double>&);

}  // namespace dyad::runtime::cpu

#pragma GCC diagnostic pop
