#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::bench {

/// What one training step takes.
struct Batch {
  Tensor x, y;
};

/// A model, its optimiser and its data.
struct Workload {
  using Step = std::function<Tensor(const Tensor& x, const Tensor& y)>;
  std::string name;
  /// Eight batches of random data: what a step costs does not depend on the values.
  std::vector<Batch> (*batches)() = nullptr;
  /// A new model with its optimiser, drawn from the default generator; a call is a training step
  /// and gives the loss.
  Step (*make)() = nullptr;
  /// Operations of products and convolutions in a step: forward and the gradient of weights
  /// everywhere, the gradient of inputs but for the first layer. Causal attention counts half.
  /// 0: the step has no floor.
  double flops = 0;
  /// Bytes that the update of all parameters reads and writes.
  double update_bytes = 0;
  double classes = 10;  ///< the loss of a new model is near the logarithm of this
};

/// The training steps that are measured, in the order in which they are.
[[nodiscard]] const std::vector<Workload>& workloads();

}  // namespace dyad::bench
