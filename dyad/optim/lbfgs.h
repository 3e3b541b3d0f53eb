#pragma once

#include <functional>

#include "dyad/optim/elementwise.h"

namespace dyad::optim {

struct LBFGSOptions {
  double lr = 1;
  std::int64_t max_iterations = 20;  ///< of one step
  std::int64_t max_evaluations = 0;  ///< of one step; 0: 5 / 4 of max_iterations
  double tolerance_gradient = 1e-7;  ///< enough when no element of the gradient is larger
  double tolerance_change = 1e-9;    ///< enough when loss or parameters change by less
  std::int64_t history = 100;        ///< steps that the curvature is estimated from
  bool strong_wolfe = false;         ///< search along each direction (Nocedal and Wright, 2006)
  double weight_decay = 0;           ///< added to the gradient
};

/// L-BFGS (Nocedal, 1980), by PyTorch's rules. Each step evaluates the loss several times, so it
/// takes a function that does: `optimizer.step([&] { optimizer.zero_grad(); Tensor loss = ...;
/// loss.backward(); return loss; })`. Its decisions are the host's: the function may be a compiled
/// one, the step itself is not compiled, and minimize() and step() without a function are errors.
/// One group of parameters of one dtype.
class LBFGS final : public detail::WithOptions<LBFGSOptions, Optimizer> {
 public:
  explicit LBFGS(const Parameters& parameters, const LBFGSOptions& options = {},
                 Loc loc = std::source_location::current());

  void add_param_group(const Group&, Loc = {}) = delete;

  /// Moves the parameters; gives the loss before. `loss` computes it and its gradients.
  Tensor step(const std::function<Tensor()>& loss, Loc loc = std::source_location::current());

 private:
  struct Point;
  struct Search;
  void check_options(const LBFGSOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  void update(std::size_t index, const Tensor& gradient, Loc loc) override;
  [[nodiscard]] Tensor flat_gradient();
  [[nodiscard]] Tensor flat_parameters() const;
  void set_parameters(const Tensor& flat);
  [[nodiscard]] Point evaluate(const std::function<Tensor()>& loss);
  [[nodiscard]] Point search(const std::function<Tensor()>& loss, const Tensor& from,
                             const Point& start, const Tensor& direction, double slope,
                             double& length, std::int64_t evaluations, std::int64_t& used);
  void remember(const Tensor& gradient);
  [[nodiscard]] Tensor direction_at(const Tensor& gradient) const;

  // State: the last changes of the gradient and of the parameters as rings of rows, and what the
  // last step ended with.
  Tensor changes_, steps_, direction_, last_gradient_;
  Tensor kept_, next_, iterations_, length_, scale_;
};

}  // namespace dyad::optim
