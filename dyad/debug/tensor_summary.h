#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::debug {

/// What one wants to know of a tensor at a glance.
struct TensorSummary {
  std::string type;                ///< `f32[2, 1000]`
  std::vector<std::string> first;  ///< elements in row-major order, as many as were asked for
  bool has_numbers = false;        ///< false without elements that can be put in order
  /// Of the finite elements; bool counts as 0 and 1.
  double min = 0, mean = 0, max = 0;
  std::int64_t nans = 0, infinities = 0;
};

/// Looks at all elements of a concrete tensor. Texts among the first elements are in quotes.
[[nodiscard]] TensorSummary summarize(const Tensor& tensor, std::size_t first = 4);

}  // namespace dyad::debug
