#include "dyad/ops/arithmetic.h"

#include <cmath>
#include <optional>

#include "dyad/core/promotion.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/complex_support.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

constexpr Samples kPlainSamples{.edges = "0 -0 1 -1 2.5 -3.75 1e-20 3e38 inf -inf nan"};

/// A node that ONNX has under one name for numbers, under another for bool.
void write_pair(OnnxEmitter& e, std::string_view of_numbers, std::string_view of_bool) {
  const bool truth = e.output_type().dtype() == DType::boolean;
  e.output(0, e.node(truth ? of_bool : of_numbers, {e.operand(0), e.operand(1)}));
}

struct Add {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "add",
                                 .inputs = kBinary,
                                 .outputs = kOut,
                                 .doc = "a + b; of two bool tensors: a or b.",
                                 .samples = kPlainSamples,
                                 .cheap = true};
  static Scalar eval(Scalar a, Scalar b) {
    return a.type() == ScalarType::boolean ? (a | b) : a + b;
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_pair(e, "Add", "Or"); }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, g.grad());
    g.set(1, g.grad());
  }
};

struct Sub {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "sub",
                                 .inputs = kBinary,
                                 .outputs = kOut,
                                 .doc = "a - b.",
                                 .onnx = {"Sub", 14},
                                 .samples = kPlainSamples,
                                 .cheap = true};
  static Types infer(const InferIn& in, const Attrs&) {
    return infer_of_numbers(
        in, "bool tensors have no difference; compare them with != or cast one with to()");
  }
  static Scalar eval(Scalar a, Scalar b) { return a - b; }
  static void grad(Gradient& g, const Attrs&) {
    g.set(0, g.grad());
    if (g.needs(1)) g.set(1, neg(g.grad()));
  }
};

struct Mul {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "mul",
                                 .inputs = kBinary,
                                 .outputs = kOut,
                                 .doc = "a * b; of two bool tensors: a and b.",
                                 .samples = kPlainSamples,
                                 .saved_inputs = kFirst | kSecond,
                                 .cheap = true};
  static Scalar eval(Scalar a, Scalar b) {
    return a.type() == ScalarType::boolean ? (a & b) : a * b;
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_pair(e, "Mul", "And"); }
  static void grad(Gradient& g, const Attrs&) {
    if (g.needs(0)) g.set(0, g.grad() * g.input(1));
    if (g.needs(1)) g.set(1, g.grad() * g.input(0));
  }
};

struct Div {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "div",
                                 .inputs = kBinary,
                                 .outputs = kOut,
                                 .doc = "a / b, floating: integers give f32.",
                                 .onnx = {"Div", 14},
                                 .samples = {.low = 0.5, .high = 3, .edges = kPlainSamples.edges},
                                 .typing = Typing::floating,
                                 .saved_inputs = kSecond,
                                 .saved_outputs = kFirst};
  static Scalar eval(Scalar a, Scalar b) { return a / b; }
  static void grad(Gradient& g, const Attrs&) {
    const Tensor ga = g.grad() / g.input(1);
    g.set(0, ga);
    if (g.needs(1)) g.set(1, neg(ga * g.output()));
  }
};

