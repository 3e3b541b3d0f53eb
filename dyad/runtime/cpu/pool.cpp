#include <algorithm>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/pool_rows.h"
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

/// The rows of one thread: the largest values of a window so far, and where they are.
template <class T>
struct Largest {
  explicit Largest(const Windows& s)
      : values(static_cast<std::size_t>(s.c)), positions(static_cast<std::size_t>(s.c)) {}
  std::vector<T> values;
  std::vector<std::int32_t> positions;  ///< ih * w + iw
};

/// The largest of the window of output (oh, ow) for every channel, with positions if `kPositions`.
template <bool kPositions, class T>
void window_max(const Windows& s, const Image<const T>& x, std::int64_t n, std::int64_t oh,
                std::int64_t ow, Largest<T>& largest) {
  bool begun = false;
  for (std::int64_t ih = s.first(0, oh); ih < s.end(0, oh); ++ih) {
    for (std::int64_t iw = s.first(1, ow); iw < s.end(1, ow); ++iw, begun = true) {
      const Row<const T> from{x.at(n, ih, iw), x.c};
      const auto at = static_cast<std::int32_t>(ih * s.w + iw);
      if (!begun) {
        copy_row(from, Row<T>{largest.values.data(), 1}, s.c);
        if (kPositions) std::fill(largest.positions.begin(), largest.positions.end(), at);
      } else if (kPositions) {
        keep_larger_at(from, largest.values.data(), largest.positions.data(), at, s.c);
      } else {
        keep_larger(from, largest.values.data(), s.c);
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
      Largest<T> largest(s);
      for (std::int64_t ow = 0; ow < s.ow; ++ow) {
        window_max<false>(s, from, n, oh, ow, largest);
        copy_row(Row<const T>{largest.values.data(), 1}, Row<T>{to.at(n, oh, ow), to.c}, s.c);
      }
    });
  });
}

/// Overlapping windows add into one place, so an image belongs to one thread, its windows in order;
/// sums of half precision are kept in f32. `add_window(n, oh, ow, sums)` adds to [h][w][c].
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
                       store_row(sum, Row<T>{to.at(n, ih, iw), to.c}, s.c);
                     }
                   }
                 }
               });
}

/// Gradients of windows that share no element: each element has its window's gradient or 0, nothing
/// is added up.
template <class T>
void spread_windows(const Windows& s, const Image<const T>& x, const Image<const T>& weights,
                    const Tensor& out) {
  const Image<T> to(out);
  const std::int64_t elements = s.h * s.w * s.c;
  parallel_for(0, s.n, grain_for({.bytes = static_cast<double>(elements) * 4 * sizeof(T)}, s.n),
               [&](std::int64_t lo, std::int64_t hi) {
                 Largest<T> largest(s);
                 for (std::int64_t n = lo; n < hi; ++n) {
                   std::fill_n(to.at(n, 0, 0), elements,
                               T{});  // channels-last: an image is one run of memory
                   for (std::int64_t oh = 0; oh < s.oh; ++oh) {
                     for (std::int64_t ow = 0; ow < s.ow; ++ow) {
                       window_max<true>(s, x, n, oh, ow, largest);
                       const Row<const T> weight{weights.at(n, oh, ow), weights.c};
                       for (std::int64_t ih = s.first(0, oh); ih < s.end(0, oh); ++ih) {
                         for (std::int64_t iw = s.first(1, ow); iw < s.end(1, ow); ++iw) {
                           put_where(weight, largest.positions.data(),
                                     static_cast<std::int32_t>(ih * s.w + iw), to.at(n, ih, iw),
                                     s.c);
                         }
                       }
                     }
                   }
                 }
               });
}

void max_pool2d_backward(const OpCall& call) {
  const Tensor &grad = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  const auto s = windows_of<ops::MaxPool2dAttrs>(call, sizes_of(x), sizes_of(grad));
  const bool apart = s.stride[0] >= s.kernel[0] && s.stride[1] >= s.kernel[1];
  with_element(x.dtype(), [&]<class T>(T) {
    const Image<const T> from(x), weights(grad);
    if (apart) {
      spread_windows(s, from, weights, out);
      return;
    }
    add_windows<T>(s, out, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, auto* sums) {
      thread_local Largest<T> largest(s);
      if (largest.values.size() != static_cast<std::size_t>(s.c)) largest = Largest<T>(s);
      window_max<true>(s, from, n, oh, ow, largest);
      const T* weight = weights.at(n, oh, ow);
      for (std::int64_t c = 0; c < s.c; ++c) {
        const std::int64_t at = largest.positions[static_cast<std::size_t>(c)];
        sums[at * s.c + c] += load(weight[c * weights.c]);
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
      Largest<T> largest(s);
      for (std::int64_t ow = 0; ow < s.ow; ++ow) {
        window_max<true>(s, from, n, oh, ow, largest);
        T* target = to.at(n, oh, ow);
        for (std::int64_t c = 0; c < s.c; ++c) {
          const std::int64_t at = largest.positions[static_cast<std::size_t>(c)];
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
            add_row(Row<const T>{from.at(n, ih, iw), from.c}, sums.data(), s.c);
          }
        }
        const auto count =
            static_cast<Accumulator<T>>(window_count<ops::AvgPool2dAttrs>(call, s, oh, ow));
        divide_row(sums.data(), count, s.c);
        store_row(sums.data(), Row<T>{to.at(n, oh, ow), to.c}, s.c);
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
      thread_local std::vector<Accumulator<T>> share;
      share.assign(static_cast<std::size_t>(s.c), Accumulator<T>{});
      add_row(Row<const T>{weights.at(n, oh, ow), weights.c}, share.data(), s.c);
      divide_row(share.data(), count, s.c);
      for (std::int64_t ih = s.first(0, oh); ih < s.end(0, oh); ++ih) {
        for (std::int64_t iw = s.first(1, ow); iw < s.end(1, ow); ++iw) {
          add_row(Row<const Accumulator<T>>{share.data(), 1}, sums + (ih * s.w + iw) * s.c, s.c);
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
