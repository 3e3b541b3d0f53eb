#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::exec {

/// Where a gradient arrives: at an output of a node of the tape, or at a leaf.
struct TapePlace {
  std::uint64_t sequence = 0;  ///< of the node; 0 where it is none
  std::uint32_t output = 0;
  const TensorImpl* leaf = nullptr;
  [[nodiscard]] auto operator<=>(const TapePlace&) const noexcept = default;
};
/// The place of a tensor; that of no node and no leaf where it is not tracked.
[[nodiscard]] TapePlace place_of(const Tensor& tensor);

/// The last step of a loop, as the tape has it.
struct TapedStep {
  std::uint64_t begin = 0;        ///< the tape's number before it
  std::vector<TapePlace> before;  ///< of the states
  std::vector<Tensor> after;      ///< the states
  std::vector<Tensor> stacked;    ///< what all steps gave, this one's last
  std::vector<bool> wanted;       ///< states that are tracked before the first step
};

/// From how many such steps on it is the same, of which states before the loop and which tensors
/// from outside a pass finds gradients, whichever results it comes from. Nothing where that goes on
/// to depend on the number of steps, as it does of states that change places.
[[nodiscard]] std::optional<int> settled_reach(const TapedStep& step);

}  // namespace dyad::exec
