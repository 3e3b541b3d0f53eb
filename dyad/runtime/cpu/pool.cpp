#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

// Channels-last everywhere: channels are neighbours in memory, so one window position is a row of
// channels, and the loops over it are what the compiler turns into vectors.

struct Windows {
  std::int64_t n, c, h, w, oh, ow;
  std::int64_t kernel[2], stride[2], padding[2];

  /// First and last-but-one row (axis 0) or column (axis 1) of output `o`'s window in the input.
  [[nodiscard]] std::int64_t first(int axis, std::int64_t o) const noexcept {
    return std::max<std::int64_t>(0, o * stride[axis] - padding[axis]);
  }
  [[nodiscard]] std::int64_t end(int axis, std::int64_t o) const noexcept {
    return std::min(axis == 0 ? h : w, o * stride[axis] - padding[axis] + kernel[axis]);
  }
};

/// `image` is the array with the input's shape, `pooled` the one with the output's.
template <class Attrs>
Windows windows_of(const OpCall& call, std::span<const std::int64_t> image,
                   std::span<const std::int64_t> pooled) {
  const auto& a = call.attrs_as<Attrs>();
  return {image[0],
          image[1],
          image[2],
          image[3],
          pooled[2],
          pooled[3],
          {a.kernel[0], a.kernel[1]},
          {a.stride[0], a.stride[1]},
          {a.padding[0], a.padding[1]}};
}

std::span<const std::int64_t> sizes_of(const Tensor& t) { return t.impl()->shape.numbers(); }

/// A tensor's elements addressed as [n][c][h][w].
template <class T>
struct Image {
  explicit Image(const Tensor& t)
      : data(reinterpret_cast<T*>(t.impl()->data)),
        n(t.impl()->strides[0]),
        c(t.impl()->strides[1]),
        h(t.impl()->strides[2]),
        w(t.impl()->strides[3]) {}
  [[nodiscard]] T* at(std::int64_t in, std::int64_t ih, std::int64_t iw) const noexcept {
    return data + in * n + ih * h + iw * w;
  }
  T* data;
  std::int64_t n, c, h, w;
};

/// Whether `value` takes the place of `best`: larger, or the first NaN.
template <class A>
[[gnu::always_inline]] inline bool beats(A value, A best) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    return value > best || (value != value && best == best);
  } else {
    return value > best;
  }
}

/// Integers are compared as signed numbers; u8 fits.
template <class T>
using Compared = std::conditional_t<std::is_integral_v<T>, std::int64_t, Accumulator<T>>;
template <class T>
[[gnu::always_inline]] inline Compared<T> compared(T value) noexcept {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return load(value);
  }
}

Cost window_cost(const Windows& s, std::size_t element) {
  const double touched = static_cast<double>(s.kernel[0] * s.kernel[1] * s.c * s.ow);
  return {.bytes = touched * static_cast<double>(element), .flops = touched};
}

/// Calls `body(n, oh)` for every row of outputs.
template <class Body>
void for_output_rows(const Windows& s, std::size_t element, Body body) {
  const std::int64_t rows = s.n * s.oh;
  parallel_for(0, rows, grain_for(window_cost(s, element), rows),
               [&](std::int64_t lo, std::int64_t hi) {
                 for (std::int64_t row = lo; row < hi; ++row) body(row / s.oh, row % s.oh);
               });
}

/// The largest of the window of output (oh, ow) for every channel: values into `best`, positions
/// (ih * w + iw) into `where` unless that is null.
template <class T>
void window_max(const Windows& s, const Image<const T>& x, std::int64_t n, std::int64_t oh,
                std::int64_t ow, T* best, std::int64_t* where) {
  bool begun = false;
  for (std::int64_t ih = s.first(0, oh); ih < s.end(0, oh); ++ih) {
    for (std::int64_t iw = s.first(1, ow); iw < s.end(1, ow); ++iw) {
      const T* from = x.at(n, ih, iw);
      const std::int64_t at = ih * s.w + iw;
      if (!begun) {
        for (std::int64_t c = 0; c < s.c; ++c) best[c] = from[c * x.c];
        if (where != nullptr) std::fill_n(where, s.c, at);
        begun = true;
      } else if (where == nullptr && x.c == 1) {
        for (std::int64_t c = 0; c < s.c; ++c) {
          best[c] = beats(compared(from[c]), compared(best[c])) ? from[c] : best[c];
        }
      } else {
        for (std::int64_t c = 0; c < s.c; ++c) {
          if (!beats(compared(from[c * x.c]), compared(best[c]))) continue;
          best[c] = from[c * x.c];
          if (where != nullptr) where[c] = at;
        }
      }
    }
  }
}

