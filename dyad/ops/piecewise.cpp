#include <cmath>

#include "dyad/ir/literal.h"
#include "dyad/ops/activation.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/reduce_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr std::string_view kEdges = "0 -0 0.5 -0.5 1 -1 3 -3 6 20 -20 -90 inf -inf nan";

constexpr Schema piecewise(std::string_view name, std::string_view doc) {
  Schema row = unary_function(name, doc, {}, {.low = -4, .high = 4, .edges = kEdges}, kFirst);
  row.cheap = true;
  return row;
}
/// An attribute of a node.
std::pair<std::string, OnnxAttr> number(std::string name, double value) {
  return {std::move(name), static_cast<float>(value)};
}
/// Operand 0 in a dtype that ONNX has the activations in.
std::string operand_of(OnnxEmitter& e) {
  const DType own = e.output_type().dtype();
  return e.cast(e.operand(0), own == DType::bf16 ? DType::f32 : own);
}

struct EluAttrs {
  double alpha = 1;
  double scale = 1;
  double rate = 1;
};

struct Elu {
  using Attrs = EluAttrs;
  static constexpr Schema schema = piecewise(
      "elu",
      "scale * x above 0, scale * alpha * (exp(rate * x) - 1) elsewhere; elu, celu and selu.");
  static Scalar eval(const Attrs& attrs, Scalar x) {
    const Scalar negative = (attrs.scale * attrs.alpha) * scalar::expm1(attrs.rate * x);
    return scalar::select(x > 0.0, attrs.scale * x, negative);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor x = g.input(0), below = clamp(x, -std::numeric_limits<double>::infinity(), 0);
    const Tensor slope = exp(below * attrs.rate) * (attrs.scale * attrs.alpha * attrs.rate);
    g.set(0, g.grad() * where(x > 0, attrs.scale, slope));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    // Attributes of ONNX's operators are f32: numbers that are not are written as constants.
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string x = e.cast(e.operand(0), dtype), zero = e.scalar(0, dtype);
    if (attrs.rate == 1 && attrs.scale == 1 && static_cast<float>(attrs.alpha) == attrs.alpha) {
      return e.output(0, e.node("Elu", {x}, {number("alpha", attrs.alpha)}));
    }
    const std::string below =
        e.node("Elu", {e.node("Mul", {e.node("Min", {x, zero}), e.scalar(attrs.rate, dtype)})});
    const std::string negative = e.node("Mul", {below, e.scalar(attrs.scale * attrs.alpha, dtype)});
    const std::string positive =
        e.node("Mul", {e.node("Max", {x, zero}), e.scalar(attrs.scale, dtype)});
    e.output(0, e.node("Add", {positive, negative}));
  }
};

struct SlopeAttrs {
  double slope = 0.01;
};

struct LeakyRelu {
  using Attrs = SlopeAttrs;
  static constexpr Schema schema = piecewise("leaky_relu", "x above 0, slope * x elsewhere.");
  static Scalar eval(const Attrs& attrs, Scalar x) {
    return scalar::select(x > 0.0, x, attrs.slope * x);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, where(g.input(0) > 0, g.grad(), g.grad() * attrs.slope));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string x = operand_of(e);
    const DType dtype =
        e.output_type().dtype() == DType::bf16 ? DType::f32 : e.output_type().dtype();
    e.output(0, e.node("PRelu", {x, e.scalar(attrs.slope, dtype)}));
  }
};

constexpr ArgInfo kXAndSlope[] = {{"x", kFloat}, {"slope", kFloat}};

struct Prelu {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "prelu",
                                 .inputs = kXAndSlope,
                                 .outputs = kOut,
                                 .doc = "x above 0, slope * x elsewhere; the two broadcast.",
                                 .samples = {.edges = "0 -0 1 -1 2.5 -3.75"},
                                 .saved_inputs = kFirst | kSecond};
  static Scalar eval(Scalar x, Scalar slope) { return scalar::select(x > 0.0, x, slope * x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0), above = x > 0;
    if (g.needs(0)) g.set(0, where(above, g.grad(), g.grad() * g.input(1)));
    if (g.needs(1)) g.set(1, where(above, 0, g.grad() * x));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    // PRelu does not broadcast x.
    const DType dtype = e.output_type().dtype();
    const std::string x = e.operand(0), zero = e.scalar(0, dtype);
    const std::string above = e.node("Greater", {x, zero});
    e.output(0, e.node("Where", {above, x, e.node("Mul", {x, e.operand(1)})}));
  }
};

struct HardSigmoidAttrs {
  double alpha = 1.0 / 6;
  double beta = 0.5;
};