struct Pow {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "pow",
      .inputs = kBinary,
      .outputs = kOut,
      .doc =
          "a to the power b. Integers: exact, wrapping; a negative exponent gives 0 unless |a| "
          "is 1.",
      .samples = {.low = 0.3, .high = 2.5, .edges = "0 -0 1 -1 2 0.5 -2.5 3 1e20 inf -inf nan"},
      .saved_inputs = kFirst | kSecond,
      .saved_outputs = kFirst};
  static Types infer(const InferIn& in, const Attrs&) {
    return infer_of_numbers(in, "bool tensors have no powers; cast one with to()");
  }
  static Scalar eval(Scalar a, Scalar b) {
    return scalar::is_floating(a.type()) ? scalar::pow(a, b) : integer_pow(a, b);
  }
  static void grad(Gradient& g, const Attrs&) {
    // The exponent in the dtype of the result, so that a host number or an integer tensor does not
    // widen what follows.
    const Tensor b = to(g.input(1), g.grad().dtype());
    if (g.needs(0)) {
      g.set(0, where(b == 0, 0, g.grad() * b * pow(g.input(0), b - 1)));
    }
    if (g.needs(1)) {
      const Tensor a = to(g.input(0), g.grad().dtype());
      g.set(1, where(logical_and(a == 0, b >= 0), 0, g.grad() * g.output() * log(a)));
    }
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const DType own = e.output_type().dtype();
    if (is_floating(own)) {
      e.output(0, e.node("Pow", {e.operand(0), e.operand(1)}));
      return;
    }
    // Narrow integers wrap when they are converted back.
    const std::string base = e.cast(e.input(0), DType::i64);
    const std::string exponent = e.cast(e.input(1), DType::i64);
    const Tensor* const known = e.constant_input(1);
    const bool never_negative =
        own == DType::u8 || (known && known->numel().same_as(1) && known->item() >= 0);
    if (never_negative) {
      e.output(0, e.node("Pow", {base, exponent}));
      return;
    }
    // With a negative exponent: 1 or -1 by the last bit if |base| is 1, else 0.
    const std::string zero = e.scalar(0, DType::i64), two = e.scalar(2, DType::i64);
    const std::string negative = e.node("Less", {exponent, zero});
    const std::string last_bit = e.node("Mod", {exponent, two});
    const std::string power =
        e.node("Pow", {base, e.node("Where", {negative, last_bit, exponent})});
    const std::string is_one = e.node("Equal", {e.node("Abs", {base}), e.scalar(1, DType::i64)});
    const std::string vanishes = e.node("And", {negative, e.node("Not", {is_one})});
    e.output(0, e.node("Where", {vanishes, zero, power}));
  }

 private:
  static Scalar integer_pow(Scalar base, Scalar exponent) {
    // Square and multiply, every bit of the exponent: 63 for i64, 31 for i32 and what is narrower.
    const int bits = exponent.type() == ScalarType::i64 ? 63 : 31;
    Scalar result = base.like(1), square = base;
    for (int bit = 0; bit < bits; ++bit) {
      const Scalar odd = ((exponent >> bit) & exponent.like(1)) != 0;
      result = scalar::select(odd, result * square, result);
      square = square * square;
    }
    const Scalar zero = base.like(0), one = base.like(1), minus_one = base.like(-1);
    const Scalar even = (exponent & exponent.like(1)) == 0;
    const Scalar inverse = scalar::select(
        base == 1, one, scalar::select(base == -1, scalar::select(even, one, minus_one), zero));
    return scalar::select(exponent < 0, inverse, result);
  }
};

/// The gradient of maximum and minimum: to the operand that was taken, in halves between equals.
void split_between(Gradient& g, const Tensor& first_taken) {
  const Tensor equal = g.input(0) == g.input(1);
  const Tensor half = g.grad() * 0.5;
  if (g.needs(0)) g.set(0, where(equal, half, where(first_taken, g.grad(), 0)));
  if (g.needs(1)) g.set(1, where(equal, half, where(first_taken, 0, g.grad())));
}

struct Maximum {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "maximum",
                                 .inputs = kBinary,
                                 .outputs = kOut,
                                 .doc = "The larger of a and b, NaN if either is; of bool: a or b.",
                                 .onnx = {"Max", 13},
                                 .samples = kPlainSamples,
                                 .saved_inputs = kFirst | kSecond};
  static Scalar eval(Scalar a, Scalar b) {
    if (a.type() == ScalarType::boolean) return a | b;
    return scalar::is_floating(a.type()) ? scalar::maximum(a, b) : scalar::max(a, b);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_pair(e, "Max", "Or"); }
  static void grad(Gradient& g, const Attrs&) { split_between(g, g.input(0) > g.input(1)); }
};

struct Minimum {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "minimum",
      .inputs = kBinary,
      .outputs = kOut,
      .doc = "The smaller of a and b, NaN if either is; of bool: a and b.",
      .onnx = {"Min", 13},
      .samples = kPlainSamples,
      .saved_inputs = kFirst | kSecond};
  static Scalar eval(Scalar a, Scalar b) {
    if (a.type() == ScalarType::boolean) return a & b;
    return scalar::is_floating(a.type()) ? scalar::minimum(a, b) : scalar::min(a, b);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_pair(e, "Min", "And"); }
  static void grad(Gradient& g, const Attrs&) { split_between(g, g.input(0) < g.input(1)); }
};

struct Neg {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "neg",
                                 .inputs = kUnaryNumber,
                                 .outputs = kOut,
                                 .doc = "-x.",
                                 .onnx = {"Neg", 13},
                                 .samples = kPlainSamples};
  static Scalar eval(Scalar x) { return -x; }
  static void grad(Gradient& g, const Attrs&) { g.set(0, neg(g.grad())); }
};

