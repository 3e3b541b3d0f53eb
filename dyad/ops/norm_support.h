#pragma once

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"

/// What normalisations share. For the .cpp files of this layer.
namespace dyad::ops {

/// Mean of x over `axes` (kept), x around it, and 1 / sqrt(variance + eps).
struct Moments {
  Moments(const Tensor& x, const Ints& axes, double eps)
      : mean(dyad::mean(x, axes, true)),
        centered(x - mean),
        variance(dyad::mean(square(centered), axes, true)),
        rstd(rsqrt(variance + eps)) {}
  Tensor mean, centered, variance, rstd;
};

/// A vector of channels in a shape that broadcasts along axis 1 of a tensor of that rank.
inline Tensor per_channel(const Tensor& vector, int rank) {
  Shape shape(static_cast<std::size_t>(rank - 1), 1);
  shape[0] = -1;
  return reshape(vector, shape);
}

inline Ints last_axes(int rank, int count) {
  Ints axes;
  for (int i = rank - count; i < rank; ++i) axes.push_back(i);
  return axes;
}

}  // namespace dyad::ops
