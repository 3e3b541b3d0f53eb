#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

/// What a Gradient also is in a static graph: its rule may go on with the sums that gradients are
/// added up in. One that computes many addends of one gradient, as that of a loop does, so adds
/// them one by one in the order in which the tape would.
class SumGradient {
 public:
  virtual ~SumGradient() = default;
  /// What has come to input i until now; undefined where nothing has.
  [[nodiscard]] virtual Tensor sum_so_far(int i) = 0;
  /// What has come to it with what the rule adds, where it wants a gradient.
  virtual void set_sum(int i, Tensor sum) = 0;
};

}  // namespace dyad
