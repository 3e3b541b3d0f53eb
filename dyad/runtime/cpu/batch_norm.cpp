#include <algorithm>
#include <cmath>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/norm.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/conv.h"
#include "dyad/runtime/cpu/copy.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/norm_rows.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/layout.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

bool lies_channels_last(const Tensor& x) {
  const TensorImpl& t = *x.impl();
  return t.shape.size() > 2 && !is_contiguous(t.shape, t.strides) &&
         std::ranges::equal(t.strides, channels_last_strides(t.shape.numbers()));
}

/// What the gradient of x is made of, channel by channel:
/// scale * grad - (shift + slope * (x - mean)).
template <class T>
struct Channels {
  Channels(std::int64_t n, const Tensor& means, const Tensor& variances, const Tensor& weights,
           double eps)
      : mean(reinterpret_cast<const T*>(means.impl()->data)),
        weight(reinterpret_cast<const T*>(weights.impl()->data)),
        rstd(static_cast<std::size_t>(n)),
        scale(rstd.size()),
        shift(rstd.size()),
        slope(rstd.size()) {
    const T* variance = reinterpret_cast<const T*>(variances.impl()->data);
    for (std::size_t c = 0; c < rstd.size(); ++c) {
      rstd[c] = 1 / std::sqrt(static_cast<double>(variance[c]) + eps);
      scale[c] = static_cast<T>(static_cast<double>(weight[c]) * rstd[c]);
    }
  }

  /// Takes the sums over channel c of grad and of grad * (x - mean), over `count` elements.
  void finish(std::int64_t channel, double sum, double along, std::int64_t count, T* weight_grad,
              T* bias_grad) {
    const auto c = static_cast<std::size_t>(channel);
    const double factor = static_cast<double>(scale[c]) / static_cast<double>(count);
    shift[c] = static_cast<T>(factor * sum);
    slope[c] = static_cast<T>(factor * rstd[c] * rstd[c] * along);
    weight_grad[channel] = static_cast<T>(along * rstd[c]);
    bias_grad[channel] = static_cast<T>(sum);
  }

  const T *mean, *weight;
  std::vector<double> rstd;
  std::vector<T> scale, shift, slope;
};

/// Row-major images: a channel's planes are still in cache when they are read again.
template <class T>
void over_planes(Channels<T>& s, const T* grad, const T* x, std::int64_t n, std::int64_t channels,
                 std::int64_t plane, T* x_grad, T* weight_grad, T* bias_grad) {
  const double elements = static_cast<double>(n * plane);
  parallel_for(0, channels,
               grain_for({.bytes = 3 * elements * sizeof(T), .flops = 8 * elements}, channels),
               [&](std::int64_t lo, std::int64_t hi) {
                 for (std::int64_t c = lo; c < hi; ++c) {
                   double sum = 0, along = 0;
                   for (std::int64_t at = c; at < n * channels; at += channels) {
                     sum += sum_row(grad + at * plane, plane);
                     along += sum_products(grad + at * plane, x + at * plane, s.mean[c], plane);
                   }
                   s.finish(c, sum, along, n * plane, weight_grad, bias_grad);
                   const auto i = static_cast<std::size_t>(c);
                   for (std::int64_t at = c; at < n * channels; at += channels) {
                     input_grad(grad + at * plane, nullptr, x + at * plane, s.mean[c], s.scale[i],
                                s.shift[i], s.slope[i], x_grad + at * plane, plane, false);
                   }
                 }
               });
}

