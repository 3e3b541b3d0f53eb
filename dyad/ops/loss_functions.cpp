#include <array>
#include <cmath>
#include <numbers>

#include "dyad/ir/literal.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/cumulative.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/loss.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/special.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kProbabilities[] = {{"prediction", kFloat}, {"target", kFloat}};

struct BinaryCrossEntropy {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "binary_cross_entropy",
      .inputs = kProbabilities,
      .outputs = kOut,
      .doc = "-(target * log(p) + (1 - target) * log(1 - p)) with logarithms of at least -100.",
      .samples = {.low = 0.1, .high = 0.9, .edges = "0 1 0.5 1e-30 nan"},
      .saved_inputs = kFirst | kSecond};
  static Scalar eval(Scalar p, Scalar target) {
    const auto at_least = [](Scalar x) { return scalar::select(x < -100.0, x.like(-100.0), x); };
    const Scalar zero = at_least(scalar::log1p(-p));
    return (target - 1.0) * zero - target * at_least(scalar::log(p));
  }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor p = widened(g.input(0)), target = widened(g.input(1)), rest = 1 - p;
    const Tensor grad = widened(g.grad());
    if (g.needs(0)) g.set(0, grad * (p - target) / maximum(rest * p, 1e-12));
    if (g.needs(1)) g.set(1, grad * (clamp(log1p(neg(p)), -100) - clamp(log(p), -100)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string p = e.cast(e.operand(0), dtype), target = e.cast(e.operand(1), dtype);
    const std::string one = e.scalar(1, dtype), least = e.scalar(-100, dtype);
    const auto term = [&](const std::string& weight, const std::string& x) {
      return e.node("Mul", {weight, e.node("Max", {e.node("Log", {x}), least})});
    };
    const std::string zero = term(e.node("Sub", {one, target}), e.node("Sub", {one, p}));
    e.output(0, e.node("Neg", {e.node("Add", {term(target, p), zero})}));
  }
};

}  // namespace

std::span<const OpInfo* const> loss_function_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<BinaryCrossEntropy>};
  return kRows;
}

}  // namespace ops

namespace {

/// The arguments of a loss by name, for messages.
using Named = std::initializer_list<std::pair<std::string_view, const Tensor*>>;

std::string call_of(std::string_view loss, Named arguments) {
  std::string text = std::string(loss) + "(";
  for (const auto& [name, tensor] : arguments) {
    text += (text.back() == '(' ? "" : ", ") + std::string(name) + ": " + type_string(*tensor);
  }
  return text + ")";
}

/// ShapeError unless all have the shape of the first, DTypeError unless that is floating.
void check(std::string_view loss, Named arguments, Loc loc) {
  const auto& [first_name, first] = *arguments.begin();
  for (const auto& [name, tensor] : arguments) {
    if (!tensor->defined()) {
      throw ValueError(std::string(loss) + ": " + std::string(name) + " is undefined", loc.user());
    }
    bool equal = tensor->rank() == first->rank();
    for (std::size_t i = 0; equal && i < first->shape().size(); ++i) {
      equal = tensor->shape()[i] == first->shape()[i];
    }
    if (!equal) {
      throw ShapeError(call_of(loss, arguments) + ": " + std::string(first_name) + " is " +
                           size_text(first->shape()) + " but " + std::string(name) + " is " +
                           size_text(tensor->shape()) +
                           "; reshape() one, or expand() it if the broadcast is meant",
                       loc.user());
    }
  }
  if (!is_floating(first->dtype())) {
    throw DTypeError(call_of(loss, arguments) + ": " + std::string(first_name) +
                         " must be floating; convert it with to()",
                     loc.user());
  }
}

[[noreturn]] void fail_number(std::string_view loss, std::string_view name, double value,
                              std::string_view rule, Loc loc) {
  throw ValueError(std::string(loss) + "(" + std::string(name) + " = " + number_text(value) +
                       "): " + std::string(name) + " must be " + std::string(rule),
                   loc.user());
}

Tensor reduced(const Tensor& losses, Reduction reduction, Loc loc) {
  ops::refuse_batchmean("a loss", reduction, loc);
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses, {}, false, loc) : mean(losses, {}, false, loc);
}
Tensor weighted(const Tensor& losses, const Tensor& weight, Loc loc) {
  return weight.defined() ? mul(losses, weight, loc) : losses;
}

}  // namespace

