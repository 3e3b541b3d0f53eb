#include <algorithm>
#include <limits>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/pool_rows.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

// Channels-last everywhere: channels are neighbours in memory, so one window position is a row of
// channels, and the loops over it are what the compiler turns into vectors. Images have three
// spatial axes (with_three_axes).

using Position = std::int64_t[3];

/// The windows along one axis: of output o the elements from first[o] to before end[o], `step`
/// apart, and how many a mean counts.
struct AxisWindows {
  std::int64_t in = 1, out = 1, step = 1;
  std::vector<std::int64_t> first, end, counted;
};

struct Windows {
  std::int64_t n, c;
  AxisWindows axis[3];
  bool apart = true;  ///< no element is in two windows

  [[nodiscard]] std::int64_t rows() const noexcept { return n * axis[0].out * axis[1].out; }
  [[nodiscard]] std::int64_t in_positions() const noexcept {
    return axis[0].in * axis[1].in * axis[2].in;
  }
  /// Window positions of one row of outputs, at most.
  [[nodiscard]] double taps_of_a_row() const noexcept {
    double taps = 0;
    for (std::int64_t o = 0; o < axis[2].out; ++o) taps += static_cast<double>(length(2, o));
    return taps * static_cast<double>(length(0, 0) * length(1, 0));
  }

 private:
  [[nodiscard]] std::int64_t length(int a, std::int64_t o) const noexcept {
    const auto i = static_cast<std::size_t>(o);
    return (axis[a].end[i] - axis[a].first[i] + axis[a].step - 1) / axis[a].step;
  }
};

/// A window over the n elements of an axis that is divided into parts.
AxisWindows parts_of(std::int64_t in, std::int64_t out) {
  AxisWindows made{.in = in, .out = out, .first = {}, .end = {}, .counted = {}};
  for (std::int64_t o = 0; o < out; ++o) {
    made.first.push_back(o * in / out);
    made.end.push_back(((o + 1) * in + out - 1) / out);
    made.counted.push_back(made.end.back() - made.first.back());
  }
  return made;
}

template <class Attrs>
AxisWindows sliding(const Attrs& a, std::size_t i, std::int64_t in, std::int64_t out,
                    bool count_padding) {
  const std::int64_t step = a.dilation[i];
  const auto taps = [&](std::int64_t from, std::int64_t to) {
    return std::max<std::int64_t>(0, (to - from + step - 1) / step);
  };
  AxisWindows made{.in = in, .out = out, .step = step, .first = {}, .end = {}, .counted = {}};
  for (std::int64_t o = 0; o < out; ++o) {
    const std::int64_t begin = o * a.stride[i] - a.low[i].number();
    const std::int64_t reach = begin + (a.kernel[i] - 1) * step + 1;
    const std::int64_t first = begin < 0 ? begin + taps(begin, 0) * step : begin;
    made.first.push_back(first);
    made.end.push_back(std::max(first, std::min(in, reach)));
    made.counted.push_back(count_padding ? taps(begin, std::min(reach, in + a.high[i].number()))
                                         : taps(first, made.end.back()));
  }
  return made;
}

/// An input with three axes and its channels side by side: copying it costs less than walking
/// channels that are a plane apart.
Tensor image_of(const Tensor& x) { return channels_last(with_three_axes(x)); }

/// `image` has the input's shape, `pooled` the output's, both with five axes.
template <class Attrs>
Windows windows_of(const OpCall& call, const Tensor& image, const Tensor& pooled) {
  const auto& a = call.attrs_as<Attrs>();
  const auto in = sizes_of(image), out = sizes_of(pooled);
  Windows s{.n = in[0], .c = in[1], .axis = {}};
  const std::size_t axes = a.adaptive.empty() ? a.kernel.size() : a.adaptive.size();
  for (std::size_t i = 0; i < 3; ++i) {
    AxisWindows& axis = s.axis[i];
    axis = i + axes >= 3 && a.adaptive.empty()
               ? sliding(a, i + axes - 3, in[i + 2], out[i + 2], a.count_include_pad)
               : parts_of(in[i + 2], out[i + 2]);
    for (std::size_t o = 1; o < axis.first.size(); ++o) {
      s.apart = s.apart && axis.step == 1 && axis.first[o] >= axis.end[o - 1];
    }
  }
  return s;
}

