#pragma once

#include "dyad/ir/graph.h"

namespace dyad {

/// The value that a tensor has in the graph that is being recorded, or that it is symbolic for;
/// null for a plain tensor.
[[nodiscard]] const GraphValue* recorded_value(const Tensor& tensor) noexcept;

/// The sizes of a tensor as the recording knows them, symbols included; those of the data
/// otherwise.
[[nodiscard]] const Shape& shape_of(const Tensor& tensor);

}  // namespace dyad
