#include "dyad/ops/division.h"

#include <algorithm>
#include <cmath>

#include "dyad/core/promotion.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/numeric.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

constexpr Samples kDivisionSamples{
    .low = 0.6, .high = 2.9, .edges = "0 -0 1 -1 2.5 -3.75 0.1 1e6 inf -inf nan"};

constexpr Schema division(std::string_view name, std::string_view doc, std::uint32_t saved_inputs) {
  return {.name = name,
          .inputs = kBinary,
          .outputs = kOut,
          .doc = doc,
          .samples = kDivisionSamples,
          .saved_inputs = saved_inputs};
}

Types infer_division(const InferIn& in) {
  return infer_of_numbers(in, "bool tensors are not divided with a remainder; cast one with to()");
}

/// Both operands in the dtype that a division of integers is written in, and which divisors are 0.
struct IntegerDivision {
  explicit IntegerDivision(OnnxEmitter& e)
      : a(e.cast(e.input(0), DType::i64)),
        zero(e.scalar(0, DType::i64)),
        divisor(e.cast(e.input(1), DType::i64)),
        by_zero(e.node("Equal", {divisor, zero})),
        b(e.node("Where", {by_zero, e.scalar(1, DType::i64), divisor})) {}
  /// What is 0 where the divisor is.
  void output(OnnxEmitter& e, const std::string& value) const {
    e.output(0, e.node("Where", {by_zero, zero, value}));
  }
  std::string a, zero, divisor, by_zero, b;
};

/// Both operands in f32 or f64.
struct FloatOperands {
  explicit FloatOperands(OnnxEmitter& e)
      : dtype(e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32),
        a(e.cast(e.operand(0), dtype)),
        b(e.cast(e.operand(1), dtype)) {}
  DType dtype;
  std::string a, b;
};

/// fmod(a, b); 0 has the sign of a.
std::string write_fmod(OnnxEmitter& e, const FloatOperands& in) {
  return e.node("Mod", {in.a, in.b}, {{"fmod", std::int64_t{1}}});
}
/// Whether a remainder, with the sign of a, moves by b to get that of b.
std::string moves(OnnxEmitter& e, const FloatOperands& in, const std::string& rest) {
  const std::string zero = e.scalar(0, in.dtype);
  const std::string signs =
      e.node("Xor", {e.node("Less", {rest, zero}), e.node("Less", {in.b, zero})});
  return e.node("And", {signs, e.node("Not", {e.node("Equal", {rest, zero})})});
}

struct FloorDivide {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      division("floor_divide", "a / b rounded to minus infinity; integers: 0 where b is 0.", 0);
  static Types infer(const InferIn& in, const Attrs&) { return infer_division(in); }
  static Scalar eval(Scalar a, Scalar b) { return scalar::floor_div(a, b); }
  static void grad(Gradient&, const Attrs&) {}
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    if (!is_floating(e.output_type().dtype())) {
      const IntegerDivision in(e);
      const std::string rest = e.node("Mod", {in.a, in.b});
      in.output(e, e.node("Div", {e.node("Sub", {in.a, rest}), in.b}));
      return;
    }
    const FloatOperands in(e);
    const std::string rest = write_fmod(e, in), one = e.scalar(1, in.dtype);
    const std::string quotient = e.node("Div", {e.node("Sub", {in.a, rest}), in.b});
    const std::string lower = e.node("Sub", {quotient, one});
    const std::string whole =
        e.node("Round", {e.node("Where", {moves(e, in, rest), lower, quotient})});
    const std::string by_zero = e.node("Equal", {in.b, e.scalar(0, in.dtype)});
    e.output(0, e.node("Where", {by_zero, e.node("Div", {in.a, in.b}), whole}));
  }
};

struct Remainder {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      division("remainder", "The remainder of a / b with the sign of b.", kFirst | kSecond);
  static Types infer(const InferIn& in, const Attrs&) { return infer_division(in); }
  static Scalar eval(Scalar a, Scalar b) { return scalar::floor_mod(a, b); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, g.grad());
    if (g.needs(1)) g.set(1, neg(g.grad() * floor_divide(g.input(0), g.input(1))));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    if (!is_floating(e.output_type().dtype())) {
      const IntegerDivision in(e);
      in.output(e, e.node("Mod", {in.a, in.b}));
      return;
    }
    const FloatOperands in(e);
    const std::string rest = write_fmod(e, in);
    const std::string moved = e.node("Add", {rest, in.b});
    e.output(0, e.node("Where", {moves(e, in, rest), moved, rest}));
  }
};

