#include "dyad/ops/compare.h"

#include <limits>

#include "dyad/ops/complex_support.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

constexpr Samples kComparisonSamples{.edges = "0 -0 1 -1 2.5 inf -inf nan",
                                     .differentiable = false};

/// Values that have an order: bool as 0 and 1.
Scalar ordered(Scalar x) {
  return x.type() == ScalarType::boolean ? scalar::convert(x, ScalarType::i32) : x;
}
Scalar truth(Scalar x) { return scalar::convert(x, ScalarType::boolean); }

constexpr Schema comparison(std::string_view name, std::string_view doc, OnnxName onnx) {
  return {.name = name,
          .inputs = kBinary,
          .outputs = kBoolOut,
          .doc = doc,
          .onnx = onnx,
          .samples = kComparisonSamples,
          .typing = Typing::boolean};
}

/// What can be the same or not, without an order.
constexpr ArgInfo kAlikes[] = {{"a", kEverything & ~kComplex}, {"b", kEverything & ~kComplex}};

struct Eq {
  using Attrs = NoAttrs;
  static constexpr Schema schema = [] {
    Schema made = comparison("eq", "a == b; false with NaN.", {"Equal", 13});
    made.inputs = kAlikes;
    return made;
  }();
  static Scalar eval(Scalar a, Scalar b) { return a == b; }
};
struct Ne {
  using Attrs = NoAttrs;
  static constexpr Schema schema = [] {
    Schema made = comparison("ne", "a != b; true with NaN.", {});
    made.inputs = kAlikes;
    return made;
  }();
  static Scalar eval(Scalar a, Scalar b) { return a != b; }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("Not", {e.node("Equal", {e.operand(0), e.operand(1)})}));
  }
};
struct Lt {
  using Attrs = NoAttrs;
  static constexpr Schema schema = comparison("lt", "a < b; false with NaN.", {"Less", 13});
  static Scalar eval(Scalar a, Scalar b) { return ordered(a) < ordered(b); }
};
struct Le {
  using Attrs = NoAttrs;
  static constexpr Schema schema = comparison("le", "a <= b; false with NaN.", {"LessOrEqual", 16});
  static Scalar eval(Scalar a, Scalar b) { return ordered(a) <= ordered(b); }
};
struct Gt {
  using Attrs = NoAttrs;
  static constexpr Schema schema = comparison("gt", "a > b; false with NaN.", {"Greater", 13});
  static Scalar eval(Scalar a, Scalar b) { return ordered(a) > ordered(b); }
};
struct Ge {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      comparison("ge", "a >= b; false with NaN.", {"GreaterOrEqual", 16});
  static Scalar eval(Scalar a, Scalar b) { return ordered(a) >= ordered(b); }
};

struct LogicalAnd {
  using Attrs = NoAttrs;
  static constexpr Schema schema = comparison("logical_and", "a and b; what is not 0 is true.", {});
  static Scalar eval(Scalar a, Scalar b) { return truth(a) & truth(b); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("And", {e.cast(e.input(0), boolean), e.cast(e.input(1), boolean)}));
  }
};
struct LogicalOr {
  using Attrs = NoAttrs;
  static constexpr Schema schema = comparison("logical_or", "a or b; what is not 0 is true.", {});
  static Scalar eval(Scalar a, Scalar b) { return truth(a) | truth(b); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("Or", {e.cast(e.input(0), boolean), e.cast(e.input(1), boolean)}));
  }
};
struct LogicalXor {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      comparison("logical_xor", "Either a or b; what is not 0 is true.", {});
  static Scalar eval(Scalar a, Scalar b) { return truth(a) ^ truth(b); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("Xor", {e.cast(e.input(0), boolean), e.cast(e.input(1), boolean)}));
  }
};
struct LogicalNot {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "logical_not",
                                 .inputs = kUnary,
                                 .outputs = kBoolOut,
                                 .doc = "not x; what is not 0 is true.",
                                 .samples = kComparisonSamples,
                                 .typing = Typing::boolean};
  static Scalar eval(Scalar x) { return !truth(x); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("Not", {e.cast(e.input(0), boolean)}));
  }
};

struct IsNan {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "isnan",
                                 .inputs = kUnaryFloat,
                                 .outputs = kBoolOut,
                                 .doc = "Whether x is NaN.",
                                 .onnx = {"IsNaN", 13},
                                 .samples = kComparisonSamples,
                                 .typing = Typing::boolean};
  static Scalar eval(Scalar x) { return scalar::isnan(x); }
};
struct IsInfAttrs {
  bool detect_positive = true;
  bool detect_negative = true;
};
struct IsInf {
  using Attrs = IsInfAttrs;
  static constexpr Schema schema{.name = "isinf",
                                 .inputs = kUnaryFloat,
                                 .outputs = kBoolOut,
                                 .doc = "Whether x is infinite, of the signs that are asked for.",
                                 .samples = kComparisonSamples,
                                 .typing = Typing::boolean};
  static Scalar eval(const Attrs& attrs, Scalar x) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const Scalar above =
        attrs.detect_positive ? x == kInf : x.program()->constant(ScalarType::boolean, false);
    return attrs.detect_negative ? above | (x == -kInf) : above;
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string x = e.input_as(0, set_of(DType::f32) | set_of(DType::f64));
    e.output(0, e.node("IsInf", {x},
                       {{"detect_positive", std::int64_t{attrs.detect_positive}},
                        {"detect_negative", std::int64_t{attrs.detect_negative}}}));
  }
};
struct IsFinite {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "isfinite",
                                 .inputs = kUnaryFloat,
                                 .outputs = kBoolOut,
                                 .doc = "Whether x is neither NaN nor infinite.",
                                 .samples = kComparisonSamples,
                                 .typing = Typing::boolean};
  static Scalar eval(Scalar x) { return scalar::isfinite(x); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const std::string x = e.input_as(0, set_of(DType::f32) | set_of(DType::f64));
    e.output(0, e.node("Not", {e.node("Or", {e.node("IsNaN", {x}), e.node("IsInf", {x})})}));
  }
};

