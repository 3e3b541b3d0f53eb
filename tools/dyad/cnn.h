#pragma once

#include <cstdint>

#include "dyad/dyad.h"

namespace dyad::tool {

/// Two convolutions, pooling, two linear layers, dropout. A model is an aggregate of its layers: no
/// base class, nothing registered.
struct Cnn {
  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2;
  nn::Dropout dropout{0.5};

  /// logits[batch, 10] of image[batch, 1, size, size].
  Tensor operator()(const Tensor& image) const {
    Tensor h = relu(conv1(image));
    h = dropout(max_pool2d(relu(conv2(h)), 2));
    return fc2(dropout(relu(fc1(flatten(h, 1)))));
  }
};

[[nodiscard]] inline Cnn make_cnn(std::int64_t size) {
  const std::int64_t pooled = size / 2;
  return {.conv1 = {1, 32, 3, {.padding = 1}},
          .conv2 = {32, 64, 3, {.padding = 1}},
          .fc1 = {64 * pooled * pooled, 128},
          .fc2 = {128, 10}};
}

}  // namespace dyad::tool
