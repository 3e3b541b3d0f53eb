#include "dyad/ops/activation.h"

#include <array>
#include <numbers>

#include "dyad/ir/literal.h"
#include "dyad/ir/scalar_error.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

// Derivatives are operators of their own, `<name>_backward(grad, x)`: one pass over memory, and
// exact where the textbook forms through the output (1 - y*y, y*(1 - y)) cancel.

constexpr Schema backward(std::string_view name, std::string_view doc, Samples samples) {
  return {.name = name,
          .inputs = kGradAndX,
          .outputs = kOut,
          .doc = doc,
          .samples = samples,
          .saved_inputs = kFirst | kSecond};
}

constexpr Schema activation(std::string_view name, std::string_view doc, OnnxName onnx,
                            Samples samples) {
  return {.name = name,
          .inputs = kUnary,
          .outputs = kOut,
          .doc = doc,
          .onnx = onnx,
          .samples = samples,
          .typing = Typing::floating,
          .saved_inputs = kFirst,
          .cheap = true};
}

constexpr std::string_view kActivationEdges =
    "0 -0 1e-6 -1e-6 1 -1 5 -5 9 -9 20 -20 90 -90 inf -inf nan";

/// sigmoid'(x) = exp(-|x|) / (1 + exp(-|x|))^2
Scalar sigmoid_derivative(Scalar x) {
  const Scalar e = scalar::exp(-scalar::abs(x));
  return e / ((1.0 + e) * (1.0 + e));
}

struct SigmoidBackward {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      backward("sigmoid_backward", "grad times the derivative of sigmoid at x.",
               {.low = -3, .high = 3, .edges = kActivationEdges});
  static Scalar eval(Scalar grad, Scalar x) { return grad * sigmoid_derivative(x); }
  static void grad(Gradient& g, const Attrs&) {
    if (g.needs(0)) g.set(0, apply<SigmoidBackward>({}, {}, g.grad(), g.input(1)));
    // sigmoid'' = -tanh(x / 2) * sigmoid'
    if (g.needs(1)) {
      g.set(1, neg(tanh(g.input(1) * 0.5)) *
                   apply<SigmoidBackward>({}, {}, g.grad() * g.input(0), g.input(1)));
    }
  }
};

struct Sigmoid {
  using Attrs = NoAttrs;
  static constexpr Schema schema = activation("sigmoid", "1 / (1 + exp(-x)).", {"Sigmoid", 13},
                                              {.low = -3, .high = 3, .edges = kActivationEdges});
  static Scalar eval(Scalar x) { return scalar::sigmoid(x); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, apply_over<SigmoidBackward>({}, g.take_grad(), g.input(0)));
  }
};

struct TanhBackward {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      backward("tanh_backward", "grad times the derivative of tanh at x.",
               {.low = -3, .high = 3, .edges = kActivationEdges});
  static Scalar eval(Scalar grad, Scalar x) { return grad * (4.0 * sigmoid_derivative(2.0 * x)); }
  static void grad(Gradient& g, const Attrs&) {
    if (g.needs(0)) g.set(0, apply<TanhBackward>({}, {}, g.grad(), g.input(1)));
    // tanh'' = -2 * tanh * tanh'
    if (g.needs(1)) {
      g.set(1,
            tanh(g.input(1)) * -2 * apply<TanhBackward>({}, {}, g.grad() * g.input(0), g.input(1)));
    }
  }
};

struct Tanh {
  using Attrs = NoAttrs;
  static constexpr Schema schema = activation("tanh", "Hyperbolic tangent.", {"Tanh", 13},
                                              {.low = -3, .high = 3, .edges = kActivationEdges});
  static Scalar eval(Scalar x) { return scalar::tanh(x); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, apply_over<TanhBackward>({}, g.take_grad(), g.input(0)));
  }
};

constexpr ArgInfo kGradAndY[] = {{"grad", kFloat}, {"y", kFloat}};

struct ReluBackward {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "relu_backward",
      .inputs = kGradAndY,
      .outputs = kOut,
      .doc =
          "grad where y, the result of relu, is above 0 (or NaN), 0 "
          "elsewhere.",
      .samples = {.low = 0.1, .high = 2, .edges = "0 -0 1 1e-40 inf nan"},
      .saved_inputs = kSecond};
  static Scalar eval(Scalar grad, Scalar y) {
    return scalar::select(y <= 0.0, grad.like(0.0), grad);
  }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, apply<ReluBackward>({}, {}, g.grad(), g.input(1)));
  }
};