Tensor l1_loss(const Tensor& prediction, const Tensor& target, Reduction reduction, Loc loc) {
  check("l1_loss", {{"prediction", &prediction}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& prediction, const Tensor& target) {
        return reduced(abs(prediction - target), reduction, loc);
      },
      prediction, target);
}
Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, double beta,
                      Reduction reduction, Loc loc) {
  if (!(beta >= 0)) fail_number("smooth_l1_loss", "beta", beta, "at least 0", loc);
  if (beta == 0) return l1_loss(prediction, target, reduction, loc);
  check("smooth_l1_loss", {{"prediction", &prediction}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& prediction, const Tensor& target) {
        const Tensor difference = prediction - target, size = abs(difference);
        const Tensor inner = square(difference) * (0.5 / beta);
        return reduced(where(size < beta, inner, size - 0.5 * beta), reduction, loc);
      },
      prediction, target);
}
Tensor huber_loss(const Tensor& prediction, const Tensor& target, double delta, Reduction reduction,
                  Loc loc) {
  if (!(delta > 0)) fail_number("huber_loss", "delta", delta, "above 0", loc);
  check("huber_loss", {{"prediction", &prediction}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& prediction, const Tensor& target) {
        const Tensor difference = prediction - target, size = abs(difference);
        const Tensor outer = (size - 0.5 * delta) * delta;
        return reduced(where(size <= delta, square(difference) * 0.5, outer), reduction, loc);
      },
      prediction, target);
}

Tensor binary_cross_entropy(const Tensor& prediction, const Tensor& target, const Tensor& weight,
                            Reduction reduction, Loc loc) {
  check("binary_cross_entropy", {{"prediction", &prediction}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& prediction, const Tensor& target, const Tensor& weight) {
        const Tensor losses = apply<ops::BinaryCrossEntropy>({}, loc, prediction, target);
        return reduced(weighted(losses, weight, loc), reduction, loc);
      },
      prediction, target, weight);
}
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        const Tensor& weight, const Tensor& pos_weight,
                                        Reduction reduction, Loc loc) {
  check("binary_cross_entropy_with_logits", {{"logits", &logits}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& logits, const Tensor& target, const Tensor& weight,
          const Tensor& pos_weight) {
        const Tensor ones_target = pos_weight.defined() ? target * pos_weight : target;
        const Tensor losses = ones_target * softplus(-logits) + (1 - target) * softplus(logits);
        return reduced(weighted(losses, weight, loc), reduction, loc);
      },
      logits, target, weight, pos_weight);
}
Tensor kl_div(const Tensor& log_probabilities, const Tensor& target, bool log_target,
              Reduction reduction, Loc loc) {
  check("kl_div", {{"log_probabilities", &log_probabilities}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& log_probabilities, const Tensor& target) {
        const Tensor losses = log_target ? exp(target) * (target - log_probabilities)
                                         : xlogy(target, target) - target * log_probabilities;
        if (reduction == Reduction::batchmean) {
          return losses.rank() == 0 ? losses
                                    : sum(losses) / ops::size_arg(losses.size(0, loc), loc);
        }
        return reduced(losses, reduction, loc);
      },
      log_probabilities, target);
}
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input, bool full,
                        double eps, Reduction reduction, Loc loc) {
  check("poisson_nll_loss", {{"x", &x}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& target) {
        Tensor losses = log_input ? exp(x) - target * x : x - target * log(x + eps);
        if (full) {
          const Tensor large = target > 1, t = where(large, target, 1);
          const Tensor stirling = t * log(t) - t + log(t * (2 * std::numbers::pi)) * 0.5;
          losses = losses + where(large, stirling, 0);
        }
        return reduced(losses, reduction, loc);
      },
      x, target);
}
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, bool full,
                         double eps, Reduction reduction, Loc loc) {
  check("gaussian_nll_loss", {{"x", &x}, {"target", &target}}, loc);
  if (!(eps > 0)) fail_number("gaussian_nll_loss", "eps", eps, "above 0", loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& target, const Tensor& var) {
        const Tensor spread = clamp(var, eps);
        Tensor losses = (log(spread) + square(x - target) / spread) * 0.5;
        if (full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
        return reduced(losses, reduction, loc);
      },
      x, target, var);
}

