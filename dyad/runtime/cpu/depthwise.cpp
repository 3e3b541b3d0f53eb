#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/stencil.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

// A plane is copied once, with zeros around it, and with a stride s as s * s planes of every s-th
// element (phases), so that each tap of the kernel is the copy itself, shifted. One flat loop over
// whole planes then does all the work; what it computes at the end of rows, where the copy is wider
// than the result, is left out when results are put in their places.

/// One of the two axes. Element x of an image is tap k of result o when
/// x + low = o * stride + k * dilation; so x is in phase (k * dilation) % stride.
struct Axis {
  std::int64_t in, out, kernel, stride, low, dilation;

  [[nodiscard]] std::int64_t phase(std::int64_t k) const noexcept { return k * dilation % stride; }
  [[nodiscard]] std::int64_t shift(std::int64_t k) const noexcept { return k * dilation / stride; }
  [[nodiscard]] std::int64_t reach() const noexcept { return shift(kernel - 1); }
};

struct Axes {
  explicit Axes(const ConvShape& s) : rows(axis(s, 1)), columns(axis(s, 2)) {}
  Axis rows, columns;

  [[nodiscard]] std::int64_t taps() const noexcept { return rows.kernel * columns.kernel; }
  [[nodiscard]] std::int64_t in_plane() const noexcept { return rows.in * columns.in; }
  [[nodiscard]] std::int64_t out_plane() const noexcept { return rows.out * columns.out; }

 private:
  static Axis axis(const ConvShape& s, int i) {
    return {s.in[i], s.out[i], s.kernel[i], s.stride[i], s.low[i], s.dilation[i]};
  }
};

/// Positions first, first + step, ... of an image along one axis, of which those inside exist.
struct Line {
  std::int64_t count, first, step;

  [[nodiscard]] std::int64_t at(std::int64_t i) const noexcept { return first + i * step; }
  /// The i from begin to before end are those inside an image of `size`.
  [[nodiscard]] std::int64_t begin() const noexcept {
    return std::min(count, first >= 0 ? 0 : (step - 1 - first) / step);
  }
  [[nodiscard]] std::int64_t end(std::int64_t size) const noexcept {
    return std::clamp((size - first + step - 1) / step, begin(), count);
  }
};

/// The elements of a plane of `height` by `width` at those positions, with zeros elsewhere, and up
/// to `elements`, which is more.
template <class T>
void take(const T* plane, std::int64_t height, std::int64_t width, const Line& rows,
          const Line& columns, Accumulator<T>* to, std::int64_t elements) {
  using A = Accumulator<T>;
  const std::int64_t begin = columns.begin(), end = columns.end(width);
  A* const stop = to + elements;
  for (std::int64_t i = 0; i < rows.count; ++i, to += columns.count) {
    if (rows.at(i) < 0 || rows.at(i) >= height) {
      std::fill_n(to, columns.count, A{});
      continue;
    }
    const T* from = plane + rows.at(i) * width + columns.first;
    std::fill_n(to, begin, A{});
    if (std::is_same_v<T, A> && columns.step == 1) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(A));
    } else {
      for (std::int64_t j = begin; j < end; ++j) to[j] = load(from[j * columns.step]);
    }
    std::fill(to + end, to + columns.count, A{});
  }
  std::fill(to, stop, A{});
}

/// The other way: elements go to their positions in the plane; those outside are dropped.
template <class T>
void put(const Accumulator<T>* from, const Line& rows, const Line& columns, T* plane,
         std::int64_t height, std::int64_t width) {
  const std::int64_t begin = columns.begin(), end = columns.end(width);
  for (std::int64_t i = 0; i < rows.count; ++i, from += columns.count) {
    if (rows.at(i) < 0 || rows.at(i) >= height) continue;
    T* to = plane + rows.at(i) * width + columns.first;
    if (std::is_same_v<T, Accumulator<T>> && columns.step == 1) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(T));
    } else {
      for (std::int64_t j = begin; j < end; ++j) to[j * columns.step] = store<T>(from[j]);
    }
  }
}

/// The phases of an input plane, and where in them each tap of the kernel begins.
template <class T>
class Phases {
  using A = Accumulator<T>;

 public:
  explicit Phases(const Axes& axes)
      : axes_(axes),
        width_(axes.columns.out + axes.columns.reach()),
        height_(axes.rows.out + axes.rows.reach()),
        size_(whole_blocks((height_ + 1) * width_) + kStencilBlock),
        buffer_(static_cast<std::size_t>(axes.rows.stride * axes.columns.stride * size_)) {
    for (std::int64_t i = 0; i < axes.rows.kernel; ++i) {
      for (std::int64_t j = 0; j < axes.columns.kernel; ++j) {
        taps_.push_back(phase(axes.rows.phase(i), axes.columns.phase(j)) +
                        axes.rows.shift(i) * width_ + axes.columns.shift(j));
      }
    }
  }

