#include "dyad/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/control_flow_region.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/nn/init.h"
#include "dyad/nn/module.h"

namespace dyad::optim {

Parameters::Parameters(std::initializer_list<Tensor> tensors)
    : Parameters(std::vector<Tensor>(tensors)) {}

Parameters::Parameters(const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) entries_.add(std::to_string(i), tensors[i]);
}

Optimizer::Optimizer(std::string name, const std::vector<GroupSpec>& groups, Loc loc)
    : name_(std::move(name)) {
  for (const GroupSpec& spec : groups) append(spec, loc);
  if (parameters_.empty()) {
    throw ValueError(fmt::format("{}: there are no parameters to optimize; pass "
                                 "nn::parameters(model)",
                                 name_),
                     loc.user());
  }
  step_tensor_ = nn::init::full({}, 0, f64, loc);
}

void Optimizer::append(const GroupSpec& spec, Loc loc) {
  std::vector<Tensor> parameters = parameters_;
  std::vector<std::string> names = names_;
  for (const auto& [given, parameter] : spec.parameters) {
    check(parameter, parameters, loc);
    names.push_back(spec.parameters.named() ? given : std::to_string(parameters.size()));
    parameters.push_back(parameter);
  }
  const auto valid = [](double x) { return x >= 0 && std::isfinite(x); };
  require(valid(spec.lr), "lr", "finite and at least 0", spec.lr, loc);
  require(valid(spec.weight_decay), "weight_decay", "finite and at least 0", spec.weight_decay,
          loc);
  const std::size_t number = groups_.size();
  Group& group = groups_.emplace_back();
  group.begin = parameters_.size();
  group.end = parameters.size();
  group.lr = group.base_lr = spec.lr;
  group.weight_decay = spec.weight_decay;
  parameters_ = std::move(parameters);
  names_ = std::move(names);
  apart_ = std::unordered_set(names_.begin(), names_.end()).size() != names_.size();
  group.lr_tensor = add_number("lr", number, group.lr, loc);
  group.decay_tensor = add_number("weight_decay", number, group.weight_decay, loc);
}

Optimizer::~Optimizer() = default;

std::string Optimizer::parameter_name(std::size_t index) const {
  return apart_ ? fmt::format("{}.{}", group_of(index), names_[index]) : names_[index];
}

std::string Optimizer::name_of(const Kept& kept) const {
  if (!kept.of_group) return kept.name + "." + parameter_name(kept.index);
  return groups_.size() == 1 ? kept.name : fmt::format("{}.{}", kept.name, kept.index);
}

void Optimizer::check(const Tensor& parameter, const std::vector<Tensor>& before, Loc loc) const {
  const std::size_t i = before.size();
  if (!parameter.defined() || !parameter.is_concrete() || !parameter.is_leaf() ||
      !is_floating(parameter.dtype())) {
    throw ValueError(
        fmt::format("{}: parameter {} must be a floating leaf with data, found {}", name_, i,
                    parameter.defined() ? type_string(parameter) : "an undefined tensor"),
        loc.user());
  }
  for (std::size_t j = 0; j < i; ++j) {
    if (before[j].is_same(parameter)) {
      throw ValueError(fmt::format("{}: parameters {} and {} are the same tensor", name_, j, i),
                       loc.user());
    }
  }
}

void Optimizer::require(bool good, std::string_view argument, std::string_view rule, double found,
                        Loc loc) const {
  if (good) return;
  throw ValueError(fmt::format("{}: {} must be {}, found {}", name_, argument, rule, found),
                   loc.user());
}

void Optimizer::require_share(std::string_view argument, double found, Loc loc) const {
  require(found >= 0 && found < 1, argument, "at least 0 and below 1", found, loc);
}

void Optimizer::require_positive(std::string_view argument, double found, Loc loc) const {
  require(found >= 0, argument, "at least 0", found, loc);
}

Tensor Optimizer::add_state(const std::string& name, std::size_t index, double first, Loc loc) {
  return add_state(name, index, parameters_[index].shape(), first, loc);
}

Tensor Optimizer::add_state(const std::string& name, std::size_t index, const Shape& shape,
                            double first, Loc loc) {
  Tensor made = nn::init::full(shape, first, parameters_[index].dtype(), loc);
  kept_.push_back({name, false, index, made});
  return made;
}

Tensor Optimizer::add_number(const std::string& name, std::size_t group, double first, Loc loc) {
  Tensor made = nn::init::full({}, first, f64, loc);
  kept_.push_back({name, true, group, made});
  return made;
}

std::size_t Optimizer::group_of(std::size_t index) const noexcept {
  std::size_t group = 0;
  while (index >= groups_[group].end) ++group;
  return group;
}

