#include "dyad/ops/elementary.h"

#include <cmath>
#include <numbers>

#include "dyad/ir/literal.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex_support.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/quantize_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

std::string text_of(Number number) {
  if (number.dtype() == DType::f64) return number_text(number.floating());
  return number.dtype() == DType::u64 ? std::to_string(static_cast<std::uint64_t>(number.integer()))
                                      : std::to_string(number.integer());
}

/// The schema of a function of one floating argument.
constexpr Schema function(std::string_view name, std::string_view doc, OnnxName onnx,
                          Samples samples, std::uint32_t saved_inputs,
                          std::uint32_t saved_outputs = 0) {
  return {.name = name,
          .inputs = kUnary,
          .outputs = kOut,
          .doc = doc,
          .onnx = onnx,
          .samples = samples,
          .typing = Typing::floating,
          .saved_inputs = saved_inputs,
          .saved_outputs = saved_outputs};
}

struct Exp {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      function("exp", "e to the power x.", {"Exp", 13},
               {.edges = "0 -0 1 -1 1e-8 88 89 -87 -104 710 -746 inf -inf nan"}, 0, kFirst);
  static Scalar eval(Scalar x) { return scalar::exp(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * g.output()); }
};

struct Expm1 {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      function("expm1", "exp(x) - 1, exact near 0.", {},
               {.edges = "0 -0 1e-30 -1e-8 1 -1 -20 88 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::expm1(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * exp(g.input(0))); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    // tanh(x / 2) * (exp(x) + 1), exact near 0.
    const DType dtype = e.output_type().dtype();
    const std::string x = e.operand(0);
    const std::string half = e.node("Tanh", {e.node("Mul", {x, e.scalar(0.5, dtype)})});
    e.output(0, e.node("Mul", {half, e.node("Add", {e.node("Exp", {x}), e.scalar(1, dtype)})}));
  }
};

struct Log {
  using Attrs = NoAttrs;
  static constexpr Schema schema = function(
      "log", "Natural logarithm: NaN below 0, -inf at 0.", {"Log", 13},
      {.low = 0.2, .high = 4, .edges = "0 -0 1 1.0000001 1e-30 1e-40 3e38 -1 inf -inf nan"},
      kFirst);
  static Scalar eval(Scalar x) { return scalar::log(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() / g.input(0)); }
};

struct Log1p {
  using Attrs = NoAttrs;
  static constexpr Schema schema = function(
      "log1p", "log(1 + x), exact near 0.", {},
      {.low = -0.7, .high = 4, .edges = "0 -0 1e-30 -1e-8 1 -1 -2 1e20 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::log1p(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() / (g.input(0) + 1)); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    // Below 1: 2 * atanh(x / (x + 2)), exact near 0.
    const DType dtype = e.output_type().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const std::string x = e.cast(e.input(0), dtype), one = e.scalar(1, dtype);
    const std::string two = e.scalar(2, dtype);
    const std::string ratio = e.node("Div", {x, e.node("Add", {x, two})});
    const std::string small = e.node("Mul", {e.node("Atanh", {ratio}), two});
    const std::string large = e.node("Log", {e.node("Add", {x, one})});
    e.output(0, e.node("Where", {e.node("Less", {x, one}), small, large}));
  }
};

struct Sqrt {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      function("sqrt", "Square root: NaN below 0.", {"Sqrt", 13},
               {.low = 0.2, .high = 4, .edges = "0 -0 1 2 1e-40 3e38 -1 inf -inf nan"}, 0, kFirst);
  static Scalar eval(Scalar x) { return scalar::sqrt(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() / (g.output() * 2)); }
};

struct Rsqrt {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      function("rsqrt", "1 / sqrt(x).", {},
               {.low = 0.2, .high = 4, .edges = "0 1 2 1e-30 3e38 -1 inf nan"}, 0, kFirst);
  static Scalar eval(Scalar x) { return scalar::rsqrt(x); }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor y = g.output();
    g.set(0, g.grad() * (y * y * y * -0.5));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("Reciprocal", {e.node("Sqrt", {e.operand(0)})}));
  }
};

