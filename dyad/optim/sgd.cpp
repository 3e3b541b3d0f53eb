#include "dyad/ops/arithmetic.h"
#include "dyad/optim/optimizer.h"

namespace dyad::optim {

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options, Loc loc)
    : Optimizer("SGD", std::move(parameters), options.lr, loc), options_(options) {
  require(options.momentum >= 0, "momentum", "at least 0", options.momentum, loc);
  require(options.weight_decay >= 0, "weight_decay", "at least 0", options.weight_decay, loc);
  require(!options.nesterov || options.momentum > 0, "momentum", "above 0 for nesterov",
          options.momentum, loc);
  if (options.momentum > 0) velocity_ = add_state("velocity", loc);
}

void SGD::update(std::size_t index, const Tensor& gradient, Loc loc) {
  Tensor& p = parameter(index);
  Tensor g = gradient;
  if (options_.weight_decay > 0) g = add(g, mul(p, options_.weight_decay, loc), loc);
  if (options_.momentum > 0) {
    Tensor& v = velocity_[index];
    v.mul_(options_.momentum, loc).add_(g, loc);
    g = options_.nesterov ? add(g, mul(v, options_.momentum, loc), loc) : v;
  }
  p.sub_(mul(g, lr_tensor(), loc), loc);
}

}  // namespace dyad::optim
