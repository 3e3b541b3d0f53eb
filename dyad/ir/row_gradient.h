#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

/// What a Gradient also is when whoever runs the rule can take the gradient of a few rows alone: a
/// rule that has one asks with dynamic_cast, and gives the whole gradient otherwise.
class RowGradient {
 public:
  virtual ~RowGradient() = default;
  /// False where the whole gradient of input i is wanted.
  [[nodiscard]] virtual bool takes_rows(int i) const = 0;
  /// Where rows are taken, the gradient of input i is rows[n, ...], each added at its index[n];
  /// equal indices add up.
  virtual void set_rows(int i, const Tensor& index, const Tensor& rows) = 0;
};

}  // namespace dyad
