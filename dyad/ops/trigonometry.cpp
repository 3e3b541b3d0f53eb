#include "dyad/ops/trigonometry.h"

#include <limits>
#include <numbers>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

struct Tan {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "tan", "Tangent of x radians.", {"Tan", 7},
      {.low = -1.3, .high = 1.3, .edges = "0 -0 1e-20 0.78 3.1415927 100 -1e4 inf nan"}, 0, kFirst);
  static Scalar eval(Scalar x) { return scalar::tan(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * (square(g.output()) + 1)); }
};

struct Asin {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "asin", "The angle in [-pi/2, pi/2] whose sine is x.", {"Asin", 7},
      {.low = -0.9, .high = 0.9, .edges = "0 -0 1e-20 0.5 -0.75 1 -1 1.5 inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::asin(x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0);
    g.set(0, g.grad() * rsqrt((1 - x) * (x + 1)));
  }
};

struct Acos {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "acos", "The angle in [0, pi] whose cosine is x.", {"Acos", 7},
      {.low = -0.9, .high = 0.9, .edges = "0 -0 1e-20 0.5 -0.75 1 -1 1.5 inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::acos(x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0);
    g.set(0, neg(g.grad() * rsqrt((1 - x) * (x + 1))));
  }
};

struct Atan {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      unary_function("atan", "The angle in [-pi/2, pi/2] whose tangent is x.", {"Atan", 7},
                     {.edges = "0 -0 1e-20 0.4 -1 3 1e20 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::atan(x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor length = hypot(g.input(0), 1);  // x * x overflows sooner
    g.set(0, g.grad() / length / length);
  }
};

constexpr ArgInfo kYAndX[] = {{"y", kAny}, {"x", kAny}};
constexpr Schema pair_function(std::string_view name, std::string_view doc,
                               std::span<const ArgInfo> inputs, std::uint32_t saved_outputs) {
  Schema schema =
      binary_function(name, doc, {.edges = "0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan"},
                      kFirst | kSecond, saved_outputs);
  schema.inputs = inputs;
  return schema;
}

struct Atan2 {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      pair_function("atan2", "The angle of the point (x, y), in [-pi, pi].", kYAndX, 0);
  static Scalar eval(Scalar y, Scalar x) { return scalar::atan2(y, x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor y = widened(g.input(0)), x = widened(g.input(1)), grad = widened(g.grad());
    const Tensor distance = hypot(x, y);
    const Tensor length = where(distance == 0, 1, distance);
    if (g.needs(0)) g.set(0, grad * (x / length) / length);
    if (g.needs(1)) g.set(1, neg(grad * (y / length) / length));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    // atan(y / x), moved by pi on the left; the sign of a zero is that of its inverse.
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string y = e.cast(e.operand(0), dtype), x = e.cast(e.operand(1), dtype);
    const std::string zero = e.scalar(0, dtype), one = e.scalar(1, dtype);
    const auto is_negative = [&](const std::string& v) {
      const std::string at_zero = e.node("Less", {e.node("Div", {one, v}), zero});
      return e.node(
          "Or", {e.node("Less", {v, zero}), e.node("And", {e.node("Equal", {v, zero}), at_zero})});
    };
    const std::string left = is_negative(x), below = is_negative(y);
    const auto signed_by_y = [&](double v) {
      return e.node("Where", {below, e.scalar(-v, dtype), e.scalar(v, dtype)});
    };
    constexpr double kPi = std::numbers::pi;
    const std::string both_zero =
        e.node("And", {e.node("Equal", {x, zero}), e.node("Equal", {y, zero})});
    const std::string both_infinite = e.node("And", {e.node("IsInf", {x}), e.node("IsInf", {y})});
    const std::string plain = e.node("Atan", {e.node("Div", {y, x})});
    const std::string corner = e.node(
        "Where",
        {left, e.node("Mul", {signed_by_y(kPi / 4), e.scalar(-1, dtype)}), signed_by_y(kPi / 4)});
    const std::string angle = e.node("Where", {both_zero, e.node("Mul", {y, zero}),
                                               e.node("Where", {both_infinite, corner, plain})});
    const std::string turned = e.node("Add", {angle, signed_by_y(kPi)});
    e.output(0, e.node("Where", {left, turned, angle}));
  }
};

struct Sinh {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      unary_function("sinh", "Hyperbolic sine.", {"Sinh", 9},
                     {.edges = "0 -0 1e-20 1 -1 25 -80 89.4 710.4 -800 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::sinh(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * cosh(g.input(0))); }
};

struct Cosh {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      unary_function("cosh", "Hyperbolic cosine.", {"Cosh", 9},
                     {.edges = "0 -0 1e-20 1 -1 25 -80 89.4 710.4 -800 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::cosh(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * sinh(g.input(0))); }
};

struct Asinh {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      unary_function("asinh", "The number whose hyperbolic sine is x.", {"Asinh", 9},
                     {.edges = "0 -0 1e-20 0.3 -1 3e9 -1e30 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::asinh(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() / hypot(g.input(0), 1)); }
};

struct Acosh {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "acosh", "The number, at least 0, whose hyperbolic cosine is x.", {"Acosh", 9},
      {.low = 1.1, .high = 5, .edges = "1 1.0000001 2 3e9 1e30 0.5 -2 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::acosh(x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0);
    g.set(0, g.grad() * rsqrt(x - 1) * rsqrt(x + 1));
  }
};

struct Atanh {
  using Attrs = NoAttrs;
  static constexpr Schema schema = unary_function(
      "atanh", "The number whose hyperbolic tangent is x.", {"Atanh", 9},
      {.low = -0.9, .high = 0.9, .edges = "0 -0 1e-20 0.5 -0.75 1 -1 1.5 inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::atanh(x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor x = g.input(0);
    g.set(0, g.grad() / ((1 - x) * (x + 1)));
  }
};

struct Hypot {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      pair_function("hypot", "sqrt(x^2 + y^2) without overflow.", kXAndY, kFirst);
  static Scalar eval(Scalar x, Scalar y) { return scalar::hypot(x, y); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor length = where(g.output() == 0, 1, g.output());
    if (g.needs(0)) g.set(0, g.grad() * (g.input(0) / length));
    if (g.needs(1)) g.set(1, g.grad() * (g.input(1) / length));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    // The larger times sqrt(1 + ratio^2), so that no square overflows.
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string x = e.node("Abs", {e.cast(e.operand(0), dtype)}),
                      y = e.node("Abs", {e.cast(e.operand(1), dtype)});
    const std::string large = e.node("Max", {x, y}), small = e.node("Min", {x, y});
    const std::string equal = e.node("Equal", {large, small}), one = e.scalar(1, dtype);
    const std::string ratio = e.node("Where", {equal, one, e.node("Div", {small, large})});
    const std::string square = e.node("Add", {e.node("Mul", {ratio, ratio}), one});
    const std::string length = e.node("Mul", {large, e.node("Sqrt", {square})});
    const std::string infinite = e.node("Or", {e.node("IsInf", {x}), e.node("IsInf", {y})});
    e.output(0, e.node("Where", {infinite, e.scalar(std::numeric_limits<double>::infinity(), dtype),
                                 length}));
  }
};

}  // namespace

std::span<const OpInfo* const> trigonometry_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Tan>,   &op_info<Asin>,  &op_info<Acos>,  &op_info<Atan>,
      &op_info<Atan2>, &op_info<Sinh>,  &op_info<Cosh>,  &op_info<Asinh>,
      &op_info<Acosh>, &op_info<Atanh>, &op_info<Hypot>,
  };
  return kRows;
}

}  // namespace ops

Tensor tan(const Tensor& x, Loc loc) { return apply<ops::Tan>({}, loc, x); }
Tensor asin(const Tensor& x, Loc loc) { return apply<ops::Asin>({}, loc, x); }
Tensor acos(const Tensor& x, Loc loc) { return apply<ops::Acos>({}, loc, x); }
Tensor atan(const Tensor& x, Loc loc) { return apply<ops::Atan>({}, loc, x); }
Tensor atan2(const Arg& y, const Arg& x, Loc loc) {
  return apply<ops::Atan2>({}, loc, y.tensor(), x.tensor());
}
Tensor sinh(const Tensor& x, Loc loc) { return apply<ops::Sinh>({}, loc, x); }
Tensor cosh(const Tensor& x, Loc loc) { return apply<ops::Cosh>({}, loc, x); }
Tensor asinh(const Tensor& x, Loc loc) { return apply<ops::Asinh>({}, loc, x); }
Tensor acosh(const Tensor& x, Loc loc) { return apply<ops::Acosh>({}, loc, x); }
Tensor atanh(const Tensor& x, Loc loc) { return apply<ops::Atanh>({}, loc, x); }
Tensor hypot(const Arg& x, const Arg& y, Loc loc) {
  return apply<ops::Hypot>({}, loc, x.tensor(), y.tensor());
}

}  // namespace dyad
