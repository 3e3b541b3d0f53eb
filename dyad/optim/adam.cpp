#include "dyad/optim/adam.h"

#include <cmath>

#include "dyad/nn/init.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/optimizer_steps.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"

namespace dyad::optim {
namespace {

template <class O>
ops::AdamAttrs attrs_of(const O& options) {
  return {.beta1 = options.beta1, .beta2 = options.beta2, .eps = options.eps};
}

Adam::Group as_adam(const AdamW::Group& group) {
  const AdamWOptions& o = group.options;
  return {group.parameters,
          {.lr = o.lr,
           .beta1 = o.beta1,
           .beta2 = o.beta2,
           .eps = o.eps,
           .weight_decay = o.weight_decay,
           .amsgrad = o.amsgrad,
           .maximize = o.maximize,
           .decoupled = true}};
}
std::vector<Adam::Group> as_adam(const std::vector<AdamW::Group>& groups) {
  std::vector<Adam::Group> made;
  for (const AdamW::Group& group : groups) made.push_back(as_adam(group));
  return made;
}

}  // namespace

Adam::Adam(std::string name, const std::vector<Group>& groups, Loc loc)
    : WithOptions(std::move(name), groups, loc) {
  keep_all(loc);
}

void Adam::check_options(const AdamOptions& o, Loc loc) const {
  require_share("beta1", o.beta1, loc);
  require_share("beta2", o.beta2, loc);
  require_positive("eps", o.eps, loc);
}

void Adam::keep(std::size_t group, Loc loc) {
  const AdamOptions& o = options(group);
  std::vector<State> states{{"mean"}, {"square"}};
  if (o.amsgrad) states.push_back({"largest"});
  add_rule(o.amsgrad ? "adam_amsgrad_step" : "adam_step", attrs_of(o), states, o.maximize, loc);
}

std::vector<Tensor> Adam::numbers(std::size_t group) {
  const AdamOptions& o = options(group);
  return {lr_tensor(group) / correction(o.beta1), rsqrt(correction(o.beta2)),
          decay_of_gradient(group, o.decoupled), kept_share(group, o.decoupled)};
}

AdamW::AdamW(const std::vector<Group>& groups, Loc loc) : Adam("AdamW", as_adam(groups), loc) {}
void AdamW::add_param_group(const Group& group, Loc loc) {
  Adam::add_param_group(as_adam(group), loc);
}

NAdam::NAdam(const std::vector<Group>& groups, Loc loc) : WithOptions("NAdam", groups, loc) {
  keep_all(loc);
}

void NAdam::check_options(const NAdamOptions& o, Loc loc) const {
  require_share("beta1", o.beta1, loc);
  require_share("beta2", o.beta2, loc);
  require_positive("eps", o.eps, loc);
  require_positive("momentum_decay", o.momentum_decay, loc);
}

void NAdam::keep(std::size_t group, Loc loc) {
  const NAdamOptions& o = options(group);
  products_.push_back(add_number("momentum_product", group, 1, loc));
  add_rule("nadam_step", attrs_of(o), {{"mean"}, {"square"}}, o.maximize, loc);
}

std::vector<Tensor> NAdam::numbers(std::size_t group) {
  const NAdamOptions& o = options(group);
  const auto momentum = [&](const Tensor& t) {
    return o.beta1 * (1 - 0.5 * exp(t * (o.momentum_decay * std::log(0.96))));
  };
  const Tensor now = momentum(step_tensor()), next = momentum(step_tensor() + 1);
  Tensor& product = products_[group];
  product.mul_(now);
  return {lr_tensor(group) * (1 - now) / (1 - product),
          lr_tensor(group) * next / (1 - product * next), rsqrt(correction(o.beta2)),
          decay_of_gradient(group, o.decoupled), kept_share(group, o.decoupled)};
}

RAdam::RAdam(const std::vector<Group>& groups, Loc loc) : WithOptions("RAdam", groups, loc) {
  keep_all(loc);
}

void RAdam::check_options(const RAdamOptions& o, Loc loc) const {
  require_share("beta1", o.beta1, loc);
  require_share("beta2", o.beta2, loc);
  require_positive("eps", o.eps, loc);
}

void RAdam::keep(std::size_t group, Loc loc) {
  const RAdamOptions& o = options(group);
  add_rule("radam_step", attrs_of(o), {{"mean"}, {"square"}}, o.maximize, loc);
}

std::vector<Tensor> RAdam::numbers(std::size_t group) {
  const RAdamOptions& o = options(group);
  // How many gradients the mean square is an average of, now and in the end.
  const double longest = 2 / (1 - o.beta2) - 1;
  const Tensor& t = step_tensor();
  const Tensor corrected = correction(o.beta2);
  const Tensor length = longest - 2 * t * (1 - corrected) / corrected;
  const Tensor rectified = (length - 4) * (length - 2) * longest /
                           (length * ((longest - 4) * (longest - 2))) * corrected;
  return {lr_tensor(group) / correction(o.beta1),
          where(length > 5, sqrt(abs(rectified)), zeros({}, f64)),
          decay_of_gradient(group, o.decoupled), kept_share(group, o.decoupled)};
}

Adamax::Adamax(const std::vector<Group>& groups, Loc loc) : WithOptions("Adamax", groups, loc) {
  keep_all(loc);
}

void Adamax::check_options(const AdamaxOptions& o, Loc loc) const {
  require_share("beta1", o.beta1, loc);
  require_share("beta2", o.beta2, loc);
  require_positive("eps", o.eps, loc);
}

void Adamax::keep(std::size_t group, Loc loc) {
  const AdamaxOptions& o = options(group);
  add_rule("adamax_step", attrs_of(o), {{"mean"}, {"largest"}}, o.maximize, loc);
}

std::vector<Tensor> Adamax::numbers(std::size_t group) {
  return {lr_tensor(group) / correction(options(group).beta1), decay_tensor(group)};
}

Lion::Lion(const std::vector<Group>& groups, Loc loc) : WithOptions("Lion", groups, loc) {
  keep_all(loc);
}

void Lion::check_options(const LionOptions& o, Loc loc) const {
  require_share("beta1", o.beta1, loc);
  require_share("beta2", o.beta2, loc);
}

void Lion::keep(std::size_t group, Loc loc) {
  const LionOptions& o = options(group);
  add_rule("lion_step", ops::LionAttrs{.beta1 = o.beta1, .beta2 = o.beta2}, {{"mean"}}, o.maximize,
           loc);
}

std::vector<Tensor> Lion::numbers(std::size_t group) {
  return {lr_tensor(group), kept_share(group, true)};
}

}  // namespace dyad::optim
