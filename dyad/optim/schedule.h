#pragma once

#include <cstdint>
#include <functional>

#include "dyad/optim/optimizer.h"

namespace dyad::optim {

/// What the learning rate is multiplied with at step t = 0, 1, ...
using LrFactor = std::function<double(std::int64_t t)>;

/// gamma^(t / every): falls after each `every` steps. ValueError for every < 1.
[[nodiscard]] LrFactor step_decay(std::int64_t every, double gamma = 0.1,
                                  Loc loc = std::source_location::current());
/// gamma^t
[[nodiscard]] LrFactor exponential_decay(double gamma);
/// From 1 to `last` along half a cosine over `steps` steps, then `last` (Loshchilov and Hutter,
/// 2017). ValueError for steps < 1.
[[nodiscard]] LrFactor cosine_decay(std::int64_t steps, double last = 0,
                                    Loc loc = std::source_location::current());
/// Rises evenly from `first` to 1 over `steps` steps, then goes on as `next` from its t = 0 (1 when
/// empty). ValueError for steps < 1.
[[nodiscard]] LrFactor linear_warmup(std::int64_t steps, double first = 0, LrFactor next = {},
                                     Loc loc = std::source_location::current());

/// Sets an optimizer's learning rate: call step() after each of the optimizer's steps (or each
/// epoch).
class Schedule {
 public:
  /// Scales the optimizer's learning rate of now, and sets it for t = 0. The optimizer must outlive
  /// the schedule.
  Schedule(Optimizer& optimizer, LrFactor factor, Loc loc = std::source_location::current());

  /// Goes on to the next t.
  void step(Loc loc = std::source_location::current()) { set_position(position_ + 1, loc); }
  /// t: saved and restored, the schedule goes on.
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }
  void set_position(std::int64_t t, Loc loc = std::source_location::current());

 private:
  Optimizer* optimizer_;
  LrFactor factor_;
  double base_;
  std::int64_t position_ = 0;
};

}  // namespace dyad::optim
