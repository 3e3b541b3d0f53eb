#include "dyad/optim/adaptive.h"

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/optimizer_steps.h"

namespace dyad::optim {

Adagrad::Adagrad(const std::vector<Group>& groups, Loc loc) : WithOptions("Adagrad", groups, loc) {
  keep_all(loc);
}

void Adagrad::check_options(const AdagradOptions& o, Loc loc) const {
  require_positive("lr_decay", o.lr_decay, loc);
  require_positive("initial_sum", o.initial_sum, loc);
  require_positive("eps", o.eps, loc);
}

void Adagrad::keep(std::size_t group, Loc loc) {
  const AdagradOptions& o = options(group);
  add_rule("adagrad_step", ops::AdagradAttrs{.eps = o.eps}, {{"sum", o.initial_sum}}, o.maximize,
           loc);
}

std::vector<Tensor> Adagrad::numbers(std::size_t group) {
  const double lr_decay = options(group).lr_decay;
  const Tensor& lr = lr_tensor(group);
  return {lr_decay == 0 ? lr : lr / (1 + (step_tensor() - 1) * lr_decay), decay_tensor(group)};
}

RMSprop::RMSprop(const std::vector<Group>& groups, Loc loc) : WithOptions("RMSprop", groups, loc) {
  keep_all(loc);
}

void RMSprop::check_options(const RMSpropOptions& o, Loc loc) const {
  require_share("alpha", o.alpha, loc);
  require_positive("eps", o.eps, loc);
  require_positive("momentum", o.momentum, loc);
}

void RMSprop::keep(std::size_t group, Loc loc) {
  const RMSpropOptions& o = options(group);
  std::vector<State> states{{"square"}};
  if (o.centered) states.push_back({"mean"});
  if (o.momentum > 0) states.push_back({"velocity"});
  const std::string row = std::string("rmsprop") + (o.centered ? "_centered" : "") +
                          (o.momentum > 0 ? "_momentum" : "") + "_step";
  add_rule(row, ops::RmsPropAttrs{.alpha = o.alpha, .eps = o.eps, .momentum = o.momentum}, states,
           o.maximize, loc);
}

std::vector<Tensor> RMSprop::numbers(std::size_t group) {
  return {lr_tensor(group), decay_tensor(group)};
}

Adadelta::Adadelta(const std::vector<Group>& groups, Loc loc)
    : WithOptions("Adadelta", groups, loc) {
  keep_all(loc);
}

void Adadelta::check_options(const AdadeltaOptions& o, Loc loc) const {
  require(o.rho >= 0 && o.rho <= 1, "rho", "from 0 to 1", o.rho, loc);
  require_positive("eps", o.eps, loc);
}

void Adadelta::keep(std::size_t group, Loc loc) {
  const AdadeltaOptions& o = options(group);
  add_rule("adadelta_step", ops::AdadeltaAttrs{.rho = o.rho, .eps = o.eps}, {{"square"}, {"delta"}},
           o.maximize, loc);
}

std::vector<Tensor> Adadelta::numbers(std::size_t group) {
  return {lr_tensor(group), decay_tensor(group)};
}

}  // namespace dyad::optim