struct Sin {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      function("sin", "Sine of x radians.", {"Sin", 7},
               {.edges = "0 -0 1e-20 1.5707964 3.1415927 100 -1e4 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::sin(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * cos(g.input(0))); }
};

struct Cos {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      function("cos", "Cosine of x radians.", {"Cos", 7},
               {.edges = "0 -0 1e-20 1.5707964 3.1415927 100 -1e4 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::cos(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, neg(g.grad() * sin(g.input(0)))); }
};

struct Erf {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      function("erf", "The error function.", {"Erf", 13},
               {.edges = "0 -0 1e-20 0.5 -1 2 3.9 -4 6 inf -inf nan"}, kFirst);
  static Scalar eval(Scalar x) { return scalar::erf(x); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, g.grad() * (exp(neg(square(g.input(0)))) * (2 * std::numbers::inv_sqrtpi)));
  }
};

/// The schema of a function to whole numbers.
constexpr Schema rounding(std::string_view name, std::string_view doc) {
  return {.name = name,
          .inputs = kUnaryNumber,
          .outputs = kOut,
          .doc = doc,
          .samples = kRoundingSamples};
}
/// Integers are whole already.
void write_rounding(OnnxEmitter& e, std::string_view op) {
  if (!is_floating(e.output_type().dtype())) return e.output(0, e.input(0));
  e.output(0, e.node(op, {e.input_as(0, kFloat & ~set_of(DType::bf16))}));
}

struct Floor {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      rounding("floor", "The largest whole number not above x; its derivative is 0.");
  static Scalar eval(Scalar x) { return scalar::is_floating(x.type()) ? scalar::floor(x) : x; }
  static void grad(Gradient&, const Attrs&) {}
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_rounding(e, "Floor"); }
};
struct Ceil {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      rounding("ceil", "The smallest whole number not below x; its derivative is 0.");
  static Scalar eval(Scalar x) { return scalar::is_floating(x.type()) ? scalar::ceil(x) : x; }
  static void grad(Gradient&, const Attrs&) {}
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_rounding(e, "Ceil"); }
};
struct Round {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      rounding("round", "To the nearest whole number, ties to even; its derivative is 0.");
  static Scalar eval(Scalar x) { return scalar::is_floating(x.type()) ? scalar::rint(x) : x; }
  static void grad(Gradient&, const Attrs&) {}
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_rounding(e, "Round"); }
};

struct ClampAttrs {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

struct Clamp {
  using Attrs = ClampAttrs;
  static constexpr Schema schema{.name = "clamp",
                                 .inputs = kUnaryNumber,
                                 .outputs = kOut,
                                 .doc = "x moved into [low, high] (NaN stays).",
                                 .samples = {.edges = "0 -0 1 -1 5 -5 inf -inf nan"},
                                 .saved_inputs = kFirst,
                                 .cheap = true};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (!(attrs.low <= attrs.high)) {
      fail_value(in, "low = " + number_text(attrs.low) +
                         " must not be above high = " + number_text(attrs.high));
    }
    return infer_pointwise(in);
  }
  static Scalar eval(const Attrs& attrs, Scalar x) {
    // Whole bounds inside the given ones for integers; infinite ones bound nothing.
    const bool whole = !scalar::is_floating(x.type());
    const double low = whole ? std::ceil(attrs.low) : attrs.low;
    const double high = whole ? std::floor(attrs.high) : attrs.high;
    if (std::isfinite(low)) x = scalar::select(x < x.like(low), x.like(low), x);
    if (std::isfinite(high)) x = scalar::select(x > x.like(high), x.like(high), x);
    return x;
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor x = g.input(0);
    g.set(0, where(logical_and(x >= attrs.low, x <= attrs.high), g.grad(), 0));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const DType own = e.output_type().dtype();
    if (is_floating(own)) return write_clip(e, own, attrs.low, attrs.high);
    // Bounds may lie outside the dtype of the integers, within the one that these are clamped in.
    const DType wide = own == DType::i64 ? DType::i64 : DType::i32;
    const double limit = std::exp2(wide == DType::i64 ? 63 : 31);
    const double low = std::ceil(attrs.low), high = std::floor(attrs.high);
    write_clip(e, wide, low > -limit ? low : -INFINITY, high < limit ? high : INFINITY);
  }

