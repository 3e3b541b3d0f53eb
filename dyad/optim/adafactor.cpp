#include "dyad/optim/adafactor.h"

#include <limits>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/reduce.h"

namespace dyad::optim {
namespace {

/// The dtype that the update of a parameter is computed in.
DType wide(DType dtype) { return dtype == f64 ? f64 : f32; }

double epsilon_of(DType dtype) {
  switch (dtype) {
    case f64:
      return std::numeric_limits<double>::epsilon();
    case f16:
      return 0x1p-10;
    case bf16:
      return 0x1p-7;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

/// mean moved by `share` of the way to `to`.
Tensor moved(Tensor& mean, const Tensor& to, const Tensor& share) {
  const Tensor from = mean.to(to.dtype());
  Tensor now = from + (to - from) * share;
  mean.copy_(now);
  return now;
}

}  // namespace

Adafactor::Adafactor(const std::vector<Group>& groups, Loc loc)
    : WithOptions("Adafactor", groups, loc) {
  keep_all(loc);
}

void Adafactor::check_options(const AdafactorOptions& o, Loc loc) const {
  require(o.beta2_decay <= 0, "beta2_decay", "at most 0", o.beta2_decay, loc);
  require_positive("eps1", o.eps1.value_or(0), loc);
  require_positive("eps2", o.eps2, loc);
  require(o.clip >= 1, "clip", "at least 1", o.clip, loc);
}

void Adafactor::keep(std::size_t group, Loc loc) {
  const auto [begin, end] = range_of(group);
  for (std::size_t i = begin; i < end; ++i) {
    Kept& kept = kept_.emplace_back();
    Shape rows = parameter(i).shape(), columns = rows;
    if (rows.rank() < 2) {
      kept.whole = add_state("square", i, 0, loc);
      continue;
    }
    rows[rows.size() - 1] = 1;
    columns[rows.size() - 2] = 1;
    kept.rows = add_state("rows", i, rows, 0, loc);
    kept.columns = add_state("columns", i, columns, 0, loc);
  }
}

Tensor Adafactor::mean_square(std::size_t index, const Tensor& gradient, double eps) {
  const double decay = options(group_of(index)).beta2_decay;
  const Tensor share = exp(log(step_tensor()) * decay).to(gradient.dtype());
  const Tensor squares = square(gradient);
  Kept& kept = kept_[index];
  if (kept.whole.defined()) return moved(kept.whole, squares, share);
  const Tensor rows = moved(kept.rows, mean(squares, {-1}, true), share);
  const Tensor columns = moved(kept.columns, mean(squares, {-2}, true), share);
  return rows * columns / clamp(mean(rows, {-2}, true), eps);
}

void Adafactor::update(std::size_t index, const Tensor& gradient, Loc /*loc*/) {
  Tensor& p = parameter(index);
  const std::size_t group = group_of(index);
  const AdafactorOptions& o = options(group);
  const DType dtype = wide(p.dtype());
  const double eps = o.eps1.value_or(epsilon_of(p.dtype()));
  const Tensor g = (o.maximize ? neg(gradient) : gradient).to(dtype), value = p.to(dtype);

  const Tensor relative = minimum(lr_tensor(group), rsqrt(step_tensor())).to(dtype);
  const Tensor size = maximum(sqrt(mean(square(value))), o.eps2) * relative;
  const Tensor step = rsqrt(clamp(mean_square(index, g, eps), eps * eps)) * g;
  const Tensor excess = maximum(sqrt(mean(square(step))) / o.clip, 1.0);
  const Tensor keep = (1 - lr_tensor(group) * decay_tensor(group)).to(dtype);
  p.copy_(value * keep - step * (size / excess));
}

}  // namespace dyad::optim