/// A tensor's elements addressed as [n][c][d][h][w].
template <class T>
struct PooledImage {
  explicit PooledImage(const Tensor& t)
      : data(reinterpret_cast<T*>(t.impl()->data)), c(t.impl()->strides[1]), strides(t.strides()) {}
  [[nodiscard]] T* at(std::int64_t n, const Position& p) const noexcept {
    return data + n * strides[0] + p[0] * strides[2] + p[1] * strides[3] + p[2] * strides[4];
  }
  [[nodiscard]] Row<T> row(std::int64_t n, const Position& p, std::int64_t channel = 0) const {
    return {at(n, p) + channel * c, c};
  }
  T* data;
  std::int64_t c;
  Strides strides;
};

/// Calls `visit(position)` for the beginning of each row of the image that the windows of a row of
/// outputs are in, in order.
template <class Visit>
void for_lines(const Windows& s, const Position& out, Visit visit) {
  const auto i = [&](int a) { return static_cast<std::size_t>(out[a]); };
  const AxisWindows(&axis)[3] = s.axis;
  Position p{0, 0, 0};
  for (p[0] = axis[0].first[i(0)]; p[0] < axis[0].end[i(0)]; p[0] += axis[0].step) {
    for (p[1] = axis[1].first[i(1)]; p[1] < axis[1].end[i(1)]; p[1] += axis[1].step) visit(p);
  }
}

/// Calls `visit(position)` for the elements of the window of output `out`, in row-major order.
template <class Visit>
void for_window(const Windows& s, const Position& out, Visit visit) {
  const AxisWindows& along = s.axis[2];
  const auto o = static_cast<std::size_t>(out[2]);
  for_lines(s, out, [&](const Position& line) {
    Position p{line[0], line[1], 0};
    for (p[2] = along.first[o]; p[2] < along.end[o]; p[2] += along.step) visit(p);
  });
}

/// Calls `body(n, out)` for every output position; a row of them stays on one thread, which makes
/// its own `scratch()` for all of its rows.
template <class Scratch, class Body>
void for_outputs(const Windows& s, std::size_t element, Scratch scratch, Body body) {
  const double touched = s.rows() == 0 ? 0 : s.taps_of_a_row() * static_cast<double>(s.c);
  parallel_for(
      0, s.rows(),
      grain_for({.bytes = touched * static_cast<double>(element), .flops = touched}, s.rows()),
      [&](std::int64_t lo, std::int64_t hi) {
        auto own = scratch();
        for (std::int64_t row = lo; row < hi; ++row) {
          const std::int64_t plane = row / s.axis[1].out;
          Position out{plane % s.axis[0].out, row % s.axis[1].out, 0};
          for (; out[2] < s.axis[2].out; ++out[2]) body(plane / s.axis[0].out, out, own);
        }
      });
}

// --- max -----------------------------------------------------------------------------------------

/// The largest values of a window so far, for each of some channels, and which element of the
/// window they were.
template <class T>
struct Largest {
  explicit Largest(std::int64_t channels)
      : values(static_cast<std::size_t>(channels)), elements(static_cast<std::size_t>(channels)) {}
  std::vector<T> values;
  std::vector<std::int32_t> elements;
};