struct Relu {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "relu",
                                 .inputs = kUnaryNumber,
                                 .outputs = kOut,
                                 .doc = "max(x, 0) (NaN stays); its derivative at 0 is 0.",
                                 .onnx = {"Relu", 14},
                                 .samples = {.edges = "0 -0 1 -1 1e-40 -1e-40 inf -inf nan"},
                                 .saved_outputs = kFirst};
  static Scalar eval(Scalar x) { return scalar::select(x < x.like(0), x.like(0), x); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, apply_over<ReluBackward>({}, g.take_grad(), g.output()));
  }
};

struct SiluBackward {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      backward("silu_backward", "grad times the derivative of silu at x.",
               {.low = -3, .high = 3, .edges = "0 -0 1e-6 1 -1 5 -5 20 -20 90 -80 nan"});
  static Scalar eval(Scalar grad, Scalar x) {
    return grad * (scalar::sigmoid(x) + x * sigmoid_derivative(x));
  }
  static void grad(Gradient& g, const Attrs&) {
    if (g.needs(0)) g.set(0, apply<SiluBackward>({}, {}, g.grad(), g.input(1)));
    // silu'' = sigmoid' * (2 - x * tanh(x / 2))
    if (g.needs(1)) {
      const Tensor x = g.input(1);
      g.set(1, apply<SigmoidBackward>({}, {}, g.grad() * g.input(0), x) * (2 - x * tanh(x * 0.5)));
    }
  }
};

