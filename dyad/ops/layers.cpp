#include "dyad/ops/layers.h"

#include <cmath>

#include "dyad/ir/literal.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/einsum.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/random.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

void require_probability(const char* function, const Tensor& x, double p, Loc loc) {
  if (p >= 0 && p <= 1) return;
  throw ValueError(std::string(function) + "(" + type_string(x) + ", p = " + number_text(p) +
                       "): p must be from 0 to 1",
                   loc.user());
}

/// [n, c, 1, ...]: the shape of a number for each channel.
Shape channels_of(const char* function, const Tensor& x, Loc loc) {
  if (x.rank() < 2) {
    throw ShapeError(std::string(function) + "(" + type_string(x) +
                         "): x must be [samples, channels, ...]; unsqueeze(x, 0) adds an axis",
                     loc.user());
  }
  Shape shape = ops::sizes_of(x, loc);
  for (std::size_t i = 2; i < static_cast<std::size_t>(shape.rank()); ++i) shape[i] = 1;
  return shape;
}

/// alpha_dropout() with one draw for each element of `drawn`.
Tensor alpha_dropped(const Tensor& x, Shape drawn, double p, Loc loc) {
  if (p == 1) return x * 0;
  constexpr double kLowest = -1.7580993408473766;  // selu(-infinity)
  const double scale = 1 / std::sqrt((1 - p) * (1 + p * kLowest * kLowest));
  const Tensor keep = uniform(std::move(drawn), 0, 1, f32, loc) >= p;
  return where(keep, x, kLowest) * scale - scale * p * kLowest;
}

}  // namespace

Tensor channel_shuffle(const Tensor& x, std::int64_t groups, Loc loc) {
  const auto fail = [&](const char* rule) {
    throw ShapeError(
        "channel_shuffle(" + type_string(x) + ", groups = " + std::to_string(groups) + "): " + rule,
        loc.user());
  };
  if (x.rank() < 2) fail("x must be [samples, channels, ...]");
  const Dim channels = x.size(1, loc);
  if (groups < 1 || ops::leaves_rest(channels, groups)) {
    fail("groups must be at least 1 and divide the channels");
  }
  const LocScope scope(loc);
  const Shape sizes = ops::sizes_of(x);
  Shape split = sizes;
  split[1] = groups;
  split.insert(2, channels / groups);
  return reshape(transpose(reshape(x, split), 1, 2), sizes);
}

Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias,
                Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias) {
        const Tensor made = einsum("...i,oij,...j->...o", {a, weight, b}, loc);
        return bias.defined() ? made + bias : made;
      },
      a, b, weight, bias);
}
Tensor softmin(const Tensor& x, std::int64_t axis, Loc loc) {
  return softmax(neg(x, loc), axis, loc);
}
Tensor threshold(const Tensor& x, double threshold, double value, Loc loc) {
  return where(le(x, threshold, loc), value, x, loc);
}

Tensor rrelu(const Tensor& x, double low, double high, bool training, Loc loc) {
  if (!(low <= high)) {
    throw ValueError("rrelu(" + type_string(x) + ", low = " + number_text(low) +
                         ", high = " + number_text(high) + "): low must not be above high",
                     loc.user());
  }
  if (!training) return leaky_relu(x, (low + high) / 2, loc);
  const LocScope scope(loc);
  const Tensor slopes = uniform(ops::sizes_of(x), low, high, x.dtype(), loc);
  return where(x >= 0, x, x * slopes);
}
Tensor feature_dropout(const Tensor& x, double p, bool training, Loc loc) {
  require_probability("feature_dropout", x, p, loc);
  const Shape channels = channels_of("feature_dropout", x, loc);
  if (!training || p == 0) return x;
  const LocScope scope(loc);
  return x * dropout(full(channels, 1, x.dtype()), p, true, loc);
}
Tensor alpha_dropout(const Tensor& x, double p, bool training, Loc loc) {
  require_probability("alpha_dropout", x, p, loc);
  if (!training || p == 0) return x;
  const LocScope scope(loc);
  return alpha_dropped(x, ops::sizes_of(x), p, loc);
}
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Loc loc) {
  require_probability("feature_alpha_dropout", x, p, loc);
  const Shape channels = channels_of("feature_alpha_dropout", x, loc);
  if (!training || p == 0) return x;
  const LocScope scope(loc);
  return alpha_dropped(x, channels, p, loc);
}

}  // namespace dyad
