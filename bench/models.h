#pragma once

#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"

namespace dyad::bench {

/// 784-512-512-10 with ReLU: the peers' `MLP`.
struct Mlp {
  nn::Linear l1{784, 512}, l2{512, 512}, l3{512, 10};
  Tensor operator()(const Tensor& x) const { return l3(relu(l2(relu(l1(x))))); }
};

/// The CNN that `dyad demo` trains, on 28x28 images: the peers' `DemoCNN`.
struct DemoCnn {
  nn::Conv2d conv1{1, 16, 3, {.padding = 1}}, conv2{16, 32, 3, {.padding = 1}};
  nn::Linear fc1{6272, 64}, fc2{64, 10};
  Tensor operator()(const Tensor& x) const {
    Tensor h = max_pool2d(relu(conv2(relu(conv1(x)))), 2);
    return fc2(relu(fc1(flatten(h, 1))));
  }
};

/// The CNN of PyTorch's MNIST example without dropout: the peers' `ExampleCNN`.
struct ExampleCnn {
  nn::Conv2d conv1{1, 32, 3}, conv2{32, 64, 3};
  nn::Linear fc1{9216, 128}, fc2{128, 10};
  Tensor operator()(const Tensor& x) const {
    Tensor h = max_pool2d(relu(conv2(relu(conv1(x)))), 2);
    return fc2(relu(fc1(flatten(h, 1))));
  }
};

}  // namespace dyad::bench
