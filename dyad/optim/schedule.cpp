#include "dyad/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "dyad/base/error.h"
#include "dyad/core/evaluator.h"

namespace dyad::optim {
namespace {

void require_steps(std::string_view schedule, std::string_view name, std::int64_t steps, Loc loc,
                   std::int64_t least = 1) {
  if (steps < least) {
    throw ValueError(
        fmt::format("{}: {} must be at least {}, found {}", schedule, name, least, steps),
        loc.user());
  }
}

void require_rising(std::string_view schedule, const std::vector<std::int64_t>& milestones,
                    Loc loc) {
  for (std::size_t i = 1; i < milestones.size(); ++i) {
    if (milestones[i] <= milestones[i - 1]) {
      throw ValueError(fmt::format("{}: milestones must rise, found {} after {}", schedule,
                                   milestones[i], milestones[i - 1]),
                       loc.user());
    }
  }
}

double share(std::int64_t t, std::int64_t steps) {
  return static_cast<double>(std::min(t, steps)) / static_cast<double>(steps);
}

/// A recording would keep the rate of its call for all later ones.
void require_eager(std::string_view what, Loc loc) {
  if (Evaluator::is_eager()) return;
  throw GraphError(
      fmt::format("{} in a compiled function or a graph would happen once, when it is recorded: "
                  "call it outside, after the step, which sees the new learning rate",
                  what),
      loc.user());
}

/// From 1 to 0 as `done` goes from 0 to 1.
double half_cosine(double done) { return (1 + std::cos(std::numbers::pi * done)) / 2; }

}  // namespace

LrFactor step_decay(std::int64_t every, double gamma, Loc loc) {
  require_steps("step_decay", "every", every, loc);
  return [=](std::int64_t t) {
    const std::int64_t decays = t / every;
    return std::pow(gamma, static_cast<double>(decays));
  };
}

LrFactor multi_step_decay(std::vector<std::int64_t> milestones, double gamma, Loc loc) {
  require_rising("multi_step_decay", milestones, loc);
  return [milestones = std::move(milestones), gamma](std::int64_t t) {
    const auto reached = std::ranges::upper_bound(milestones, t) - milestones.begin();
    return std::pow(gamma, static_cast<double>(reached));
  };
}

LrFactor exponential_decay(double gamma) {
  return [=](std::int64_t t) { return std::pow(gamma, static_cast<double>(t)); };
}

LrFactor cosine_decay(std::int64_t steps, double last, Loc loc) {
  require_steps("cosine_decay", "steps", steps, loc);
  return [=](std::int64_t t) { return last + (1 - last) * half_cosine(share(t, steps)); };
}

LrFactor cosine_restarts(std::int64_t steps, std::int64_t growth, double last, Loc loc) {
  require_steps("cosine_restarts", "steps", steps, loc);
  require_steps("cosine_restarts", "growth", growth, loc);
  return [=](std::int64_t t) {
    std::int64_t period = steps;
    if (growth == 1) {
      t %= period;
    } else {
      for (; t >= period; period *= growth) t -= period;
    }
    return last + (1 - last) * half_cosine(share(t, period));
  };
}

LrFactor polynomial_decay(std::int64_t steps, double power, Loc loc) {
  require_steps("polynomial_decay", "steps", steps, loc);
  return [=](std::int64_t t) { return std::pow(1 - share(t, steps), power); };
}

LrFactor linear(std::int64_t steps, double first, double last, Loc loc) {
  require_steps("linear", "steps", steps, loc);
  return [=](std::int64_t t) { return first + (last - first) * share(t, steps); };
}

LrFactor linear_warmup(std::int64_t steps, double first, const LrFactor& next, Loc loc) {
  require_steps("linear_warmup", "steps", steps, loc);
  return [=](std::int64_t t) {
    if (t < steps) return first + (1 - first) * share(t, steps);
    return next ? next(t - steps) : 1.0;
  };
}

LrFactor inverse_sqrt_decay(std::int64_t steps, Loc loc) {
  require_steps("inverse_sqrt_decay", "steps", steps, loc);
  return [=](std::int64_t t) {
    return std::sqrt(static_cast<double>(steps) / static_cast<double>(std::max(t, steps)));
  };
}

LrFactor one_cycle(std::int64_t steps, const OneCycleOptions& options, Loc loc) {
  require_steps("one_cycle", "steps", steps, loc, 2);
  if (!(options.rise > 0 && options.rise < 1)) {
    throw ValueError(fmt::format("one_cycle: rise must be between 0 and 1, found {}", options.rise),
                     loc.user());
  }
  return [=](std::int64_t t) {
    const double top = options.rise * static_cast<double>(steps) - 1,
                 end = static_cast<double>(steps - 1);
    const double at = std::min(static_cast<double>(t), end);
    const auto between = [&](double from, double to, double done) {
      return options.linear ? from + (to - from) * done : to + (from - to) * half_cosine(done);
    };
    if (at <= top && top > 0) return between(options.first, 1, at / top);
    return between(1, options.last, (at - top) / (end - top));
  };
}

LrFactor sequential(std::vector<LrFactor> factors, std::vector<std::int64_t> milestones, Loc loc) {
  require_rising("sequential", milestones, loc);
  if (factors.size() != milestones.size() + 1) {
    throw ValueError(fmt::format("sequential: one more factor than milestones is needed, found {} "
                                 "factors and {} milestones",
                                 factors.size(), milestones.size()),
                     loc.user());
  }
  return [factors = std::move(factors), milestones = std::move(milestones)](std::int64_t t) {
    const auto reached =
        static_cast<std::size_t>(std::ranges::upper_bound(milestones, t) - milestones.begin());
    return factors[reached](reached == 0 ? t : t - milestones[reached - 1]);
  };
}

Schedule::Schedule(Optimizer& optimizer, LrFactor factor, Loc loc)
    : optimizer_(&optimizer), factor_(std::move(factor)) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) base_.push_back(optimizer.base_lr(g));
  set_position(0, loc);
}

