#include <algorithm>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/gemm.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

// Convolutions of windows of one element are matrix products, which take images in row-major order
// as they lie: with the positions of an image as rows, its channels are columns far apart.

namespace dyad::runtime::cpu {
namespace {

bool is_row_major(const Tensor& image) {
  const TensorImpl& t = *image.impl();
  return is_contiguous(t.shape, t.strides) && !is_channels_last(image);
}

/// How an image's elements are found: strides of its channels and of its positions.
struct Steps {
  std::int64_t channel, position;
};
Steps steps_of(bool row_major, std::int64_t channels, std::int64_t positions) {
  return row_major ? Steps{positions, 1} : Steps{1, channels};
}

void multiply(const Gemm& g, const Tensor& a, const Tensor& b, const Tensor& bias,
              const Tensor& c) {
  gemm(g, a.impl()->data, b.impl()->data, bias.defined() ? bias.impl()->data : nullptr,
       c.impl()->data);
}

DYAD_VECTOR_CLONES void add_up(const float* parts, std::int64_t count, std::int64_t distance,
                               std::int64_t lo, std::int64_t hi, float* sums) {
  std::copy(parts + lo, parts + hi, sums + lo);
  for (std::int64_t part = 1; part < count; ++part) {
    const float* const added = parts + part * distance;
    for (std::int64_t i = lo; i < hi; ++i) sums[i] += added[i];
  }
}

}  // namespace

bool is_pointwise(const ConvShape& s) {
  bool pointwise = s.dtype == DType::f32 && s.groups == 1;
  for (int i = 0; i < 3; ++i) {
    pointwise =
        pointwise && s.kernel[i] == 1 && s.stride[i] == 1 && s.low[i] == 0 && s.in[i] == s.out[i];
  }
  return pointwise;
}

bool is_pointwise_product(const ConvShape& s, const Tensor& x, const Tensor& out) {
  return is_pointwise(s) && is_row_major(x) && is_channels_last(out);
}

bool conv_pointwise_forward(const ConvShape& s, const Tensor& x, const Tensor& weight,
                            const Tensor& bias, const Tensor& out) {
  if (!is_pointwise_product(s, x, out)) return false;
  const std::int64_t count = s.positions();
  multiply({.dtype = s.dtype,
            .m = count,
            .n = s.o,
            .k = s.c,
            .a_row = 1,
            .a_column = count,
            .b_row = 1,
            .b_column = s.c,
            .c_row = s.o,
            .batch = {s.n},
            .a_batch = {s.c * count},
            .b_batch = {0},
            .c_batch = {s.o * count}},
           x, weight, bias, out);
  return true;
}

bool conv_pointwise_backward_input(const ConvShape& s, const Tensor& grad, const Tensor& weight,
                                   const Tensor& out) {
  if (!is_pointwise(s) || !is_row_major(grad)) return false;
  const std::int64_t count = s.positions();
  if (is_channels_last(out)) {
    multiply({.dtype = s.dtype,
              .m = count,
              .n = s.c,
              .k = s.o,
              .a_row = 1,
              .a_column = count,
              .b_row = s.c,
              .b_column = 1,
              .c_row = s.c,
              .batch = {s.n},
              .a_batch = {s.o * count},
              .b_batch = {0},
              .c_batch = {s.c * count}},
             grad, weight, {}, out);
    return true;
  }
  if (!is_contiguous(out.impl()->shape, out.impl()->strides)) return false;
  multiply({.dtype = s.dtype,
            .m = s.c,
            .n = count,
            .k = s.o,
            .a_row = 1,
            .a_column = s.c,
            .b_row = count,
            .b_column = 1,
            .c_row = count,
            .batch = {s.n},
            .a_batch = {0},
            .b_batch = {s.o * count},
            .c_batch = {s.c * count}},
           weight, grad, {}, out);
  return true;
}

bool conv_pointwise_backward_weight(const ConvShape& s, const Tensor& grad, const Tensor& x,
                                    const Tensor& out) {
  const std::int64_t count = s.positions(), size = s.o * s.c;
  const bool grad_rows = is_row_major(grad), x_rows = is_row_major(x);
  // The products of all images are kept until they are added up: no more than the images are.
  if (!is_pointwise(s) || !(grad_rows || x_rows) || size > (s.o + s.c) * count) return false;
  const Tensor left = grad_rows ? grad : channels_last(grad);
  const Tensor right = x_rows ? x : channels_last(x);
  const Tensor parts = s.n == 1 ? out : make_empty(s.dtype, {s.n, s.o, s.c});
  const Steps of_grad = steps_of(grad_rows, s.o, count), of_x = steps_of(x_rows, s.c, count);
  multiply({.dtype = s.dtype,
            .m = s.o,
            .n = s.c,
            .k = count,
            .a_row = of_grad.channel,
            .a_column = of_grad.position,
            .b_row = of_x.position,
            .b_column = of_x.channel,
            .c_row = s.c,
            .batch = {s.n},
            .a_batch = {s.o * count},
            .b_batch = {s.c * count},
            .c_batch = {size}},
           left, right, {}, parts);
  if (s.n == 1) return true;
  const auto bytes = static_cast<double>(4 * (s.n + 1));
  parallel_for(0, size, grain_for({.bytes = bytes}, size), [&](std::int64_t lo, std::int64_t hi) {
    add_up(elements_of<float>(parts), s.n, size, lo, hi, elements_of<float>(out));
  });
  return true;
}

}  // namespace dyad::runtime::cpu
