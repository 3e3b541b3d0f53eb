#include "dyad/passes/written_norms.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "dyad/ir/op_info.h"
#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/peephole.h"

namespace dyad::passes {
namespace {

/// What is reduced over which axes.
struct Reduced {
  Value x;
  Ints axes;
  bool is_finite = false;  ///< 0 stands in the place of infinities and NaN
  [[nodiscard]] bool operator==(const Reduced&) const = default;
};
using MaybeReduced = std::optional<Reduced>;

/// The value before those that name its sizes otherwise.
Value before_reshapes(Value v) {
  while (only_names_sizes(*v.node)) v = v.node->inputs()[0];
  return v;
}

/// The reduction `op` that gives the elements of v.
MaybeReduced reduced_by(std::string_view op, Value v) {
  const Node& node = *before_reshapes(v).node;
  if (!node.is(op)) return {};
  const Value x = node.inputs()[0];
  return Reduced{x, node.op().reduced_axes(node.attrs().data(), x.type().rank())};
}

/// Whether v meets each element of what is reduced as the element's own result.
bool spreads(Value v, const Reduced& r) {
  const Shape &small = v.type().shape(), &large = r.x.type().shape();
  const int lead = large.rank() - small.rank();
  if (lead < 0) return false;
  for (int axis = 0; axis < large.rank(); ++axis) {
    const Dim size = axis < lead ? Dim(1) : small[static_cast<std::size_t>(axis - lead)];
    const bool is_reduced = std::ranges::find(r.axes, axis) != r.axes.end();
    if (!size.same_as(is_reduced ? Dim(1) : large[static_cast<std::size_t>(axis)])) return false;
  }
  return true;
}

// --- softmax -------------------------------------------------------------------------------------

/// The largest elements, or 0 where those are not finite.
MaybeReduced largest(Value v) {
  const Node& node = *before_reshapes(v).node;
  if (!node.is("where")) return reduced_by("max", v);
  const auto in = node.inputs();
  if (!in[0].node->is("isfinite") || in[0].node->inputs()[0] != in[1] || number_of(in[2]) != 0.0)
    return {};
  MaybeReduced found = reduced_by("max", in[1]);
  if (found) found->is_finite = true;
  return found;
}

/// `x - max(x)`.
MaybeReduced below_largest(Value v) {
  if (!v.node->is("sub")) return {};
  const auto in = v.node->inputs();
  MaybeReduced found = largest(in[1]);
  return found && found->x == in[0] && spreads(in[1], *found) ? found : MaybeReduced();
}

/// `exp(x - max(x))`.
MaybeReduced power(Value v) {
  return v.node->is("exp") ? below_largest(v.node->inputs()[0]) : MaybeReduced();
}

/// `sum(exp(x - max(x)))`, both over one axis.
MaybeReduced sum_of_powers(Value v) {
  const MaybeReduced sum = reduced_by("sum", v);
  if (!sum || sum->axes.size() != 1) return {};
  MaybeReduced found = power(sum->x);
  return found && found->axes == sum->axes ? found : MaybeReduced();
}

/// `log(sum(exp(x - max(x))))`.
MaybeReduced log_of_sum(Value v) {
  const Node& node = *before_reshapes(v).node;
  return node.is("log") ? sum_of_powers(node.inputs()[0]) : MaybeReduced();
}

/// `log(sum(exp(x - max(x)))) + max(x)`.
MaybeReduced log_sum_exp(Value v) {
  const Node& node = *before_reshapes(v).node;
  if (!node.is("add")) return {};
  const auto in = node.inputs();
  if (!in[0].type().same_as(in[1].type())) return {};
  for (const std::size_t i : {0u, 1u}) {
    MaybeReduced found = log_of_sum(in[i]);
    if (found && largest(in[1 - i]) == found) return found;
  }
  return {};
}

WrittenNorm along(NormKind kind, const Reduced& r) {
  return {.kind = kind, .x = r.x, .axes = r.axes};
}

/// y where v has the elements of `1 / y`.
Value inverted(Value v) {
  const Node& node = *before_reshapes(v).node;
  return node.is("div") && number_of(node.inputs()[0]) == 1.0 ? node.inputs()[1] : Value();
}

std::optional<WrittenNorm> softmax_at(const Node& node) {
  const bool divides = node.is("div");
  if (!divides && !node.is("mul")) return {};
  const auto in = node.inputs();
  for (const std::size_t i : {0u, 1u}) {
    const Value other = in[1 - i], below = divides ? other : inverted(other);
    const MaybeReduced e = power(in[i]), sum = below ? sum_of_powers(below) : MaybeReduced();
    if (e && e == sum && spreads(other, *sum)) return along(NormKind::softmax, *e);
    if (divides) break;
  }
  return {};
}

std::optional<WrittenNorm> log_softmax_at(const Node& node) {
  const auto in = node.inputs();
  if (node.is("log")) {
    const Node& inner = *in[0].node;
    if (inner.is("softmax")) {
      const Value x = inner.inputs()[0];
      return along(NormKind::log_softmax, {x, {*int_attr(inner, "axis")}});
    }
    auto found = softmax_at(inner);
    if (found) found->kind = NormKind::log_softmax;
    return found;
  }
  if (!node.is("sub")) return {};
  if (const auto sum = log_of_sum(in[1]); sum && below_largest(in[0]) == sum) {
    return spreads(in[1], *sum) ? std::optional(along(NormKind::log_softmax, *sum)) : std::nullopt;
  }
  const auto sum = log_sum_exp(in[1]);
  if (!sum || sum->x != in[0] || !spreads(in[1], *sum)) return {};
  return along(NormKind::log_softmax, *sum);
}

// --- over the last axes --------------------------------------------------------------------------

bool are_last(const Ints& axes, int rank) {
  const int first = rank - static_cast<int>(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != first + static_cast<int>(i)) return false;
  }
  return !axes.empty();
}

/// `x - mean(x)`.
MaybeReduced centered(Value v) {
  if (!v.node->is("sub")) return {};
  const auto in = v.node->inputs();
  MaybeReduced found = reduced_by("mean", in[1]);
  return found && found->x == in[0] && spreads(in[1], *found) ? found : MaybeReduced();
}

/// x of x^2.
Value squared(Value v) {
  const auto in = v.node->inputs();
  if (v.node->is("pow") && number_of(in[1]) == 2.0) return in[0];
  return v.node->is("mul") && in[0] == in[1] ? in[0] : Value();
}

/// x of sqrt(x).
Value of_root(Value v) {
  const Node& node = *before_reshapes(v).node;
  const auto in = node.inputs();
  return node.is("sqrt") || (node.is("pow") && number_of(in[1]) == 0.5) ? in[0] : Value();
}

/// x of 1 / sqrt(x).
Value of_inverse_root(Value v) {
  const Node& node = *before_reshapes(v).node;
  const auto in = node.inputs();
  if (node.is("rsqrt") || (node.is("pow") && number_of(in[1]) == -0.5)) return in[0];
  const Value root = inverted(v);
  return root ? of_root(root) : Value();
}

/// `mean + eps` of squares, or `var + eps`.
struct WithEps {
  Value mean;
  double eps = 0;
};
std::optional<WithEps> with_eps(Value v) {
  const Node& node = *before_reshapes(v).node;
  if (!node.is("add")) return {};
  const auto in = node.inputs();
  for (const std::size_t i : {0u, 1u}) {
    const double eps = number_of(in[1 - i]).value_or(0);
    if (eps > 0 && std::isfinite(eps)) return WithEps{in[i], eps};
  }
  return {};
}

/// Whether v is the variance of x, `about` its mean.
bool is_variance(Value v, const Reduced& about) {
  if (const auto var = reduced_by("var", v)) {
    return *var == about && int_attr(*before_reshapes(v).node, "correction") == 0;
  }
  const auto mean = reduced_by("mean", v);
  const Value d = mean ? squared(mean->x) : Value();
  return d && mean->axes == about.axes && centered(d) == about;
}

/// A norm of what is `above` the root of `below`.
std::optional<WrittenNorm> norm_of(Value above, Value below) {
  const auto sum = with_eps(below);
  if (!sum) return {};
  const auto about = centered(above);
  if (about && is_variance(sum->mean, *about))
    return WrittenNorm{NormKind::layer_norm, about->x, about->axes, sum->eps};
  const auto mean = reduced_by("mean", sum->mean);
  if (!mean || squared(mean->x) != above) return {};
  return WrittenNorm{NormKind::rms_norm, above, mean->axes, sum->eps};
}

/// Whether v multiplies or adds to each row of what is normalised alike.
bool is_parameter(Value v, const WrittenNorm& norm) {
  const Shape &small = v.type().shape(), last = norm.last_sizes();
  if (v.type().dtype() != norm.x.type().dtype() || small.rank() > norm.x.type().rank())
    return false;
  for (int i = 1; i <= small.rank(); ++i) {
    const Dim size = small[static_cast<std::size_t>(small.rank() - i)];
    const bool fits =
        i <= last.rank() && size.same_as(last[static_cast<std::size_t>(last.rank() - i)]);
    if (!fits && !size.same_as(1)) return false;
  }
  return true;
}

/// The factor of a norm: `1 / sqrt(below)`, which a weight may multiply.
struct Factor {
  Value root;  ///< 1 / sqrt(below)
  Value below;
  Value weight;
};
std::optional<Factor> factor(Value v) {
  if (const Value below = of_inverse_root(v)) return Factor{v, below, {}};
  if (!v.node->is("mul")) return {};
  const auto in = v.node->inputs();
  for (const std::size_t i : {0u, 1u}) {
    if (const Value below = of_inverse_root(in[i])) return Factor{in[i], below, in[1 - i]};
  }
  return {};
}

/// The norm with a weight, where it goes over the last axes and `root` meets rows.
std::optional<WrittenNorm> over_last_axes(std::optional<WrittenNorm> norm, Value root,
                                          Value weight) {
  if (!norm || !are_last(norm->axes, norm->x.type().rank())) return {};
  if (!spreads(root, {norm->x, norm->axes})) return {};
  if (weight && !is_parameter(weight, *norm)) return {};
  norm->weight = weight;
  return norm;
}

/// A norm without what follows it.
std::optional<WrittenNorm> plain_norm_at(const Node& node) {
  const auto in = node.inputs();
  if (node.is("div")) {
    const Value below = of_root(in[1]);
    return below ? over_last_axes(norm_of(in[0], below), in[1], {}) : std::nullopt;
  }
  if (!node.is("mul")) return {};
  for (const std::size_t i : {0u, 1u}) {
    const auto f = factor(in[i]);
    if (!f) continue;
    if (auto found = over_last_axes(norm_of(in[1 - i], f->below), f->root, f->weight)) return found;
  }
  return {};
}

/// A norm with a weight, if it has one.
std::optional<WrittenNorm> weighted_norm_at(const Node& node) {
  if (node.is("mul")) {
    const auto in = node.inputs();
    for (const std::size_t i : {0u, 1u}) {
      auto found = plain_norm_at(*in[i].node);
      if (!found || found->weight || !is_parameter(in[1 - i], *found)) continue;
      found->weight = in[1 - i];
      return found;
    }
  }
  return plain_norm_at(node);
}

/// `x * f + (bias - mean(x) * f)`.
std::optional<WrittenNorm> moved_norm(Value scaled, Value moved) {
  if (!scaled.node->is("mul") || !moved.node->is("sub")) return {};
  const Value bias = moved.node->inputs()[0], subtracted = moved.node->inputs()[1];
  if (!subtracted.node->is("mul")) return {};
  const auto in = scaled.node->inputs(), less = subtracted.node->inputs();
  for (const std::size_t i : {0u, 1u}) {
    const auto f = factor(in[i]);
    if (!f) continue;
    for (const std::size_t k : {0u, 1u}) {
      const auto about = reduced_by("mean", less[1 - k]);
      const auto sum = with_eps(f->below);
      if (less[k] != in[i] || !about || about->x != in[1 - i] || !spreads(less[1 - k], *about) ||
          !sum || !is_variance(sum->mean, *about))
        continue;
      auto found = over_last_axes(
          WrittenNorm{NormKind::layer_norm, about->x, about->axes, sum->eps}, f->root, f->weight);
      if (!found || !is_parameter(bias, *found)) continue;
      found->bias = bias;
      return found;
    }
  }
  return {};
}

std::optional<WrittenNorm> norm_at(const Node& node) {
  if (!node.is("add")) return weighted_norm_at(node);
  const auto in = node.inputs();
  for (const std::size_t i : {0u, 1u}) {
    if (auto found = moved_norm(in[i], in[1 - i])) return found;
    auto found = weighted_norm_at(*in[i].node);
    if (!found || found->kind != NormKind::layer_norm || !is_parameter(in[1 - i], *found)) continue;
    found->bias = in[1 - i];
    return found;
  }
  return {};
}

}  // namespace

Shape WrittenNorm::last_sizes() const {
  const Shape& shape = x.type().shape();
  return {shape.end() - static_cast<std::ptrdiff_t>(axes.size()), shape.end()};
}

std::optional<WrittenNorm> written_norm_at(const Node& node) {
  const bool is_of_interest =
      node.is("div") || node.is("mul") || node.is("add") || node.is("sub") || node.is("log");
  if (!is_of_interest || !is_floating(node.types()[0].dtype())) return {};
  auto found = softmax_at(node);
  if (!found) found = log_softmax_at(node);
  if (!found) found = norm_at(node);
  return found && found->x.type().same_as(node.types()[0]) ? found : std::nullopt;
}

}  // namespace dyad::passes
