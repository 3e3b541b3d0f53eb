#include "dyad/optim/clip.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/base/error.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/embedding.h"
#include "dyad/ops/reduce.h"

namespace dyad::optim {
namespace {

/// The gradient of some rows, where there is no other.
SparseRows rows_alone(const Tensor& parameter) {
  const SparseRows rows = sparse_grad(parameter);
  return rows.defined() && !autograd::dense_grad(parameter).defined() ? rows : SparseRows{};
}

}  // namespace

Tensor clip_grad_norm(std::span<const Tensor> parameters, double max_norm, Loc loc) {
  if (!(max_norm > 0)) {
    throw ValueError(fmt::format("clip_grad_norm: max_norm must be above 0, found {}", max_norm),
                     loc.user());
  }
  const LocScope scope(loc);
  const NoGrad no_grad;
  const bool in_f64 =
      std::ranges::any_of(parameters, [](const Tensor& p) { return p.dtype() == f64; });
  const DType dtype = in_f64 ? f64 : f32;
  Tensor total;
  for (const Tensor& parameter : parameters) {
    Tensor squares;
    if (const SparseRows rows = rows_alone(parameter); rows.defined()) {
      // Each row times the sum of its equals: the square of the sums, as often as they are.
      const Tensor wide = rows.rows.to(dtype, loc);
      squares = sum(mul(wide, row_sums(wide, rows.index, loc), loc), {}, false, loc);
    } else {
      const Tensor gradient = parameter.grad();
      if (!gradient.defined()) continue;
      squares = sum(square(gradient.to(dtype, loc), loc), {}, false, loc);
    }
    total = total.defined() ? add(total, squares, loc) : squares;
  }
  if (!total.defined()) return zeros({}, dtype, loc);
  const Tensor norm = sqrt(total, loc);
  // 1e-6 keeps the quotient finite, as in PyTorch.
  const Tensor scale = minimum(div(max_norm, add(norm, 1e-6, loc), loc), 1.0, loc);
  for (const Tensor& parameter : parameters) {
    if (SparseRows rows = rows_alone(parameter); rows.defined()) {
      rows.rows = mul(rows.rows, scale.to(rows.rows.dtype(), loc), loc);
      autograd::set_sparse_grad(parameter, rows);
      continue;
    }
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) parameter.set_grad(mul(gradient, scale.to(gradient.dtype(), loc), loc));
  }
  return norm;
}

Tensor clip_grad_norm(std::initializer_list<Tensor> parameters, double max_norm, Loc loc) {
  return clip_grad_norm(std::span(parameters.begin(), parameters.size()), max_norm, loc);
}

void clip_grad_value(std::span<const Tensor> parameters, double limit, Loc loc) {
  if (!(limit >= 0)) {
    throw ValueError(fmt::format("clip_grad_value: limit must be at least 0, found {}", limit),
                     loc.user());
  }
  const LocScope scope(loc);
  const NoGrad no_grad;
  for (const Tensor& parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (gradient.defined()) parameter.set_grad(clamp(gradient, -limit, limit, loc));
  }
}

void clip_grad_value(std::initializer_list<Tensor> parameters, double limit, Loc loc) {
  clip_grad_value(std::span(parameters.begin(), parameters.size()), limit, loc);
}

}  // namespace dyad::optim