struct Silu {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      activation("silu", "x * sigmoid(x).", {},
                 {.low = -3, .high = 3, .edges = "0 -0 1e-6 1 -1 5 -5 20 -20 90 -80 inf nan"});
  static Scalar eval(Scalar x) { return x * scalar::sigmoid(x); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, apply_over<SiluBackward>({}, g.take_grad(), g.input(0)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const std::string x = e.operand(0);
    e.output(0, e.node("Mul", {x, e.node("Sigmoid", {x})}));
  }
};

struct GeluAttrs {
  bool tanh_form = false;
};

// u(x) = kTanhScale * (x + kTanhCubic * x^3), the argument of gelu's approximation.
constexpr double kTanhScale = 0.7978845608028653559;  // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;
constexpr double kInvSqrt2 = 1 / std::numbers::sqrt2;
constexpr double kInvSqrt2Pi = std::numbers::inv_sqrtpi / std::numbers::sqrt2;

/// gelu(x) = max(x, 0) - |x| tail(|x|), where the tail is the normal distribution's, or the
/// logistic function of -2u. Nothing cancels on either side, and infinities have their limits.
scalar::NormalTail gelu_tail(const GeluAttrs& attrs, Scalar x) {
  if (!attrs.tanh_form) return scalar::normal_tail(x);
  const bool f64 = x.type() == ScalarType::f64;
  const Scalar size = scalar::min(x.like(f64 ? 22.0 : 11.5), scalar::abs(x));
  const Scalar u = kTanhScale * size * (1.0 + kTanhCubic * (size * size));
  const Scalar e = scalar::exp(-2.0 * u);
  return {size, e / (1.0 + e)};
}

struct GeluBackward {
  using Attrs = GeluAttrs;
  static constexpr Schema schema =
      backward("gelu_backward", "grad times the derivative of gelu at x.",
               {.low = -3, .high = 3, .edges = "0 -0 1e-6 1 -1 3 -2.5 8 nan"});
  static Scalar eval(const Attrs& attrs, Scalar grad, Scalar x) {
    // The derivative at -|x|; that at |x| is 1 less it.
    const auto [size, tail] = gelu_tail(attrs, x);
    const Scalar square = size * size;
    const Scalar slope =
        attrs.tanh_form ? tail * (1.0 - tail) * (2 * kTanhScale * (1.0 + 3 * kTanhCubic * square))
                        : kInvSqrt2Pi * scalar::exp(-0.5 * square);
    const Scalar left = tail - size * slope;
    return grad * scalar::select(x > 0.0, 1.0 - left, left);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor x = widened(g.input(1)), grad = widened(g.grad());
    if (g.needs(0)) g.set(0, apply<GeluBackward>(attrs, {}, grad, x));
    if (!g.needs(1)) return;
    const Tensor upper = grad * widened(g.input(0)), x2 = square(x);
    if (!attrs.tanh_form) {
      // gelu'' = density * (2 - x^2)
      g.set(1, upper * (exp(x2 * -0.5) * kInvSqrt2Pi) * (2 - x2));
      return;
    }
    // With t = tanh(u): gelu'' = t'(u) * u' + x/2 * (t''(u) * u'^2 + t'(u) * u''),
    // t'' = -2 * t * t'.
    const Tensor u = x * (x2 * kTanhCubic + 1) * kTanhScale;
    const Tensor slope = (x2 * (3 * kTanhCubic) + 1) * kTanhScale;
    const Tensor curve = x * (6 * kTanhCubic * kTanhScale);
    const Tensor inner = slope + x * 0.5 * (curve - tanh(u) * 2 * square(slope));
    g.set(1, apply<TanhBackward>({}, {}, upper * inner, u));
  }
};

struct Gelu {
  using Attrs = GeluAttrs;
  static constexpr Schema schema = activation(
      "gelu", "x times the normal distribution function of x, or its approximation by tanh.", {},
      {.low = -3, .high = 3, .edges = "0 -0 1e-6 1 -1 3 -2.5 8 nan"});
  static Scalar eval(const Attrs& attrs, Scalar x) {
    const auto [size, tail] = gelu_tail(attrs, x);
    // With -0 the sum keeps its sign.
    return scalar::fma(-size, tail, scalar::max(x.like(0.0), x));
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, apply_over<GeluBackward>(attrs, g.take_grad(), g.input(0)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    const std::string x = e.operand(0);
    if (e.opset() >= 20) {
      e.output(0, e.node("Gelu", {x},
                         {{"approximate", std::string(attrs.tanh_form ? "tanh" : "none")}}));
      return;
    }
    const auto constant = [&](double value) { return e.scalar(value, dtype); };
    std::string inner;
    if (attrs.tanh_form) {
      const std::string cubic = e.node("Mul", {e.node("Mul", {x, x}), constant(kTanhCubic)});
      const std::string scaled = e.node("Mul", {x, constant(kTanhScale)});
      inner = e.node("Tanh", {e.node("Mul", {scaled, e.node("Add", {cubic, constant(1)})})});
    } else {
      inner = e.node("Erf", {e.node("Mul", {x, constant(kInvSqrt2)})});
    }
    const std::string half = e.node("Mul", {x, constant(0.5)});
    e.output(0, e.node("Mul", {half, e.node("Add", {inner, constant(1)})}));
  }
};

struct SoftplusAttrs {
  double beta = 1;
};

struct Softplus {
  using Attrs = SoftplusAttrs;
  static constexpr Schema schema =
      activation("softplus", "log(1 + exp(beta * x)) / beta, without overflow.", {},
                 {.low = -3, .high = 3, .edges = kActivationEdges});
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (!(attrs.beta > 0)) {
      fail_value(in, "beta = " + number_text(attrs.beta) + " must be above 0");
    }
    return infer_pointwise(in);
  }
  static Scalar eval(const Attrs& attrs, Scalar x) {
    const Scalar v = attrs.beta == 1 ? x : attrs.beta * x;
    const Scalar y = scalar::select(v > 0.0, v, scalar::select(v == v, 0.0, v)) +
                     scalar::log1p(scalar::exp(-scalar::abs(v)));
    return attrs.beta == 1 ? y : y / attrs.beta;
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, g.grad() * sigmoid(g.input(0) * attrs.beta));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string x = e.cast(e.operand(0), dtype);
    if (attrs.beta == 1) return e.output(0, e.node("Softplus", {x}));
    const std::string beta = e.scalar(attrs.beta, dtype);
    e.output(0, e.node("Div", {e.node("Softplus", {e.node("Mul", {x, beta})}), beta}));
  }
};

struct Mish {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      activation("mish", "x * tanh(softplus(x)).", {},
                 {.low = -3, .high = 3, .edges = "0 -0 1e-6 1 -1 5 -5 20 -20 90 -80 inf nan"});
  static Scalar eval(Scalar x) {
    // tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2), 1 from 20 on in every dtype.
    const Scalar e = scalar::exp(scalar::select(x > 20.0, 20.0, x));
    const Scalar w = e * (e + 2.0);
    return x * (w / (w + 2.0));
  }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0), plus = softplus(x);
    const Tensor bend = apply<TanhBackward>({}, {}, g.grad(), plus) * silu(x);
    g.set(0, g.grad() * tanh(plus) + bend);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string x = e.cast(e.operand(0), dtype);
    e.output(0, e.node("Mul", {x, e.node("Tanh", {e.node("Softplus", {x})})}));
  }
};

