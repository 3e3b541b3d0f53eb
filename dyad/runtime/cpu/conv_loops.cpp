#include <algorithm>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Calls `visit(element of the patch, channel, position, inside)` for output (od, oh, ow) in the
/// order of a weight's elements, channel by channel.
template <class Visit>
void for_patch(const ConvShape& s, const std::int64_t (&out)[3], Visit visit) {
  std::int64_t at = 0, in[3], first[3];
  for (int a = 0; a < 3; ++a) first[a] = out[a] * s.stride[a] - s.low[a];
  const auto within = [&](int a) { return in[a] >= 0 && in[a] < s.in[a]; };
  for (std::int64_t c = 0; c < s.c / s.groups; ++c) {
    for (std::int64_t kd = 0; kd < s.kernel[0]; ++kd) {
      in[0] = first[0] + kd * s.dilation[0];
      for (std::int64_t kh = 0; kh < s.kernel[1]; ++kh) {
        in[1] = first[1] + kh * s.dilation[1];
        const bool row = within(0) && within(1);
        for (std::int64_t kw = 0; kw < s.kernel[2]; ++kw, ++at) {
          in[2] = first[2] + kw * s.dilation[2];
          visit(at, c, in, row && within(2));
        }
      }
    }
  }
}

/// An element of image n: the first of a channel, and the distance to a position.
template <class T>
struct Image {
  Image(const Tensor& t, std::int64_t n)
      : data(reinterpret_cast<T*>(t.impl()->data) + n * t.impl()->strides[0]),
        strides(t.impl()->strides) {}
  T& at(std::int64_t c, const std::int64_t (&p)[3]) const noexcept {
    return data[c * strides[1] + p[0] * strides[2] + p[1] * strides[3] + p[2] * strides[4]];
  }
  T* data;
  const Strides& strides;
};

/// Calls `body(row, position)` for the output positions of a range of rows (depth and height).
template <class Body>
void for_rows(const ConvShape& s, std::int64_t lo, std::int64_t hi, Body body) {
  for (std::int64_t row = lo; row < hi; ++row) {
    for (std::int64_t ow = 0; ow < s.out[2]; ++ow) {
      const std::int64_t position[3] = {row / s.out[1], row % s.out[1], ow};
      body(row * s.out[2] + ow, position);
    }
  }
}

/// The patches of image n and group g, one row for each output position.
template <class T>
void unfold(const ConvShape& s, const Tensor& x, std::int64_t n, std::int64_t g, T* patches) {
  const std::int64_t size = s.patch(), first = g * (s.c / s.groups), rows = s.out[0] * s.out[1];
  const Image<const T> image(x, n);
  parallel_for(0, rows,
               grain_for({.bytes = static_cast<double>(s.out[2] * size) * sizeof(T)}, rows),
               [&](std::int64_t lo, std::int64_t hi) {
                 for_rows(s, lo, hi, [&](std::int64_t at, const auto& position) {
                   T* row = patches + at * size;
                   for_patch(s, position, [&](auto k, auto c, const auto& in, bool inside) {
                     row[k] = inside ? image.at(first + c, in) : T{};
                   });
                 });
               });
}

/// Adds rows of patches back into image n, group g.
template <class T>
void fold(const ConvShape& s, const T* patches, const Tensor& out, std::int64_t n, std::int64_t g) {
  const std::int64_t size = s.patch(), first = g * (s.c / s.groups);
  const Image<T> image(out, n);
  for_rows(s, 0, s.out[0] * s.out[1], [&](std::int64_t at, const auto& position) {
    const T* row = patches + at * size;
    for_patch(s, position, [&](auto k, auto c, const auto& in, bool inside) {
      if (inside) image.at(first + c, in) += row[k];
    });
  });
}

template <class F>
void with_type(DType dtype, F&& f) {
  dtype == DType::f64 ? f(double{}) : f(float{});
}

