#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "dyad/core/dtype.h"

// The floor of a step: its products and convolutions at their shapes, by the kernels that the step
// calls, one after the other, and a copy of as many bytes as it moves beside them.

namespace dyad::bench {

/// The products of one layer.
struct Layer {
  /// Makes operands, and what computes the products of these once.
  std::function<std::function<void()>(DType)> make;
  double results = 0;  ///< elements of the layer's result
  double times = 1;    ///< how often a step computes the layer
};

/// Which products of a layer a step takes: those for its result, for the gradient of its weight
/// too, and for that of its input.
enum class Passes { forward, first_layer, all };

[[nodiscard]] Layer linear(std::int64_t rows, std::int64_t in, std::int64_t out,
                           Passes passes = Passes::all);
/// The gates of `steps` steps of an LSTM as its state goes into them, and their gradients; what x
/// brings to all steps is a linear layer.
[[nodiscard]] Layer recurrent(std::int64_t batch, std::int64_t steps, std::int64_t cells);
/// Causal: half of the products between all places.
[[nodiscard]] Layer attention(std::int64_t heads, std::int64_t length, std::int64_t width);
/// Square ones, with the channels last if there are several.
struct Images {
  std::int64_t count, channels, size;
};
struct Window {
  std::int64_t size = 3, stride = 1, padding = 1;
};
[[nodiscard]] Layer convolution(Images images, std::int64_t out, Window window = {},
                                Passes passes = Passes::all);
[[nodiscard]] Layer operator*(double times, Layer layer);

/// Seconds that a step cannot do without: the layers' products in `dtype`, and copying
/// `other_bytes` and each layer's result, once written and once read.
[[nodiscard]] double floor_seconds(std::span<const Layer> layers, DType dtype, double other_bytes);

/// Operations a second of the direct way that convolutions of 3 x 3 of many channels reach, which
/// may take fewer (Winograd's way): the best of several sizes.
[[nodiscard]] double convolution_flops();

}  // namespace dyad::bench