struct Abs {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "abs",
                                 .inputs = kUnaryNumber,
                                 .outputs = kOut,
                                 .doc = "|x|; its derivative at 0 is 0.",
                                 .onnx = {"Abs", 13},
                                 .samples = kPlainSamples,
                                 .saved_inputs = kFirst};
  static Scalar eval(Scalar x) { return scalar::abs(x); }
  static void grad(Gradient& g, const Attrs&) { g.set(0, g.grad() * sign(g.input(0))); }
};

struct Sign {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "sign",
                                 .inputs = kUnary,
                                 .outputs = kOut,
                                 .doc = "-1, 0 or 1 (NaN stays); its derivative is 0.",
                                 .onnx = {"Sign", 13},
                                 .samples = kPlainSamples};
  static Scalar eval(Scalar x) { return x.type() == ScalarType::boolean ? x : scalar::sign(x); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const bool truth = e.output_type().dtype() == DType::boolean;
    e.output(0, truth ? e.input(0) : e.node("Sign", {e.operand(0)}));
  }
  static void grad(Gradient&, const Attrs&) {}
};

/// Whether the exponent is the host number 2 and changes no dtype: x * x gives the same, sooner.
bool is_square(const Tensor& base, const Tensor& exponent) {
  if (!base.defined() || base.impl()->is_number) return false;
  if (!exponent.defined() || !exponent.impl()->is_number) return false;
  const Tensor* inputs[] = {&base, &exponent};
  if (promote_inputs(op_info<Pow>, inputs) != base.dtype()) return false;
  const Tensor two = convert_number(exponent, DType::f64);
  // Not by data(): the number is the program's own, so that recording it is no host read.
  return *reinterpret_cast<const double*>(two.impl()->data) == 2;
}

/// A host number, or a scalar of whole numbers, such as a size: what f16 and bf16 need not hold.
bool is_scalar_number(const TensorImpl& t) {
  return t.is_number || (t.shape.empty() && is_integer(t.dtype));
}

/// f16 or bf16 where a tensor of this dtype meets a number that it does not hold, or may not.
std::optional<DType> narrow_beside_number(const Tensor& a, const Tensor& b) {
  const TensorImpl *const x = a.impl(), *const y = b.impl();
  if (x == nullptr || y == nullptr) return std::nullopt;
  const bool first = is_scalar_number(*x);
  if (first == is_scalar_number(*y)) return std::nullopt;
  const DType dtype = (first ? y : x)->dtype;
  if (!is_narrow(dtype)) return std::nullopt;
  const Tensor& number = first ? a : b;
  if (!number.impl()->is_number) return dtype;
  // Not by data(), as above.
  const auto value = [](const Tensor& t) {
    return *reinterpret_cast<const double*>(convert_number(t, DType::f64).impl()->data);
  };
  const double given = value(number), held = value(convert_number(number, dtype));
  return given == held || std::isnan(given) ? std::nullopt : std::optional(dtype);
}

/// Op(a, b). A number that f16 or bf16 does not hold is not rounded to it: the operator runs in
/// f32, and its result is rounded once.
template <Operator Op>
Tensor arithmetic(const Tensor& a, const Tensor& b, Loc loc) {
  const std::optional<DType> dtype = narrow_beside_number(a, b);
  if (!dtype) return apply<Op>({}, loc, a, b);
  const auto wide = [&](const Tensor& x) {
    return is_scalar_number(*x.impl()) ? x : to(x, f32, loc);
  };
  return to(apply<Op>({}, loc, wide(a), wide(b)), *dtype, loc);
}

/// target = Op(target, value), which `whole` computes too.
template <Operator Op>
Tensor& update(Tensor& target, const Arg& value, Tensor (*whole)(const Arg&, const Arg&, Loc),
               std::string_view name, Loc loc) {
  if (any_complex(target, value.tensor()) || narrow_beside_number(target, value.tensor())) {
    return overwrite(target, whole(target, value, loc), name, loc);
  }
  const Tensor* given[] = {&target, &value.tensor()};
  return with_promoted_inputs(op_info<Op>, given, loc, [&](TensorRefs inputs) -> Tensor& {
    if (Evaluator::current().try_in_place(op_info<Op>, inputs, nullptr, target)) return target;
    return overwrite(target, apply<Op>({}, loc, *inputs[0], *inputs[1]), name, loc);
  });
}

}  // namespace

