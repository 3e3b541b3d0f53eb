#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dyad/nn/tensor_dict.h"

namespace dyad::optim {

/// Moves parameters against their gradients. What it keeps between steps (moments, the number of
/// steps, the learning rate) are tensors that are written in place, so a compiled training step
/// holds forward, backward and update as one graph, and a change of the learning rate needs no new
/// recording. A parameter without a gradient is passed over.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter by its grad().
  void step(Loc loc = std::source_location::current());
  /// Forgets the gradients of all parameters.
  void zero_grad();

  /// In Graph::define: appends the gradients of the scalar `loss` by the parameters, and the
  /// updates. Gives the loss as a value whose fetch trains: a run that computes it also does the
  /// updates, and the other writes in place of the function so far (running statistics); one that
  /// fetches `loss` itself does not. GradError when `loss` depends on no parameter.
  Tensor minimize(const Tensor& loss, Loc loc = std::source_location::current());

  [[nodiscard]] const std::vector<Tensor>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] double lr() const noexcept { return lr_; }
  void set_lr(double lr, Loc loc = std::source_location::current());

  /// What the optimizer keeps: `lr`, `step` and, for each parameter i, `name.i`. Shares the
  /// tensors.
  [[nodiscard]] TensorDict state_dict() const;
  /// Overwrites them in place. ValueError listing everything that does not fit, before anything is
  /// written.
  void load_state_dict(const TensorDict& state, Loc loc = std::source_location::current());

 protected:
  /// ValueError for no parameters, one twice, one that is no floating leaf with data (those that
  /// track no gradients, frozen ones, are passed over), or a learning rate that is not at least 0.
  Optimizer(std::string name, std::vector<Tensor> parameters, double lr, Loc loc);

  /// Zeros of the shape and dtype of each parameter, saved under `name`.
  std::vector<Tensor> add_state(const std::string& name, Loc loc);
  /// ValueError unless `good`: `Adam: beta1 must be ..., found ...`.
  void require(bool good, std::string_view argument, std::string_view rule, double found,
               Loc loc) const;

  /// Called before the updates of one step.
  virtual void begin_step(Loc /*loc*/) {}
  /// Updates parameter `index` in place, by operators.
  virtual void update(std::size_t index, const Tensor& gradient, Loc loc) = 0;

  /// The learning rate and the number of steps begun so far, f32[].
  [[nodiscard]] const Tensor& lr_tensor() const noexcept { return lr_tensor_; }
  [[nodiscard]] const Tensor& step_tensor() const noexcept { return step_tensor_; }
  [[nodiscard]] Tensor& parameter(std::size_t index) noexcept { return parameters_[index]; }

 private:
  void apply(std::span<const Tensor> gradients, Loc loc);

  std::string name_;
  std::vector<Tensor> parameters_;
  double lr_;
  Tensor lr_tensor_, step_tensor_;
  TensorDict state_;
};

struct SGDOptions {
  double lr = 0.01;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

/// p -= lr * v with v = momentum * v + g and g = gradient + weight_decay * p; with nesterov
/// p -= lr * (g + momentum * v). The rules and defaults are PyTorch's.
class SGD final : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SGDOptions& options = {},
               Loc loc = std::source_location::current());

 private:
  void update(std::size_t index, const Tensor& gradient, Loc loc) override;
  SGDOptions options_;
  std::vector<Tensor> velocity_;
};

struct AdamOptions {
  double lr = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

/// Adam (Kingma and Ba, 2015), with weight decay added to the gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {},
                Loc loc = std::source_location::current());

 protected:
  Adam(std::string name, std::vector<Tensor> parameters, const AdamOptions& options,
       bool decoupled_decay, Loc loc);

 private:
  void begin_step(Loc loc) override;
  void update(std::size_t index, const Tensor& gradient, Loc loc) override;
  AdamOptions options_;
  bool decoupled_decay_;
  std::vector<Tensor> mean_, square_;
  Tensor step_size_, square_scale_;  ///< lr and second moment corrected for the start, this step
};

struct AdamWOptions {
  double lr = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

/// Adam with weight decay apart from the gradient: p -= lr * weight_decay * p (Loshchilov and
/// Hutter, 2019).
class AdamW final : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {},
                 Loc loc = std::source_location::current());
};

}  // namespace dyad::optim