 private:
  static void write_clip(OnnxEmitter& e, DType dtype, double low, double high) {
    // An absent bound is the largest finite number. For integers that is as good as none.
    const auto bound = [&](double x) {
      return std::isfinite(x) || is_floating(dtype) ? e.scalar(x, dtype) : "";
    };
    e.output(0, e.node("Clip", {e.cast(e.input(0), dtype), bound(low), bound(high)}));
  }
};

struct CastAttrs {
  DType dtype = DType::f32;
  bool saturate = true;
};

/// Integers that are computed in a wider type.
constexpr DTypeSet kNarrow = set_of({i16, i8, u32, u16, u8});

/// A floating number as the integer that a narrow dtype has for it, in the type of its
/// computations.
Scalar within(Scalar x, DType dtype) {
  const auto [low, high] = bounds_of(dtype);
  const Scalar whole = scalar::convert(x, scalar::compute_type(dtype));
  const Scalar above = scalar::max(whole, whole.like(static_cast<std::int64_t>(low)));
  return scalar::min(above, whole.like(static_cast<std::int64_t>(high)));
}

constexpr ArgInfo kConverted[] = {{"x", kAny | kSmall}};

struct Cast {
  using Attrs = CastAttrs;
  static constexpr Schema schema{
      .name = "cast",
      .inputs = kConverted,
      .outputs = kOut,
      .doc =
          "x converted to another dtype: floats to integers truncate and saturate (NaN gives 0), "
          "integers to narrower ones wrap, anything but 0 is true. To floats of 8 and 4 bits "
          "rounds to nearest, ties to even (f8e8m0: up), and saturates unless `saturate` is "
          "false; to i4, i2, u4, u2 floats saturate and integers wrap.",
      .samples = {.edges = "0 -0 0.5 -1.5 127.9 128 300 -129 2147483648 1e20 inf -inf nan"},
      .cheap = true};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (!contains(kAny | kSmall, attrs.dtype)) {
      fail_dtype(in, "numbers have no conversion to " + std::string(name_of(attrs.dtype)) +
                         (is_complex(attrs.dtype) ? " in one operator; use to()" : ""));
    }
    return {Type(attrs.dtype, in[0].shape())};
  }
  static Scalar eval(const Attrs& attrs, Scalar x) {
    if (!attrs.saturate && contains(kSmallFloat, attrs.dtype)) {
      return scalar::from_code(scalar::to_code(x, attrs.dtype, false), attrs.dtype);
    }
    const bool narrows = contains(kNarrow, attrs.dtype) && scalar::is_floating(x.type());
    return scalar::cast(narrows ? within(x, attrs.dtype) : x, attrs.dtype);
  }
  static void grad(Gradient& g, const Attrs&) { g.set(0, to(g.grad(), g.input_dtype(0))); }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    std::string x = e.input(0);
    if (contains(kSmallInteger | kNarrow, attrs.dtype) && is_floating(e.input_type(0).dtype())) {
      // What is too large for them is not said in ONNX. f32 has no 2^32 - 1.
      const bool wide = e.input_type(0).dtype() == DType::f64 || attrs.dtype == DType::u32;
      const DType dtype = wide ? DType::f64 : DType::f32;
      const auto [low, high] = bounds_of(attrs.dtype);
      x = e.node("Clip", {e.cast(x, dtype), e.scalar(low, dtype), e.scalar(high, dtype)});
    }
    e.output(0, e.cast(x, attrs.dtype, attrs.saturate));
  }
};

}  // namespace

