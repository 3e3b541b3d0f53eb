#pragma once

#include <vector>

#include "dyad/base/loc.h"
#include "dyad/core/shape.h"
#include "dyad/ir/slice_gradient.h"

namespace dyad::autograd {

/// A sum of gradients that are each for some slices of one tensor. Those that do not meet are put
/// side by side when the sum is taken, not padded with zeros and added one after the other: to take
/// a tensor apart slice by slice costs its size, not its size for every slice.
class SliceSum {
 public:
  [[nodiscard]] bool empty() const noexcept { return parts_.empty(); }
  /// Adds part of the gradient of a tensor of shape `whole`. False, with nothing added, where it
  /// meets a part that is there or lies along another axis.
  [[nodiscard]] bool add(const GradientSlice& slice, const Shape& whole);
  /// The sum, with the bits of adding the padded parts. Nothing is left.
  [[nodiscard]] Tensor take();

 private:
  std::vector<GradientSlice> parts_;  // in the order of the axis
  Shape whole_;
  Loc loc_;  // of the operator whose gradient came last
};

}  // namespace dyad::autograd