struct HardSigmoid {
  using Attrs = HardSigmoidAttrs;
  static constexpr Schema schema = piecewise("hardsigmoid", "alpha * x + beta moved into [0, 1].");
  static Scalar eval(const Attrs& attrs, Scalar x) {
    const Scalar y = attrs.alpha * x + attrs.beta;
    return scalar::select(y <= 0.0, 0.0, scalar::select(y >= 1.0, 1.0, y));
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor y = widened(g.input(0)) * attrs.alpha + attrs.beta;
    g.set(0, where(logical_and(y > 0, y < 1), widened(g.grad()) * attrs.alpha, 0));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    const std::string scaled = e.node("Mul", {e.operand(0), e.scalar(attrs.alpha, dtype)});
    const std::string moved = e.node("Add", {scaled, e.scalar(attrs.beta, dtype)});
    e.output(0, e.node("Clip", {moved, e.scalar(0, dtype), e.scalar(1, dtype)}));
  }
};

struct HardSwish {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "hardswish", "x * hardsigmoid(x).", {},
      {.low = -4, .high = 4, .edges = "0 -0 0.5 -0.5 1 -1 3 -3 6 20 -20 -90 inf nan"}, kFirst);
  static Scalar eval(Scalar x) {
    const Scalar inside = x * (x + 3.0) / 6.0;
    return scalar::select(x <= -3.0, 0.0, scalar::select(x >= 3.0, x, inside));
  }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0);
    const Tensor slope = where(x <= -3, 0, where(x >= 3, 1, x * (1.0 / 3) + 0.5));
    g.set(0, g.grad() * slope);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = e.output_type().dtype();
    const std::string x = e.operand(0);
    const std::string moved = e.node("Add", {x, e.scalar(3, dtype)});
    const std::string six = e.scalar(6, dtype);
    const std::string share =
        e.node("Div", {e.node("Clip", {moved, e.scalar(0, dtype), six}), six});
    e.output(0, e.node("Mul", {x, share}));
  }
};

struct BoundAttrs {
  double low = -1;
  double high = 1;
};

struct HardTanh {
  using Attrs = BoundAttrs;
  static constexpr Schema schema{
      .name = "hardtanh",
      .inputs = kUnaryNumber,
      .outputs = kOut,
      .doc = "x moved into [low, high] (NaN stays); its derivative at the bounds is 0.",
      .samples = {.edges = kEdges},
      .saved_inputs = kFirst,
      .cheap = true};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (!(attrs.low < attrs.high)) {
      fail_value(in, "low = " + number_text(attrs.low) +
                         " must be below high = " + number_text(attrs.high));
    }
    return infer_pointwise(in);
  }
  static Scalar eval(const Attrs& attrs, Scalar x) {
    const bool whole = !scalar::is_floating(x.type());
    const Scalar low = x.like(whole ? std::ceil(attrs.low) : attrs.low);
    const Scalar high = x.like(whole ? std::floor(attrs.high) : attrs.high);
    return scalar::select(x < low, low, scalar::select(x > high, high, x));
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor x = g.input(0);
    const Tensor outside = logical_or(x <= attrs.low, x >= attrs.high);
    g.set(0, where(outside, 0, g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType own = e.output_type().dtype(), wide = is_floating(own) ? own : DType::i64;
    const bool whole = !is_floating(own);
    const double low = whole ? std::ceil(attrs.low) : attrs.low;
    const double high = whole ? std::floor(attrs.high) : attrs.high;
    e.output(0,
             e.node("Clip", {e.cast(e.input(0), wide), e.scalar(low, wide), e.scalar(high, wide)}));
  }
};

struct ThresholdedReluAttrs {
  double alpha = 1;
};

struct ThresholdedRelu {
  using Attrs = ThresholdedReluAttrs;
  static constexpr Schema schema = piecewise("thresholded_relu", "x above alpha, 0 elsewhere.");
  static Scalar eval(const Attrs& attrs, Scalar x) {
    return scalar::select(x <= attrs.alpha, 0.0, x);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, where(g.input(0) <= attrs.alpha, 0, g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    const std::string x = e.operand(0);
    const std::string below = e.node("LessOrEqual", {x, e.scalar(attrs.alpha, dtype)});
    e.output(0, e.node("Where", {below, e.scalar(0, dtype), x}));
  }
};

struct ShrinkAttrs {
  double lambda = 0.5;
  double bias = 0;
};

struct Shrink {
  using Attrs = ShrinkAttrs;
  static constexpr Schema schema =
      piecewise("shrink", "x moved by bias towards 0 where |x| is above lambda, 0 elsewhere.");
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (!(attrs.lambda >= 0)) {
      fail_value(in, "lambda = " + number_text(attrs.lambda) + " must be at least 0");
    }
    return infer_pointwise(in);
  }
  static Scalar eval(const Attrs& attrs, Scalar x) {
    const Scalar inside = scalar::abs(x) <= attrs.lambda;
    const Scalar moved = scalar::select(x > 0.0, x - attrs.bias, x + attrs.bias);
    return scalar::select(inside, 0.0, attrs.bias == 0 ? x : moved);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, where(abs(g.input(0)) <= attrs.lambda, 0, g.grad()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType dtype = e.output_type().dtype();
    const std::string x = e.operand(0), zero = e.scalar(0, dtype);
    const std::string inside =
        e.node("LessOrEqual", {e.node("Abs", {x}), e.scalar(attrs.lambda, dtype)});
    const std::string bias = e.scalar(attrs.bias, dtype);
    const std::string moved = e.node("Where", {e.node("Greater", {x, zero}),
                                               e.node("Sub", {x, bias}), e.node("Add", {x, bias})});
    e.output(0, e.node("Where", {inside, zero, moved}));
  }
};

struct Hardmax {
  using Attrs = AxisAttrs;
  static constexpr Schema schema{
      .name = "hardmax",
      .inputs = kUnaryFloat,
      .outputs = kOut,
      .doc = "1 at the first largest element along an axis, 0 elsewhere.",
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_elements(in, {checked_axis(in, attrs.axis, in[0].rank())});
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor& x = *in[0];
    const int axis = from_front(attrs.axis, x.rank());
    Shape along(Ints(static_cast<std::size_t>(x.rank()), 1));
    along[static_cast<std::size_t>(axis)] = x.size(axis);
    const Tensor positions = reshape(arange(x.size(axis)), along);
    return {to(argmax(x, axis, true) == positions, x.dtype())};
  }
  static void grad(Gradient&, const Attrs&) {}
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string x = e.input_as(0, kFloat & ~set_of(DType::bf16));
    e.output(0, e.node("Hardmax", {x}, {{"axis", attrs.axis}}));
  }
};

}  // namespace

