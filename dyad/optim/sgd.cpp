#include "dyad/optim/sgd.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/optimizer_steps.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"

namespace dyad::optim {

SGD::SGD(const std::vector<Group>& groups, Loc loc) : WithOptions("SGD", groups, loc) {
  keep_all(loc);
}

void SGD::check_options(const SGDOptions& o, Loc loc) const {
  require_positive("momentum", o.momentum, loc);
  require(!o.nesterov || o.momentum > 0, "momentum", "above 0 for nesterov", o.momentum, loc);
  require(!o.nesterov || o.dampening == 0, "dampening", "0 for nesterov", o.dampening, loc);
}

void SGD::keep(std::size_t group, Loc loc) {
  const SGDOptions& o = options(group);
  if (o.momentum > 0) {
    add_rule("sgd_momentum_step",
             ops::MomentumAttrs{.momentum = o.momentum, .nesterov = o.nesterov}, {{"velocity"}},
             o.maximize, loc);
  } else {
    add_rule("sgd_step", NoAttrs{}, {}, o.maximize, loc);
  }
}

std::vector<Tensor> SGD::numbers(std::size_t group) {
  const SGDOptions& o = options(group);
  std::vector<Tensor> numbers{lr_tensor(group), decay_tensor(group)};
  if (o.momentum > 0) {
    numbers.push_back(o.dampening == 0 ? ones({}, f64)
                                       : where(step_tensor() == 1, ones({}, f64), 1 - o.dampening));
  }
  return numbers;
}

}  // namespace dyad::optim
