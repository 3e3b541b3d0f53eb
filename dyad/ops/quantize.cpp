#include "dyad/ops/quantize.h"

#include <cmath>
#include <utility>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/quantize_support.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr DTypeSet kSingleOrDouble = set_of({DType::f32, DType::f64});

/// The type of x where scale and zero point broadcast to it.
Types infer_beside(const InferIn& in, DType dtype) {
  const Shape& x = in[0].shape();
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    const Shape& other = in[i].shape();
    Shape both;
    bool fits = other.rank() <= x.rank() && broadcast(x, other, both);
    for (std::size_t axis = 0; fits && axis < both.size(); ++axis) {
      fits = !both[axis].is_number() || !x[axis].is_number() || both[axis] == x[axis];
    }
    if (!fits) {
      fail_shape(in, std::string(input_info(in.op, i)->name) + " is " + to_string(other) +
                         ", which does not broadcast to x");
    }
  }
  return {Type(dtype, x)};
}

/// How ONNX says which elements share a scale.
struct Grain {
  enum class Kind { tensor, axis, block, other } kind = Kind::other;
  std::int64_t axis = 0, block = 0;
};

Grain grain_of(const Shape& x, const Shape& scale) {
  int wide = 0, axis = 0, narrow = 0, narrow_axis = 0;
  const int skipped = x.rank() - scale.rank();
  for (int i = 0; i < scale.rank(); ++i) {
    const Dim size = scale[static_cast<std::size_t>(i)],
              of_x = x[static_cast<std::size_t>(i) + static_cast<std::size_t>(skipped)];
    if (size.same_as(Dim(1)) && !of_x.same_as(Dim(1))) {
      ++narrow;
      narrow_axis = i;
    } else if (!size.same_as(Dim(1))) {
      if (!size.same_as(of_x)) return {};
      ++wide;
      axis = i + skipped;
    }
  }
  using Kind = Grain::Kind;
  if (wide == 0) return {Kind::tensor};
  if (wide == 1) return {Kind::axis, axis};
  const Dim block = x[static_cast<std::size_t>(narrow_axis)];
  if (skipped == 0 && narrow == 1 && block.is_number()) {
    return {Kind::block, narrow_axis, block.number()};
  }
  return {};
}

/// A scale or a zero point in the shape that ONNX has it in.
std::string laid(OnnxEmitter& e, const Grain& grain, const std::string& value, int rank) {
  if (grain.kind == Grain::Kind::tensor && rank > 0) {
    return e.node("Reshape", {value, e.constant_i64({})});
  }
  if (grain.kind == Grain::Kind::axis && rank != 1) {
    const std::int64_t all[] = {-1};
    return e.node("Reshape", {value, e.constant_i64(all)});
  }
  return value;
}

/// Whether the opset has QuantizeLinear and DequantizeLinear between these dtypes.
bool has_linear(OnnxEmitter& e, const Grain& grain, DType number, DType quantized) {
  if (grain.kind == Grain::Kind::other) return false;
  if (grain.kind == Grain::Kind::block && e.opset() < 21) return false;
  const bool wide = quantized == DType::u16 || quantized == DType::i16;
  if (wide && e.opset() < 21) return false;
  return number == DType::f32 || (is_narrow(number) && e.opset() >= 19);
}

OnnxAttrs grain_attrs(const Grain& grain) {
  OnnxAttrs attrs;
  if (grain.kind != Grain::Kind::tensor) attrs.emplace_back("axis", grain.axis);
  if (grain.kind == Grain::Kind::block) attrs.emplace_back("block_size", grain.block);
  return attrs;
}

/// Numbers of `dtype` as the result.
void as_result(OnnxEmitter& e, const std::string& value, DType dtype) {
  const DType wanted = e.output_type().dtype();
  e.output(0, wanted == dtype ? value : e.cast(value, wanted));
}