void Schedule::set_position(std::int64_t t, Loc loc) {
  require_eager("Schedule: a step", loc);
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  if (t < 0 || t == kEnd) {
    throw ValueError(
        fmt::format("Schedule: the position must be from 0 to {}, found {}", kEnd - 1, t),
        loc.user());
  }
  position_ = t;
  const double factor = factor_(t);
  for (std::size_t g = 0; g < base_.size(); ++g) {
    optimizer_->set_group_lr(g, base_[g] * factor, loc);
  }
}

ReduceOnPlateau::ReduceOnPlateau(Optimizer& optimizer, const ReduceOnPlateauOptions& options,
                                 Loc loc)
    : optimizer_(&optimizer),
      options_(options),
      state_{.best = options.larger_is_better ? -std::numeric_limits<double>::infinity()
                                              : std::numeric_limits<double>::infinity()} {
  if (!(options.factor > 0 && options.factor < 1)) {
    throw ValueError(
        fmt::format("ReduceOnPlateau: factor must be between 0 and 1, found {}", options.factor),
        loc.user());
  }
  require_steps("ReduceOnPlateau", "patience", options.patience, loc, 0);
  require_steps("ReduceOnPlateau", "cooldown", options.cooldown, loc, 0);
}

bool ReduceOnPlateau::is_better(double measure) const noexcept {
  const double sign = options_.larger_is_better ? 1 : -1;
  const double least = options_.relative ? state_.best * (1 + sign * options_.threshold)
                                         : state_.best + sign * options_.threshold;
  return options_.larger_is_better ? measure > least : measure < least;
}

void ReduceOnPlateau::step(double measure, Loc loc) {
  require_eager("ReduceOnPlateau: a step", loc);
  if (is_better(measure)) {
    state_.best = measure;
    state_.waited = 0;
  } else {
    ++state_.waited;
  }
  if (state_.cooling > 0) {
    --state_.cooling;
    state_.waited = 0;
  }
  if (state_.waited <= options_.patience) return;
  for (std::size_t g = 0; g < optimizer_->group_count(); ++g) {
    const double lr = optimizer_->lr(g);
    optimizer_->set_group_lr(g, std::min(lr, std::max(lr * options_.factor, options_.min_lr)), loc);
  }
  state_.cooling = options_.cooldown;
  state_.waited = 0;
}

}  // namespace dyad::optim