struct Fmod {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      division("fmod", "The remainder of a / b with the sign of a.", kFirst | kSecond);
  static Types infer(const InferIn& in, const Attrs&) { return infer_division(in); }
  static Scalar eval(Scalar a, Scalar b) { return scalar::fmod(a, b); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, g.grad());
    if (g.needs(1)) {
      g.set(1, neg(g.grad() * trunc(div(g.input(0), g.input(1)))));
    }
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    if (is_floating(e.output_type().dtype())) return e.output(0, write_fmod(e, FloatOperands(e)));
    const IntegerDivision in(e);
    in.output(e, e.node("Mod", {in.a, in.b}, {{"fmod", std::int64_t{1}}}));
  }
};

/// x without its fraction, in a dtype that ONNX has the functions for.
std::string write_trunc(OnnxEmitter& e, const std::string& x) {
  return e.node("Mul", {e.node("Floor", {e.node("Abs", {x})}), e.node("Sign", {x})});
}

struct Trunc {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "trunc",
      .inputs = kUnaryNumber,
      .outputs = kOut,
      .doc = "The nearest whole number between x and 0; its derivative is 0.",
      .samples = kRoundingSamples};
  static Scalar eval(Scalar x) { return scalar::is_floating(x.type()) ? scalar::trunc(x) : x; }
  static void grad(Gradient&, const Attrs&) {}
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    if (!is_floating(e.output_type().dtype())) return e.output(0, e.input(0));
    e.output(0, write_trunc(e, e.input_as(0, kFloat & ~set_of(DType::bf16))));
  }
};

struct Frac {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "frac",
                                 .inputs = kUnaryFloat,
                                 .outputs = kOut,
                                 .doc = "x - trunc(x); its derivative is 1.",
                                 .samples = kRoundingSamples};
  static Scalar eval(Scalar x) { return x - scalar::trunc(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad()); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const std::string x = e.input_as(0, kFloat & ~set_of(DType::bf16));
    e.output(0, e.node("Sub", {x, write_trunc(e, x)}));
  }
};

constexpr Schema extreme(std::string_view name, std::string_view doc) {
  return {.name = name,
          .inputs = kBinary,
          .outputs = kOut,
          .doc = doc,
          .samples = {.edges = "0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan"},
          .saved_inputs = kFirst | kSecond};
}
/// To the operand that was taken, in halves between equals.
void split_by(Gradient& g, const Tensor& first_is_taken) {
  const Tensor equal = g.input(0) == g.input(1), half = g.grad() * 0.5;
  if (g.needs(0)) g.set(0, where(equal, half, where(first_is_taken, g.grad(), 0)));
  if (g.needs(1)) g.set(1, where(equal, half, where(first_is_taken, 0, g.grad())));
}
void write_extreme(OnnxEmitter& e, std::string_view op) {
  if (!is_floating(e.output_type().dtype())) {
    const DType wide = DType::i64;
    return e.output(0, e.node(op, {e.cast(e.input(0), wide), e.cast(e.input(1), wide)}));
  }
  const FloatOperands in(e);
  const std::string other =
      e.node("Where", {e.node("IsNaN", {in.b}), in.a, e.node(op, {in.a, in.b})});
  e.output(0, e.node("Where", {e.node("IsNaN", {in.a}), in.b, other}));
}

struct Fmax {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      extreme("fmax", "The larger of a and b, the other one where one is NaN; of bool: a or b.");
  static Scalar eval(Scalar a, Scalar b) {
    if (a.type() == ScalarType::boolean) return a | b;
    return scalar::select((a > b) | (b != b), a, b);
  }
  static void grad(Gradient& g, const Attrs&) {
    split_by(g, logical_or(g.input(0) > g.input(1), isnan(g.input(1))));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_extreme(e, "Max"); }
};

