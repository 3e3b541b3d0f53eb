#include "dyad/optim/lbfgs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/nn/init.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/views.h"

namespace dyad::optim {
namespace {

double dot(const Tensor& a, const Tensor& b) { return sum(a * b).item<double>(); }
double largest(const Tensor& x) { return x.impl()->numel() == 0 ? 0 : max(abs(x)).item<double>(); }

/// Where the cubic through two points with these slopes is least, within the bounds.
double cubic_minimum(double x1, double f1, double g1, double x2, double f2, double g2, double low,
                     double high) {
  const double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2);
  const double square = d1 * d1 - g1 * g2;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double at = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
                             : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
  return std::min(std::max(at, low), high);
}

}  // namespace

/// The loss and its gradient somewhere; in a search also how far along, and the slope there.
struct LBFGS::Point {
  double loss = 0;
  Tensor gradient;
  double length = 0;
  double slope = 0;
};

LBFGS::LBFGS(const Parameters& parameters, const LBFGSOptions& options, Loc loc)
    : WithOptions("LBFGS", {{parameters, options}}, loc) {
  keep_all(loc);
}

void LBFGS::check_options(const LBFGSOptions& o, Loc loc) const {
  require(o.max_iterations >= 1, "max_iterations", "at least 1",
          static_cast<double>(o.max_iterations), loc);
  require(o.history >= 1, "history", "at least 1", static_cast<double>(o.history), loc);
  require_positive("tolerance_gradient", o.tolerance_gradient, loc);
  require_positive("tolerance_change", o.tolerance_change, loc);
}

void LBFGS::keep(std::size_t group, Loc loc) {
  Dim count = 0;
  for (const Tensor& p : parameters()) {
    if (p.dtype() != parameter(0).dtype()) {
      throw DTypeError(fmt::format("LBFGS: all parameters must have one dtype, found {} and {}",
                                   type_string(parameter(0)), type_string(p)),
                       loc.user());
    }
    count += p.numel();
  }
  const std::int64_t history = options(group).history;
  changes_ = add_state("changes", 0, {history, count}, 0, loc);
  steps_ = add_state("steps", 0, {history, count}, 0, loc);
  direction_ = add_state("direction", 0, {count}, 0, loc);
  last_gradient_ = add_state("last_gradient", 0, {count}, 0, loc);
  kept_ = add_number("kept", 0, 0, loc);
  next_ = add_number("next", 0, 0, loc);
  iterations_ = add_number("iterations", 0, 0, loc);
  length_ = add_number("length", 0, 0, loc);
  scale_ = add_number("scale", 0, 1, loc);
}

void LBFGS::update(std::size_t, const Tensor&, Loc loc) {
  throw GraphError(
      "LBFGS evaluates the loss as often as it needs, and decides by its value: call "
      "step([&] { ... return loss; }), outside of static graphs",
      loc.user());
}

Tensor LBFGS::flat_gradient() {
  std::vector<Tensor> parts;
  for (const Tensor& p : parameters()) {
    const Tensor g = p.grad();
    const Tensor part = g.defined() ? g : zeros(p.shape(), p.dtype());
    parts.push_back(reshape(part + p * weight_decay(), {-1}));
  }
  return concat(parts, 0);
}

Tensor LBFGS::flat_parameters() const {
  std::vector<Tensor> parts;
  for (const Tensor& p : parameters()) parts.push_back(reshape(p, {-1}));
  return concat(parts, 0);
}

void LBFGS::set_parameters(const Tensor& flat) {
  Dim at = 0;
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    Tensor& p = parameter(i);
    const Dim end = at + p.numel();
    p.copy_(reshape(slice(flat, 0, at, end), p.shape()));
    at = end;
  }
}

LBFGS::Point LBFGS::evaluate(const std::function<Tensor()>& loss) {
  Point point;
  {
    const GradMode recording(true);
    point.loss = loss().item<double>();
  }
  point.gradient = flat_gradient();
  return point;
}

void LBFGS::remember(const Tensor& gradient) {
  const Tensor change = gradient - last_gradient_, step = direction_ * length_.item<double>();
  const double product = dot(change, step);
  if (product > 1e-10) {
    const std::int64_t history = options(0).history, at = next_.item<std::int64_t>();
    changes_.select(0, at).copy_(change);
    steps_.select(0, at).copy_(step);
    next_.fill_(static_cast<double>((at + 1) % history));
    kept_.fill_(std::min(kept_.item<double>() + 1, static_cast<double>(history)));
    scale_.fill_(product / dot(change, change));
  }
}

Tensor LBFGS::direction_at(const Tensor& gradient) const {
  const std::int64_t history = options(0).history, kept = kept_.item<std::int64_t>();
  const std::int64_t newest = next_.item<std::int64_t>() + history - 1;
  std::vector<double> weights;
  Tensor q = neg(gradient);
  for (std::int64_t i = 0; i < kept; ++i) {
    const Tensor change = changes_.select(0, (newest - i) % history);
    const Tensor step = steps_.select(0, (newest - i) % history);
    weights.push_back(dot(step, q) / dot(change, step));
    q = q - change * weights.back();
  }
  q = q * scale_.item<double>();
  for (std::int64_t i = kept; i-- > 0;) {
    const Tensor change = changes_.select(0, (newest - i) % history);
    const Tensor step = steps_.select(0, (newest - i) % history);
    q = q + step * (weights[static_cast<std::size_t>(i)] - dot(change, q) / dot(change, step));
  }
  return q;
}

