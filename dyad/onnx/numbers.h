#pragma once

#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::onnx {

/// The elements of a tensor as f64, row-major; complex ones as their parts, one after the other.
[[nodiscard]] std::vector<double> numbers(const Tensor& x);

}  // namespace dyad::onnx
