#include "dyad/ops/attrs/optimizer_steps.h"

#include <array>

#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad::ops {
namespace {

template <std::size_t N>
using Results = std::array<Scalar, N>;

constexpr Schema step_schema(std::string_view name, std::span<const ArgInfo> inputs,
                             std::span<const ArgInfo> outputs, std::string_view doc) {
  return {.name = name,
          .inputs = inputs,
          .outputs = outputs,
          .doc = doc,
          .samples = {.differentiable = false}};
}

/// Each result has the type of the input of its name. Every input has p's shape or one element.
Types step_types(const InferIn& in) {
  const Shape& shape = in[0].shape();
  for (std::size_t i = 1; i < in.inputs.size(); ++i) {
    if (in[i].rank() == 0 || in[i].shape().same_as(shape)) continue;
    fail_shape(in, std::string(in.op.inputs[i].name) + " must have the shape of p, " +
                       to_string(shape) + ", or be a number of shape []");
  }
  Types types;
  for (const ArgInfo& output : in.op.outputs) {
    for (std::size_t i = 0; i < in.inputs.size(); ++i) {
      if (in.op.inputs[i].name == output.name) types.emplace_back(in[i].dtype(), shape);
    }
  }
  return types;
}

/// What every step's struct has.
template <class A>
struct Step {
  using Attrs = A;
  static Types infer(const InferIn& in, const Attrs&) { return step_types(in); }
};

Scalar moved(Scalar from, double share, Scalar to) { return from + share * (to - from); }

Scalar mean_square(Scalar square, double beta, Scalar g) {
  return beta * square + (1 - beta) * (g * g);
}

constexpr ArgInfo kP[] = {{"p", kFloat}};

constexpr ArgInfo kSgd[] = {{"p", kFloat}, {"g", kFloat}, {"lr", kFloat}, {"decay", kFloat}};

struct SgdStep : Step<NoAttrs> {
  static constexpr Schema schema =
      step_schema("sgd_step", kSgd, kP, "A step of SGD: p - lr * (g + decay * p).");
  static Results<1> eval(Scalar p, Scalar g, Scalar lr, Scalar decay) {
    return {p - lr * (g + decay * p)};
  }
};

constexpr ArgInfo kMomentum[] = {{"p", kFloat},  {"g", kFloat},     {"velocity", kFloat},
                                 {"lr", kFloat}, {"decay", kFloat}, {"share", kFloat}};
constexpr ArgInfo kMomentumOut[] = {{"p", kFloat}, {"velocity", kFloat}};

struct SgdMomentumStep : Step<MomentumAttrs> {
  static constexpr Schema schema = step_schema(
      "sgd_momentum_step", kMomentum, kMomentumOut,
      "A step of SGD with momentum: velocity = momentum * velocity + share * (g + decay * p), "
      "p - lr * velocity.");
  static Results<2> eval(const Attrs& a, Scalar p, Scalar g, Scalar v, Scalar lr, Scalar decay,
                         Scalar share) {
    g = g + decay * p;
    v = a.momentum * v + share * g;
    return {p - lr * (a.nesterov ? g + a.momentum * v : v), v};
  }
};

constexpr ArgInfo kAdam[] = {{"p", kFloat},      {"g", kFloat},    {"mean", kFloat},
                             {"square", kFloat}, {"size", kFloat}, {"scale", kFloat},
                             {"decay", kFloat},  {"keep", kFloat}};
constexpr ArgInfo kAdamOut[] = {{"p", kFloat}, {"mean", kFloat}, {"square", kFloat}};

struct AdamStep : Step<AdamAttrs> {
  static constexpr Schema schema =
      step_schema("adam_step", kAdam, kAdamOut,
                  "A step of Adam, weight decay in the gradient (decay) or apart from it (keep).");
  static Results<3> eval(const Attrs& a, Scalar p, Scalar g, Scalar m, Scalar v, Scalar size,
                         Scalar scale, Scalar decay, Scalar keep) {
    g = g + decay * p;
    m = moved(m, 1 - a.beta1, g);
    v = mean_square(v, a.beta2, g);
    return {keep * p - size * m / (scale * scalar::sqrt(v) + a.eps), m, v};
  }
};

constexpr ArgInfo kAmsgrad[] = {{"p", kFloat},      {"g", kFloat},       {"mean", kFloat},
                                {"square", kFloat}, {"largest", kFloat}, {"size", kFloat},
                                {"scale", kFloat},  {"decay", kFloat},   {"keep", kFloat}};
constexpr ArgInfo kAmsgradOut[] = {
    {"p", kFloat}, {"mean", kFloat}, {"square", kFloat}, {"largest", kFloat}};

struct AdamAmsgradStep : Step<AdamAttrs> {
  static constexpr Schema schema = step_schema("adam_amsgrad_step", kAmsgrad, kAmsgradOut,
                                               "A step of Adam by the largest mean square so far.");
  static Results<4> eval(const Attrs& a, Scalar p, Scalar g, Scalar m, Scalar v, Scalar largest,
                         Scalar size, Scalar scale, Scalar decay, Scalar keep) {
    g = g + decay * p;
    m = moved(m, 1 - a.beta1, g);
    v = mean_square(v, a.beta2, g);
    largest = scalar::max(largest, v);
    return {keep * p - size * m / (scale * scalar::sqrt(largest) + a.eps), m, v, largest};
  }
};

constexpr ArgInfo kNAdam[] = {{"p", kFloat},      {"g", kFloat},      {"mean", kFloat},
                              {"square", kFloat}, {"size_g", kFloat}, {"size_m", kFloat},
                              {"scale", kFloat},  {"decay", kFloat},  {"keep", kFloat}};

struct NAdamStep : Step<AdamAttrs> {
  static constexpr Schema schema = step_schema(
      "nadam_step", kNAdam, kAdamOut,
      "A step of NAdam: keep * p - (size_g * g + size_m * mean) / (scale * sqrt(square) + eps).");
  static Results<3> eval(const Attrs& a, Scalar p, Scalar g, Scalar m, Scalar v, Scalar size_g,
                         Scalar size_m, Scalar scale, Scalar decay, Scalar keep) {
    g = g + decay * p;
    m = moved(m, 1 - a.beta1, g);
    v = mean_square(v, a.beta2, g);
    return {keep * p - (size_g * g + size_m * m) / (scale * scalar::sqrt(v) + a.eps), m, v};
  }
};

constexpr ArgInfo kRAdam[] = {{"p", kFloat},      {"g", kFloat},    {"mean", kFloat},
                              {"square", kFloat}, {"size", kFloat}, {"adaptive", kFloat},
                              {"decay", kFloat},  {"keep", kFloat}};

struct RAdamStep : Step<AdamAttrs> {
  static constexpr Schema schema = step_schema(
      "radam_step", kRAdam, kAdamOut,
      "A step of RAdam: keep * p - size * mean * adaptive / (sqrt(square) + eps), or keep * p - "
      "size * mean where adaptive is 0.");
  static Results<3> eval(const Attrs& a, Scalar p, Scalar g, Scalar m, Scalar v, Scalar size,
                         Scalar adaptive, Scalar decay, Scalar keep) {
    g = g + decay * p;
    m = moved(m, 1 - a.beta1, g);
    v = mean_square(v, a.beta2, g);
    const Scalar step = size * m;
    return {keep * p -
                scalar::select(adaptive > 0.0, step * (adaptive / (scalar::sqrt(v) + a.eps)), step),
            m, v};
  }
};

constexpr ArgInfo kAdamax[] = {{"p", kFloat},       {"g", kFloat},    {"mean", kFloat},
                               {"largest", kFloat}, {"size", kFloat}, {"decay", kFloat}};
constexpr ArgInfo kAdamaxOut[] = {{"p", kFloat}, {"mean", kFloat}, {"largest", kFloat}};

struct AdamaxStep : Step<AdamAttrs> {
  static constexpr Schema schema =
      step_schema("adamax_step", kAdamax, kAdamaxOut,
                  "A step of Adamax: largest = max(beta2 * largest, |g| + eps), p - size * mean / "
                  "largest.");
  static Results<3> eval(const Attrs& a, Scalar p, Scalar g, Scalar m, Scalar u, Scalar size,
                         Scalar decay) {
    g = g + decay * p;
    m = moved(m, 1 - a.beta1, g);
    u = scalar::max(a.beta2 * u, scalar::abs(g) + a.eps);
    return {p - size * m / u, m, u};
  }
};

constexpr ArgInfo kAdagrad[] = {
    {"p", kFloat}, {"g", kFloat}, {"sum", kFloat}, {"lr", kFloat}, {"decay", kFloat}};
constexpr ArgInfo kAdagradOut[] = {{"p", kFloat}, {"sum", kFloat}};

struct AdagradStep : Step<AdagradAttrs> {
  static constexpr Schema schema =
      step_schema("adagrad_step", kAdagrad, kAdagradOut,
                  "A step of Adagrad: sum += g * g, p - lr * g / (sqrt(sum) + eps).");
  static Results<2> eval(const Attrs& a, Scalar p, Scalar g, Scalar s, Scalar lr, Scalar decay) {
    g = g + decay * p;
    s = s + g * g;
    return {p - lr * g / (scalar::sqrt(s) + a.eps), s};
  }
};

constexpr ArgInfo kRmsProp[] = {
    {"p", kFloat}, {"g", kFloat}, {"square", kFloat}, {"lr", kFloat}, {"decay", kFloat}};
constexpr ArgInfo kRmsPropOut[] = {{"p", kFloat}, {"square", kFloat}};
constexpr ArgInfo kRmsPropCentered[] = {{"p", kFloat},    {"g", kFloat},  {"square", kFloat},
                                        {"mean", kFloat}, {"lr", kFloat}, {"decay", kFloat}};
constexpr ArgInfo kRmsPropCenteredOut[] = {{"p", kFloat}, {"square", kFloat}, {"mean", kFloat}};
constexpr ArgInfo kRmsPropMomentum[] = {{"p", kFloat},        {"g", kFloat},  {"square", kFloat},
                                        {"velocity", kFloat}, {"lr", kFloat}, {"decay", kFloat}};
constexpr ArgInfo kRmsPropMomentumOut[] = {{"p", kFloat}, {"square", kFloat}, {"velocity", kFloat}};
constexpr ArgInfo kRmsPropBoth[] = {{"p", kFloat},    {"g", kFloat},        {"square", kFloat},
                                    {"mean", kFloat}, {"velocity", kFloat}, {"lr", kFloat},
                                    {"decay", kFloat}};
constexpr ArgInfo kRmsPropBothOut[] = {
    {"p", kFloat}, {"square", kFloat}, {"mean", kFloat}, {"velocity", kFloat}};

struct RmsPropStep : Step<RmsPropAttrs> {
  static constexpr Schema schema =
      step_schema("rmsprop_step", kRmsProp, kRmsPropOut,
                  "A step of RMSprop: square = alpha * square + (1 - alpha) * g * g, p - lr * g / "
                  "(sqrt(square) + eps).");
  static Results<2> eval(const Attrs& a, Scalar p, Scalar g, Scalar s, Scalar lr, Scalar decay) {
    g = g + decay * p;
    s = mean_square(s, a.alpha, g);
    return {p - lr * (g / (scalar::sqrt(s) + a.eps)), s};
  }
};

struct RmsPropCenteredStep : Step<RmsPropAttrs> {
  static constexpr Schema schema =
      step_schema("rmsprop_centered_step", kRmsPropCentered, kRmsPropCenteredOut,
                  "A step of RMSprop by the estimated variance, square - mean * mean.");
  static Results<3> eval(const Attrs& a, Scalar p, Scalar g, Scalar s, Scalar mean, Scalar lr,
                         Scalar decay) {
    g = g + decay * p;
    s = mean_square(s, a.alpha, g);
    mean = moved(mean, 1 - a.alpha, g);
    return {p - lr * (g / (scalar::sqrt(s - mean * mean) + a.eps)), s, mean};
  }
};

struct RmsPropMomentumStep : Step<RmsPropAttrs> {
  static constexpr Schema schema =
      step_schema("rmsprop_momentum_step", kRmsPropMomentum, kRmsPropMomentumOut,
                  "A step of RMSprop with momentum: velocity = momentum * velocity + g / "
                  "(sqrt(square) + eps), p - lr * velocity.");
  static Results<3> eval(const Attrs& a, Scalar p, Scalar g, Scalar s, Scalar v, Scalar lr,
                         Scalar decay) {
    g = g + decay * p;
    s = mean_square(s, a.alpha, g);
    v = a.momentum * v + g / (scalar::sqrt(s) + a.eps);
    return {p - lr * v, s, v};
  }
};

struct RmsPropCenteredMomentumStep : Step<RmsPropAttrs> {
  static constexpr Schema schema =
      step_schema("rmsprop_centered_momentum_step", kRmsPropBoth, kRmsPropBothOut,
                  "A step of RMSprop with momentum by the estimated variance.");
  static Results<4> eval(const Attrs& a, Scalar p, Scalar g, Scalar s, Scalar mean, Scalar v,
                         Scalar lr, Scalar decay) {
    g = g + decay * p;
    s = mean_square(s, a.alpha, g);
    mean = moved(mean, 1 - a.alpha, g);
    v = a.momentum * v + g / (scalar::sqrt(s - mean * mean) + a.eps);
    return {p - lr * v, s, mean, v};
  }
};

constexpr ArgInfo kAdadelta[] = {{"p", kFloat},     {"g", kFloat},  {"square", kFloat},
                                 {"delta", kFloat}, {"lr", kFloat}, {"decay", kFloat}};
constexpr ArgInfo kAdadeltaOut[] = {{"p", kFloat}, {"square", kFloat}, {"delta", kFloat}};

struct AdadeltaStep : Step<AdadeltaAttrs> {
  static constexpr Schema schema =
      step_schema("adadelta_step", kAdadelta, kAdadeltaOut,
                  "A step of Adadelta: p - lr * u with u = sqrt(delta + eps) / sqrt(square + eps) "
                  "* g.");
  static Results<3> eval(const Attrs& a, Scalar p, Scalar g, Scalar s, Scalar d, Scalar lr,
                         Scalar decay) {
    g = g + decay * p;
    s = mean_square(s, a.rho, g);
    const Scalar u = scalar::sqrt(d + a.eps) / scalar::sqrt(s + a.eps) * g;
    return {p - lr * u, s, mean_square(d, a.rho, u)};
  }
};

constexpr ArgInfo kLion[] = {
    {"p", kFloat}, {"g", kFloat}, {"mean", kFloat}, {"lr", kFloat}, {"keep", kFloat}};
constexpr ArgInfo kLionOut[] = {{"p", kFloat}, {"mean", kFloat}};

struct LionStep : Step<LionAttrs> {
  static constexpr Schema schema =
      step_schema("lion_step", kLion, kLionOut,
                  "A step of Lion: keep * p - lr * sign(beta1 * mean + (1 - beta1) * g).");
  static Results<2> eval(const Attrs& a, Scalar p, Scalar g, Scalar m, Scalar lr, Scalar keep) {
    const Scalar c = a.beta1 * m + (1 - a.beta1) * g;
    const Scalar step = scalar::select(c > 0.0, lr, scalar::select(c < 0.0, -lr, lr * c));
    return {keep * p - step, a.beta2 * m + (1 - a.beta2) * g};
  }
};

}  // namespace

std::span<const OpInfo* const> optimizer_step_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<SgdStep>,
      &op_info<SgdMomentumStep>,
      &op_info<AdamStep>,
      &op_info<AdamAmsgradStep>,
      &op_info<NAdamStep>,
      &op_info<RAdamStep>,
      &op_info<AdamaxStep>,
      &op_info<AdagradStep>,
      &op_info<RmsPropStep>,
      &op_info<RmsPropCenteredStep>,
      &op_info<RmsPropMomentumStep>,
      &op_info<RmsPropCenteredMomentumStep>,
      &op_info<AdadeltaStep>,
      &op_info<LionStep>,
  };
  return kRows;
}

}  // namespace dyad::ops
