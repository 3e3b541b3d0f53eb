#pragma once

#include <optional>
#include <unordered_map>

#include "dyad/ir/graph.h"

namespace dyad::onnx {

/// Finds out what integer tensors of rank 0 or 1 hold that a graph computes from sizes of its
/// inputs and constants: exporters write `reshape(x, concat(shape(x)[0], -1))` as nodes.
class KnownSizes {
 public:
  /// The elements as sizes; nothing when only a run can tell.
  [[nodiscard]] std::optional<Shape> of(const Tensor& tensor);

 private:
  [[nodiscard]] std::optional<Shape> of(Value value);
  [[nodiscard]] std::optional<Shape> compute(Value value);
  std::unordered_map<Value, std::optional<Shape>, ValueHash> known_;
  /// Whose values these are: kept, so that no other graph has their address.
  std::unordered_map<const GraphImpl*, Ref<GraphImpl>> graphs_;
};

}  // namespace dyad::onnx
