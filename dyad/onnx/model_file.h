#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/onnx/export.h"
#include "dyad/onnx/model_context.h"

namespace dyad::onnx {

/// A model whose weights are not filled in yet.
struct Draft {
  pb::ModelProto proto;
  std::vector<Weight> weights;
  /// What the values of the graph are called in the model, but for those that are results.
  std::unordered_map<Value, std::string, ValueHash> names;
};

/// A tensor that a training step reads, and perhaps writes.
struct StepState {
  std::string name;
  Tensor tensor;
  Value before;
  Value after;  ///< no value when it stays as it is
};

/// One step of training as a graph.
struct Step {
  std::vector<std::pair<std::string, Value>> inputs;
  std::vector<Value> results;
  std::vector<StepState> state;
};

/// Writes a graph as a model whose results are its outputs. `effects` are values that the exported
/// function computes beside its results: a write among them is an error.
[[nodiscard]] Draft to_model(const GraphImpl& graph, std::span<const Value> effects,
                             const SaveOptions& options, Loc loc);

/// Writes a training step: its results are those of the step, then what the state becomes, called
/// `next.NAME`. `with_defaults`: the state as it is now is that of the first step.
[[nodiscard]] Draft to_training_model(const GraphImpl& graph, const Step& step, bool with_defaults,
                                      const SaveOptions& options, Loc loc);

/// The bytes of the model with all weights inside. OnnxError when they are more than 2 GB.
[[nodiscard]] std::string serialize(Draft& model, Loc loc);
/// Writes the model, and with `external_data` the file of weights beside it: both appear, or
/// neither.
void write(const std::string& path, Draft& model, const SaveOptions& options, Loc loc);

}  // namespace dyad::onnx
