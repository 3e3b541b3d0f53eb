#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dyad/core/tensor_impl.h"

namespace dyad::exec {

/// How an argument lies in memory.
struct ArgumentLayout {
  Strides strides;
  bool contiguous = false;
};
[[nodiscard]] std::vector<ArgumentLayout> layouts_of(std::span<const Tensor> arguments);
/// Whether there is memory between the elements that belongs to none of them.
[[nodiscard]] bool has_gaps(const TensorImpl& tensor);
/// The position of the first of `tensors` that is the same as the one at `position`.
[[nodiscard]] std::size_t first_same(std::span<const Tensor> tensors, std::size_t position);

}  // namespace dyad::exec