std::span<const OpInfo* const> arithmetic_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<Add>,     &op_info<Sub>,     &op_info<Mul>, &op_info<Div>, &op_info<Pow>,
      &op_info<Maximum>, &op_info<Minimum>, &op_info<Neg>, &op_info<Abs>, &op_info<Sign>,
  };
  return kRows;
}

}  // namespace ops

Tensor add(const Arg& a, const Arg& b, Loc loc) {
  if (ops::any_complex(a.tensor(), b.tensor())) {
    return ops::complex_add(a.tensor(), b.tensor(), loc);
  }
  return ops::arithmetic<ops::Add>(a.tensor(), b.tensor(), loc);
}
Tensor sub(const Arg& a, const Arg& b, Loc loc) {
  if (ops::any_complex(a.tensor(), b.tensor())) {
    return ops::complex_sub(a.tensor(), b.tensor(), loc);
  }
  return ops::arithmetic<ops::Sub>(a.tensor(), b.tensor(), loc);
}
Tensor mul(const Arg& a, const Arg& b, Loc loc) {
  if (ops::any_complex(a.tensor(), b.tensor())) {
    return ops::complex_mul(a.tensor(), b.tensor(), loc);
  }
  return ops::arithmetic<ops::Mul>(a.tensor(), b.tensor(), loc);
}
Tensor div(const Arg& a, const Arg& b, Loc loc) {
  if (ops::any_complex(a.tensor(), b.tensor())) {
    return ops::complex_div(a.tensor(), b.tensor(), loc);
  }
  return ops::arithmetic<ops::Div>(a.tensor(), b.tensor(), loc);
}
Tensor pow(const Arg& a, const Arg& b, Loc loc) {
  if (ops::is_square(a.tensor(), b.tensor())) return square(a.tensor(), loc);
  return ops::arithmetic<ops::Pow>(a.tensor(), b.tensor(), loc);
}
Tensor maximum(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Maximum>({}, loc, a.tensor(), b.tensor());
}
Tensor minimum(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::Minimum>({}, loc, a.tensor(), b.tensor());
}
Tensor neg(const Tensor& x, Loc loc) {
  if (ops::is_complex(x)) return view_as_complex(neg(view_as_real(x, loc), loc), loc);
  return apply<ops::Neg>({}, loc, x);
}
Tensor abs(const Tensor& x, Loc loc) {
  if (ops::is_complex(x)) return ops::complex_abs(x, loc);
  return apply<ops::Abs>({}, loc, x);
}
Tensor sign(const Tensor& x, Loc loc) { return apply<ops::Sign>({}, loc, x); }
Tensor square(const Tensor& x, Loc loc) {
  if (ops::is_complex(x)) return mul(x, x, loc);
  if (x.dtype() == DType::boolean) return pow(x, 2, loc);  // a number, as PyTorch has it
  return apply<ops::Mul>({}, loc, x, x);
}

Tensor operator+(const Arg& a, const Arg& b) { return add(a, b, a.loc()); }
Tensor operator-(const Arg& a, const Arg& b) { return sub(a, b, a.loc()); }
Tensor operator*(const Arg& a, const Arg& b) { return mul(a, b, a.loc()); }
Tensor operator/(const Arg& a, const Arg& b) { return div(a, b, a.loc()); }
Tensor operator-(const Arg& x) { return neg(x.tensor(), x.loc()); }

Tensor& Tensor::add_(const Arg& value, Loc loc) {
  return ops::update<ops::Add>(*this, value, dyad::add, "add_", loc);
}
Tensor& Tensor::sub_(const Arg& value, Loc loc) {
  return ops::update<ops::Sub>(*this, value, dyad::sub, "sub_", loc);
}
Tensor& Tensor::mul_(const Arg& value, Loc loc) {
  return ops::update<ops::Mul>(*this, value, dyad::mul, "mul_", loc);
}
Tensor& Tensor::div_(const Arg& value, Loc loc) {
  return ops::update<ops::Div>(*this, value, dyad::div, "div_", loc);
}

Tensor& operator+=(Tensor& target, const Arg& value) { return target.add_(value, value.loc()); }
Tensor& operator-=(Tensor& target, const Arg& value) { return target.sub_(value, value.loc()); }
Tensor& operator*=(Tensor& target, const Arg& value) { return target.mul_(value, value.loc()); }
Tensor& operator/=(Tensor& target, const Arg& value) { return target.div_(value, value.loc()); }

}  // namespace dyad