template <class T>
const T* group_of_weights(const ConvShape& s, const Tensor& weight, std::int64_t g) {
  return reinterpret_cast<const T*>(weight.impl()->data) + g * (s.o / s.groups) * s.patch();
}

/// A channels-last image read as a matrix: positions by channels.
template <class T>
T* positions(const ConvShape& s, const Tensor& image, std::int64_t n, std::int64_t g) {
  return reinterpret_cast<T*>(image.impl()->data) + n * s.positions() * s.o + g * (s.o / s.groups);
}

}  // namespace

void conv_loops_forward(const ConvShape& s, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& out) {
  const std::int64_t size = s.patch(), group = s.o / s.groups;
  with_type(s.dtype, [&]<class T>(T) {
    std::vector<T> patches(static_cast<std::size_t>(s.positions() * size));
    for (std::int64_t n = 0; n < s.n; ++n) {
      for (std::int64_t g = 0; g < s.groups; ++g) {
        unfold(s, x, n, g, patches.data());
        const T* biases =
            bias.defined() ? reinterpret_cast<const T*>(bias.impl()->data) + g * group : nullptr;
        gemm_loops({.dtype = s.dtype,
                    .m = s.positions(),
                    .n = group,
                    .k = size,
                    .a_row = size,
                    .a_column = 1,
                    .b_row = 1,
                    .b_column = size,
                    .c_row = s.o},
                   patches.data(), group_of_weights<T>(s, weight, g), biases,
                   positions<T>(s, out, n, g));
      }
    }
  });
}

void conv_loops_backward_input(const ConvShape& s, const Tensor& grad, const Tensor& weight,
                               const Tensor& out) {
  const std::int64_t size = s.patch(), group = s.o / s.groups;
  const Tensor rows = channels_last(grad);
  with_type(s.dtype, [&]<class T>(T) {
    parallel_for(0, s.n, 1, [&](std::int64_t lo, std::int64_t hi) {
      std::vector<T> patches(static_cast<std::size_t>(s.positions() * size));
      for (std::int64_t n = lo; n < hi; ++n) {
        // One image of the output is one run of memory in either layout.
        const std::int64_t elements = s.c * s.in[0] * s.in[1] * s.in[2];
        std::fill_n(reinterpret_cast<T*>(out.impl()->data) + n * elements, elements, T{});
        for (std::int64_t g = 0; g < s.groups; ++g) {
          gemm_loops({.dtype = s.dtype,
                      .m = s.positions(),
                      .n = size,
                      .k = group,
                      .a_row = s.o,
                      .a_column = 1,
                      .b_row = size,
                      .b_column = 1,
                      .c_row = size},
                     positions<const T>(s, rows, n, g), group_of_weights<T>(s, weight, g), nullptr,
                     patches.data());
          fold(s, patches.data(), out, n, g);
        }
      }
    });
  });
}

void conv_loops_backward_weight(const ConvShape& s, const Tensor& grad, const Tensor& x,
                                const Tensor& out) {
  const std::int64_t size = s.patch(), group = s.o / s.groups;
  const Tensor rows = channels_last(grad);
  with_type(s.dtype, [&]<class T>(T) {
    std::vector<T> patches(static_cast<std::size_t>(s.positions() * size));
    T* weights = reinterpret_cast<T*>(out.impl()->data);
    std::fill_n(weights, s.o * size, T{});
    for (std::int64_t n = 0; n < s.n; ++n) {
      for (std::int64_t g = 0; g < s.groups; ++g) {
        unfold(s, x, n, g, patches.data());
        gemm_loops({.dtype = s.dtype,
                    .m = group,
                    .n = size,
                    .k = s.positions(),
                    .a_row = 1,
                    .a_column = s.o,
                    .b_row = size,
                    .b_column = 1,
                    .c_row = size},
                   positions<const T>(s, rows, n, g), patches.data(), nullptr,
                   weights + g * group * size, true);
      }
    }
  });
}

}  // namespace dyad::runtime::cpu