  void take_plane(const T* plane) {
    const Axis &rows = axes_.rows, &columns = axes_.columns;
    for (std::int64_t i = 0; i < rows.stride; ++i) {
      for (std::int64_t j = 0; j < columns.stride; ++j) {
        take(plane, rows.in, columns.in, Line{height_, i - rows.low, rows.stride},
             Line{width_, j - columns.low, columns.stride}, phase(i, j), size_);
      }
    }
  }

  [[nodiscard]] const A* const* taps() const noexcept { return taps_.data(); }
  /// Results in rows of as many elements as the phases have.
  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  [[nodiscard]] std::int64_t results() const noexcept {
    return whole_blocks(axes_.rows.out * width_);
  }
  [[nodiscard]] Line rows() const noexcept { return {axes_.rows.out, 0, 1}; }
  [[nodiscard]] Line columns() const noexcept { return {width_, 0, 1}; }

 private:
  A* phase(std::int64_t i, std::int64_t j) {
    return buffer_.data() + (i * axes_.columns.stride + j) * size_;
  }

  const Axes& axes_;
  std::int64_t width_, height_, size_;
  std::vector<A> buffer_;
  std::vector<const A*> taps_;
};

template <class T>
std::vector<Accumulator<T>> wide_elements(const Tensor& t) {
  const T* from = elements_of<const T>(t);
  std::vector<Accumulator<T>> made(static_cast<std::size_t>(t.impl()->numel()));
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = load(from[i]);
  return made;
}

/// What a pass over `planes` planes costs each.
std::int64_t grain_of(const Axes& axes, std::int64_t planes, std::size_t element) {
  const double results = static_cast<double>(axes.out_plane());
  return grain_for(
      {.bytes = (static_cast<double>(axes.in_plane()) + results) * static_cast<double>(element),
       .flops = 2 * results * static_cast<double>(axes.taps())},
      planes);
}

/// The sum over results of grad times one tap of x, where a sum over padded planes is of no use
/// because zeros met an infinity there.
template <class T>
Accumulator<T> exact_correlation(const Axes& axes, const T* grad, const T* x, std::int64_t tap) {
  const Axis &rows = axes.rows, &columns = axes.columns;
  const std::int64_t k = tap / columns.kernel, l = tap % columns.kernel;
  Accumulator<T> sum{};
  for (std::int64_t i = 0; i < rows.out; ++i) {
    const std::int64_t y = i * rows.stride + k * rows.dilation - rows.low;
    if (y < 0 || y >= rows.in) continue;
    for (std::int64_t j = 0; j < columns.out; ++j) {
      const std::int64_t z = j * columns.stride + l * columns.dilation - columns.low;
      if (z < 0 || z >= columns.in) continue;
      sum += load(grad[i * columns.out + j]) * load(x[y * columns.in + z]);
    }
  }
  return sum;
}

}  // namespace

void depthwise_forward(const ConvShape& s, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& out) {
  const Axes axes(s);
  const std::int64_t each = s.o / s.c, taps = axes.taps();
  with_floating(s.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto weights = wide_elements<T>(weight);
    const auto biases = bias.defined() ? wide_elements<T>(bias) : std::vector<A>();
    T* to = reinterpret_cast<T*>(out.impl()->data);
    parallel_for(0, s.n * s.c, grain_of(axes, s.n * s.c, sizeof(T)),
                 [&](std::int64_t lo, std::int64_t hi) {
                   Phases<T> phases(axes);
                   std::vector<A> sums(static_cast<std::size_t>(phases.results()));
                   for (std::int64_t plane = lo; plane < hi; ++plane) {
                     phases.take_plane(elements_of<const T>(x) + plane * axes.in_plane());
                     for (std::int64_t r = plane * each; r < (plane + 1) * each; ++r) {
                       const std::int64_t channel = r % s.o;
                       weigh_taps(phases.taps(), weights.data() + channel * taps, taps,
                                  biases.empty() ? A{} : biases[static_cast<std::size_t>(channel)],
                                  sums.data(), phases.results());
                       put(sums.data(), phases.rows(), phases.columns(), to + r * axes.out_plane(),
                           axes.rows.out, axes.columns.out);
                     }
                   }
                 });
  });
}