void max_pool2d(const OpCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  const auto s = windows_of<ops::MaxPool2dAttrs>(call, sizes_of(x), sizes_of(out));
  with_element(x.dtype(), [&]<class T>(T) {
    const Image<const T> from(x);
    const Image<T> to(out);
    for_output_rows(s, sizeof(T), [&](std::int64_t n, std::int64_t oh) {
      std::vector<T> best(static_cast<std::size_t>(s.c));
      for (std::int64_t ow = 0; ow < s.ow; ++ow) {
        window_max<T>(s, from, n, oh, ow, best.data(), nullptr);
        T* target = to.at(n, oh, ow);
        for (std::int64_t c = 0; c < s.c; ++c) target[c * to.c] = best[static_cast<std::size_t>(c)];
      }
    });
  });
}

/// Overlapping windows add into one place, so an image belongs to one thread, its windows in order;
/// sums of half precision are kept in f32.
template <class T, class AddWindow>
void add_windows(const Windows& s, const Tensor& out, AddWindow add_window) {
  const Image<T> to(out);
  const auto elements = static_cast<std::size_t>(s.h * s.w * s.c);
  parallel_for(0, s.n, grain_for({.bytes = static_cast<double>(elements * 3 * sizeof(T))}, s.n),
               [&](std::int64_t lo, std::int64_t hi) {
                 std::vector<Accumulator<T>> sums(elements);
                 for (std::int64_t n = lo; n < hi; ++n) {
                   std::fill(sums.begin(), sums.end(), Accumulator<T>{});
                   for (std::int64_t oh = 0; oh < s.oh; ++oh) {
                     for (std::int64_t ow = 0; ow < s.ow; ++ow) add_window(n, oh, ow, sums.data());
                   }
                   const Accumulator<T>* sum = sums.data();
                   for (std::int64_t ih = 0; ih < s.h; ++ih) {
                     for (std::int64_t iw = 0; iw < s.w; ++iw, sum += s.c) {
                       T* target = to.at(n, ih, iw);
                       for (std::int64_t c = 0; c < s.c; ++c) target[c * to.c] = store<T>(sum[c]);
                     }
                   }
                 }
               });
}

void max_pool2d_backward(const OpCall& call) {
  const Tensor &grad = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  const auto s = windows_of<ops::MaxPool2dAttrs>(call, sizes_of(x), sizes_of(grad));
  with_element(x.dtype(), [&]<class T>(T) {
    const Image<const T> from(x), weights(grad);
    add_windows<T>(s, out, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, auto* sums) {
      thread_local std::vector<T> best;
      thread_local std::vector<std::int64_t> where;
      best.resize(static_cast<std::size_t>(s.c));
      where.assign(static_cast<std::size_t>(s.c), -1);
      window_max<T>(s, from, n, oh, ow, best.data(), where.data());
      const T* weight = weights.at(n, oh, ow);
      for (std::int64_t c = 0; c < s.c; ++c) {
        sums[where[static_cast<std::size_t>(c)] * s.c + c] += load(weight[c * weights.c]);
      }
    });
  });
}

