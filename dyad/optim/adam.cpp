#include <cmath>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/elementary.h"
#include "dyad/optim/optimizer.h"

namespace dyad::optim {

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options, Loc loc)
    : Adam("Adam", std::move(parameters), options, false, loc) {}

Adam::Adam(std::string name, std::vector<Tensor> parameters, const AdamOptions& options,
           bool decoupled_decay, Loc loc)
    : Optimizer(std::move(name), std::move(parameters), options.lr, loc),
      options_(options),
      decoupled_decay_(decoupled_decay) {
  const auto share = [](double x) { return x >= 0 && x < 1; };
  require(share(options.beta1), "beta1", "at least 0 and below 1", options.beta1, loc);
  require(share(options.beta2), "beta2", "at least 0 and below 1", options.beta2, loc);
  require(options.eps >= 0, "eps", "at least 0", options.eps, loc);
  require(options.weight_decay >= 0, "weight_decay", "at least 0", options.weight_decay, loc);
  mean_ = add_state("mean", loc);
  square_ = add_state("square", loc);
}

void Adam::begin_step(Loc loc) {
  // 1 - beta^step as -expm1(step * log(beta)): in f32 the plain form loses half of its digits in
  // the first steps, where beta^step is close to 1.
  const auto correction = [&](double beta) {
    return neg(expm1(mul(step_tensor(), std::log(beta), loc), loc), loc);
  };
  step_size_ = div(lr_tensor(), correction(options_.beta1), loc);
  square_scale_ = rsqrt(correction(options_.beta2), loc);
}

void Adam::update(std::size_t index, const Tensor& gradient, Loc loc) {
  Tensor& p = parameter(index);
  Tensor& m = mean_[index];
  Tensor& v = square_[index];
  const auto& [lr, beta1, beta2, eps, weight_decay] = options_;
  Tensor g = gradient;
  if (weight_decay > 0) {
    if (decoupled_decay_) {
      p.mul_(sub(1, mul(lr_tensor(), weight_decay, loc), loc), loc);
    } else {
      g = add(g, mul(p, weight_decay, loc), loc);
    }
  }
  m.mul_(beta1, loc).add_(mul(g, 1 - beta1, loc), loc);
  v.mul_(beta2, loc).add_(mul(g, g, loc).mul_(1 - beta2, loc), loc);
  const Tensor spread = sqrt(v, loc).mul_(square_scale_, loc).add_(eps, loc);
  p.sub_(div(m, spread, loc).mul_(step_size_, loc), loc);
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options, Loc loc)
    : Adam("AdamW", std::move(parameters),
           {.lr = options.lr,
            .beta1 = options.beta1,
            .beta2 = options.beta2,
            .eps = options.eps,
            .weight_decay = options.weight_decay},
           true, loc) {}

}  // namespace dyad::optim
