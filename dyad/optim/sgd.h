#pragma once

#include "dyad/optim/elementwise.h"

namespace dyad::optim {

struct SGDOptions {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
  bool maximize = false;
};

/// p -= lr * v with v = momentum * v + (1 - dampening) * g and g = gradient + weight_decay * p; the
/// first v is g. With nesterov p -= lr * (g + momentum * v). The rules and defaults are PyTorch's.
class SGD final : public detail::WithOptions<SGDOptions> {
 public:
  explicit SGD(Parameters parameters, const SGDOptions& options = {},
               Loc loc = std::source_location::current())
      : SGD(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit SGD(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const SGDOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
};

}  // namespace dyad::optim