struct QuantizeLinear {
  using Attrs = QuantizeLinearAttrs;
  static constexpr ArgInfo kInputs[] = {
      {"x", kFloat | set_of(DType::i32)}, {"scale", kSingleOrDouble}, {"zero_point", kQuantized}};
  static constexpr Schema schema{
      .name = "quantize_linear",
      .inputs = kInputs,
      .outputs = kOut,
      .doc =
          "saturate(round(x / scale) + zero_point): scale and zero_point broadcast to x, the "
          "quotient (with by_factor the product) is computed in `precision`; floats of 8 and 4 "
          "bits "
          "are rounded to and not `round`ed before.",
      .samples = {.differentiable = false},
      .own_types = true};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (!contains(kQuantized, attrs.dtype)) {
      fail_dtype(in, std::string(name_of(attrs.dtype)) +
                         " is no dtype to quantise to; take one of u8 i8 u16 i16 u4 i4 u2 i2, "
                         "f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz and f4e2m1");
    }
    if (!is_floating(attrs.precision)) {
      fail_dtype(
          in, "precision must be a floating dtype but is " + std::string(name_of(attrs.precision)));
    }
    return infer_beside(in, attrs.dtype);
  }
  static Scalar eval(const Attrs& a, Scalar x, Scalar scale, Scalar zero_point) {
    const Scalar number = scalar::cast(x, a.precision), step = scalar::cast(scale, a.precision);
    const Scalar quotient = scalar::cast(a.by_factor ? number * step : number / step, a.precision);
    const Scalar zero = scalar::convert(zero_point, quotient.type());
    if (contains(kFloat8, a.dtype)) return small_float(quotient, a);
    if (a.dtype == DType::f4e2m1) return small_float(quotient + zero, a);
    const auto [low, high] = bounds_of(a.dtype);
    const Scalar q = scalar::rint(quotient) + zero;
    const Scalar above = scalar::select(q > q.like(low), q, q.like(low));
    return scalar::cast(scalar::min(above, q.like(high)), a.dtype);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& a) {
    const Shape& scale_shape = e.input_type(1).shape();
    const Grain grain = grain_of(e.input_type(0).shape(), scale_shape);
    const std::string x = e.cast(e.input(0), a.precision), scale = e.cast(e.input(1), a.precision);
    const bool same_shapes = scale_shape.same_as(e.input_type(2).shape());
    if (same_shapes && !a.by_factor && has_linear(e, grain, a.precision, a.dtype)) {
      OnnxAttrs attrs = grain_attrs(grain);
      if (!a.saturate && contains(kFloat8, a.dtype))
        attrs.emplace_back("saturate", std::int64_t{0});
      e.output(0, e.node("QuantizeLinear",
                         {x, laid(e, grain, scale, scale_shape.rank()),
                          laid(e, grain, e.input(2), scale_shape.rank())},
                         attrs));
      return;
    }
    const std::string quotient = e.node(a.by_factor ? "Mul" : "Div", {x, scale});
    if (contains(kSmallFloat, a.dtype)) {
      return e.output(0, e.cast(quotient, a.dtype, a.saturate));
    }
    // Clip and Round have no bf16 in all opsets.
    const DType dtype = a.precision == DType::f64 ? DType::f64 : DType::f32;
    const std::string rounded = e.node("Round", {e.cast(quotient, dtype)});
    const std::string moved = e.node("Add", {rounded, e.cast(e.input(2), dtype)});
    const auto [low, high] = bounds_of(a.dtype);
    e.output(0, e.node("Clip", {moved, e.scalar(low, dtype), e.scalar(high, dtype)}));
  }

 private:
  static Scalar small_float(Scalar value, const Attrs& a) {
    return scalar::from_code(scalar::to_code(value, a.dtype, a.saturate), a.dtype);
  }
};

