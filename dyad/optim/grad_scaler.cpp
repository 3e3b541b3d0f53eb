#include "dyad/optim/grad_scaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/base/error.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/core/evaluator.h"
#include "dyad/nn/init.h"
#include "dyad/nn/module.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/reduce.h"

namespace dyad::optim {
namespace {

/// grad / scale, and whether it has anything but numbers, added to `found`.
Tensor unscale_one(const Tensor& grad, const Tensor& inverse, Tensor& found, Loc loc) {
  const Tensor numbers = all(isfinite(grad, loc), {}, false, loc);
  const Tensor bad = logical_not(numbers, loc);
  found = found.defined() ? logical_or(found, bad, loc) : bad;
  return mul(grad, inverse.to(grad.dtype(), loc), loc);
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options, Loc loc) : options_(options) {
  const auto require = [&](bool good, const char* what, const char* rule, double found) {
    if (good) return;
    throw ValueError(fmt::format("GradScaler: {} must be {}, found {}", what, rule, found),
                     loc.user());
  };
  require(options.init_scale > 0 && std::isfinite(options.init_scale), "init_scale", "above 0",
          options.init_scale);
  require(options.growth_factor > 1, "growth_factor", "above 1", options.growth_factor);
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor",
          "between 0 and 1", options.backoff_factor);
  require(options.growth_interval > 0, "growth_interval", "at least 1",
          static_cast<double>(options.growth_interval));
  scale_ = nn::init::full({}, options.init_scale, f32, loc);
  tracker_ = nn::init::full({}, 0, i64, loc);
}

Tensor GradScaler::scale(const Tensor& loss, Loc loc) const {
  if (!options_.enabled) return loss;
  const LocScope scope(loc);
  const DType dtype = loss.dtype() == f64 ? f64 : f32;
  return mul(loss.to(dtype, loc), scale_.to(dtype, loc), loc);
}

bool GradScaler::is_done(const Unscaled& entry, Loc loc) {
  return Evaluator::is_eager() ? entry.done.item<bool>(loc) : entry.recorded;
}

void GradScaler::set_done(Unscaled& entry, bool done, Loc loc) {
  entry.done.fill_(done ? 1 : 0, loc);
  entry.recorded = done;
}

GradScaler::Unscaled& GradScaler::entry_of(const Optimizer& optimizer, Loc loc) {
  const auto known = std::ranges::find(unscaled_, &optimizer, &Unscaled::optimizer);
  if (known != unscaled_.end()) return *known;
  const auto no = [&] { return nn::init::full({}, 0, boolean, loc); };
  return unscaled_.emplace_back(&optimizer, no(), no());
}

void GradScaler::unscale(const Optimizer& optimizer, Loc loc) {
  if (!options_.enabled) return;
  const LocScope scope(loc);
  const NoGrad no_grad;
  Unscaled& entry = entry_of(optimizer, loc);
  if (is_done(entry, loc)) {
    throw GradError("GradScaler: unscale() was called already since the last update()", loc.user());
  }
  const AutocastSwitch as_given(std::nullopt);
  const Tensor inverse = div(1.0, scale_, loc);
  Tensor found;
  for (const Tensor& parameter : optimizer.parameters()) {
    const Tensor dense = autograd::dense_grad(parameter);
    SparseRows rows = sparse_grad(parameter);
    if (dense.defined()) parameter.set_grad(unscale_one(dense, inverse, found, loc));
    if (!rows.defined()) continue;
    rows.rows = unscale_one(rows.rows, inverse, found, loc);
    autograd::set_sparse_grad(parameter, rows);
  }
  if (!found.defined()) {
    throw GradError(
        "GradScaler: no parameter of the optimizer has a gradient: call "
        "scale(loss).backward() first",
        loc.user());
  }
  entry.found.copy_(found, loc);
  set_done(entry, true, loc);
}

bool GradScaler::step(Optimizer& optimizer, Loc loc) {
  if (!options_.enabled) {
    optimizer.step(loc);
    return true;
  }
  Unscaled& entry = entry_of(optimizer, loc);
  if (!is_done(entry, loc)) unscale(optimizer, loc);
  const LocScope scope(loc);
  if (entry.found.item<bool>(loc)) return false;
  optimizer.step(loc);
  return true;
}

void GradScaler::update(Loc loc) {
  if (!options_.enabled) return;
  const LocScope scope(loc);
  const NoGrad no_grad;
  Tensor found;
  for (Unscaled& entry : unscaled_) {
    if (!is_done(entry, loc)) continue;
    found = found.defined() ? logical_or(found, entry.found, loc) : entry.found;
    set_done(entry, false, loc);
  }
  if (!found.defined()) {
    throw GradError("GradScaler: update() without a step(): no gradients were looked at",
                    loc.user());
  }
  const Tensor count = add(tracker_, 1, loc);
  const Tensor grows = ge(count, options_.growth_interval, loc);
  const Tensor larger = mul(scale_, options_.growth_factor, loc);
  const Tensor grown = where(logical_and(grows, isfinite(larger, loc), loc), larger, scale_, loc);
  scale_.copy_(where(found, mul(scale_, options_.backoff_factor, loc), grown, loc), loc);
  tracker_.copy_(where(logical_or(found, grows, loc), 0, count, loc), loc);
}

TensorDict GradScaler::state_dict() const {
  return {{"scale", scale_}, {"growth_tracker", tracker_}};
}

void GradScaler::load_state_dict(const TensorDict& state, Loc loc) {
  nn::detail::load_state(state_dict(), state, {}, loc);
}

}  // namespace dyad::optim
