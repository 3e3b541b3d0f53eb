#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/row_grad.h"
#include "dyad/nn/tensor_dict.h"

namespace dyad::optim {

/// What an optimizer updates: a list of tensors, called 0, 1... in its state, or tensors with their
/// names (nn::named_parameters), so that a state finds its parameters when the model has grown.
/// Where groups have names in common (those of two parts of a model), all names of the optimizer
/// begin with the number of their group: 0.weight, 1.weight.
class Parameters {
 public:
  Parameters() = default;
  Parameters(std::initializer_list<Tensor> tensors);
  Parameters(const std::vector<Tensor>& tensors);
  Parameters(TensorDict named) : entries_(std::move(named)), named_(true) {}

  [[nodiscard]] bool named() const noexcept { return named_; }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }

 private:
  TensorDict entries_;
  bool named_ = false;
};

/// Parameters that share the options of an optimizer: `AdamW({{nn::parameters(body), {.lr = 1e-5}},
/// {nn::parameters(head), {.lr = 1e-3}}})`.
template <class O>
struct ParameterGroup {
  Parameters parameters;
  O options = {};
};

/// Moves parameters against their gradients. What it keeps between steps (moments, the number of
/// steps, learning rates) are tensors that are written in place, so a compiled training step holds
/// forward, backward and update as one graph, and a change of a learning rate needs no new
/// recording. A parameter without a gradient is passed over. Steps are counted for the optimizer,
/// not for each parameter. Of a table with a gradient of some rows (sparse_embedding) these rows
/// are updated alone, with what is kept for them; moments and decay of the others stand still.
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
  /// Groups, in the order in which they were given; most optimizers have one.
  [[nodiscard]] std::size_t group_count() const noexcept { return groups_.size(); }

  /// The learning rate of a group. IndexError when there is no such group.
  [[nodiscard]] double lr(std::size_t group = 0, Loc loc = std::source_location::current()) const {
    return checked_group(group, loc).lr;
  }
  /// What a schedule multiplies: the learning rate, but after load_state_dict() the one before it,
  /// until another is set.
  [[nodiscard]] double base_lr(std::size_t group = 0,
                               Loc loc = std::source_location::current()) const {
    return checked_group(group, loc).base_lr;
  }
  /// Sets it for all groups.
  void set_lr(double lr, Loc loc = std::source_location::current());
  void set_group_lr(std::size_t group, double lr, Loc loc = std::source_location::current());
  [[nodiscard]] double weight_decay(std::size_t group = 0,
                                    Loc loc = std::source_location::current()) const {
    return checked_group(group, loc).weight_decay;
  }
  void set_weight_decay(std::size_t group, double weight_decay,
                        Loc loc = std::source_location::current());

  /// What the optimizer keeps: `step`, `lr` and `weight_decay` (`lr.0`, `lr.1`... of several
  /// groups) and, for each parameter, `state.parameter`. Shares the tensors.
  [[nodiscard]] TensorDict state_dict() const;
  /// Overwrites them in place. ValueError listing everything that does not fit, before anything is
  /// written.
  void load_state_dict(const TensorDict& state, Loc loc = std::source_location::current());

 protected:
  /// A group as this class sees it.
  struct GroupSpec {
    Parameters parameters;
    double lr = 0;
    double weight_decay = 0;
  };
  /// ValueError for no parameters, one twice, one that is no floating leaf with data (those that
  /// track no gradients, frozen ones, are passed over), or a learning rate or weight decay that is
  /// not at least 0.
  Optimizer(std::string name, const std::vector<GroupSpec>& groups, Loc loc);
  /// One more group, with the same errors; nothing has changed then.
  void append(const GroupSpec& spec, Loc loc);

  /// A tensor of the shape and dtype of parameter `index` filled with `first`, saved as
  /// `name.parameter`.
  Tensor add_state(const std::string& name, std::size_t index, double first, Loc loc);
  /// The same of another shape.
  Tensor add_state(const std::string& name, std::size_t index, const Shape& shape, double first,
                   Loc loc);
  /// A number of a group, f64[].
  Tensor add_number(const std::string& name, std::size_t group, double first, Loc loc);
  /// ValueError unless `good`: `Adam: beta1 must be ..., found ...`.
  void require(bool good, std::string_view argument, std::string_view rule, double found,
               Loc loc) const;
  /// The same for a share: at least 0 and below 1.
  void require_share(std::string_view argument, double found, Loc loc) const;
  void require_positive(std::string_view argument, double found, Loc loc) const;

  /// Called before the updates of one step.
  virtual void begin_step() {}
  /// Updates parameter `index` in place, by operators.
  virtual void update(std::size_t index, const Tensor& gradient, Loc loc) = 0;
  /// The same by a gradient of some rows alone; unless overridden a ValueError.
  virtual void update_rows(std::size_t index, const SparseRows& gradient, Loc loc);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The learning rate and weight decay of a group and the number of steps begun so far, f64[].
  [[nodiscard]] const Tensor& lr_tensor(std::size_t group) const {
    return groups_[group].lr_tensor;
  }
  [[nodiscard]] const Tensor& decay_tensor(std::size_t group) const {
    return groups_[group].decay_tensor;
  }
  [[nodiscard]] const Tensor& step_tensor() const noexcept { return step_tensor_; }
  [[nodiscard]] Tensor& parameter(std::size_t index) noexcept { return parameters_[index]; }
  /// The group of a parameter, and the parameters of a group: from `first` to before `second`.
  [[nodiscard]] std::size_t group_of(std::size_t index) const noexcept;
  [[nodiscard]] std::pair<std::size_t, std::size_t> range_of(std::size_t group) const noexcept {
    return {groups_[group].begin, groups_[group].end};
  }

 private:
  struct Group {
    std::size_t begin, end;
    double lr, weight_decay, base_lr;
    Tensor lr_tensor, decay_tensor;
  };
  /// A tensor of the state: of a group (a number) or of a parameter.
  struct Kept {
    std::string name;
    bool of_group;
    std::size_t index;
    Tensor tensor;
  };
  void check(const Tensor& parameter, const std::vector<Tensor>& before, Loc loc) const;
  [[nodiscard]] std::string name_of(const Kept& kept) const;
  [[nodiscard]] std::string parameter_name(std::size_t index) const;
  [[nodiscard]] const Group& checked_group(std::size_t group, Loc loc) const;
  void apply(std::span<const Tensor> gradients, std::span<const SparseRows> rows, Loc loc);

  std::string name_;
  std::vector<Tensor> parameters_;
  std::vector<std::string> names_;  // as they were given
  bool apart_ = false;              // whether they begin with the number of their group
  std::vector<Group> groups_;
  Tensor step_tensor_;
  std::vector<Kept> kept_;
};

}  // namespace dyad::optim
