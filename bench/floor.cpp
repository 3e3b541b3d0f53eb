#include "bench/floor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "bench/harness.h"
#include "bench/machine.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/generator.h"
#include "dyad/ops/ops.h"

namespace dyad::bench {
namespace {

using Body = std::function<void()>;

Tensor operand(const Sizes& sizes, DType dtype) { return cast(uniform(sizes), dtype); }

/// Images as the convolution before them gives them.
Tensor image_operand(Images images, DType dtype) {
  const auto [count, channels, size] = images;
  return permute(operand({count, size, size, channels}, dtype), {0, 3, 1, 2});
}

}  // namespace

Layer linear(std::int64_t rows, std::int64_t in, std::int64_t out, Passes passes) {
  const auto make = [=](DType dtype) -> Body {
    const Tensor x = operand({rows, in}, dtype), weight = operand({out, in}, dtype);
    const Tensor grad = operand({rows, out}, dtype);
    return [=] {
      (void)matmul(x, transpose(weight, 0, 1));
      if (passes == Passes::all) (void)matmul(grad, weight);
      if (passes != Passes::forward) (void)matmul(transpose(grad, 0, 1), x);
    };
  };
  return {make, static_cast<double>(rows * out)};
}

Layer recurrent(std::int64_t batch, std::int64_t steps, std::int64_t cells) {
  const auto make = [=](DType dtype) -> Body {
    const Tensor states = operand({batch * steps, cells}, dtype);
    const Tensor gates = operand({batch * steps, 4 * cells}, dtype);
    const Tensor state = operand({batch, cells}, dtype), gate = operand({batch, 4 * cells}, dtype);
    // The layer packs its weights once for all steps.
    const Tensor forward = operand({cells, 4 * cells}, dtype);
    const Tensor back = operand({4 * cells, cells}, dtype);
    return [=] {
      for (std::int64_t i = 0; i < steps; ++i) (void)matmul(state, forward);
      for (std::int64_t i = 0; i < steps; ++i) (void)matmul(gate, back);
      (void)matmul(transpose(gates, 0, 1), states);
    };
  };
  return {make, static_cast<double>(batch * steps * cells)};
}

Layer attention(std::int64_t heads, std::int64_t length, std::int64_t width) {
  const auto make = [=](DType dtype) -> Body {
    const Tensor rows = operand({heads, length, width}, dtype);
    const Tensor scores = operand({heads, length, length}, dtype);
    return [=] {
      // The scores and the gradient of these, by the transpose of the keys and the values.
      for (int i = 0; i < 2; ++i) (void)matmul(rows, transpose(rows, 1, 2));
      // The result, and the gradient of the queries...
      for (int i = 0; i < 2; ++i) (void)matmul(scores, rows);
      // ...and those of the values and the keys.
      for (int i = 0; i < 2; ++i) (void)matmul(transpose(scores, 1, 2), rows);
    };
  };
  return 0.5 * Layer{make, static_cast<double>(2 * heads * length * width)};
}

Layer convolution(Images images, std::int64_t out, Window window, Passes passes) {
  const std::int64_t size = (images.size + 2 * window.padding - window.size) / window.stride + 1;
  const auto make = [=](DType dtype) -> Body {
    Tensor x = image_operand(images, dtype);
    Tensor weight = operand({out, images.channels, window.size, window.size}, dtype);
    const Tensor grad = image_operand({images.count, out, size}, dtype);
    if (passes == Passes::all) x.requires_grad(true);
    if (passes != Passes::forward) weight.requires_grad(true);
    return [=] {
      const GradMode scope(passes != Passes::forward);
      const Tensor y = conv2d(x, weight, {}, window.stride, window.padding);
      if (passes == Passes::all) (void)dyad::grad(y, {x, weight}, {.weights = {grad}});
      if (passes == Passes::first_layer) (void)dyad::grad(y, {weight}, {.weights = {grad}});
    };
  };
  return {make, static_cast<double>(images.count * out * size * size)};
}

Layer operator*(double times, Layer layer) {
  layer.times *= times;
  return layer;
}

double floor_seconds(std::span<const Layer> layers, DType dtype, double other_bytes) {
  const NoGrad scope;
  double seconds = 0, bytes = other_bytes;
  for (const Layer& layer : layers) {
    seconds += layer.times * least_seconds(layer.make(dtype));
    bytes += layer.times * layer.results * 2 * static_cast<double>(size_of(dtype));
  }
  return seconds + (bytes > 0 ? bytes / copy_rate(bytes) : 0);
}

double convolution_flops() {
  const NoGrad scope;
  constexpr std::int64_t kCount = 16;
  double best = 0;
  for (const auto& [channels, size] : {std::pair<std::int64_t, std::int64_t>{64, 56}, {256, 14}}) {
    const Layer layer = convolution({kCount, channels, size}, channels, {}, Passes::forward);
    const double flops = layer.results * 2 * 9 * static_cast<double>(channels);
    best = std::max(best, flops / least_seconds(layer.make(f32), 0.3));
  }
  return best;
}

}  // namespace dyad::bench