Tensor hinge_loss(const Tensor& x, const Tensor& target, double margin, Reduction reduction,
                  Loc loc) {
  check("hinge_loss", {{"x", &x}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& target) {
        return reduced(relu(margin - target * x), reduction, loc);
      },
      x, target);
}
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin,
                            Reduction reduction, Loc loc) {
  check("hinge_embedding_loss", {{"x", &x}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& target) {
        return reduced(where(target == 1, x, relu(margin - x)), reduction, loc);
      },
      x, target);
}
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction, Loc loc) {
  check("soft_margin_loss", {{"x", &x}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& target) {
        return reduced(softplus(neg(target * x)), reduction, loc);
      },
      x, target);
}
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                           Reduction reduction, Loc loc) {
  check("margin_ranking_loss", {{"a", &a}, {"b", &b}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& a, const Tensor& b, const Tensor& target) {
        return reduced(relu(margin - target * (a - b)), reduction, loc);
      },
      a, b, target);
}
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, int p, double margin,
                         const Tensor& weight, Reduction reduction, Loc loc) {
  if (p != 1 && p != 2) fail_number("multi_margin_loss", "p", p, "1 or 2", loc);
  if (x.rank() < 1 || x.rank() > 2 || target.rank() != x.rank() - 1) {
    throw ShapeError(call_of("multi_margin_loss", {{"x", &x}, {"target", &target}}) +
                         ": x must be [n, c] with target [n], or [c] with []",
                     loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& weight) {
        const Tensor index = unsqueeze(target, -1);
        const Tensor excess =
            relu(x - ops::gather_from_front(x, -1, index, "multi_margin_loss") + margin);
        const Tensor own = arange(x.size(-1)) == index;
        const Tensor others = where(own, 0, p == 1 ? excess : square(excess));
        Tensor losses = mean(others, {-1});
        if (weight.defined()) {
          losses = losses * ops::index_select_from_front(weight, 0, target, "multi_margin_loss");
        }
        return reduced(losses, reduction, loc);
      },
      x, weight);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim,
                         Loc loc) {
  if (!(p > 0)) fail_number("pairwise_distance", "p", p, "above 0", loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& a, const Tensor& b) {
        const Tensor difference = a - b + eps;
        if (p == 2) return sqrt(sum(square(difference), {-1}, keepdim));
        const Tensor size = abs(difference);
        if (p == 1) return sum(size, {-1}, keepdim);
        if (std::isinf(p)) return max(size, {-1}, keepdim);
        return pow(sum(pow(size, p), {-1}, keepdim), 1 / p);
      },
      a, b);
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, double eps, bool swap, Reduction reduction,
                           Loc loc) {
  check("triplet_margin_loss",
        {{"anchor", &anchor}, {"positive", &positive}, {"negative", &negative}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
        const Tensor near = pairwise_distance(anchor, positive, p, eps, false, loc);
        Tensor far = pairwise_distance(anchor, negative, p, eps, false, loc);
        if (swap) far = minimum(far, pairwise_distance(positive, negative, p, eps, false, loc));
        return reduced(relu(near - far + margin), reduction, loc);
      },
      anchor, positive, negative);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis, double eps, Loc loc) {
  const LocScope called(loc, "cosine_similarity");
  if (!(eps > 0)) fail_number("cosine_similarity", "eps", eps, "above 0", loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& a, const Tensor& b) {
        // The least square of a length that f32 holds and that has a root to divide by.
        const double least = std::max(eps * eps, 0x1p-100);
        const auto inverse_length = [&](const Tensor& x) {
          return rsqrt(maximum(sum(square(x), {axis}), least));
        };
        return sum(a * b, {axis}) * inverse_length(a) * inverse_length(b);
      },
      a, b);
}
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             Reduction reduction, Loc loc) {
  check("cosine_embedding_loss", {{"a", &a}, {"b", &b}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& a, const Tensor& b) {
        const Tensor similarity = cosine_similarity(a, b, -1, 1e-8, loc);
        return reduced(where(target == 1, 1 - similarity, relu(similarity - margin)), reduction,
                       loc);
      },
      a, b);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction, Loc loc) {
  if (x.rank() < 1 || x.rank() > 2 || !(ops::sizes_of(x) == ops::sizes_of(target))) {
    throw ShapeError("multilabel_margin_loss(x: " + type_string(x) + ", target: " +
                         type_string(target) + "): both must be [samples, classes], or [classes]",
                     loc.user());
  }
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x) {
        // Classes count up to the first negative one.
        const Tensor valid = cumprod(target >= 0, -1) != 0, classes = where(valid, target, 0);
        const Dim count = x.size(-1, loc);
        const Tensor taken =
            logical_and(unsqueeze(valid, -1), unsqueeze(classes, -1) == arange(count));
        const Tensor others = logical_not(any(taken, {-2}));
        const Tensor margins = relu(1 - unsqueeze(gather(x, -1, classes), -1) + unsqueeze(x, -2));
        const Tensor counted = logical_and(unsqueeze(valid, -1), unsqueeze(others, -2));
        const Tensor losses = sum(where(counted, margins, 0), {-2, -1}) / ops::size_arg(count);
        return reduced(losses, reduction, loc);
      },
      x);
}
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight,
                                   Reduction reduction, Loc loc) {
  check("multilabel_soft_margin_loss", {{"x", &x}, {"target", &target}}, loc);
  const LocScope scope(loc);
  return ops::in_f32(
      [&](const Tensor& x, const Tensor& target, const Tensor& weight) {
        const Tensor losses = neg(target * logsigmoid(x) + (1 - target) * logsigmoid(neg(x)));
        return reduced(mean(weighted(losses, weight, loc), {-1}), reduction, loc);
      },
      x, target, weight);
}
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative, const Distance& distance,
                                         double margin, bool swap, Reduction reduction, Loc loc) {
  check("triplet_margin_with_distance_loss",
        {{"anchor", &anchor}, {"positive", &positive}, {"negative", &negative}}, loc);
  const LocScope scope(loc);
  if (!distance) {
    return triplet_margin_loss(anchor, positive, negative, margin, 2, 1e-6, swap, reduction, loc);
  }
  Tensor farthest = distance(anchor, negative);
  if (swap) farthest = minimum(farthest, distance(positive, negative));
  return ops::in_f32(
      [&](const Tensor& near, const Tensor& far) {
        return reduced(relu(near - far + margin), reduction, loc);
      },
      distance(anchor, positive), farthest);
}

}  // namespace dyad