std::span<const OpInfo* const> elementary_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Exp>,   &op_info<Expm1>, &op_info<Log>,   &op_info<Log1p>, &op_info<Sqrt>,
      &op_info<Rsqrt>, &op_info<Sin>,   &op_info<Cos>,   &op_info<Erf>,   &op_info<Floor>,
      &op_info<Ceil>,  &op_info<Round>, &op_info<Clamp>, &op_info<Cast>,
  };
  return kRows;
}

}  // namespace ops

Tensor exp(const Tensor& x, Loc loc) {
  if (ops::is_complex(x)) return ops::complex_exp(x, loc);
  return apply<ops::Exp>({}, loc, x);
}
Tensor expm1(const Tensor& x, Loc loc) { return apply<ops::Expm1>({}, loc, x); }
Tensor log(const Tensor& x, Loc loc) {
  if (ops::is_complex(x)) return ops::complex_log(x, loc);
  return apply<ops::Log>({}, loc, x);
}
Tensor log1p(const Tensor& x, Loc loc) { return apply<ops::Log1p>({}, loc, x); }
Tensor sqrt(const Tensor& x, Loc loc) { return apply<ops::Sqrt>({}, loc, x); }
Tensor rsqrt(const Tensor& x, Loc loc) { return apply<ops::Rsqrt>({}, loc, x); }
Tensor sin(const Tensor& x, Loc loc) { return apply<ops::Sin>({}, loc, x); }
Tensor cos(const Tensor& x, Loc loc) { return apply<ops::Cos>({}, loc, x); }
Tensor erf(const Tensor& x, Loc loc) { return apply<ops::Erf>({}, loc, x); }
Tensor floor(const Tensor& x, Loc loc) { return apply<ops::Floor>({}, loc, x); }
Tensor ceil(const Tensor& x, Loc loc) { return apply<ops::Ceil>({}, loc, x); }
Tensor round(const Tensor& x, Loc loc) { return apply<ops::Round>({}, loc, x); }
Tensor clamp(const Tensor& x, Number low, Number high, Loc loc) {
  const auto rounded = [&](Number bound) { return x.defined() && bound.only_in(x.dtype()); };
  const double least = low.floating(), most = high.floating();
  if (!rounded(low) && !rounded(high)) {
    return apply<ops::Clamp>({.low = least, .high = most}, loc, x);
  }
  // An attribute would round such a bound; a scalar does not.
  const bool crossed = least == most ? rounded(low) && rounded(high) &&
                                           static_cast<std::uint64_t>(low.integer()) >
                                               static_cast<std::uint64_t>(high.integer())
                                     : !(least < most);
  if (crossed) {
    throw ValueError("clamp(" + type_string(x) + "): low = " + ops::text_of(low) +
                         " must not be above high = " + ops::text_of(high),
                     loc.user());
  }
  const LocScope scope(loc);
  const Tensor within = apply<ops::Clamp>({.low = rounded(low) ? -ops::kInfinity : least,
                                           .high = rounded(high) ? ops::kInfinity : most},
                                          loc, x);
  const auto scalar = [&](Number bound) {
    return rounded(bound) ? full({}, bound, x.dtype(), loc) : Tensor();
  };
  return clamp(within, scalar(low), scalar(high), loc);
}
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high, Loc loc) {
  const LocScope scope(loc);
  const auto within = [](const Tensor& value, const Tensor& fits, const Tensor& bound) {
    return where(logical_or(fits, isnan(value)), value, bound);
  };
  const Tensor above = low.defined() ? within(x, x >= low, low) : x;
  return high.defined() ? within(above, above <= high, high) : above;
}
Tensor to(const Tensor& x, DType dtype, Loc loc) { return cast(x, dtype, true, loc); }
Tensor cast(const Tensor& x, DType dtype, bool saturate, Loc loc) {
  if (x.defined() && x.dtype() == dtype) return x;
  if (ops::is_complex(x) || is_complex(dtype)) return ops::complex_to(x, dtype, loc);
  return apply<ops::Cast>({.dtype = dtype, .saturate = saturate}, loc, x);
}

}  // namespace dyad
