#pragma once

#include "dyad/core/tensor.h"

namespace dyad::data {

/// The elements of a concrete tensor in row-major order without gaps: the tensor itself when it is
/// so already, otherwise a copy. Unlike contiguous() no operator: nothing is recorded.
[[nodiscard]] Tensor packed(const Tensor& x, Loc loc = std::source_location::current());

}  // namespace dyad::data