void depthwise_backward_input(const ConvShape& s, const Tensor& grad, const Tensor& weight,
                              const Tensor& out) {
  const Axes axes(s);
  const Axis &rows = axes.rows, &columns = axes.columns;
  const std::int64_t each = s.o / s.c, taps = axes.taps();
  // Element i of a phase of x is the sum of weight k times result i - shift(k), so each phase is a
  // stencil on a copy of grad that begins `reach` zeros earlier.
  const auto phase_size = [](const Axis& a) { return (a.low + a.in + a.stride - 1) / a.stride; };
  const std::int64_t height = phase_size(rows), width = phase_size(columns) + columns.reach();
  const Line grad_rows{height + rows.reach(), -rows.reach(), 1};
  const Line grad_columns{width, -columns.reach(), 1};
  const std::int64_t size = whole_blocks((grad_rows.count + 1) * width) + kStencilBlock;
  with_floating(s.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    const auto weights = wide_elements<T>(weight);
    T* to = reinterpret_cast<T*>(out.impl()->data);
    parallel_for(
        0, s.n * s.c, grain_of(axes, s.n * s.c, sizeof(T)), [&](std::int64_t lo, std::int64_t hi) {
          std::vector<A> grads(static_cast<std::size_t>(each * size));
          std::vector<A> sums(static_cast<std::size_t>(whole_blocks(height * width)));
          std::vector<const A*> from;
          std::vector<A> factors;
          for (std::int64_t plane = lo; plane < hi; ++plane) {
            for (std::int64_t r = 0; r < each; ++r) {
              take(elements_of<const T>(grad) + (plane * each + r) * axes.out_plane(), rows.out,
                   columns.out, grad_rows, grad_columns, grads.data() + r * size, size);
            }
            const A* first_weight = weights.data() + plane % s.c * each * taps;
            for (std::int64_t p = 0; p < rows.stride * columns.stride; ++p) {
              const std::int64_t y = p / columns.stride, z = p % columns.stride;
              from.clear();
              factors.clear();
              for (std::int64_t t = 0; t < each * taps; ++t) {
                const std::int64_t k = t % taps / columns.kernel, l = t % columns.kernel;
                if (rows.phase(k) != y || columns.phase(l) != z) continue;
                from.push_back(grads.data() + t / taps * size +
                               (rows.reach() - rows.shift(k)) * width + columns.reach() -
                               columns.shift(l));
                factors.push_back(first_weight[t]);
              }
              weigh_taps(from.data(), factors.data(), static_cast<std::int64_t>(from.size()), A{},
                         sums.data(), static_cast<std::int64_t>(sums.size()));
              put(sums.data(), Line{height, y - rows.low, rows.stride},
                  Line{width, z - columns.low, columns.stride}, to + plane * axes.in_plane(),
                  rows.in, columns.in);
            }
          }
        });
  });
}

void depthwise_backward_weight(const ConvShape& s, const Tensor& grad, const Tensor& x,
                               const Tensor& out) {
  const Axes axes(s);
  const std::int64_t each = s.o / s.c, taps = axes.taps();
  with_floating(s.dtype, [&]<class T>(T) {
    using A = Accumulator<T>;
    std::vector<A> of_planes(static_cast<std::size_t>(s.n * s.o * taps));
    parallel_for(0, s.n * s.c, grain_of(axes, s.n * s.c, sizeof(T)),
                 [&](std::int64_t lo, std::int64_t hi) {
                   Phases<T> phases(axes);
                   std::vector<A> grads(static_cast<std::size_t>(phases.results()));
                   for (std::int64_t plane = lo; plane < hi; ++plane) {
                     const T* image = elements_of<const T>(x) + plane * axes.in_plane();
                     phases.take_plane(image);
                     for (std::int64_t r = plane * each; r < (plane + 1) * each; ++r) {
                       const T* from = elements_of<const T>(grad) + r * axes.out_plane();
                       take(from, axes.rows.out, axes.columns.out, phases.rows(), phases.columns(),
                            grads.data(), phases.results());
                       A* sums = of_planes.data() + r * taps;
                       correlate_taps(grads.data(), phases.taps(), taps, sums, phases.results());
                       for (std::int64_t t = 0; t < taps; ++t) {
                         if (!std::isfinite(sums[t]))
                           sums[t] = exact_correlation(axes, from, image, t);
                       }
                     }
                   }
                 });
    T* to = reinterpret_cast<T*>(out.impl()->data);
    for (std::int64_t w = 0; w < s.o * taps; ++w) {
      double sum = 0;
      for (std::int64_t n = 0; n < s.n; ++n) {
        sum += static_cast<double>(of_planes[static_cast<std::size_t>(n * s.o * taps + w)]);
      }
      to[w] = store<T>(static_cast<A>(sum));
    }
  });
}

}  // namespace dyad::runtime::cpu