constexpr ArgInfo kWhereInputs[] = {
    {"condition", kBool}, {"a", kEverything & ~kComplex}, {"b", kEverything & ~kComplex}};

struct Where {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "where",
                                 .inputs = kWhereInputs,
                                 .outputs = kOut,
                                 .doc = "condition ? a : b for each element.",
                                 .onnx = {"Where", 16},
                                 .samples = {.edges = "0 -0 1 inf -inf nan"},
                                 .saved_inputs = kFirst};
  static Scalar eval(Scalar condition, Scalar a, Scalar b) {
    return scalar::select(condition, a, b);
  }
  static void grad(Gradient& g, const Attrs&) {
    if (g.needs(1)) g.set(1, where(g.input(0), g.grad(), 0));
    if (g.needs(2)) g.set(2, where(g.input(0), 0, g.grad()));
  }
};

/// Whether x is of integers or bool, which have neither NaN nor infinities.
bool is_whole(const Tensor& x) { return x.defined() && contains(kInteger | kBool, x.dtype()); }

}  // namespace

std::span<const OpInfo* const> compare_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Eq>,         &op_info<Ne>,         &op_info<Lt>,         &op_info<Le>,
      &op_info<Gt>,         &op_info<Ge>,         &op_info<LogicalAnd>, &op_info<LogicalOr>,
      &op_info<LogicalXor>, &op_info<LogicalNot>, &op_info<IsNan>,      &op_info<IsInf>,
      &op_info<IsFinite>,   &op_info<Where>,
  };
  return kRows;
}

}  // namespace ops

Tensor eq(const Arg& a, const Arg& b, Loc loc) {
  if (ops::any_complex(a.tensor(), b.tensor())) return ops::complex_eq(a.tensor(), b.tensor(), loc);
  return apply<ops::Eq>({}, loc, a.tensor(), b.tensor());
}
Tensor ne(const Arg& a, const Arg& b, Loc loc) {
  if (ops::any_complex(a.tensor(), b.tensor())) {
    return logical_not(ops::complex_eq(a.tensor(), b.tensor(), loc), loc);
  }
  return apply<ops::Ne>({}, loc, a.tensor(), b.tensor());
}
Tensor lt(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Lt>({}, loc, a.tensor(), b.tensor());
}
Tensor le(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Le>({}, loc, a.tensor(), b.tensor());
}
Tensor gt(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Gt>({}, loc, a.tensor(), b.tensor());
}
Tensor ge(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Ge>({}, loc, a.tensor(), b.tensor());
}
Tensor logical_and(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::LogicalAnd>({}, loc, a.tensor(), b.tensor());
}
Tensor logical_or(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::LogicalOr>({}, loc, a.tensor(), b.tensor());
}
Tensor logical_xor(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::LogicalXor>({}, loc, a.tensor(), b.tensor());
}
Tensor logical_not(const Arg& x, Loc loc) { return apply<ops::LogicalNot>({}, loc, x.tensor()); }
Tensor where(const Tensor& condition, const Arg& a, const Arg& b, Loc loc) {
  if (ops::any_complex(a.tensor(), b.tensor())) {
    return ops::complex_where(condition, a.tensor(), b.tensor(), loc);
  }
  return apply<ops::Where>({}, loc, condition, a.tensor(), b.tensor());
}
Tensor isnan(const Tensor& x, Loc loc) {
  if (ops::is_whole(x)) return zeros_like(x, boolean, loc);
  return apply<ops::IsNan>({}, loc, x);
}
Tensor isinf(const Tensor& x, bool detect_positive, bool detect_negative, Loc loc) {
  if (ops::is_whole(x)) return zeros_like(x, boolean, loc);
  return apply<ops::IsInf>({.detect_positive = detect_positive, .detect_negative = detect_negative},
                           loc, x);
}
Tensor isfinite(const Tensor& x, Loc loc) {
  if (ops::is_whole(x)) return ones_like(x, boolean, loc);
  return apply<ops::IsFinite>({}, loc, x);
}

Tensor operator==(const Arg& a, const Arg& b) { return eq(a, b, a.loc()); }
Tensor operator!=(const Arg& a, const Arg& b) { return ne(a, b, a.loc()); }
Tensor operator<(const Arg& a, const Arg& b) { return lt(a, b, a.loc()); }
Tensor operator<=(const Arg& a, const Arg& b) { return le(a, b, a.loc()); }
Tensor operator>(const Arg& a, const Arg& b) { return gt(a, b, a.loc()); }
Tensor operator>=(const Arg& a, const Arg& b) { return ge(a, b, a.loc()); }

}  // namespace dyad