struct Fmin {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      extreme("fmin", "The smaller of a and b, the other one where one is NaN; of bool: a and b.");
  static Scalar eval(Scalar a, Scalar b) {
    if (a.type() == ScalarType::boolean) return a & b;
    return scalar::select((a < b) | (b != b), a, b);
  }
  static void grad(Gradient& g, const Attrs&) {
    split_by(g, logical_or(g.input(0) < g.input(1), isnan(g.input(1))));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_extreme(e, "Min"); }
};

constexpr ArgInfo kLerpInputs[] = {{"a", kNumber}, {"b", kNumber}, {"weight", kNumber}};

struct Lerp {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "lerp",
                                 .inputs = kLerpInputs,
                                 .outputs = kOut,
                                 .doc = "a + weight * (b - a), exactly b where the weight is 1.",
                                 .samples = {.edges = "0 -0 1 -1 0.5 2.5 inf nan"},
                                 .typing = Typing::floating,
                                 .saved_inputs = kFirst | kSecond | kThird};
  static Scalar eval(Scalar a, Scalar b, Scalar weight) {
    const Scalar difference = b - a;
    return scalar::select(weight < 0.5, a + weight * difference, b - difference * (1.0 - weight));
  }
  static void grad(Gradient& g, const Attrs&) {
    if (g.needs(0)) g.set(0, g.grad() * (1 - to(g.input(2), g.grad().dtype())));
    if (g.needs(1)) g.set(1, g.grad() * g.input(2));
    if (g.needs(2)) g.set(2, g.grad() * (g.input(1) - g.input(0)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType dtype = e.output_type().dtype();
    const std::string a = e.operand(0), b = e.operand(1), weight = e.operand(2);
    const std::string gap = e.node("Sub", {b, a});
    const std::string near_a = e.node("Add", {a, e.node("Mul", {weight, gap})});
    const std::string rest = e.node("Sub", {e.scalar(1, dtype), weight});
    const std::string near_b = e.node("Sub", {b, e.node("Mul", {gap, rest})});
    const std::string low = e.node("Less", {weight, e.scalar(0.5, dtype)});
    e.output(0, e.node("Where", {low, near_a, near_b}));
  }
};

struct NanToNumAttrs {
  double nan = 0;
  double posinf = std::numeric_limits<double>::infinity();
  double neginf = -std::numeric_limits<double>::infinity();
};

struct NanToNum {
  using Attrs = NanToNumAttrs;
  static constexpr Schema schema{
      .name = "nan_to_num",
      .inputs = kUnary,
      .outputs = kOut,
      .doc = "x with other numbers in the place of NaN and the infinities.",
      .samples = {.edges = "0 -0 1 3e38 inf -inf nan"},
      .saved_inputs = kFirst};
  static Scalar eval(const Attrs& attrs, Scalar x) {
    if (!scalar::is_floating(x.type())) return x;
    Scalar y = scalar::select(x != x, x.like(attrs.nan), x);
    y = scalar::select(x == kInf, x.like(attrs.posinf), y);
    return scalar::select(x == -kInf, x.like(attrs.neginf), y);
  }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, where(isfinite(g.input(0)), g.grad(), 0));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType own = e.output_type().dtype();
    if (!is_floating(own)) return e.output(0, e.input(0));
    const std::string x = e.input_as(0, set_of(DType::f32) | set_of(DType::f64));
    const DType dtype = own == DType::f64 ? DType::f64 : DType::f32;
    const std::string finite =
        e.node("Where", {e.node("IsNaN", {x}), e.scalar(attrs.nan, dtype), x});
    const std::string below = e.node("IsInf", {x}, {{"detect_positive", std::int64_t{0}}});
    const std::string above = e.node("IsInf", {x}, {{"detect_negative", std::int64_t{0}}});
    const std::string raised = e.node("Where", {below, e.scalar(attrs.neginf, dtype), finite});
    e.output(0, e.node("Where", {above, e.scalar(attrs.posinf, dtype), raised}));
  }

 private:
  static constexpr double kInf = std::numeric_limits<double>::infinity();
};

/// The largest finite number of a floating dtype.
double largest(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::max();
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.FEp127;
    default:
      return std::numeric_limits<float>::max();
  }
}

}  // namespace

std::span<const OpInfo* const> division_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<FloorDivide>, &op_info<Remainder>, &op_info<Fmod>,
      &op_info<Trunc>,       &op_info<Frac>,      &op_info<Fmax>,
      &op_info<Fmin>,        &op_info<Lerp>,      &op_info<NanToNum>,
  };
  return kRows;
}

}  // namespace ops

