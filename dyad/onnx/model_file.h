#pragma once

#include <span>
#include <string>
#include <vector>

#include "dyad/onnx/export.h"
#include "dyad/onnx/model_context.h"

namespace dyad::onnx {

/// A model whose weights are not filled in yet.
struct Draft {
  pb::ModelProto proto;
  std::vector<Weight> weights;
};

/// Writes a graph as a model whose results are its outputs. `effects` are values that the exported
/// function computes beside its results: a write among them is an error.
[[nodiscard]] Draft to_model(const GraphImpl& graph, std::span<const Value> effects,
                             const SaveOptions& options, Loc loc);

/// The bytes of the model with all weights inside. OnnxError when they are more than 2 GB.
[[nodiscard]] std::string serialize(Draft& model, Loc loc);
/// Writes the model, and with `external_data` the file of weights beside it: both appear, or
/// neither.
void write(const std::string& path, Draft& model, const SaveOptions& options, Loc loc);

}  // namespace dyad::onnx
