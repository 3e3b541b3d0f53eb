#pragma once

#include "dyad/optim/elementwise.h"

namespace dyad::optim {

struct AdamOptions {
  double lr = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;    ///< divide by the largest mean square so far (Reddi et al., 2018)
  bool maximize = false;   ///< move along the gradient
  bool decoupled = false;  ///< weight decay apart from the gradient, as AdamW has it
};

/// Adam (Kingma and Ba, 2015), with weight decay added to the gradient.
class Adam : public detail::WithOptions<AdamOptions> {
 public:
  explicit Adam(Parameters parameters, const AdamOptions& options = {},
                Loc loc = std::source_location::current())
      : Adam(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit Adam(const std::vector<Group>& groups, Loc loc = std::source_location::current())
      : Adam("Adam", groups, loc) {}

 protected:
  Adam(std::string name, const std::vector<Group>& groups, Loc loc);

 private:
  void check_options(const AdamOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
};

struct AdamWOptions {
  double lr = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool amsgrad = false;
  bool maximize = false;
};

/// Adam with weight decay apart from the gradient: p -= lr * weight_decay * p (Loshchilov and
/// Hutter, 2019).
class AdamW final : public Adam {
 public:
  using Options = AdamWOptions;
  using Group = ParameterGroup<AdamWOptions>;
  explicit AdamW(Parameters parameters, const AdamWOptions& options = {},
                 Loc loc = std::source_location::current())
      : AdamW(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit AdamW(const std::vector<Group>& groups, Loc loc = std::source_location::current());

  /// See Adam::add_param_group.
  void add_param_group(const Group& group, Loc loc = std::source_location::current());
};

struct NAdamOptions {
  double lr = 0.002;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 0.004;
  bool maximize = false;
  bool decoupled = false;  ///< weight decay apart from the gradient
};

/// Adam with Nesterov's momentum (Dozat, 2016), by PyTorch's schedule of the momentum.
class NAdam final : public detail::WithOptions<NAdamOptions> {
 public:
  explicit NAdam(Parameters parameters, const NAdamOptions& options = {},
                 Loc loc = std::source_location::current())
      : NAdam(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit NAdam(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const NAdamOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
  std::vector<Tensor> products_;  // of the momenta so far, by group
};

struct RAdamOptions {
  double lr = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
  bool decoupled = false;  ///< weight decay apart from the gradient
};

/// Adam whose adaptive part waits until its variance is known (Liu et al., 2020).
class RAdam final : public detail::WithOptions<RAdamOptions> {
 public:
  explicit RAdam(Parameters parameters, const RAdamOptions& options = {},
                 Loc loc = std::source_location::current())
      : RAdam(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit RAdam(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const RAdamOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
};

struct AdamaxOptions {
  double lr = 0.002;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
};

/// Adam by the largest gradient in the place of the mean square (Kingma and Ba, 2015).
class Adamax final : public detail::WithOptions<AdamaxOptions> {
 public:
  explicit Adamax(Parameters parameters, const AdamaxOptions& options = {},
                  Loc loc = std::source_location::current())
      : Adamax(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit Adamax(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const AdamaxOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
};

struct LionOptions {
  double lr = 0.0001;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
  bool maximize = false;
};

/// p -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p), m = beta2 * m + (1 - beta2) *
/// g (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023).
class Lion final : public detail::WithOptions<LionOptions> {
 public:
  explicit Lion(Parameters parameters, const LionOptions& options = {},
                Loc loc = std::source_location::current())
      : Lion(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit Lion(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const LionOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  std::vector<Tensor> numbers(std::size_t group) override;
};

}  // namespace dyad::optim
