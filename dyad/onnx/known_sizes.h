#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dyad/ir/graph.h"
#include "dyad/onnx/size_ratios.h"

namespace dyad::onnx {

/// Finds out what tensors of rank 0 or 1 hold that a graph computes from sizes of its inputs and
/// constants: exporters write `reshape(x, concat(shape(x)[0], -1))` as nodes, and scale sizes in
/// floats.
class KnownSizes {
 public:
  /// The elements as sizes; nothing when only a run can tell.
  [[nodiscard]] std::optional<Shape> of(const Tensor& tensor);
  /// Those of them that are known, where it is known how many there are.
  [[nodiscard]] std::optional<std::vector<std::optional<Dim>>> some_of(const Tensor& tensor);

  /// From here on these are the elements of a value of a graph.
  void learn(const Tensor& tensor, const Shape& sizes);

 private:
  [[nodiscard]] sizes::Known elements(const Tensor& tensor);
  [[nodiscard]] sizes::Known of(Value value);
  /// The same where those of the inputs are known.
  [[nodiscard]] sizes::Known of_known(Value value);
  [[nodiscard]] sizes::Known compute(Value value);
  std::unordered_map<Value, sizes::Known, ValueHash> known_;
  /// Whose values these are: kept, so that no other graph has their address.
  std::unordered_map<const GraphImpl*, Ref<GraphImpl>> graphs_;
};

}  // namespace dyad::onnx
