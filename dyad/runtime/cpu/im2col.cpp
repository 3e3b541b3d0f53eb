#include <algorithm>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/resample.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Windows over three spatial axes; the first ones have size 1 where there are fewer.
struct Columns {
  std::int64_t planes = 0;  ///< n * c
  std::int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1},
               low[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};

  [[nodiscard]] std::int64_t elements() const noexcept { return in[0] * in[1] * in[2]; }
  [[nodiscard]] std::int64_t taps() const noexcept { return kernel[0] * kernel[1] * kernel[2]; }
  [[nodiscard]] std::int64_t windows() const noexcept { return out[0] * out[1] * out[2]; }
};

template <class Attrs>
Columns columns_of(const Attrs& a, const Tensor& image) {
  const auto sizes = image.impl()->shape.numbers();
  Columns s{.planes = sizes[0] * sizes[1]};
  const std::size_t axes = a.kernel.size(), skipped = 3 - axes;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::size_t at = i + skipped;
    s.in[at] = sizes[i + 2];
    s.kernel[at] = a.kernel[i];
    s.stride[at] = a.stride[i];
    s.low[at] = a.low[i];
    s.dilation[at] = a.dilation[i];
    const std::int64_t reach = (a.kernel[i] - 1) * a.dilation[i] + 1;
    s.out[at] = (s.in[at] + a.low[i] + a.high[i] - reach) / a.stride[i] + 1;
  }
  return s;
}

/// Calls `run(window, element, count)` for the windows that have tap k inside, in order: a row of
/// `count` windows whose elements are stride[2] apart; `gap(window, count)` for the others.
template <class Run, class Gap>
void for_tap(const Columns& s, std::int64_t k, Run run, Gap gap) {
  const std::int64_t tap[3] = {k / (s.kernel[1] * s.kernel[2]), k / s.kernel[2] % s.kernel[1],
                               k % s.kernel[2]};
  const auto at = [&](int a, std::int64_t o) {
    return o * s.stride[a] - s.low[a] + tap[a] * s.dilation[a];
  };
  // Columns whose element is inside: from `first` to before `end`.
  std::int64_t first = 0, end = s.out[2];
  while (first < end && at(2, first) < 0) ++first;
  while (end > first && at(2, end - 1) >= s.in[2]) --end;
  for (std::int64_t d = 0; d < s.out[0]; ++d) {
    for (std::int64_t h = 0; h < s.out[1]; ++h) {
      const std::int64_t row = (d * s.out[1] + h) * s.out[2], id = at(0, d), ih = at(1, h);
      if (id < 0 || id >= s.in[0] || ih < 0 || ih >= s.in[1]) {
        gap(row, s.out[2]);
        continue;
      }
      gap(row, first);
      run(row + first, (id * s.in[1] + ih) * s.in[2] + at(2, first), end - first);
      gap(row + end, s.out[2] - end);
    }
  }
}

void im2col(const OpCall& call) {
  const Tensor x = contiguous_copy(call.inputs[0]);
  const Tensor& out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const Columns s = columns_of(call.attrs_as<ops::Im2ColAttrs>(), x);
  with_word(x.dtype(), [&]<class Word>(Word) {
    const auto* from = reinterpret_cast<const Word*>(x.impl()->data);
    auto* to = reinterpret_cast<Word*>(out.impl()->data);
    const std::int64_t rows = s.planes * s.taps();
    parallel_for(0, rows,
                 grain_for({.bytes = 2.0 * static_cast<double>(s.windows()) * sizeof(Word)}, rows),
                 [&](std::int64_t lo, std::int64_t hi) {
                   for (std::int64_t row = lo; row < hi; ++row) {
                     const Word* plane = from + row / s.taps() * s.elements();
                     Word* column = to + row * s.windows();
                     for_tap(
                         s, row % s.taps(),
                         [&](std::int64_t window, std::int64_t element, std::int64_t count) {
                           if (s.stride[2] == 1) {
                             std::copy_n(plane + element, count, column + window);
                             return;
                           }
                           for (std::int64_t i = 0; i < count; ++i) {
                             column[window + i] = plane[element + i * s.stride[2]];
                           }
                         },
                         [&](std::int64_t window, std::int64_t count) {
                           std::fill_n(column + window, count, Word{});
                         });
                   }
                 });
  });
}

void col2im(const OpCall& call) {
  const Tensor columns = contiguous_copy(call.inputs[0]);
  const Tensor& out = call.outputs[0];
  if (out.impl()->numel() == 0) return;
  const Columns s = columns_of(call.attrs_as<ops::Col2ImAttrs>(), out);
  with_floating(out.dtype(), [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto* from = reinterpret_cast<const T*>(columns.impl()->data);
    auto* to = reinterpret_cast<T*>(out.impl()->data);
    const double bytes = static_cast<double>(2 * s.taps() * s.windows()) * sizeof(T);
    parallel_for(0, s.planes, grain_for({.bytes = bytes}, s.planes),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::vector<A> sums(static_cast<std::size_t>(s.elements()));
                   for (std::int64_t plane = lo; plane < hi; ++plane) {
                     std::fill(sums.begin(), sums.end(), A{});
                     for (std::int64_t k = 0; k < s.taps(); ++k) {
                       const T* column = from + (plane * s.taps() + k) * s.windows();
                       for_tap(
                           s, k,
                           [&](std::int64_t window, std::int64_t element, std::int64_t count) {
                             for (std::int64_t i = 0; i < count; ++i) {
                               sums[static_cast<std::size_t>(element + i * s.stride[2])] +=
                                   load(column[window + i]);
                             }
                           },
                           [](std::int64_t, std::int64_t) {});
                     }
                     std::transform(sums.begin(), sums.end(), to + plane * s.elements(), store<T>);
                   }
                 });
  });
}

}  // namespace

std::span<const NamedKernel> im2col_kernels() {
  static constexpr NamedKernel kernels[] = {{"im2col", {im2col}}, {"col2im", {col2im}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
