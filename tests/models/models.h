#pragma once

#include <cmath>
#include <cstdint>
#include <utility>

#include "dyad/core/create.h"
#include "dyad/exec/control_flow.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"

// Small models of the common kinds, for the tests that take whole models.

namespace dyad::testing {

struct Mlp {
  nn::Linear hidden{12, 16};
  nn::Dropout dropout{0.3};
  nn::Linear out{16, 5};
  Tensor operator()(const Tensor& x) const { return log_softmax(out(dropout(relu(hidden(x)))), 1); }
};

/// No random numbers in training either.
struct Perceptron {
  nn::Linear hidden{12, 16}, out{16, 5};
  Tensor operator()(const Tensor& x) const { return out(tanh(hidden(x))); }
};

/// Grouped and strided convolutions, normalisation by running statistics.
struct Cnn {
  nn::Conv2d first{1, 4, 3, {.padding = 1}};
  nn::BatchNorm norm{4};
  nn::Conv2d second{4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}};
  nn::MaxPool2d pool{2};
  nn::Linear out{6 * 3 * 3, 10};
  Tensor forward(const Tensor& x) const {
    const Tensor h = pool(relu(norm(first(x))));
    const Tensor pooled = avg_pool2d(gelu(second(h)), 2, 1, 1);
    return out(reshape(slice(slice(pooled, 2, 0, 3), 3, 0, 3), {x.size(0), -1}));
  }
};

/// A cell over a time axis of any length.
struct Lstm {
  nn::LSTMCell cell{6, 8};
  nn::Linear out{8, 3};
  Tensor operator()(const Tensor& x) const {
    const Tensor zero = zeros({x.size(1), 8});
    const auto [state, outputs] = scan(
        [&](const std::pair<Tensor, Tensor>& hc, const Tensor& x_t) {
          const auto next = cell(x_t, hc.first, hc.second);
          return std::pair(next, next.first);
        },
        std::pair(zero, zero), x);
    return out(outputs) + unsqueeze(mean(state.second, {1}, true), 0);
  }
};

struct Attention {
  nn::Linear query{16, 16}, key{16, 16}, value{16, 16}, out{16, 16};
  static constexpr std::int64_t kHeads = 4;

  Tensor split(const Tensor& x) const {
    return permute(reshape(x, {x.size(0), x.size(1), kHeads, 16 / kHeads}), {0, 2, 1, 3});
  }
  Tensor operator()(const Tensor& x, const Tensor& mask) const {
    const Tensor q = split(query(x)), k = split(key(x)), v = split(value(x));
    const Tensor scores = matmul(q, transpose(k, -1, -2)) / std::sqrt(16.0 / kHeads);
    const Tensor hidden = unsqueeze(unsqueeze(mask, 1), 1);
    const Tensor weights = softmax(where(hidden, scores, -1e9), -1);
    const Tensor joined = permute(matmul(weights, v), {0, 2, 1, 3});
    return out(reshape(joined, {x.size(0), x.size(1), 16}));
  }
};

/// A transformer layer over tokens, those up to 2 hidden.
struct Encoder {
  nn::Embedding words{20, 16}, places{32, 16};
  Attention attention;
  nn::LayerNorm first{16}, second{16};
  nn::Linear up{16, 32}, down{32, 16};
  Tensor operator()(const Tensor& tokens) const {
    const Tensor mask = tokens > 2;
    Tensor x = words(tokens) + places(arange(tokens.size(1)));
    x = first(x + attention(x, mask));
    return second(x + down(gelu(up(x))));
  }
};

/// The host decides by the data.
struct Branching {
  nn::Linear linear1{4, 4}, linear2{4, 3};
  Tensor forward(Tensor x) const {
    x = mean(x) > 0.5f ? linear1(x) : relu(linear1(x));
    return linear2(x);
  }
};

}  // namespace dyad::testing