std::span<const OpInfo* const> piecewise_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Elu>,       &op_info<LeakyRelu>, &op_info<Prelu>,           &op_info<HardSigmoid>,
      &op_info<HardSwish>, &op_info<HardTanh>,  &op_info<ThresholdedRelu>, &op_info<Shrink>,
      &op_info<Hardmax>,
  };
  return kRows;
}

}  // namespace ops

Tensor elu(const Tensor& x, double alpha, Loc loc) {
  return apply<ops::Elu>({.alpha = alpha}, loc, x);
}
Tensor celu(const Tensor& x, double alpha, Loc loc) {
  if (alpha == 0) throw ValueError("celu(" + type_string(x) + "): alpha must not be 0", loc.user());
  return apply<ops::Elu>({.alpha = alpha, .rate = 1 / alpha}, loc, x);
}
Tensor selu(const Tensor& x, Loc loc) {
  return apply<ops::Elu>({.alpha = 1.6732632423543772848, .scale = 1.0507009873554804934}, loc, x);
}
Tensor leaky_relu(const Tensor& x, double slope, Loc loc) {
  return apply<ops::LeakyRelu>({.slope = slope}, loc, x);
}
Tensor prelu(const Tensor& x, const Tensor& weight, Loc loc) {
  if (!x.defined() || !weight.defined() || weight.rank() == 0 ||
      (weight.rank() == 1 && x.rank() < 2)) {
    return apply<ops::Prelu>({}, loc, x, weight);
  }
  if (weight.rank() != 1) {
    throw ShapeError("prelu(x: " + type_string(x) + ", weight: " + type_string(weight) +
                         "): the weight is one slope or one for each channel, of rank 0 or 1; "
                         "where(x > 0, x, x * weight) takes any",
                     loc.user());
  }
  Shape channels(Ints(static_cast<std::size_t>(x.rank() - 1), 1));
  channels[0] = weight.size(0, loc);
  return apply<ops::Prelu>({}, loc, x, reshape(weight, channels, loc));
}
Tensor hardsigmoid(const Tensor& x, double alpha, double beta, Loc loc) {
  return apply<ops::HardSigmoid>({.alpha = alpha, .beta = beta}, loc, x);
}
Tensor hardswish(const Tensor& x, Loc loc) { return apply<ops::HardSwish>({}, loc, x); }
Tensor hardtanh(const Tensor& x, double low, double high, Loc loc) {
  return apply<ops::HardTanh>({.low = low, .high = high}, loc, x);
}
Tensor relu6(const Tensor& x, Loc loc) { return hardtanh(x, 0, 6, loc); }
Tensor thresholded_relu(const Tensor& x, double alpha, Loc loc) {
  return apply<ops::ThresholdedRelu>({.alpha = alpha}, loc, x);
}
Tensor hardshrink(const Tensor& x, double lambda, Loc loc) {
  return apply<ops::Shrink>({.lambda = lambda}, loc, x);
}
Tensor softshrink(const Tensor& x, double lambda, Loc loc) {
  return apply<ops::Shrink>({.lambda = lambda, .bias = lambda}, loc, x);
}
Tensor hardmax(const Tensor& x, std::int64_t axis, Loc loc) {
  if (ops::is_of_scalar(axis, x)) {
    return ops::as_scalar(hardmax(ops::as_vector(x, loc), axis, loc), loc);
  }
  return apply<ops::Hardmax>({.axis = ops::normalized(axis, x)}, loc, x);
}

}  // namespace dyad
