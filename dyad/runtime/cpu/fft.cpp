#include "dyad/ops/attrs/fft.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/fft_lanes.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// What the sums are multiplied by.
double scale_of(ops::FftNorm norm, bool inverse, std::int64_t n) {
  if (norm == ops::FftNorm::ortho) return 1 / std::sqrt(static_cast<double>(n));
  const bool scaled = (norm == ops::FftNorm::backward) == inverse;
  return scaled ? 1 / static_cast<double>(n) : 1;
}

/// The strides of an operand, the axis of the parts left out of complex ones.
FftLayout layout_of(const TensorImpl& x, bool complex, std::size_t axis, Ints& others) {
  const std::size_t rank = x.strides.size() - (complex ? 1 : 0);
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis) others.push_back(x.strides[i]);
  }
  return {x.strides[axis], complex ? x.strides.back() : 0};
}

template <class T>
void run(const OpCall& call, FftKind kind, std::int64_t axis_of_x, ops::FftNorm norm, bool inverse,
         double middle) {
  const TensorImpl &x = *call.inputs[0].impl(), &y = *call.outputs[0].impl();
  if (y.numel() == 0) return;
  const auto axis =
      static_cast<std::size_t>(axis_of_x < 0 ? axis_of_x + x.shape.rank() : axis_of_x);
  // Real numbers have no axis of parts: the sizes of the lines are theirs.
  const TensorImpl& whole = kind == FftKind::half ? x : y;
  std::array<Ints, 2> steps;
  FftJob<T> job{.kind = kind, .inverse = inverse, .middle = static_cast<T>(middle)};
  job.from = layout_of(x, kind != FftKind::half, axis, steps[0]);
  job.to = layout_of(y, kind != FftKind::real, axis, steps[1]);
  Ints sizes = whole.shape.numbers();
  if (kind == FftKind::complex) sizes.resize(sizes.size() - 1);
  job.n = sizes[axis];
  sizes = without(sizes, axis);
  const std::int64_t lines = product(sizes);
  job.scale = static_cast<T>(scale_of(norm, inverse, job.n));
  // Lines of results this large leave the second-level caches before anything reads them again.
  constexpr std::int64_t kPastTheCaches = 8 << 20;
  job.streams = y.numel() * static_cast<std::int64_t>(sizeof(T)) >= kPastTheCaches;

  const FftCode<T>& code = fft_code<T>();
  const std::int64_t w = code.lanes;
  const bool real = kind != FftKind::complex;
  const std::int64_t n = real && job.n % 2 == 0 ? job.n / 2 : job.n;
  // Lines that fill no vector run one by one where that pays.
  const std::int64_t rest = lines % w;
  const bool by_line = runs_by_line(n, real, lines, code.lanes);
  const auto plan = plan_fft<T>(job.n, real, by_line, code.lanes);
  job.lanes = plan->lanes.get();
  job.line = plan->line.get();
  job.real_twiddles = plan->real_twiddles.data();
  const auto* from = reinterpret_cast<const T*>(x.data);
  auto* to = reinterpret_cast<T*>(y.data);
  const double size = static_cast<double>(n);
  const Cost line{.bytes = 4 * size * sizeof(T), .flops = 5 * size * std::log2(size + 1)};
  if (by_line) {
    const auto walk = [&](std::int64_t begin, std::int64_t end) {
      FftWork<T> work(job);
      RowWalk<2> at(sizes, steps, begin);
      for (std::int64_t i = begin; i < end; ++i, at.next()) {
        run_fft_line(job, from + at[0], to + at[1], work);
      }
    };
    // A few lines share the team each, many share it out.
    if (lines < team_size()) {
      walk(0, lines);
    } else {
      parallel_for(0, lines, grain_for(line, lines), walk);
    }
    return;
  }
  const std::int64_t blocks = (lines + w - 1) / w;
  const Cost block{.bytes = line.bytes * static_cast<double>(w),
                   .flops = line.flops * static_cast<double>(w)};
  parallel_for(0, blocks, grain_for(block, blocks), [&](std::int64_t begin, std::int64_t end) {
    const Tensor buffer = make_empty(dtype_of<T>, {4 * w * job.lanes->capacity});
    RowWalk<2> at(sizes, steps, begin * w);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t count = i + 1 < blocks || rest == 0 ? w : rest;
      std::int64_t from_at[kFftMostLanes], to_at[kFftMostLanes];
      for (std::int64_t lane = 0; lane < w; ++lane) {
        from_at[lane] = lane < count ? at[0] : from_at[0];
        to_at[lane] = lane < count ? at[1] : to_at[0];
        if (lane < count) at.next();
      }
      code.block(job, from, from_at, to, to_at, static_cast<int>(count),
                 reinterpret_cast<T*>(buffer.impl()->data));
    }
  });
}

/// Tensors that are not f64 are f32.
void run_any(const OpCall& call, FftKind kind, std::int64_t axis, ops::FftNorm norm, bool inverse,
             double middle) {
  if (call.inputs[0].dtype() == DType::f64) {
    run<double>(call, kind, axis, norm, inverse, middle);
  } else {
    run<float>(call, kind, axis, norm, inverse, middle);
  }
}

void fft(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::FftAttrs>();
  run_any(call, FftKind::complex, attrs.axis, ops::fft_norm(attrs.norm), attrs.inverse, 1);
}

void rfft(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::RfftAttrs>();
  run_any(call, FftKind::half, attrs.axis, ops::fft_norm(attrs.norm), false, attrs.adjoint ? 2 : 1);
}

void irfft(const OpCall& call) {
  const auto& attrs = call.attrs_as<ops::IrfftAttrs>();
  run_any(call, FftKind::real, attrs.axis, ops::fft_norm(attrs.norm), true,
          attrs.adjoint ? 0.5 : 1);
}

}  // namespace

std::span<const NamedKernel> fft_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"fft", {fft}},
      {"rfft", {rfft}},
      {"irfft", {irfft}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