struct Softsign {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      activation("softsign", "x / (1 + |x|).", {},
                 {.low = -3, .high = 3, .edges = "0 -0 1e-6 1 -1 5 -5 20 -90 3e38 nan"});
  static Scalar eval(Scalar x) { return x / (1.0 + scalar::abs(x)); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor size = abs(g.input(0)) + 1;
    g.set(0, g.grad() / size / size);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = e.output_type().dtype();
    const std::string x = e.operand(0);
    const std::string size = e.node("Add", {e.node("Abs", {x}), e.scalar(1, dtype)});
    e.output(0, e.node("Div", {x, size}));
  }
};

}  // namespace

std::span<const OpInfo* const> activation_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Tanh>,     &op_info<TanhBackward>, &op_info<Sigmoid>,  &op_info<SigmoidBackward>,
      &op_info<Relu>,     &op_info<ReluBackward>, &op_info<Silu>,     &op_info<SiluBackward>,
      &op_info<Gelu>,     &op_info<GeluBackward>, &op_info<Softplus>, &op_info<Mish>,
      &op_info<Softsign>,
  };
  return kRows;
}

}  // namespace ops

Tensor tanh(const Tensor& x, Loc loc) { return apply<ops::Tanh>({}, loc, x); }
Tensor sigmoid(const Tensor& x, Loc loc) { return apply<ops::Sigmoid>({}, loc, x); }
Tensor relu(const Tensor& x, Loc loc) { return apply<ops::Relu>({}, loc, x); }
Tensor gelu(const Tensor& x, bool tanh_form, Loc loc) {
  return apply<ops::Gelu>({.tanh_form = tanh_form}, loc, x);
}
Tensor silu(const Tensor& x, Loc loc) { return apply<ops::Silu>({}, loc, x); }

Tensor softplus(const Tensor& x, double beta, Loc loc) {
  return apply<ops::Softplus>({.beta = beta}, loc, x);
}
Tensor mish(const Tensor& x, Loc loc) { return apply<ops::Mish>({}, loc, x); }
Tensor softsign(const Tensor& x, Loc loc) { return apply<ops::Softsign>({}, loc, x); }

Tensor swish(const Tensor& x, double alpha, Loc loc) {
  if (alpha == 1) return silu(x, loc);
  const LocScope scope(loc);
  return ops::in_f32([&](const Tensor& x) { return x * sigmoid(x * alpha); }, x);
}
Tensor quick_gelu(const Tensor& x, Loc loc) { return swish(x, 1.702, loc); }
Tensor logsigmoid(const Tensor& x, Loc loc) { return neg(softplus(neg(x, loc), 1, loc), loc); }
Tensor tanhshrink(const Tensor& x, Loc loc) {
  const LocScope scope(loc);
  return ops::in_f32([](const Tensor& x) { return x - tanh(x); }, x);
}

namespace {

/// The two halves of x along an axis.
std::array<Tensor, 2> halves(std::string_view name, const Tensor& x, std::int64_t axis, Loc loc) {
  const Dim size = x.size(axis, loc), half = size / 2;
  if (ops::leaves_rest(size, 2)) {
    throw ShapeError(std::string(name) + "(" + type_string(x) + ", axis = " + std::to_string(axis) +
                         "): the size " + to_string(ops::size_now(size)) +
                         " of the axis must be even",
                     loc.user());
  }
  return {slice(x, axis, 0, half, 1, loc), slice(x, axis, half, kEnd, 1, loc)};
}

}  // namespace

Tensor glu(const Tensor& x, std::int64_t axis, Loc loc) {
  const auto [value, gate] = halves("glu", x, axis, loc);
  return mul(value, sigmoid(gate, loc), loc);
}
Tensor swiglu(const Tensor& x, std::int64_t axis, Loc loc) {
  const auto [gate, value] = halves("swiglu", x, axis, loc);
  return mul(silu(gate, loc), value, loc);
}

}  // namespace dyad