template <class T>
T least() {
  if constexpr (is_half<T>) {
    return store<T>(-std::numeric_limits<float>::infinity());
  } else if constexpr (std::is_floating_point_v<T>) {
    return -std::numeric_limits<T>::infinity();
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

/// The largest of the window of output `out` for `channels` channels from `first` on, with elements
/// if `kElements`.
template <bool kElements, class T>
void window_max(const Windows& s, const PooledImage<const T>& x, std::int64_t n,
                const Position& out, std::int64_t first, std::int64_t channels,
                Largest<T>& largest) {
  std::int32_t element = 0;
  for_window(s, out, [&](const Position& p) {
    const Row<const T> from = x.row(n, p, first);
    if (element == 0) {
      copy_row(from, Row<T>{largest.values.data(), 1}, channels);
      if (kElements) std::fill(largest.elements.begin(), largest.elements.end(), 0);
    } else if (kElements) {
      keep_larger_at(from, largest.values.data(), largest.elements.data(), element, channels);
    } else {
      keep_larger(from, largest.values.data(), channels);
    }
    ++element;
  });
  if (element > 0) return;
  std::fill(largest.values.begin(), largest.values.end(), least<T>());
  std::fill(largest.elements.begin(), largest.elements.end(), 0);
}

/// The positions of a window's elements, as `number(position)` has them.
template <class Number>
void number_window(const Windows& s, const Position& out, std::vector<std::int64_t>& numbers,
                   Number number) {
  numbers.clear();
  for_window(s, out, [&](const Position& p) { numbers.push_back(number(p)); });
  if (numbers.empty()) numbers.push_back(0);
}

std::int64_t row_major(const Windows& s, const Position& p) {
  return (p[0] * s.axis[1].in + p[1]) * s.axis[2].in + p[2];
}

/// Whether images have a multiple of eight f32 channels side by side and nothing between positions,
/// and each window an element: channels-last images, and those in blocks of channels.
bool has_dense_channels(const Windows& s, const Tensor& x, const Tensor& out) {
  const auto is_dense = [&](const Tensor& t) {
    return t.strides()[1] == 1 && t.strides()[4] == s.c;
  };
  const auto has_all = [](const AxisWindows& axis) {
    for (std::size_t o = 0; o < axis.first.size(); ++o) {
      if (axis.first[o] >= axis.end[o]) return false;
    }
    return true;
  };
  return x.dtype() == DType::f32 && s.c > 0 && s.c % 8 == 0 && is_dense(x) && is_dense(out) &&
         std::ranges::all_of(s.axis, has_all);
}

void max_pool_dense(const Windows& s, const PooledImage<const float>& x,
                    const PooledImage<float>& to) {
  const AxisWindows& along = s.axis[2];
  const double taps = s.rows() == 0 ? 0 : s.taps_of_a_row() * static_cast<double>(s.c);
  parallel_for(0, s.rows(), grain_for({.bytes = taps * sizeof(float), .flops = taps}, s.rows()),
               [&](std::int64_t lo, std::int64_t hi) {
                 std::vector<const float*> lines;
                 for (std::int64_t row = lo; row < hi; ++row) {
                   const std::int64_t plane = row / s.axis[1].out, n = plane / s.axis[0].out;
                   const Position out{plane % s.axis[0].out, row % s.axis[1].out, 0};
                   lines.clear();
                   for_lines(s, out, [&](const Position& p) { lines.push_back(x.at(n, p)); });
                   max_of_windows({.lines = lines,
                                   .first = along.first.data(),
                                   .end = along.end.data(),
                                   .step = along.step,
                                   .outputs = along.out,
                                   .channels = s.c},
                                  to.at(n, out));
                 }
               });
}

void max_pool(const OpCall& call) {
  const Tensor x = image_of(call.inputs[0]), out = with_three_axes(call.outputs[0]);
  const auto s = windows_of<ops::PoolAttrs>(call, x, out);
  if (has_dense_channels(s, x, out)) {
    return max_pool_dense(s, PooledImage<const float>(x), PooledImage<float>(out));
  }
  with_element(x.dtype(), [&]<class T>(T) {
    const PooledImage<const T> from(x);
    const PooledImage<T> to(out);
    for_outputs(
        s, sizeof(T), [&] { return Largest<T>(s.c); },
        [&](std::int64_t n, const Position& o, Largest<T>& largest) {
          window_max<false>(s, from, n, o, 0, s.c, largest);
          copy_row(Row<const T>{largest.values.data(), 1}, to.row(n, o), s.c);
        });
  });
}

/// Calls `put(n, out, channel, number of its window's largest element)`.
template <class T, class Number, class Put>
void for_largest(const Windows& s, const Tensor& x, Number number, Put put) {
  const PooledImage<const T> from(x);
  struct Scratch {
    Largest<T> largest;
    std::vector<std::int64_t> numbers;
  };
  for_outputs(
      s, sizeof(T), [&] { return Scratch{Largest<T>(s.c), {}}; },
      [&](std::int64_t n, const Position& o, Scratch& own) {
        window_max<true>(s, from, n, o, 0, s.c, own.largest);
        number_window(s, o, own.numbers, number);
        for (std::int64_t c = 0; c < s.c; ++c) {
          const auto element = own.largest.elements[static_cast<std::size_t>(c)];
          put(n, o, c, own.numbers[static_cast<std::size_t>(element)]);
        }
      });
}

void max_pool_indices(const OpCall& call) {
  const Tensor x = image_of(call.inputs[0]), out = with_three_axes(call.outputs[0]);
  const auto s = windows_of<ops::PoolAttrs>(call, x, out);
  const PooledImage<std::int64_t> to(out);
  with_element(x.dtype(), [&]<class T>(T) {
    for_largest<T>(
        s, x, [&](const Position& p) { return row_major(s, p); },
        [&](std::int64_t n, const Position& o, std::int64_t c, std::int64_t at) {
          to.at(n, o)[c * to.c] = at;
        });
  });
}

void max_pool_take(const OpCall& call) {
  const Tensor values = image_of(call.inputs[0]), x = image_of(call.inputs[1]),
               out = with_three_axes(call.outputs[0]);
  const auto s = windows_of<ops::PoolAttrs>(call, x, out);
  with_element(x.dtype(), [&]<class T>(T) {
    const PooledImage<const T> taken(values);
    const PooledImage<T> to(out);
    for_largest<T>(
        s, x, [&](const Position& p) { return taken.at(0, p) - taken.data; },
        [&](std::int64_t n, const Position& o, std::int64_t c, std::int64_t at) {
          to.at(n, o)[c * to.c] = taken.data[n * taken.strides[0] + at + c * taken.c];
        });
  });
}

/// Overlapping windows add into one place, so a block of an image's channels belongs to one thread,
/// its windows in order; sums of half precision are kept in f32. `add_window(n, out, first channel,
/// channels, sums)` adds to [d][h][w][channels]; each range of blocks has its own from `make()`.
template <class T, class Make>
void add_windows(const Windows& s, const Tensor& out, Make make) {
  constexpr std::int64_t kBlock = 64;
  const PooledImage<T> to(out);
  const std::int64_t blocks = (s.c + kBlock - 1) / kBlock, elements = s.in_positions();
  const double bytes = static_cast<double>(elements * std::min(s.c, kBlock) * 3) * sizeof(T);
  parallel_for(0, s.n * blocks, grain_for({.bytes = bytes}, s.n * blocks),
               [&](std::int64_t lo, std::int64_t hi) {
                 std::vector<Accumulator<T>> sums;
                 auto add_window = make();
                 for (std::int64_t unit = lo; unit < hi; ++unit) {
                   const std::int64_t n = unit / blocks, first = unit % blocks * kBlock;
                   const std::int64_t channels = std::min(kBlock, s.c - first);
                   sums.assign(static_cast<std::size_t>(elements * channels), Accumulator<T>{});
                   Position o;
                   for (o[0] = 0; o[0] < s.axis[0].out; ++o[0]) {
                     for (o[1] = 0; o[1] < s.axis[1].out; ++o[1]) {
                       for (o[2] = 0; o[2] < s.axis[2].out; ++o[2]) {
                         add_window(n, o, first, channels, sums.data());
                       }
                     }
                   }
                   const Accumulator<T>* sum = sums.data();
                   Position p;
                   for (p[0] = 0; p[0] < s.axis[0].in; ++p[0]) {
                     for (p[1] = 0; p[1] < s.axis[1].in; ++p[1]) {
                       for (p[2] = 0; p[2] < s.axis[2].in; ++p[2], sum += channels) {
                         store_row(sum, to.row(n, p, first), channels);
                       }
                     }
                   }
                 }
               });
}

/// Gradients of windows that share no element: each element has its window's gradient or 0, nothing
/// is added up.
template <class T>
void spread_windows(const Windows& s, const PooledImage<const T>& x,
                    const PooledImage<const T>& weights, const Tensor& out) {
  const PooledImage<T> to(out);
  std::fill_n(to.data, s.n * s.c * s.in_positions(), T{});
  for_outputs(
      s, 3 * sizeof(T), [&] { return Largest<T>(s.c); },
      [&](std::int64_t n, const Position& o, Largest<T>& largest) {
        window_max<true>(s, x, n, o, 0, s.c, largest);
        std::int32_t element = 0;
        for_window(s, o, [&](const Position& p) {
          put_where(weights.row(n, o), largest.elements.data(), element++, to.at(n, p), s.c);
        });
      });
}

void max_pool_backward(const OpCall& call) {
  const Tensor grad = image_of(call.inputs[0]), x = image_of(call.inputs[1]),
               out = with_three_axes(call.outputs[0]);
  const auto s = windows_of<ops::PoolAttrs>(call, x, grad);
  with_element(x.dtype(), [&]<class T>(T) {
    const PooledImage<const T> from(x), weights(grad);
    if (s.apart) {
      spread_windows(s, from, weights, out);
      return;
    }
    add_windows<T>(s, out, [&] {
      return [&, largest = Largest<T>(s.c), numbers = std::vector<std::int64_t>()](
                 std::int64_t n, const Position& o, std::int64_t first, std::int64_t channels,
                 Accumulator<T>* sums) mutable {
        window_max<true>(s, from, n, o, first, channels, largest);
        number_window(s, o, numbers, [&](const Position& p) { return row_major(s, p); });
        const Row<const T> weight = weights.row(n, o, first);
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto element =
              static_cast<std::size_t>(largest.elements[static_cast<std::size_t>(c)]);
          sums[numbers[element] * channels + c] += load(weight.data[c * weight.step]);
        }
      };
    });
  });
}

void max_unpool(const OpCall& call) {
  const Tensor x = contiguous_copy(call.inputs[0]), indices = contiguous_copy(call.inputs[1]);
  const Tensor& out = call.outputs[0];
  const std::int64_t planes = sizes_of(x)[0] * sizes_of(x)[1];
  const std::int64_t from = product(sizes_of(x).subspan(2)), to = product(sizes_of(out).subspan(2));
  const auto* places = reinterpret_cast<const std::int64_t*>(indices.impl()->data);
  for (std::int64_t i = 0; i < planes * from; ++i) {
    if (places[i] >= 0 && places[i] < to) continue;
    throw IndexError("max_unpool(x: " + type_string(x) + ", indices: " + type_string(indices) +
                         "): index " + std::to_string(places[i]) +
                         " is out of range for planes of " + std::to_string(to) +
                         " elements; they are numbered within each channel",
                     call.loc);
  }
  with_word(x.dtype(), [&]<class Word>(Word) {
    const auto* values = reinterpret_cast<const Word*>(x.impl()->data);
    auto* elements = reinterpret_cast<Word*>(out.impl()->data);
    parallel_for(0, planes,
                 grain_for({.bytes = static_cast<double>(to + 2 * from) * sizeof(Word)}, planes),
                 [&](std::int64_t lo, std::int64_t hi) {
                   std::fill(elements + lo * to, elements + hi * to, Word{});
                   for (std::int64_t plane = lo; plane < hi; ++plane) {
                     for (std::int64_t i = plane * from; i < (plane + 1) * from; ++i) {
                       elements[plane * to + places[i]] = values[i];
                     }
                   }
                 });
  });
}

// --- mean ----------------------------------------------------------------------------------------

/// What the mean of a window divides by.
std::int64_t divisor_of(const Windows& s, std::int64_t divisor, const Position& o) {
  if (divisor > 0) return divisor;
  std::int64_t count = 1;
  for (int a = 0; a < 3; ++a) count *= s.axis[a].counted[static_cast<std::size_t>(o[a])];
  return std::max<std::int64_t>(1, count);
}

void avg_pool(const OpCall& call) {
  const Tensor x = image_of(call.inputs[0]), out = with_three_axes(call.outputs[0]);
  const auto s = windows_of<ops::PoolAttrs>(call, x, out);
  const std::int64_t divisor = call.attrs_as<ops::PoolAttrs>().divisor;
  with_floating(x.dtype(), [&]<class T>(T) {
    using Sums = std::vector<Accumulator<T>>;
    const PooledImage<const T> from(x);
    const PooledImage<T> to(out);
    for_outputs(
        s, sizeof(T), [&] { return Sums(static_cast<std::size_t>(s.c)); },
        [&](std::int64_t n, const Position& o, Sums& sums) {
          std::fill(sums.begin(), sums.end(), Accumulator<T>{});
          for_window(s, o, [&](const Position& p) { add_row(from.row(n, p), sums.data(), s.c); });
          divide_row(sums.data(), static_cast<Accumulator<T>>(divisor_of(s, divisor, o)), s.c);
          store_row(sums.data(), to.row(n, o), s.c);
        });
  });
}

void avg_pool_backward(const OpCall& call) {
  const Tensor grad = image_of(call.inputs[0]), out = with_three_axes(call.outputs[0]);
  const auto s = windows_of<ops::AvgPoolBackwardAttrs>(call, out, grad);
  const std::int64_t divisor = call.attrs_as<ops::AvgPoolBackwardAttrs>().divisor;
  with_floating(grad.dtype(), [&]<class T>(T) {
    const PooledImage<const T> weights(grad);
    add_windows<T>(s, out, [&] {
      return [&, share = std::vector<Accumulator<T>>()](std::int64_t n, const Position& o,
                                                        std::int64_t first, std::int64_t channels,
                                                        Accumulator<T>* sums) mutable {
        share.assign(static_cast<std::size_t>(channels), Accumulator<T>{});
        add_row(weights.row(n, o, first), share.data(), channels);
        divide_row(share.data(), static_cast<Accumulator<T>>(divisor_of(s, divisor, o)), channels);
        for_window(s, o, [&](const Position& p) {
          add_row(Row<const Accumulator<T>>{share.data(), 1}, sums + row_major(s, p) * channels,
                  channels);
        });
      };
    });
  });
}

Strides channels_last_output(const OpInfo&, const void*, std::span<const Tensor>,
                             const Shape& shape, int) {
  return channels_last_strides(shape.numbers());
}

}  // namespace

std::span<const NamedKernel> pool_kernels() {
  static constexpr auto kernel = [](auto run) {
    return OpKernel{.run = run, .layout = channels_last_output, .cannot_fail = true};
  };
  static constexpr NamedKernel kernels[] = {
      {"max_pool", kernel(max_pool)},
      {"max_pool_indices", kernel(max_pool_indices)},
      {"max_pool_backward", kernel(max_pool_backward)},
      {"max_pool_take", kernel(max_pool_take)},
      {"max_unpool", {max_unpool}},
      {"avg_pool", kernel(avg_pool)},
      {"avg_pool_backward", kernel(avg_pool_backward)},
  };
  return kernels;
}

}  // namespace dyad::runtime::cpu
