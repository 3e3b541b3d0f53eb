#pragma once

#include "dyad/optim/elementwise.h"

namespace dyad::optim {

struct AdagradOptions {
  double lr = 0.01;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_sum = 0;  ///< what the sums of squares begin with
  double eps = 1e-10;
  bool maximize = false;
};

/// p -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum of all g * g) + eps) (Duchi et al., 2011).
class Adagrad final : public detail::WithOptions<AdagradOptions> {
 public:
  explicit Adagrad(Parameters parameters, const AdagradOptions& options = {},
                   Loc loc = std::source_location::current())
      : Adagrad(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit Adagrad(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const AdagradOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
};

struct RMSpropOptions {
  double lr = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;  ///< divide by the estimated variance
  bool maximize = false;
};

/// p -= lr * g / (sqrt(mean of g * g) + eps) (Tieleman and Hinton, 2012), centered and with
/// momentum as PyTorch has it.
class RMSprop final : public detail::WithOptions<RMSpropOptions> {
 public:
  explicit RMSprop(Parameters parameters, const RMSpropOptions& options = {},
                   Loc loc = std::source_location::current())
      : RMSprop(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit RMSprop(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const RMSpropOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
};

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};

/// p -= lr * sqrt(mean of the squared updates + eps) / sqrt(mean of g * g + eps) * g (Zeiler,
/// 2012).
class Adadelta final : public detail::WithOptions<AdadeltaOptions> {
 public:
  explicit Adadelta(Parameters parameters, const AdadeltaOptions& options = {},
                    Loc loc = std::source_location::current())
      : Adadelta(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit Adadelta(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const AdadeltaOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
};

}  // namespace dyad::optim
