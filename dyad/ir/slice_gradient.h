#pragma once

#include <cstdint>

#include "dyad/core/tensor.h"

namespace dyad {

/// Part of a gradient: what comes to the slices from `begin` to before `end` along an axis, and 0
/// to all others.
struct GradientSlice {
  Tensor part;
  int axis = 0;
  std::int64_t begin = 0, end = 0;
};

/// What a Gradient also is when whoever runs the rule can take the gradient of some slices alone: a
/// rule that has one asks with dynamic_cast, and gives the whole gradient otherwise.
class SliceGradient {
 public:
  virtual ~SliceGradient() = default;
  /// False where the whole gradient of input i is wanted.
  [[nodiscard]] virtual bool takes_slices(int i) const = 0;
  /// Where slices are taken: sets the gradient of input i.
  virtual void set_slice(int i, GradientSlice slice) = 0;
};

}  // namespace dyad
