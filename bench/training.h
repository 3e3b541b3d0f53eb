#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/floor.h"
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
  /// The products of a step, and what their operands are.
  std::vector<Layer> layers;
  DType dtype = f32;
  /// Bytes that the update of all parameters reads and writes.
  double update_bytes = 0;
  double classes = 10;  ///< the loss of a new model is near the logarithm of this
};

/// The products of the LSTM's step (models.h) over so many characters, and the bytes of its update
/// by Adam.
[[nodiscard]] std::vector<Layer> lstm_layers(std::int64_t batch, std::int64_t length);
[[nodiscard]] double lstm_update_bytes();

/// The training steps that are measured, in the order in which they are.
[[nodiscard]] const std::vector<Workload>& workloads();

}  // namespace dyad::bench
