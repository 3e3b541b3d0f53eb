#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/exec/eager.h"
#include "dyad/nn/init.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/decompositions.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/random.h"
#include "dyad/ops/special.h"
#include "dyad/ops/views.h"

namespace dyad::nn::init {
namespace {

/// Overwrites `x` with what `make` computes, eagerly and apart from the tape.
template <class F>
Tensor& filled(Tensor& x, Loc loc, F&& make) {
  const LocScope scope(loc);
  const Evaluator::Scope eager(EagerEvaluator::instance());
  const NoGrad no_grad;
  return x.copy_(make());
}

/// What random numbers are drawn in.
DType drawn(const Tensor& x) { return x.dtype() == f64 ? f64 : f32; }

void require_matrix(std::string_view name, const Tensor& x, Loc loc) {
  if (x.rank() == 2) return;
  throw ShapeError(fmt::format("{}: a matrix is needed, found {}", name, type_string(x)),
                   loc.user());
}

void require(bool good, std::string_view rule, double found, Loc loc) {
  if (!good) throw ValueError(fmt::format("{}, found {}", rule, found), loc.user());
}

}  // namespace

Tensor& uniform_(Tensor& x, double low, double high, Loc loc) {
  return filled(x, loc, [&] { return dyad::uniform(x.shape(), low, high, drawn(x)); });
}

Tensor& normal_(Tensor& x, double mean, double std, Loc loc) {
  return filled(x, loc, [&] { return dyad::normal(x.shape(), mean, std, drawn(x)); });
}

Tensor& truncated_normal_(Tensor& x, double mean, double std, double low, double high, Loc loc) {
  require(std > 0, "truncated_normal_: std must be above 0", std, loc);
  require(low < high, "truncated_normal_: low must be below high", low, loc);
  // The distribution function's values at the bounds, between which even numbers are drawn.
  const auto below = [&](double bound) {
    return std::erf((bound - mean) / (std * std::numbers::sqrt2));
  };
  return filled(x, loc, [&] {
    const Tensor even = dyad::uniform(x.shape(), below(low), below(high), drawn(x));
    return clamp(erfinv(even) * (std * std::numbers::sqrt2) + mean, low, high);
  });
}

Tensor& constant_(Tensor& x, double value, Loc loc) {
  return filled(x, loc, [&] { return dyad::full(x.shape(), value, x.dtype()); });
}
Tensor& ones_(Tensor& x, Loc loc) { return constant_(x, 1, loc); }
Tensor& zeros_(Tensor& x, Loc loc) { return constant_(x, 0, loc); }

Tensor& eye_(Tensor& x, Loc loc) {
  require_matrix("eye_", x, loc);
  zeros_(x, loc);
  const std::int64_t count = std::min(x.shape()[0].number(), x.shape()[1].number());
  const NoGrad no_grad;
  for (std::int64_t i = 0; i < count; ++i) x.select(0, i).select(0, i).fill_(1, loc);
  return x;
}

Tensor& dirac_(Tensor& x, std::int64_t groups, Loc loc) {
  if (x.rank() < 3 || x.rank() > 5) {
    throw ShapeError(
        fmt::format("dirac_: the weight of a convolution is needed, found {}", type_string(x)),
        loc.user());
  }
  const std::int64_t out = x.shape()[0].number(), in = x.shape()[1].number();
  require(groups >= 1 && out % groups == 0, "dirac_: groups must divide the first size",
          static_cast<double>(groups), loc);
  zeros_(x, loc);
  const NoGrad no_grad;
  const std::int64_t each = out / groups;
  for (std::int64_t i = 0; i < out; ++i) {
    if (i % each >= in) continue;
    Tensor at = x.select(0, i).select(0, i % each);
    while (at.rank() > 0) at = at.select(0, at.shape()[0].number() / 2);
    at.fill_(1, loc);
  }
  return x;
}

Tensor& sparse_(Tensor& x, double sparsity, double std, Loc loc) {
  require_matrix("sparse_", x, loc);
  require(sparsity >= 0 && sparsity <= 1, "sparse_: sparsity must be from 0 to 1", sparsity, loc);
  const std::int64_t rows = x.shape()[0].number(), columns = x.shape()[1].number();
  return filled(x, loc, [&] {
    const auto keys = dyad::uniform({columns, rows}, 0, 1, f64).to_vector<double>();
    Tensor mask = ones({rows, columns}, drawn(x));
    const auto zeros = static_cast<std::int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
    for (std::int64_t c = 0; c < columns; ++c) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
      std::iota(order.begin(), order.end(), std::int64_t{0});
      std::ranges::stable_sort(
          order, {}, [&](std::int64_t r) { return keys[static_cast<std::size_t>(c * rows + r)]; });
      for (std::int64_t i = 0; i < zeros; ++i) {
        mask.select(0, order[static_cast<std::size_t>(i)]).select(0, c).fill_(0);
      }
    }
    return mask * dyad::normal(x.shape(), 0, std, drawn(x));
  });
}

