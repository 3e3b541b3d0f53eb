#include "dyad/optim/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/nn/init.h"
#include "dyad/nn/module.h"

namespace dyad::optim {

Optimizer::Optimizer(std::string name, std::vector<Tensor> parameters, double lr, Loc loc)
    : name_(std::move(name)), parameters_(std::move(parameters)), lr_(lr) {
  if (parameters_.empty()) {
    throw ValueError(fmt::format("{}: there are no parameters to optimize; pass "
                                 "nn::parameters(model)",
                                 name_),
                     loc.user());
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    if (!parameter.defined() || !parameter.is_concrete() || !parameter.is_leaf() ||
        !is_floating(parameter.dtype())) {
      throw ValueError(
          fmt::format("{}: parameter {} must be a floating leaf with data, found {}", name_, i,
                      parameter.defined() ? type_string(parameter) : "an undefined tensor"),
          loc.user());
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (parameters_[j].is_same(parameter)) {
        throw ValueError(fmt::format("{}: parameters {} and {} are the same tensor", name_, j, i),
                         loc.user());
      }
    }
  }
  require(lr >= 0 && std::isfinite(lr), "lr", "finite and at least 0", lr, loc);
  lr_tensor_ = nn::init::full({}, lr, f32, loc);
  step_tensor_ = nn::init::full({}, 0, f32, loc);
  state_.add("lr", lr_tensor_);
  state_.add("step", step_tensor_);
}

Optimizer::~Optimizer() = default;

void Optimizer::require(bool good, std::string_view argument, std::string_view rule, double found,
                        Loc loc) const {
  if (good) return;
  throw ValueError(fmt::format("{}: {} must be {}, found {}", name_, argument, rule, found),
                   loc.user());
}

std::vector<Tensor> Optimizer::add_state(const std::string& name, Loc loc) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    tensors.push_back(nn::init::full(parameters_[i].shape(), 0, parameters_[i].dtype(), loc));
    state_.add(fmt::format("{}.{}", name, i), tensors.back());
  }
  return tensors;
}

void Optimizer::step(Loc loc) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
  apply(gradients, loc);
}

void Optimizer::zero_grad() {
  for (const Tensor& parameter : parameters_) parameter.zero_grad();
}

void Optimizer::apply(std::span<const Tensor> gradients, Loc loc) {
  const LocScope scope(loc);
  const NoGrad no_grad;
  step_tensor_.add_(1, loc);
  begin_step(loc);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) update(i, gradients[i], loc);
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
  const std::vector<Tensor> found = gradients(loss, parameters_, loc);
  const LocScope scope(loc);
  apply(found, loc);
  return graph->after_writes(loss, loc);
}

void Optimizer::set_lr(double lr, Loc loc) {
  require(lr >= 0 && std::isfinite(lr), "lr", "finite and at least 0", lr, loc);
  lr_ = lr;
  const NoGrad no_grad;
  lr_tensor_.fill_(lr, loc);
}

TensorDict Optimizer::state_dict() const { return state_; }

void Optimizer::load_state_dict(const TensorDict& state, Loc loc) {
  nn::detail::load_state(state_, state, {}, loc);
  lr_ = lr_tensor_.item<double>(loc);
}

}  // namespace dyad::optim