struct DequantizeLinear {
  struct Attrs {
    DType dtype = DType::f32;
  };
  static constexpr DTypeSet kTaken = kQuantized | set_of(DType::i32);
  static constexpr ArgInfo kInputs[] = {
      {"x", kTaken}, {"scale", kSingleOrDouble}, {"zero_point", kTaken}};
  static constexpr Schema schema{
      .name = "dequantize_linear",
      .inputs = kInputs,
      .outputs = kOut,
      .doc = "(x - zero_point) * scale as `dtype`: scale and zero_point broadcast to x.",
      .saved_inputs = kFirst | kThird,
      .own_types = true};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (!is_floating(attrs.dtype)) {
      fail_dtype(in, "the result must be floating but is " + std::string(name_of(attrs.dtype)));
    }
    return infer_beside(in, attrs.dtype);
  }
  static Scalar eval(const Attrs& attrs, Scalar x, Scalar scale, Scalar zero_point) {
    return scalar::cast((x - zero_point) * scale, attrs.dtype);
  }
  static void grad(Gradient& g, const Attrs&) {
    if (!g.needs(1)) return;
    const DType dtype = g.input_dtype(1);
    g.set(1, to(g.grad(), dtype) * (to(g.input(0), dtype) - to(g.input(2), dtype)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const Shape& scale_shape = e.input_type(1).shape();
    const Grain grain = grain_of(e.input_type(0).shape(), scale_shape);
    const DType number = e.input_type(1).dtype();
    const bool same_shapes = scale_shape.same_as(e.input_type(2).shape());
    if (same_shapes && has_linear(e, grain, number, e.input_type(0).dtype())) {
      // ONNX wants no zero point beside i32, where it could only be 0.
      const bool plain = e.input_type(0).dtype() == DType::i32;
      const std::string x = plain ? e.node("Sub", {e.input(0), e.input(2)}) : e.input(0);
      const std::string y = e.node("DequantizeLinear",
                                   {x, laid(e, grain, e.input(1), scale_shape.rank()),
                                    plain ? "" : laid(e, grain, e.input(2), scale_shape.rank())},
                                   grain_attrs(grain));
      return as_result(e, y, number);
    }
    const std::string moved =
        e.node("Sub", {e.cast(e.input(0), number), e.cast(e.input(2), number)});
    e.output(0, e.node("Mul", {moved, e.input(1)}));
  }
};

struct FakeQuantize {
  struct Attrs {
    std::int64_t low = 0;
    std::int64_t high = 255;
  };
  static constexpr ArgInfo kInputs[] = {
      {"x", kFloat}, {"scale", kSingleOrDouble}, {"zero_point", kNumber}};
  static constexpr Schema schema{
      .name = "fake_quantize",
      .inputs = kInputs,
      .outputs = kOut,
      .doc =
          "(clamp(round(x / scale) + zero_point, low, high) - zero_point) * scale; its gradient "
          "goes straight through the rounding.",
      .samples = {.edges = "0 -0 0.5 1.5 300 -300 inf -inf nan", .differentiable = false},
      .saved_inputs = kFirst | kSecond | kThird,
      .own_types = true};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    if (attrs.low >= attrs.high) {
      fail_value(in, "low = " + std::to_string(attrs.low) +
                         " must be below high = " + std::to_string(attrs.high));
    }
    return infer_beside(in, in[0].dtype());
  }
  static Scalar eval(const Attrs& a, Scalar x, Scalar scale, Scalar zero_point) {
    const Scalar q = scalar::rint(x / scale) + zero_point;
    const Scalar above = scalar::select(q > q.like(a.low), q, q.like(a.low));
    return (scalar::min(above, q.like(a.high)) - zero_point) * scale;
  }
  static void grad(Gradient& g, const Attrs& a) {
    const Tensor x = widened(g.input(0)), grad = widened(g.grad());
    const Tensor &scale = g.input(1), zero_point = widened(g.input(2));
    const Tensor quotient = x / scale, q = round(quotient) + zero_point;
    const Tensor inside = logical_and(q >= a.low, q <= a.high);
    const auto low = static_cast<double>(a.low), high = static_cast<double>(a.high);
    if (g.needs(0)) g.set(0, where(inside, grad, 0));
    if (g.needs(1)) {
      g.set(1, grad * (clamp(q, low, high) - zero_point - where(inside, quotient, 0)));
    }
    if (g.needs(2)) g.set(2, grad * where(inside, 0, -scale));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& a) {
    const Shape& scale_shape = e.input_type(1).shape();
    const DType number = e.input_type(1).dtype();
    const Grain grain = grain_of(e.input_type(0).shape(), scale_shape);
    const std::string x = e.cast(e.input(0), number), zero_point = e.input(2);
    for (const DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16}) {
      const auto [low, high] = bounds_of(dtype);
      if (low != static_cast<double>(a.low) || high != static_cast<double>(a.high)) continue;
      if (number != DType::f32 || !has_linear(e, grain, number, dtype) ||
          !scale_shape.same_as(e.input_type(2).shape())) {
        break;
      }
      const std::string scale = laid(e, grain, e.input(1), scale_shape.rank()),
                        zero = laid(e, grain, e.cast(zero_point, dtype), scale_shape.rank());
      const std::string q = e.node("QuantizeLinear", {x, scale, zero}, grain_attrs(grain));
      const std::string y = e.node("DequantizeLinear", {q, scale, zero}, grain_attrs(grain));
      return as_result(e, y, number);
    }
    const std::string zero = e.cast(zero_point, number);
    const std::string q = e.node("Add", {e.node("Round", {e.node("Div", {x, e.input(1)})}), zero});
    // Clip would let a NaN through.
    const std::string low = e.scalar(static_cast<double>(a.low), number);
    const std::string above = e.node("Where", {e.node("Greater", {q, low}), q, low});
    const std::string inside =
        e.node("Min", {above, e.scalar(static_cast<double>(a.high), number)});
    e.output(0, e.node("Mul", {e.node("Sub", {inside, zero}), e.input(1)}));
  }
};