void max_pool2d_take(const OpCall& call) {
  const Tensor &values = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  const auto s = windows_of<ops::MaxPool2dAttrs>(call, sizes_of(x), sizes_of(out));
  with_element(x.dtype(), [&]<class T>(T) {
    const Image<const T> from(x), taken(values);
    const Image<T> to(out);
    for_output_rows(s, sizeof(T), [&](std::int64_t n, std::int64_t oh) {
      std::vector<T> best(static_cast<std::size_t>(s.c));
      std::vector<std::int64_t> where(static_cast<std::size_t>(s.c));
      for (std::int64_t ow = 0; ow < s.ow; ++ow) {
        window_max<T>(s, from, n, oh, ow, best.data(), where.data());
        T* target = to.at(n, oh, ow);
        for (std::int64_t c = 0; c < s.c; ++c) {
          const std::int64_t at = where[static_cast<std::size_t>(c)];
          target[c * to.c] = taken.at(n, at / s.w, at % s.w)[c * taken.c];
        }
      }
    });
  });
}

/// How many elements the mean of a window divides by.
template <class Attrs>
std::int64_t window_count(const OpCall& call, const Windows& s, std::int64_t oh, std::int64_t ow) {
  if (call.attrs_as<Attrs>().count_include_pad) return s.kernel[0] * s.kernel[1];
  return std::max<std::int64_t>(1,
                                (s.end(0, oh) - s.first(0, oh)) * (s.end(1, ow) - s.first(1, ow)));
}

void avg_pool2d(const OpCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  const auto s = windows_of<ops::AvgPool2dAttrs>(call, sizes_of(x), sizes_of(out));
  with_floating(x.dtype(), [&]<class T>(T) {
    const Image<const T> from(x);
    const Image<T> to(out);
    for_output_rows(s, sizeof(T), [&](std::int64_t n, std::int64_t oh) {
      std::vector<Accumulator<T>> sums(static_cast<std::size_t>(s.c));
      for (std::int64_t ow = 0; ow < s.ow; ++ow) {
        std::fill(sums.begin(), sums.end(), Accumulator<T>{});
        for (std::int64_t ih = s.first(0, oh); ih < s.end(0, oh); ++ih) {
          for (std::int64_t iw = s.first(1, ow); iw < s.end(1, ow); ++iw) {
            const T* source = from.at(n, ih, iw);
            for (std::int64_t c = 0; c < s.c; ++c) {
              sums[static_cast<std::size_t>(c)] += load(source[c * from.c]);
            }
          }
        }
        const auto count =
            static_cast<Accumulator<T>>(window_count<ops::AvgPool2dAttrs>(call, s, oh, ow));
        T* target = to.at(n, oh, ow);
        for (std::int64_t c = 0; c < s.c; ++c) {
          target[c * to.c] = store<T>(sums[static_cast<std::size_t>(c)] / count);
        }
      }
    });
  });
}

void avg_pool2d_backward(const OpCall& call) {
  const Tensor &grad = call.inputs[0], &out = call.outputs[0];
  const auto s = windows_of<ops::AvgPool2dBackwardAttrs>(call, sizes_of(out), sizes_of(grad));
  with_floating(grad.dtype(), [&]<class T>(T) {
    const Image<const T> weights(grad);
    add_windows<T>(s, out, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, auto* sums) {
      const auto count =
          static_cast<Accumulator<T>>(window_count<ops::AvgPool2dBackwardAttrs>(call, s, oh, ow));
      const T* weight = weights.at(n, oh, ow);
      for (std::int64_t ih = s.first(0, oh); ih < s.end(0, oh); ++ih) {
        for (std::int64_t iw = s.first(1, ow); iw < s.end(1, ow); ++iw) {
          Accumulator<T>* sum = sums + (ih * s.w + iw) * s.c;
          for (std::int64_t c = 0; c < s.c; ++c) sum[c] += load(weight[c * weights.c]) / count;
        }
      }
    });
  });
}

Strides channels_last(const OpInfo&, const void*, std::span<const Tensor>, const Shape& shape,
                      int) {
  return channels_last_strides(shape.numbers());
}

}  // namespace

std::span<const NamedKernel> pool_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"max_pool2d", {max_pool2d, channels_last}},
      {"max_pool2d_backward", {max_pool2d_backward, channels_last}},
      {"max_pool2d_take", {max_pool2d_take, channels_last}},
      {"avg_pool2d", {avg_pool2d, channels_last}},
      {"avg_pool2d_backward", {avg_pool2d_backward, channels_last}},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
