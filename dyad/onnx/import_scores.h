#pragma once

#include <string>

#include "dyad/onnx/importer.h"

namespace dyad::onnx {

/// Input 0, [n, features], as f32; one row may be a vector.
[[nodiscard]] Tensor features(NodeImport& n);
/// A list of floats of the node as a tensor of this shape; the node is refused where it is of
/// another length.
[[nodiscard]] Tensor listed_numbers(NodeImport& n, std::string_view name, const Shape& shape);

/// `post_transform` of ai.onnx.ml applied to scores [n, classes].
[[nodiscard]] Tensor transformed(NodeImport& n, const Tensor& scores, const std::string& transform);

/// The labels of the classes: i64 or strings; undefined when the node names none.
[[nodiscard]] Tensor class_labels(NodeImport& n, std::string_view integers,
                                  std::string_view strings);

/// Of one score for two classes [n, 1]: the label of the second where it is above `threshold`, and
/// both scores: 1 - s and s (probabilities), or -s and s.
void give_binary(NodeImport& n, const Tensor& score, const Tensor& labels, double threshold,
                 bool probabilities, const std::string& transform);
/// The label of the largest score, the first of equal ones, and the scores.
void give_largest(NodeImport& n, const Tensor& scores, const Tensor& labels,
                  const std::string& transform);

}  // namespace dyad::onnx