Tensor& orthogonal_(Tensor& x, double gain, Loc loc) {
  if (x.rank() < 2) {
    throw ShapeError(
        fmt::format("orthogonal_: at least two axes are needed, found {}", type_string(x)),
        loc.user());
  }
  return filled(x, loc, [&] {
    const std::int64_t rows = x.shape()[0].number();
    const std::int64_t columns = rows == 0 ? 0 : x.shape().numel().number() / rows;
    const bool wide = rows < columns;
    const Tensor random = dyad::normal({wide ? columns : rows, wide ? rows : columns}, 0, 1, f64);
    // With no negative number on the diagonal of R, Q is evenly distributed (Mezzadri, 2007).
    const Tensor q = qr(random).q;
    return reshape((wide ? q.t() : q) * gain, x.shape()).to(drawn(x));
  });
}

Fan fan_of(const Tensor& weight, Loc loc) {
  if (weight.rank() < 2) {
    throw ShapeError(fmt::format("a weight of at least two axes [out, in, ...] is needed, found {}",
                                 type_string(weight)),
                     loc.user());
  }
  std::int64_t kernel = 1;
  for (std::size_t i = 2; i < weight.shape().size(); ++i) kernel *= weight.shape()[i].number();
  return {.in = weight.shape()[1].number() * kernel, .out = weight.shape()[0].number() * kernel};
}

double gain_of(std::string_view nonlinearity, double slope, Loc loc) {
  if (nonlinearity == "linear" || nonlinearity == "sigmoid" || nonlinearity.starts_with("conv")) {
    return 1;
  }
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::numbers::sqrt2;
  if (nonlinearity == "leaky_relu") return std::sqrt(2 / (1 + slope * slope));
  if (nonlinearity == "selu") return 0.75;
  throw ValueError(
      fmt::format("gain_of: '{}' is none of linear, sigmoid, tanh, relu, leaky_relu, selu",
                  nonlinearity),
      loc.user());
}

Tensor& xavier_uniform_(Tensor& x, double gain, Loc loc) {
  const Fan fan = fan_of(x, loc);
  const double bound = gain * std::sqrt(6.0 / static_cast<double>(fan.in + fan.out));
  return uniform_(x, -bound, bound, loc);
}

Tensor& xavier_normal_(Tensor& x, double gain, Loc loc) {
  const Fan fan = fan_of(x, loc);
  return normal_(x, 0, gain * std::sqrt(2.0 / static_cast<double>(fan.in + fan.out)), loc);
}

namespace {

double kaiming_std(const Tensor& x, const KaimingOptions& options, Loc loc) {
  const Fan fan = fan_of(x, loc);
  const auto count = static_cast<double>(options.fan == FanMode::in ? fan.in : fan.out);
  return gain_of(options.nonlinearity, options.slope, loc) / std::sqrt(count);
}

}  // namespace

Tensor& kaiming_uniform_(Tensor& x, const KaimingOptions& options, Loc loc) {
  const double bound = std::sqrt(3.0) * kaiming_std(x, options, loc);
  return uniform_(x, -bound, bound, loc);
}

Tensor& kaiming_normal_(Tensor& x, const KaimingOptions& options, Loc loc) {
  return normal_(x, 0, kaiming_std(x, options, loc), loc);
}

}  // namespace dyad::nn::init
