#pragma once

#include <cstdint>
#include <vector>

#include "bench/models.h"
#include "dyad/optim/optim.h"

namespace dyad::bench {

/// Batches of random digits: what a step costs does not depend on the values.
struct Batches {
  std::vector<Tensor> images, labels;
  [[nodiscard]] std::size_t size() const { return images.size(); }
};

/// Eight batches of images of the shape `sample`.
[[nodiscard]] Batches make_batches(std::int64_t batch, const Shape& sample);

/// A model and its optimiser; a call is a training step.
template <class Model, class Optimizer, class Options>
class Trainer {
 public:
  explicit Trainer(const Options& options) : optimizer_(nn::parameters(model_), options) {}

  Tensor operator()(const Tensor& x, const Tensor& y) {
    optimizer_.zero_grad();
    Tensor loss = cross_entropy(model_(x), y);
    loss.backward();
    optimizer_.step();
    return loss;
  }

 private:
  Model model_;
  Optimizer optimizer_;
};

using MlpTrainer = Trainer<Mlp, optim::Adam, optim::AdamOptions>;
using DemoCnnTrainer = Trainer<DemoCnn, optim::Adam, optim::AdamOptions>;
using ExampleCnnTrainer = Trainer<ExampleCnn, optim::SGD, optim::SGDOptions>;

}  // namespace dyad::bench