void Optimizer::step(Loc loc) {
  std::vector<Tensor> gradients;
  std::vector<SparseRows> rows;
  for (const Tensor& parameter : parameters_) {
    gradients.push_back(autograd::dense_grad(parameter));
    rows.push_back(sparse_grad(parameter));
  }
  apply(gradients, rows, loc);
}

void Optimizer::zero_grad() {
  for (const Tensor& parameter : parameters_) parameter.zero_grad();
}

void Optimizer::update_rows(std::size_t index, const SparseRows&, Loc loc) {
  throw ValueError(fmt::format("{} needs the whole gradient of parameter {}, {}, which has that of "
                               "some rows alone: use embedding() in the place of "
                               "sparse_embedding(), or another optimizer for this table",
                               name_, parameter_name(index), type_string(parameters_[index])),
                   loc.user());
}

void Optimizer::apply(std::span<const Tensor> gradients, std::span<const SparseRows> rows,
                      Loc loc) {
  const LocScope scope(loc);
  const NoGrad no_grad;
  step_tensor_.add_(1, loc);
  begin_step();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) {
      const Shape& shape = parameters_[i].shape();
      update(i,
             rows[i].defined() ? autograd::with_rows(gradients[i], rows[i], shape) : gradients[i],
             loc);
    } else if (rows[i].defined()) {
      update_rows(i, rows[i], loc);
    }
  }
}

Tensor Optimizer::minimize(const Tensor& loss, Loc loc) {
  if (!loss.is_symbolic()) {
    throw GraphError(fmt::format("{}::minimize takes a loss that is a value of a graph, inside "
                                 "Graph::define, found {}; in eager mode call loss.backward() and "
                                 "step()",
                                 name_, type_string(loss)),
                     loc.user());
  }
  auto* graph = dynamic_cast<GraphEvaluator*>(&Evaluator::current());
  if (!graph) {
    throw GraphError(fmt::format("{}::minimize outside of Graph::define: its updates are nodes of "
                                 "the graph that is being defined",
                                 name_),
                     loc.user());
  }
  // Each node of the gradients has the line of what it is the derivative of, the updates have ours.
  std::vector<SparseRows> rows;
  std::vector<Tensor> by = parameters_;
  if (auto* region = dynamic_cast<exec::RegionEvaluator*>(graph)) {  // one path of a host's branch
    for (Tensor& parameter : by) parameter = region->inside(parameter, loc);
  }
  const std::vector<Tensor> found = autograd::graph_gradients_by_rows(loss, by, rows, loc);
  const bool any = std::ranges::any_of(found, &Tensor::defined) ||
                   std::ranges::any_of(rows, &SparseRows::defined);
  if (!any) {
    throw GradError(
        fmt::format("{}::minimize: the loss {} depends on no parameter", name_, type_string(loss)),
        loc.user());
  }
  const LocScope scope(loc);
  apply(found, rows, loc);
  return graph->after_writes(loss, loc);
}

const Optimizer::Group& Optimizer::checked_group(std::size_t group, Loc loc) const {
  if (group < groups_.size()) return groups_[group];
  throw IndexError(
      fmt::format("{}: there is no group {}, found {} groups", name_, group, groups_.size()),
      loc.user());
}

void Optimizer::set_lr(double lr, Loc loc) {
  for (std::size_t g = 0; g < groups_.size(); ++g) set_group_lr(g, lr, loc);
}

void Optimizer::set_group_lr(std::size_t group, double lr, Loc loc) {
  static_cast<void>(checked_group(group, loc));
  Group& changed = groups_[group];
  require(lr >= 0 && std::isfinite(lr), "lr", "finite and at least 0", lr, loc);
  changed.lr = changed.base_lr = lr;
  const NoGrad no_grad;
  changed.lr_tensor.fill_(lr, loc);
}

void Optimizer::set_weight_decay(std::size_t group, double weight_decay, Loc loc) {
  static_cast<void>(checked_group(group, loc));
  Group& changed = groups_[group];
  require(weight_decay >= 0 && std::isfinite(weight_decay), "weight_decay", "finite and at least 0",
          weight_decay, loc);
  changed.weight_decay = weight_decay;
  const NoGrad no_grad;
  changed.decay_tensor.fill_(weight_decay, loc);
}

TensorDict Optimizer::state_dict() const {
  TensorDict state{{"step", step_tensor_}};
  for (const Kept& kept : kept_) state.add(name_of(kept), kept.tensor);
  return state;
}

void Optimizer::load_state_dict(const TensorDict& state, Loc loc) {
  nn::detail::load_state(state_dict(), state, {}, loc);
  for (Group& group : groups_) {
    group.lr = group.lr_tensor.item<double>(loc);
    group.weight_decay = group.decay_tensor.item<double>(loc);
  }
}

}  // namespace dyad::optim