struct DynamicQuantizeLinear {
  using Attrs = NoAttrs;
  static constexpr ArgInfo kInputs[] = {{"x", kF32}};
  static constexpr ArgInfo kOutputs[] = {
      {"out", set_of(DType::u8)}, {"scale", kF32}, {"zero_point", set_of(DType::u8)}};
  static constexpr Schema schema{
      .name = "dynamic_quantize_linear",
      .inputs = kInputs,
      .outputs = kOutputs,
      .doc =
          "x as u8 by its own range, which 0 belongs to, and the scale and the zero point of that.",
      .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) {
    return {Type(DType::u8, in[0].shape()), Type(DType::f32, {}), Type(DType::u8, {})};
  }
  static std::vector<Tensor> expand(const Attrs&, TensorRefs in, Loc loc) {
    const LocScope scope(loc);
    const Tensor& x = *in[0];
    const Tensor high = maximum(max(x), 0), low = minimum(min(x), 0);
    const Tensor scale = where(high == low, 1, (high - low) / 255);
    const Tensor zero_point = to(round(clamp(-low / scale, 0, 255)), DType::u8);
    return {apply<QuantizeLinear>({}, loc, x, scale, zero_point), scale, zero_point};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const auto made = e.node_multi("DynamicQuantizeLinear", {e.input(0)}, {}, 3);
    for (int i = 0; i < 3; ++i) e.output(i, made[static_cast<std::size_t>(i)]);
  }
};

/// A call's first words: `quantize_linear(x: f32[2, 3])`.
[[noreturn]] void fail_call(std::string_view function, const Tensor& x, const std::string& rule,
                            Loc loc) {
  throw ShapeError(std::string(function) + "(x: " + type_string(x) + "): " + rule, loc.user());
}

/// x with scale and zero point beside it, which broadcast.
struct Beside {
  Tensor x, scale, zero_point;
  Shape shape = {};  ///< what the result is reshaped to; none when it has x's shape
};

/// A scalar or a vector along `axis` in a shape that broadcasts to x.
Tensor along(std::string_view function, std::string_view name, const Tensor& t, const Tensor& x,
             std::int64_t named_axis, Loc loc) {
  if (t.rank() == 0) return t;
  // A vector of one is a scalar, whatever the axis.
  if (t.rank() == 1 && t.shape()[0].same_as(Dim(1))) return reshape(t, {}, loc);
  if (t.rank() == x.rank() && t.rank() > 1) return t;
  if (t.rank() != 1) {
    fail_call(function, x,
              std::string(name) + " is " + type_string(t) +
                  "; it must be a scalar, a vector along an axis, or have the axes of x",
              loc);
  }
  const int axis = normalize_axis(named_axis, x.rank(), function, loc);
  if (const Dim count = t.size(0, loc), size = x.size(axis, loc);
      is_known(count) && is_known(size) ? !(count == size)
                                        : is_below(count, size) || is_below(size, count)) {
    fail_call(function, x,
              std::string(name) + " has " + to_string(size_now(count)) + " elements but axis " +
                  std::to_string(axis) + " of x has " + to_string(size_now(size)),
              loc);
  }
  Shape shape(static_cast<std::size_t>(x.rank() - axis), 1);
  shape[0] = t.size(0, loc);
  return reshape(t, shape, loc);
}

