#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::onnx {

/// What enters or leaves a model: a tensor, a sequence of values, or an optional without one (one
/// that holds something is what it holds).
class ModelValue {
 public:
  ModelValue() = default;  ///< the empty optional
  ModelValue(Tensor tensor) : tensor_(std::move(tensor)) {}
  explicit ModelValue(std::vector<ModelValue> elements)
      : elements_(std::move(elements)), is_sequence_(true) {}

  [[nodiscard]] bool is_tensor() const noexcept { return tensor_.defined(); }
  [[nodiscard]] bool is_sequence() const noexcept { return is_sequence_; }
  [[nodiscard]] bool is_empty() const noexcept { return !is_tensor() && !is_sequence_; }
  /// Undefined unless it is a tensor.
  [[nodiscard]] const Tensor& tensor() const noexcept { return tensor_; }
  /// No elements unless it is a sequence.
  [[nodiscard]] const std::vector<ModelValue>& sequence() const noexcept { return elements_; }

 private:
  Tensor tensor_;
  std::vector<ModelValue> elements_;
  bool is_sequence_ = false;
};

/// A value for an input of a model.
struct NamedValue {
  std::string name;
  ModelValue value;
};

}  // namespace dyad::onnx
