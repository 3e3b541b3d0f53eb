#include "dyad/nn/parametrize.h"

#include <fmt/format.h>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/nn/init.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/normalize.h"
#include "dyad/ops/products.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/views.h"

namespace dyad::nn::detail {
namespace {

/// |v| over all axes but one, which stay with size 1.
Tensor lengths_of(const Tensor& v, std::int64_t axis, Loc loc) {
  const int kept = normalize_axis(axis, v.rank(), "WeightNorm", loc);
  Ints others;
  for (int i = 0; i < v.rank(); ++i) {
    if (i != kept) others.push_back(i);
  }
  return others.empty() ? abs(v, loc) : norm(v, 2, others, true, loc);
}

/// The weight with `axis` as rows.
Tensor matrix_of(const Tensor& weight, std::int64_t axis, Loc loc) {
  return flatten(movedim(weight, axis, 0, loc), 1, -1, loc);
}

}  // namespace

WeightNormParameters::WeightNormParameters(const Tensor& weight, std::int64_t axis, Loc loc)
    : axis(axis) {
  const NoGrad no_grad;
  g = Parameter(lengths_of(weight, axis, loc), loc);
  v_ = Parameter(clone(weight, loc), loc);
}

Tensor WeightNormParameters::weight(Loc loc) const {
  const LocScope scope(loc);
  return v_ * (g / lengths_of(v_, axis, loc));
}

SpectralNormParameters::SpectralNormParameters(const Tensor& weight, std::int64_t iterations,
                                               std::int64_t axis, double eps, Loc loc)
    : iterations(iterations), axis(axis), eps(eps) {
  if (weight.rank() < 2) {
    throw ShapeError(
        fmt::format("SpectralNorm: the weight {} must have at least 2 axes", type_string(weight)),
        loc.user());
  }
  if (iterations < 1) {
    throw ValueError(
        fmt::format("SpectralNorm: iterations must be at least 1, found {}", iterations),
        loc.user());
  }
  const NoGrad no_grad;
  original = Parameter(clone(weight, loc), loc);
  const Tensor matrix = matrix_of(original, axis, loc);
  left = Buffer(normalize(init::normal({matrix.size(0)}, 1, weight.dtype(), loc), 2, 0, eps, loc));
  right = Buffer(normalize(init::normal({matrix.size(1)}, 1, weight.dtype(), loc), 2, 0, eps, loc));
  iterate(matrix, 15, loc);
}

void SpectralNormParameters::iterate(const Tensor& matrix, std::int64_t count, Loc loc) const {
  const NoGrad no_grad;
  Tensor u = left, v = right;
  for (std::int64_t i = 0; i < count; ++i) {
    u = normalize(mv(matrix, v, loc), 2, 0, eps, loc);
    v = normalize(mv(transpose(matrix, 0, 1, loc), u, loc), 2, 0, eps, loc);
  }
  Tensor(left).copy_(u, loc);
  Tensor(right).copy_(v, loc);
}

Tensor SpectralNormParameters::weight(Loc loc) const {
  const LocScope scope(loc);
  const Tensor matrix = matrix_of(original, axis, loc);
  if (mode.training()) iterate(matrix, iterations, loc);
  // The vectors as they are now: the next call overwrites them.
  return original / dot(dyad::clone(left), mv(matrix, dyad::clone(right)));
}

}  // namespace dyad::nn::detail