Tensor reciprocal(const Tensor& x, Loc loc) { return div(1, x, loc); }
Tensor floor_divide(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::FloorDivide>({}, loc, a.tensor(), b.tensor());
}
Tensor div(const Arg& a, const Arg& b, std::string_view rounding, Loc loc) {
  const LocScope called(loc, "div");
  if (rounding == "floor") return floor_divide(a, b, loc);
  if (rounding != "trunc") {
    throw ValueError("div(a: " + type_string(a.tensor()) + ", b: " + type_string(b.tensor()) +
                         ", rounding = \"" + std::string(rounding) +
                         "\"): the rounding must be trunc or floor; without one the quotient is "
                         "not rounded",
                     loc.user());
  }
  if (!is_integer(result_type({a, b}))) return trunc(div(a, b, loc), loc);
  return floor_divide(sub(a, fmod(a, b, loc), loc), b, loc);
}
Tensor remainder(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Remainder>({}, loc, a.tensor(), b.tensor());
}
Tensor operator%(const Arg& a, const Arg& b) { return remainder(a, b, a.loc()); }
Tensor fmod(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Fmod>({}, loc, a.tensor(), b.tensor());
}
Tensor trunc(const Tensor& x, Loc loc) { return apply<ops::Trunc>({}, loc, x); }
Tensor frac(const Tensor& x, Loc loc) { return apply<ops::Frac>({}, loc, x); }
Modf modf(const Tensor& x, Loc loc) {
  const LocScope called(loc, "modf");
  const Tensor number = is_floating(x.dtype()) ? x : to(x, f32, loc);
  const Tensor whole = trunc(number, loc);
  const Tensor fraction = where(isinf(number, true, true, loc), 0, frac(number, loc), loc);
  return {copysign(fraction, number, loc), whole};
}
Tensor round(const Tensor& x, std::int64_t decimals, Loc loc) {
  const LocScope called(loc, "round");
  if (std::abs(decimals) > 300) {
    throw ValueError("round(" + type_string(x) + ", decimals = " + std::to_string(decimals) +
                         "): decimals must be from -300 to 300",
                     loc.user());
  }
  if (decimals == 0) return round(x, loc);
  const double power = std::pow(10, std::abs(static_cast<double>(decimals)));
  if (is_floating(x.dtype())) {
    const Tensor wide = x.dtype() == f64 ? x : to(x, f32, loc);
    const Tensor made = decimals > 0 ? div(round(mul(wide, power, loc), loc), power, loc)
                                     : mul(round(div(wide, power, loc), loc), power, loc);
    return to(made, x.dtype(), loc);
  }
  if (decimals > 0) return round(x, loc);
  // Beyond i64 there is no half of a power: everything is rounded to 0.
  if (decimals < -18) return zeros_like(x, loc);
  const auto unit = static_cast<std::int64_t>(power);
  const Tensor wide = x.dtype() == u64 ? x : to(x, i64, loc);
  const Tensor below = floor_divide(wide, unit, loc);
  const Tensor rest = remainder(wide, unit, loc), odd = ne(remainder(below, 2, loc), 0, loc);
  const Tensor up =
      logical_or(gt(rest, unit / 2, loc), logical_and(eq(rest, unit / 2, loc), odd, loc), loc);
  return to(mul(add(below, to(up, wide.dtype(), loc), loc), unit, loc), x.dtype(), loc);
}
Tensor fmax(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Fmax>({}, loc, a.tensor(), b.tensor());
}
Tensor fmin(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Fmin>({}, loc, a.tensor(), b.tensor());
}
Tensor lerp(const Arg& a, const Arg& b, const Arg& weight, Loc loc) {
  return apply<ops::Lerp>({}, loc, a.tensor(), b.tensor(), weight.tensor());
}
Tensor nan_to_num(const Tensor& x, double nan, double posinf, double neginf, Loc loc) {
  const double most = ops::largest(x.defined() ? x.dtype() : f32);
  const auto finite = [&](double bound) { return std::clamp(bound, -most, most); };
  return apply<ops::NanToNum>({.nan = nan, .posinf = finite(posinf), .neginf = finite(neginf)}, loc,
                              x);
}

}  // namespace dyad