/// Puts one scale beside each block of elements along the axis.
Beside in_blocks(std::string_view function, Beside b, int axis, std::int64_t block, Loc loc) {
  const Dim size = b.x.size(axis, loc), blocks = b.scale.size(axis, loc);
  if (const Dim wanted = ceil_div(size, block);
      is_known(size) && is_known(blocks) && !(wanted == blocks)) {
    fail_call(function, b.x,
              "axis " + std::to_string(axis) + " has " + size_text(size) + " elements, " +
                  size_text(wanted) + " blocks of " + std::to_string(block) + ", but scale is " +
                  type_string(b.scale),
              loc);
  }
  const auto each = [&](auto f) {
    b.scale = f(b.scale);
    b.zero_point = f(b.zero_point);
  };
  if (size % block == Dim(0)) {
    b.shape = sizes_of(b.x, loc);
    Shape split;
    for (int i = 0; i < b.x.rank(); ++i) {
      split.push_back(i == axis ? blocks : b.shape[static_cast<std::size_t>(i)]);
      if (i == axis) split.push_back(block);
    }
    b.x = reshape(b.x, split, loc);
    each([&](const Tensor& t) { return unsqueeze(t, axis + 1, loc); });
  } else {
    each([&](const Tensor& t) {
      return slice(repeat_interleave(t, block, axis, loc), axis, 0, size, 1, loc);
    });
  }
  return b;
}

Beside beside(std::string_view function, const Tensor& x, const Tensor& scale,
              const Tensor& zero_point, DType dtype, std::int64_t axis, std::int64_t block,
              Loc loc) {
  // A product of f32 numbers holds every zero point; f16 and the like do not.
  Beside b{x, scale.dtype() == DType::f64 ? scale : to(scale, DType::f32, loc), zero_point};
  if (!b.zero_point.defined()) b.zero_point = zeros_like(scale, dtype, loc);
  if (block < 0) {
    fail_call(function, x, "block_size = " + std::to_string(block) + " must not be negative", loc);
  }
  if (block > 0) {
    if (b.scale.rank() != x.rank() || b.zero_point.rank() != x.rank()) {
      fail_call(function, x,
                "blocks need scale and zero_point with the axes of x, but they are " +
                    type_string(b.scale) + " and " + type_string(b.zero_point),
                loc);
    }
    return in_blocks(function, std::move(b), normalize_axis(axis, x.rank(), function, loc), block,
                     loc);
  }
  b.scale = along(function, "scale", b.scale, x, axis, loc);
  b.zero_point = along(function, "zero_point", b.zero_point, x, axis, loc);
  // One zero point for all scales, or one scale: ONNX has both in one shape.
  if (!b.scale.shape().same_as(b.zero_point.shape())) {
    Shape shape;
    if (broadcast(b.scale.shape(), b.zero_point.shape(), shape)) {
      b.scale = expand(b.scale, shape, loc);
      b.zero_point = expand(b.zero_point, shape, loc);
    }
  }
  return b;
}

Tensor result_of(const Beside& b, const Tensor& result, Loc loc) {
  return b.shape.empty() ? result : reshape(result, b.shape, loc);
}

/// A scale as a tensor: a host number has the dtype of x.
Tensor scale_of(const Arg& scale, const Tensor& x, Loc loc) {
  return as_dtype(scale,
                  scale.tensor().defined() && scale.tensor().impl()->is_number
                      ? (x.defined() && is_floating(x.dtype()) ? x.dtype() : DType::f32)
                      : scale.tensor().dtype(),
                  loc);
}

}  // namespace

std::span<const OpInfo* const> quantize_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<QuantizeLinear>, &op_info<DequantizeLinear>,
                                            &op_info<FakeQuantize>,
                                            &op_info<DynamicQuantizeLinear>};
  return kRows;
}

