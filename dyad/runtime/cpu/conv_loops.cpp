#include <algorithm>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

std::int64_t patch_size(const ConvShape& s) { return s.c / s.groups * s.kernel[0] * s.kernel[1]; }

/// Calls `visit(element of the patch, ih, iw, inside)` for output (oh, ow) in the order of a
/// weight's elements, channel by channel.
template <class Visit>
void for_patch(const ConvShape& s, std::int64_t oh, std::int64_t ow, Visit visit) {
  std::int64_t at = 0;
  for (std::int64_t c = 0; c < s.c / s.groups; ++c) {
    for (std::int64_t kh = 0; kh < s.kernel[0]; ++kh) {
      const std::int64_t ih = oh * s.stride[0] - s.padding[0] + kh * s.dilation[0];
      for (std::int64_t kw = 0; kw < s.kernel[1]; ++kw, ++at) {
        const std::int64_t iw = ow * s.stride[1] - s.padding[1] + kw * s.dilation[1];
        visit(at, c, ih, iw, ih >= 0 && ih < s.h && iw >= 0 && iw < s.w);
      }
    }
  }
}

/// The patches of image n and group g, one row for each output position.
template <class T>
void unfold(const ConvShape& s, const TensorImpl& x, std::int64_t n, std::int64_t g, T* patches) {
  const std::int64_t size = patch_size(s), first = g * (s.c / s.groups);
  const T* image = reinterpret_cast<const T*>(x.data) + n * x.strides[0];
  parallel_for(
      0, s.oh, grain_for({.bytes = static_cast<double>(s.ow * size) * sizeof(T)}, s.oh),
      [&](std::int64_t lo, std::int64_t hi) {
        for (std::int64_t oh = lo; oh < hi; ++oh) {
          for (std::int64_t ow = 0; ow < s.ow; ++ow) {
            T* row = patches + (oh * s.ow + ow) * size;
            for_patch(s, oh, ow, [&](auto at, auto c, auto ih, auto iw, bool inside) {
              row[at] =
                  inside ? image[(first + c) * x.strides[1] + ih * x.strides[2] + iw * x.strides[3]]
                         : T{};
            });
          }
        }
      });
}

/// Adds rows of patches back into image n, group g.
template <class T>
void fold(const ConvShape& s, const T* patches, const TensorImpl& out, std::int64_t n,
          std::int64_t g) {
  const std::int64_t size = patch_size(s), first = g * (s.c / s.groups);
  T* image = reinterpret_cast<T*>(out.data) + n * out.strides[0];
  for (std::int64_t oh = 0; oh < s.oh; ++oh) {
    for (std::int64_t ow = 0; ow < s.ow; ++ow) {
      const T* row = patches + (oh * s.ow + ow) * size;
      for_patch(s, oh, ow, [&](auto at, auto c, auto ih, auto iw, bool inside) {
        if (inside) {
          image[(first + c) * out.strides[1] + ih * out.strides[2] + iw * out.strides[3]] +=
              row[at];
        }
      });
    }
  }
}

template <class F>
void with_type(DType dtype, F&& f) {
  dtype == DType::f64 ? f(double{}) : f(float{});
}

template <class T>
const T* group_of_weights(const ConvShape& s, const Tensor& weight, std::int64_t g) {
  return reinterpret_cast<const T*>(weight.impl()->data) + g * (s.o / s.groups) * patch_size(s);
}

/// A channels-last image read as a matrix: positions by channels.
template <class T>
T* positions(const ConvShape& s, const Tensor& image, std::int64_t n, std::int64_t g) {
  return reinterpret_cast<T*>(image.impl()->data) + n * s.oh * s.ow * s.o + g * (s.o / s.groups);
}

}  // namespace

void conv_loops_forward(const ConvShape& s, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& out) {
  const std::int64_t size = patch_size(s), group = s.o / s.groups;
  with_type(s.dtype, [&]<class T>(T) {
    std::vector<T> patches(static_cast<std::size_t>(s.oh * s.ow * size));
    for (std::int64_t n = 0; n < s.n; ++n) {
      for (std::int64_t g = 0; g < s.groups; ++g) {
        unfold(s, *x.impl(), n, g, patches.data());
        const T* biases =
            bias.defined() ? reinterpret_cast<const T*>(bias.impl()->data) + g * group : nullptr;
        gemm_loops({.dtype = s.dtype,
                    .m = s.oh * s.ow,
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
  const std::int64_t size = patch_size(s), group = s.o / s.groups;
  const Tensor rows = channels_last(grad);
  with_type(s.dtype, [&]<class T>(T) {
    parallel_for(0, s.n, 1, [&](std::int64_t lo, std::int64_t hi) {
      std::vector<T> patches(static_cast<std::size_t>(s.oh * s.ow * size));
      for (std::int64_t n = lo; n < hi; ++n) {
        // One image of the output is one run of memory in either layout.
        const std::int64_t elements = s.c * s.h * s.w;
        std::fill_n(reinterpret_cast<T*>(out.impl()->data) + n * elements, elements, T{});
        for (std::int64_t g = 0; g < s.groups; ++g) {
          gemm_loops({.dtype = s.dtype,
                      .m = s.oh * s.ow,
                      .n = size,
                      .k = group,
                      .a_row = s.o,
                      .a_column = 1,
                      .b_row = size,
                      .b_column = 1,
                      .c_row = size},
                     positions<const T>(s, rows, n, g), group_of_weights<T>(s, weight, g), nullptr,
                     patches.data());
          fold(s, patches.data(), *out.impl(), n, g);
        }
      }
    });
  });
}

void conv_loops_backward_weight(const ConvShape& s, const Tensor& grad, const Tensor& x,
                                const Tensor& out) {
  const std::int64_t size = patch_size(s), group = s.o / s.groups;
  const Tensor rows = channels_last(grad);
  with_type(s.dtype, [&]<class T>(T) {
    std::vector<T> patches(static_cast<std::size_t>(s.oh * s.ow * size));
    T* weights = reinterpret_cast<T*>(out.impl()->data);
    std::fill_n(weights, s.o * size, T{});
    for (std::int64_t n = 0; n < s.n; ++n) {
      for (std::int64_t g = 0; g < s.groups; ++g) {
        unfold(s, *x.impl(), n, g, patches.data());
        gemm_loops({.dtype = s.dtype,
                    .m = group,
                    .n = size,
                    .k = s.oh * s.ow,
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
