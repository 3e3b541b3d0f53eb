#pragma once

#include <string>
#include <vector>

#include "dyad/ir/attrs.h"
#include "dyad/optim/optimizer.h"

namespace dyad {
struct OpInfo;
}

namespace dyad::optim::detail {

/// An optimizer whose update is one pointwise operator of ops/attrs/optimizer_steps.h: from p, its
/// gradient, what is kept for it and the numbers of the step to the new p and what is kept. In
/// eager mode it is one pass over memory, in compiled steps a part of the kernels that give the
/// gradient.
class Elementwise : public Optimizer {
 protected:
  /// What is kept for each parameter, and what it begins with.
  struct State {
    std::string name;
    double first = 0;
  };
  using Optimizer::Optimizer;

  /// How the parameters of the next group are updated: row `op` with its attributes.
  template <class A>
  void add_rule(std::string_view op, const A& attrs, const std::vector<State>& states,
                bool maximize, Loc loc) {
    add_rule(op, Attrs::copy_of(attrs_info<A>, &attrs), states, maximize, loc);
  }
  /// The numbers that the operator of a group takes in this step, f64[], in its order.
  virtual std::vector<Tensor> numbers(std::size_t group) = 0;

  // Numbers that many rules take.
  /// 1 - lr * weight_decay when decay is apart from the gradient, otherwise 1.
  [[nodiscard]] Tensor kept_share(std::size_t group, bool decoupled) const;
  /// weight_decay when it is part of the gradient, otherwise 0.
  [[nodiscard]] Tensor decay_of_gradient(std::size_t group, bool decoupled) const;
  /// 1 - beta^step.
  [[nodiscard]] Tensor correction(double beta) const;

 private:
  struct Rule {
    const OpInfo* op = nullptr;
    Ref<Attrs> attrs;
    bool maximize = false;
    std::vector<Tensor> wide, narrow;  ///< the numbers of this step, for f64 and other parameters
  };
  void add_rule(std::string_view op, Ref<Attrs> attrs, const std::vector<State>& states,
                bool maximize, Loc loc);
  void begin_step() final;
  void update(std::size_t index, const Tensor& gradient, Loc loc) final;
  void update_rows(std::size_t index, const SparseRows& gradient, Loc loc) final;
  void add_numbers(std::vector<const Tensor*>& inputs, std::size_t index) const;

  std::vector<Rule> rules_;                  // by group
  std::vector<std::vector<Tensor>> states_;  // by parameter
};

/// An optimizer with options of a class, and groups of parameters with their own: `Adam::Group`.
template <class O, class Base = Elementwise>
class WithOptions : public Base {
 public:
  using Options = O;
  using Group = ParameterGroup<O>;

  /// Updates one more group from now on, with its own options, as if it had been given with the
  /// others: what is kept for its parameters begins anew, the steps go on being counted. The state
  /// has the names of an optimizer of all groups. A step that was compiled before does not know the
  /// group, and a schedule that was made before leaves its learning rate as it is. ValueError as
  /// when an optimizer is made; nothing has changed then.
  void add_param_group(const Group& group, Loc loc = std::source_location::current()) {
    check_options(group.options, loc);
    Base::append(spec_of(group), loc);
    options_.push_back(group.options);
    keep(options_.size() - 1, loc);
  }

 protected:
  WithOptions(std::string name, const std::vector<Group>& groups, Loc loc)
      : Base(std::move(name), specs_of(groups), loc) {
    for (const Group& group : groups) options_.push_back(group.options);
  }
  /// ValueError for options that are out of their range.
  virtual void check_options(const O& options, Loc loc) const = 0;
  /// Makes what is kept between steps for the next group.
  virtual void keep(std::size_t group, Loc loc) = 0;
  /// Both for the groups that the constructor was given; it calls this.
  void keep_all(Loc loc) {
    for (const O& options : options_) check_options(options, loc);
    for (std::size_t group = 0; group < options_.size(); ++group) keep(group, loc);
  }
  [[nodiscard]] const O& options(std::size_t group) const { return options_[group]; }

 private:
  static typename Base::GroupSpec spec_of(const Group& group) {
    return {group.parameters, group.options.lr, group.options.weight_decay};
  }
  static std::vector<typename Base::GroupSpec> specs_of(const std::vector<Group>& groups) {
    std::vector<typename Base::GroupSpec> specs;
    for (const Group& group : groups) specs.push_back(spec_of(group));
    return specs;
  }
  std::vector<O> options_;
};

}  // namespace dyad::optim::detail
