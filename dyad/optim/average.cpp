#include "dyad/optim/average.h"

#include <fmt/format.h>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/nn/init.h"
#include "dyad/nn/module.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/views.h"

namespace dyad::optim {

WeightAverage::WeightAverage(const Parameters& parameters, const WeightAverageOptions& options,
                             Loc loc)
    : options_(options) {
  if (options.decay && !(*options.decay >= 0 && *options.decay < 1)) {
    throw ValueError(fmt::format("WeightAverage: decay must be at least 0 and below 1, found {}",
                                 *options.decay),
                     loc.user());
  }
  const Evaluator::Scope eager(EagerEvaluator::instance());
  const NoGrad no_grad;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.defined() || !parameter.is_concrete()) {
      throw ValueError(fmt::format("WeightAverage: {} has no data to average", name), loc.user());
    }
    parameters_.push_back(parameter);
    averages_.add(name, clone(parameter));
  }
  updates_ = nn::init::full({}, 0, f64, loc);
}

void WeightAverage::update(Loc loc) {
  const LocScope scope(loc);
  const NoGrad no_grad;
  Tensor share = 1 / (updates_ + 1);
  if (options_.decay) {
    const Tensor decay = options_.warm_up
                             ? minimum((updates_ + 1) / (updates_ + 10), *options_.decay)
                             : full({}, *options_.decay, f64);
    share = where(updates_ == 0, ones({}, f64), 1 - decay);
  }
  std::size_t i = 0;
  for (const auto& [name, average] : averages_) {
    const Tensor& p = parameters_[i++];
    Tensor(average).add_((p - average) * share.to(p.dtype()));
  }
  updates_.add_(1);
}

void WeightAverage::swap(Loc loc) {
  const LocScope scope(loc);
  const NoGrad no_grad;
  std::size_t i = 0;
  for (const auto& [name, average] : averages_) {
    const Tensor held = clone(average);
    Tensor(average).copy_(parameters_[i]);
    parameters_[i++].copy_(held);
  }
}

TensorDict WeightAverage::state_dict() const {
  TensorDict state{{"updates", updates_}};
  state.add_all("average.", averages_);
  return state;
}

void WeightAverage::load_state_dict(const TensorDict& state, Loc loc) {
  nn::detail::load_state(state_dict(), state, {}, loc);
}

}  // namespace dyad::optim