std::pair<double, double> bounds_of(DType dtype) {
  const bool small = contains(kSmallInteger, dtype);
  const int bits = small ? small_int_width(dtype) : 8 * static_cast<int>(size_of(dtype));
  const bool with_sign = small ? small_int_is_signed(dtype) : contains(kSigned, dtype);
  const double low = with_sign ? -std::exp2(bits - 1) : 0;
  return {low, low + std::exp2(bits) - 1};
}

Tensor requantize(const Tensor& sums, const Tensor& factor, const Tensor& zero_point, Loc loc) {
  return apply<QuantizeLinear>({.dtype = zero_point.dtype(), .by_factor = true}, loc, sums, factor,
                               zero_point);
}

}  // namespace ops

using ops::beside;

Tensor quantize_linear(const Tensor& x, const Arg& scale, const Tensor& zero_point,
                       const QuantizeArgs& args, Loc loc) {
  if (!x.defined()) {
    return apply<ops::QuantizeLinear>({}, loc, x, scale.tensor(), zero_point);
  }
  const Tensor step = ops::scale_of(scale, x, loc);
  const DType dtype = args.dtype.value_or(zero_point.defined() ? zero_point.dtype() : DType::u8);
  if (zero_point.defined() && zero_point.dtype() != dtype) {
    throw DTypeError("quantize_linear(x: " + type_string(x) + "): the result is to be " +
                         std::string(name_of(dtype)) + " but zero_point is " +
                         type_string(zero_point) + "; they have one dtype",
                     loc.user());
  }
  const DType own = is_floating(step.dtype()) ? step.dtype() : DType::f32;
  const auto b =
      beside("quantize_linear", x, step, zero_point, dtype, args.axis, args.block_size, loc);
  const ops::QuantizeLinearAttrs attrs{
      .dtype = dtype, .saturate = args.saturate, .precision = args.precision.value_or(own)};
  return ops::result_of(b, apply<ops::QuantizeLinear>(attrs, loc, b.x, b.scale, b.zero_point), loc);
}

Tensor dequantize_linear(const Tensor& x, const Arg& scale, const Tensor& zero_point,
                         const DequantizeArgs& args, Loc loc) {
  if (!x.defined()) {
    return apply<ops::DequantizeLinear>({}, loc, x, scale.tensor(), zero_point);
  }
  const Tensor step = ops::scale_of(scale, x, loc);
  const auto b =
      beside("dequantize_linear", x, step, zero_point, x.dtype(), args.axis, args.block_size, loc);
  const DType own = is_floating(step.dtype()) ? step.dtype() : DType::f32;
  return ops::result_of(b,
                        apply<ops::DequantizeLinear>({.dtype = args.dtype.value_or(own)}, loc, b.x,
                                                     b.scale, b.zero_point),
                        loc);
}

Quantized dynamic_quantize_linear(const Tensor& x, Loc loc) {
  const LocScope called(loc, "dynamic_quantize_linear");
  const Tensor* const inputs[] = {&x};
  std::vector<Tensor> made = apply_multi<ops::DynamicQuantizeLinear>({}, loc, inputs, 3);
  return {made[0], made[1], made[2]};
}

Tensor fake_quantize(const Tensor& x, const Arg& scale, const Arg& zero_point, std::int64_t low,
                     std::int64_t high, std::int64_t axis, Loc loc) {
  const ops::FakeQuantize::Attrs attrs{low, high};
  if (!x.defined()) {
    return apply<ops::FakeQuantize>(attrs, loc, x, scale.tensor(), zero_point.tensor());
  }
  const Tensor step = ops::scale_of(scale, x, loc);
  const Tensor zero =
      ops::as_dtype(zero_point,
                    zero_point.tensor().defined() && zero_point.tensor().impl()->is_number
                        ? DType::i32
                        : zero_point.tensor().dtype(),
                    loc);
  const auto b = beside("fake_quantize", x, step, zero, zero.dtype(), axis, 0, loc);
  return apply<ops::FakeQuantize>(attrs, loc, b.x, b.scale, b.zero_point);
}

}  // namespace dyad