/// Channels side by side: sums over blocks of rows, whose number does not depend on threads.
template <class T>
void over_rows(Channels<T>& s, const T* grad, const T* x, std::int64_t rows, std::int64_t channels,
               T* x_grad, T* weight_grad, T* bias_grad) {
  constexpr std::int64_t kBlock = 256;
  const std::int64_t blocks = (rows + kBlock - 1) / kBlock;
  const double elements = static_cast<double>(kBlock * channels);
  const std::int64_t grain =
      grain_for({.bytes = 2 * elements * sizeof(T), .flops = 4 * elements}, blocks);
  const auto width = static_cast<std::size_t>(channels);
  std::vector<T> sums(static_cast<std::size_t>(2 * blocks) * width);
  parallel_for(0, blocks, grain, [&](std::int64_t lo, std::int64_t hi) {
    for (std::int64_t b = lo; b < hi; ++b) {
      const std::int64_t first = b * kBlock;
      add_channel_sums(grad + first * channels, x + first * channels, s.mean,
                       sums.data() + 2 * b * channels, sums.data() + (2 * b + 1) * channels,
                       std::min(kBlock, rows - first), channels);
    }
  });
  std::vector<double> totals(2 * width);
  for (std::size_t b = 0; b < static_cast<std::size_t>(blocks); ++b) {
    for (std::size_t i = 0; i < 2 * width; ++i) {
      totals[i] += static_cast<double>(sums[2 * b * width + i]);
    }
  }
  for (std::size_t c = 0; c < width; ++c) {
    s.finish(static_cast<std::int64_t>(c), totals[c], totals[width + c], rows, weight_grad,
             bias_grad);
  }
  parallel_for(0, blocks, grain, [&](std::int64_t lo, std::int64_t hi) {
    const std::int64_t first = lo * kBlock * channels;
    channels_grad(grad + first, x + first, s.mean, s.scale.data(), s.shift.data(), s.slope.data(),
                  x_grad + first, std::min(rows, hi * kBlock) - lo * kBlock, channels);
  });
}

void batch_norm_backward(const OpCall& call) {
  const DType dtype = call.outputs[0].dtype();
  if (is_narrow(dtype)) {
    std::vector<Tensor> in, out;
    for (const Tensor& x : call.inputs) in.push_back(dense_computed(x));
    for (const Tensor& x : call.outputs) {
      out.push_back(make_empty(DType::f32, x.impl()->shape));
    }
    batch_norm_backward({call.op, call.attrs, in, out, call.loc});
    for (std::size_t i = 0; i < out.size(); ++i) {
      const ComputedOutput to(call.outputs[i]);
      copy_tensor(out[i], to.tensor());
      to.finish();
    }
    return;
  }
  const Tensor& like = call.outputs[0];
  const bool last = lies_channels_last(like);
  const Tensor grad = last ? channels_last(call.inputs[0]) : contiguous_copy(call.inputs[0]);
  const Tensor x = last ? channels_last(call.inputs[1]) : contiguous_copy(call.inputs[1]);
  const Tensor weight = contiguous_copy(call.inputs[2]), mean = contiguous_copy(call.inputs[3]),
               variance = contiguous_copy(call.inputs[4]);
  const auto sizes = x.impl()->shape.numbers();
  const std::int64_t n = sizes[0], channels = sizes[1], plane = product(sizes.subspan(2));
  with_floating(dtype, [&]<class T>(T) {
    if constexpr (!is_half<T>) {
      const auto data = [](const Tensor& t) { return reinterpret_cast<T*>(t.impl()->data); };
      T *x_grad = data(like), *weight_grad = data(call.outputs[1]),
        *bias_grad = data(call.outputs[2]);
      if (n * plane == 0) {
        std::fill_n(weight_grad, channels, T{});
        std::fill_n(bias_grad, channels, T{});
        return;
      }
      Channels<T> s(channels, mean, variance, weight, call.attrs_as<ops::EpsAttrs>().eps);
      if (last || plane == 1) {
        over_rows(s, data(grad), data(x), n * plane, channels, x_grad, weight_grad, bias_grad);
      } else {
        over_planes(s, data(grad), data(x), n, channels, plane, x_grad, weight_grad, bias_grad);
      }
    }
  });
}

Strides like_x(const OpInfo&, const void*, std::span<const Tensor> inputs, const Shape& shape,
               int index) {
  return index == 0 && lies_channels_last(inputs[1]) ? channels_last_strides(shape.numbers())
                                                     : contiguous_strides(shape);
}

}  // namespace

std::span<const NamedKernel> batch_norm_kernels() {
  static constexpr NamedKernel kernels[] = {
      {"batch_norm_backward", {.run = batch_norm_backward, .layout = like_x, .cannot_fail = true}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
