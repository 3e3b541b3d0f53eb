#include "dyad/ops/bits.h"

#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

using scalar::ScalarType;

constexpr DTypeSet kBitwise = kInteger | kBool;
constexpr ArgInfo kPair[] = {{"a", kBitwise}, {"b", kBitwise}};
constexpr ArgInfo kOne[] = {{"x", kBitwise}};
constexpr ArgInfo kShift[] = {{"a", kBitwise}, {"count", kBitwise}};

constexpr Schema bits(std::string_view name, std::string_view doc, std::span<const ArgInfo> inputs,
                      OnnxName onnx) {
  return {.name = name,
          .inputs = inputs,
          .outputs = kOut,
          .doc = doc,
          .onnx = onnx,
          .samples = {.differentiable = false}};
}
/// `logical` on bool, `bitwise` on integers, which ONNX has since opset 18.
void write_bits(OnnxEmitter& e, std::string_view logical, std::string_view bitwise) {
  const bool truth = e.output_type().dtype() == DType::boolean;
  if (!truth && e.opset() < 18) {
    e.fail("ONNX has it as " + std::string(bitwise) + " from opset 18 on");
  }
  std::vector<std::string> inputs;
  for (int i = 0; i < e.input_count(); ++i) inputs.push_back(e.operand(i));
  e.output(0, e.node(truth ? logical : bitwise, std::move(inputs)));
}

struct BitwiseAnd {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      bits("bitwise_and", "The bits that a and b both have.", kPair, {"BitwiseAnd", 18});
  static Scalar eval(Scalar a, Scalar b) { return a & b; }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_bits(e, "And", "BitwiseAnd"); }
};
struct BitwiseOr {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      bits("bitwise_or", "The bits that a or b has.", kPair, {"BitwiseOr", 18});
  static Scalar eval(Scalar a, Scalar b) { return a | b; }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_bits(e, "Or", "BitwiseOr"); }
};
struct BitwiseXor {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      bits("bitwise_xor", "The bits in which a and b differ.", kPair, {"BitwiseXor", 18});
  static Scalar eval(Scalar a, Scalar b) { return a ^ b; }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_bits(e, "Xor", "BitwiseXor"); }
};
struct BitwiseNot {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      bits("bitwise_not", "The bits that x has not.", kOne, {"BitwiseNot", 18});
  static Scalar eval(Scalar x) { return x.type() == ScalarType::boolean ? !x : ~x; }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { write_bits(e, "Not", "BitwiseNot"); }
};

/// Whether a shift leaves bits; narrow integers are 32 bits wide until they are stored.
Scalar is_inside(Scalar count) {
  const int width = count.type() == ScalarType::i32 ? 32 : 64;
  return (count >= count.like(0)) & (count < count.like(width));
}

Types infer_shift(const InferIn& in) {
  return infer_of_numbers(in, "bool tensors have no bits to shift; cast one with to()");
}

/// 2^count as i64, for counts below 63, and a; ONNX shifts unsigned integers only.
struct Shift {
  explicit Shift(OnnxEmitter& e, int most)
      : a(e.cast(e.input(0), DType::i64)), count(e.cast(e.input(1), DType::i64)) {
    const std::string zero = e.scalar(0, DType::i64), last = e.scalar(most, DType::i64);
    inside =
        e.node("And", {e.node("LessOrEqual", {zero, count}), e.node("LessOrEqual", {count, last})});
    const std::string safe = e.node("Where", {inside, count, last});
    power = e.node("Pow", {e.scalar(2, DType::i64), safe});
  }
  std::string a, count, inside, power;
};

struct LeftShift {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      bits("bitwise_left_shift", "a * 2^count, wrapping; 0 where the count is out of range.",
           kShift, {});
  static Types infer(const InferIn& in, const Attrs&) { return infer_shift(in); }
  static Scalar eval(Scalar a, Scalar count) {
    return scalar::select(is_inside(count), a << count, a.like(0));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const Shift shift(e, 62);
    const std::string shifted = e.node("Mul", {shift.a, shift.power});
    // By 63 in two steps.
    const std::string zero = e.scalar(0, DType::i64);
    const std::string top = e.node("Mul", {shifted, e.scalar(2, DType::i64)});
    const std::string is_top = e.node("Equal", {shift.count, e.scalar(63, DType::i64)});
    const std::string kept = e.node("Where", {shift.inside, shifted, zero});
    e.output(0, e.node("Where", {is_top, top, kept}));
  }
};
struct RightShift {
  using Attrs = NoAttrs;
  static constexpr Schema schema =
      bits("bitwise_right_shift",
           "a / 2^count rounded to minus infinity; the sign alone where the count is out of range.",
           kShift, {});
  static Types infer(const InferIn& in, const Attrs&) { return infer_shift(in); }
  static Scalar eval(Scalar a, Scalar count) {
    const int last = count.type() == ScalarType::i32 ? 31 : 63;
    return a >> scalar::select(is_inside(count), count, count.like(last));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const Shift shift(e, 62);
    const std::string rest = e.node("Mod", {shift.a, shift.power});
    const std::string shifted = e.node("Div", {e.node("Sub", {shift.a, rest}), shift.power});
    const std::string zero = e.scalar(0, DType::i64);
    const std::string sign =
        e.node("Where", {e.node("Less", {shift.a, zero}), e.scalar(-1, DType::i64), zero});
    e.output(0, e.node("Where", {shift.inside, shifted, sign}));
  }
};

}  // namespace

std::span<const OpInfo* const> bits_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<BitwiseAnd>, &op_info<BitwiseOr>, &op_info<BitwiseXor>,
      &op_info<BitwiseNot>, &op_info<LeftShift>, &op_info<RightShift>,
  };
  return kRows;
}

}  // namespace ops

Tensor bitwise_and(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::BitwiseAnd>({}, loc, a.tensor(), b.tensor());
}
Tensor bitwise_or(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::BitwiseOr>({}, loc, a.tensor(), b.tensor());
}
Tensor bitwise_xor(const Arg& a, const Arg& b, Loc loc) {
  return apply<ops::BitwiseXor>({}, loc, a.tensor(), b.tensor());
}
Tensor bitwise_not(const Arg& x, Loc loc) { return apply<ops::BitwiseNot>({}, loc, x.tensor()); }
Tensor bitwise_left_shift(const Arg& a, const Arg& count, Loc loc) {
  return apply<ops::LeftShift>({}, loc, a.tensor(), count.tensor());
}
Tensor bitwise_right_shift(const Arg& a, const Arg& count, Loc loc) {
  return apply<ops::RightShift>({}, loc, a.tensor(), count.tensor());
}

Tensor operator&(const Arg& a, const Arg& b) { return bitwise_and(a, b, a.loc()); }
Tensor operator|(const Arg& a, const Arg& b) { return bitwise_or(a, b, a.loc()); }
Tensor operator^(const Arg& a, const Arg& b) { return bitwise_xor(a, b, a.loc()); }
Tensor operator~(const Arg& x) { return bitwise_not(x, x.loc()); }
Tensor operator<<(const Arg& a, const Arg& count) { return bitwise_left_shift(a, count, a.loc()); }
Tensor operator>>(const Arg& a, const Arg& count) { return bitwise_right_shift(a, count, a.loc()); }

}  // namespace dyad
