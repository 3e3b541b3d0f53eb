#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dyad/optim/optimizer.h"

namespace dyad::optim {

/// What the learning rate is multiplied with at step t = 0, 1, ...
using LrFactor = std::function<double(std::int64_t t)>;

/// gamma^(t / every): falls after each `every` steps. ValueError for every < 1.
[[nodiscard]] LrFactor step_decay(std::int64_t every, double gamma = 0.1,
                                  Loc loc = std::source_location::current());
/// gamma^(how many of the milestones t has reached). ValueError unless they rise.
[[nodiscard]] LrFactor multi_step_decay(std::vector<std::int64_t> milestones, double gamma = 0.1,
                                        Loc loc = std::source_location::current());
/// gamma^t
[[nodiscard]] LrFactor exponential_decay(double gamma);
/// From 1 to `last` along half a cosine over `steps` steps, then `last` (Loshchilov and Hutter,
/// 2017). ValueError for steps < 1.
[[nodiscard]] LrFactor cosine_decay(std::int64_t steps, double last = 0,
                                    Loc loc = std::source_location::current());
/// cosine_decay again and again (warm restarts): over `steps` steps, then `growth` times as many...
/// ValueError for steps or growth < 1.
[[nodiscard]] LrFactor cosine_restarts(std::int64_t steps, std::int64_t growth = 1, double last = 0,
                                       Loc loc = std::source_location::current());
/// (1 - t / steps)^power, 0 after `steps` steps. ValueError for steps < 1.
[[nodiscard]] LrFactor polynomial_decay(std::int64_t steps, double power = 1,
                                        Loc loc = std::source_location::current());
/// Evenly from `first` to `last` over `steps` steps, then `last`. ValueError for steps < 1.
[[nodiscard]] LrFactor linear(std::int64_t steps, double first, double last,
                              Loc loc = std::source_location::current());
/// Rises evenly from `first` to 1 over `steps` steps, then goes on as `next` from its t = 0 (1 when
/// empty). ValueError for steps < 1.
[[nodiscard]] LrFactor linear_warmup(std::int64_t steps, double first = 0,
                                     const LrFactor& next = {},
                                     Loc loc = std::source_location::current());
/// sqrt(steps / max(t, steps)): what follows a warm-up of as many steps in transformers (Vaswani et
/// al., 2017, up to a factor). ValueError for steps < 1.
[[nodiscard]] LrFactor inverse_sqrt_decay(std::int64_t steps,
                                          Loc loc = std::source_location::current());

struct OneCycleOptions {
  double rise = 0.3;         ///< share of the steps in which the rate rises
  double first = 1 / 25.0;   ///< what it begins with
  double last = 1 / 25.0e4;  ///< and ends with
  bool linear = false;       ///< straight lines instead of half cosines
};
/// From `first` up to 1 and down to `last` over `steps` steps (Smith and Topin, 2019), as PyTorch's
/// OneCycleLR in two phases, with the optimizer's rate as the highest; momenta stay. ValueError for
/// steps < 2 or a rise that is not between 0 and 1.
[[nodiscard]] LrFactor one_cycle(std::int64_t steps, const OneCycleOptions& options = {},
                                 Loc loc = std::source_location::current());
/// One factor after another: the i-th from milestone i - 1 on (the first from 0), counted from
/// there. ValueError unless there is one more than milestones and these rise.
[[nodiscard]] LrFactor sequential(std::vector<LrFactor> factors,
                                  std::vector<std::int64_t> milestones,
                                  Loc loc = std::source_location::current());

/// Sets an optimizer's learning rates: call step() after each of the optimizer's steps (or each
/// epoch). A compiled step sees the new rate; step() itself stands outside (GraphError inside,
/// where it would happen only when the function is recorded).
class Schedule {
 public:
  /// Scales the learning rates of all groups as they are now (those before the state, of an
  /// optimizer whose state was just loaded: Optimizer::base_lr), and sets them for t = 0. The
  /// optimizer must outlive the schedule.
  Schedule(Optimizer& optimizer, LrFactor factor, Loc loc = std::source_location::current());

  /// Goes on to the next t.
  void step(Loc loc = std::source_location::current()) { set_position(position_ + 1, loc); }
  /// t: saved and restored, the schedule goes on.
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }
  void set_position(std::int64_t t, Loc loc = std::source_location::current());

 private:
  Optimizer* optimizer_;
  LrFactor factor_;
  std::vector<double> base_;
  std::int64_t position_ = 0;
};

struct ReduceOnPlateauOptions {
  double factor = 0.1;
  std::int64_t patience = 10;  ///< calls without progress that are borne
  double threshold = 1e-4;     ///< least progress that counts
  bool relative = true;        ///< as a share of the best value, or as a difference
  bool larger_is_better = false;
  std::int64_t cooldown = 0;  ///< calls after a reduction that are not counted
  double min_lr = 0;
};

/// Multiplies the learning rates of an optimizer by a factor when a measure (the loss of an epoch)
/// has stopped to improve, as PyTorch's ReduceLROnPlateau.
class ReduceOnPlateau {
 public:
  explicit ReduceOnPlateau(Optimizer& optimizer, const ReduceOnPlateauOptions& options = {},
                           Loc loc = std::source_location::current());

  /// Takes the measure of one more epoch.
  void step(double measure, Loc loc = std::source_location::current());

  /// What is saved and restored: the best measure, calls without progress, calls still to cool.
  struct State {
    double best;
    std::int64_t waited = 0, cooling = 0;
  };
  [[nodiscard]] const State& state() const noexcept { return state_; }
  void set_state(const State& state) noexcept { state_ = state; }

 private:
  [[nodiscard]] bool is_better(double measure) const noexcept;
  Optimizer* optimizer_;
  ReduceOnPlateauOptions options_;
  State state_;
};

}  // namespace dyad::optim
