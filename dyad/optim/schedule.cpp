#include "dyad/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "dyad/base/error.h"

namespace dyad::optim {
namespace {

void require_steps(std::string_view schedule, std::string_view name, std::int64_t steps, Loc loc) {
  if (steps < 1) {
    throw ValueError(fmt::format("{}: {} must be at least 1, found {}", schedule, name, steps),
                     loc.user());
  }
}

}  // namespace

LrFactor step_decay(std::int64_t every, double gamma, Loc loc) {
  require_steps("step_decay", "every", every, loc);
  return [=](std::int64_t t) { return std::pow(gamma, static_cast<double>(t / every)); };
}

LrFactor exponential_decay(double gamma) {
  return [=](std::int64_t t) { return std::pow(gamma, static_cast<double>(t)); };
}

LrFactor cosine_decay(std::int64_t steps, double last, Loc loc) {
  require_steps("cosine_decay", "steps", steps, loc);
  return [=](std::int64_t t) {
    const double done = static_cast<double>(std::min(t, steps)) / static_cast<double>(steps);
    return last + (1 - last) * (1 + std::cos(std::numbers::pi * done)) / 2;
  };
}

LrFactor linear_warmup(std::int64_t steps, double first, LrFactor next, Loc loc) {
  require_steps("linear_warmup", "steps", steps, loc);
  return [=](std::int64_t t) {
    if (t < steps) {
      return first + (1 - first) * static_cast<double>(t) / static_cast<double>(steps);
    }
    return next ? next(t - steps) : 1.0;
  };
}

Schedule::Schedule(Optimizer& optimizer, LrFactor factor, Loc loc)
    : optimizer_(&optimizer), factor_(std::move(factor)), base_(optimizer.lr()) {
  set_position(0, loc);
}

void Schedule::set_position(std::int64_t t, Loc loc) {
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  if (t < 0 || t == kEnd) {
    throw ValueError(
        fmt::format("Schedule: the position must be from 0 to {}, found {}", kEnd - 1, t),
        loc.user());
  }
  position_ = t;
  optimizer_->set_lr(base_ * factor_(t), loc);
}

}  // namespace dyad::optim