LBFGS::Point LBFGS::search(const std::function<Tensor()>& loss, const Tensor& from,
                           const Point& start, const Tensor& direction, double slope,
                           double& length, std::int64_t evaluations, std::int64_t& used) {
  constexpr double kDecrease = 1e-4, kCurvature = 0.9;
  const double tolerance = options(0).tolerance_change, reach = largest(direction);
  const auto at = [&](double t) {
    set_parameters(from + direction * t);
    Point point = evaluate(loss);
    ++used;
    point.length = t;
    point.slope = dot(point.gradient, direction);
    return point;
  };
  const auto falls_too_little = [&](const Point& p) {
    return p.loss > start.loss + kDecrease * p.length * slope;
  };

  Point origin = start;
  origin.length = 0;
  origin.slope = slope;
  Point previous = origin, now = at(length), low, high;
  bool found = false;
  std::int64_t round = 0;
  for (; round < evaluations; ++round) {
    const bool rises = falls_too_little(now) || (round > 1 && now.loss >= previous.loss);
    found = !rises && std::abs(now.slope) <= -kCurvature * slope;
    if (found || rises || now.slope >= 0) {
      low = found ? now : previous;
      high = now;
      break;
    }
    const double next = cubic_minimum(
        previous.length, previous.loss, previous.slope, now.length, now.loss, now.slope,
        now.length + 0.01 * (now.length - previous.length), now.length * 10);
    previous = now;
    now = at(next);
  }
  if (round == evaluations) {
    low = origin;
    high = now;
  }
  if (!found && !(low.loss <= high.loss)) std::swap(low, high);

  // The interval of low and high holds a good point: make it smaller.
  bool stuck = false;
  while (!found && round < evaluations) {
    if (std::abs(high.length - low.length) * reach < tolerance) break;
    const double left = std::min(low.length, high.length),
                 right = std::max(low.length, high.length);
    double t = cubic_minimum(low.length, low.loss, low.slope, high.length, high.loss, high.slope,
                             left, right);
    const double margin = 0.1 * (right - left);
    if (std::min(right - t, t - left) < margin) {
      if (stuck || t >= right || t <= left) {
        t = std::abs(t - right) < std::abs(t - left) ? right - margin : left + margin;
        stuck = false;
      } else {
        stuck = true;
      }
    } else {
      stuck = false;
    }
    Point tried = at(t);
    ++round;
    if (falls_too_little(tried) || tried.loss >= low.loss) {
      high = std::move(tried);
      if (!(low.loss <= high.loss)) std::swap(low, high);
      continue;
    }
    if (std::abs(tried.slope) <= -kCurvature * slope) {
      found = true;
    } else if (tried.slope * (high.length - low.length) >= 0) {
      high = low;
    }
    low = std::move(tried);
  }
  length = low.length;
  return low;
}

Tensor LBFGS::step(const std::function<Tensor()>& loss, Loc loc) {
  const LocScope scope(loc);
  const NoGrad no_grad;
  const LBFGSOptions& o = options(0);
  const std::int64_t limit = o.max_evaluations > 0 ? o.max_evaluations : o.max_iterations * 5 / 4;
  Tensor first;
  Point now = evaluate([&] { return first = loss(); });
  std::int64_t evaluations = 1;
  if (largest(now.gradient) <= o.tolerance_gradient) return first;
  for (std::int64_t iteration = 1; iteration <= o.max_iterations; ++iteration) {
    iterations_.add_(1);
    const bool very_first = iterations_.item<double>() == 1;
    if (very_first) {
      direction_.copy_(neg(now.gradient));
    } else {
      remember(now.gradient);
      direction_.copy_(direction_at(now.gradient));
    }
    last_gradient_.copy_(now.gradient);
    const double before = now.loss;
    double length = lr();
    if (very_first) length *= std::min(1.0, 1 / sum(abs(now.gradient)).item<double>());
    const double slope = dot(now.gradient, direction_);
    length_.fill_(length);
    if (slope > -o.tolerance_change) break;

    const Tensor from = flat_parameters();
    std::int64_t used = 0;
    if (o.strong_wolfe) {
      now = search(loss, from, now, direction_, slope, length, limit - evaluations, used);
      set_parameters(from + direction_ * length);
    } else {
      set_parameters(from + direction_ * length);
      if (iteration != o.max_iterations) {
        now = evaluate(loss);
        used = 1;
      }
    }
    length_.fill_(length);
    evaluations += used;
    if (iteration == o.max_iterations || evaluations >= limit ||
        largest(now.gradient) <= o.tolerance_gradient ||
        largest(direction_) * std::abs(length) <= o.tolerance_change ||
        std::abs(now.loss - before) < o.tolerance_change) {
      break;
    }
  }
  return first;
}

}  // namespace dyad::optim
