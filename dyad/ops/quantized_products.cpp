#include <algorithm>

#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/ops/conv.h"
#include "dyad/ops/conv_support.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/matrix_support.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/quantize.h"
#include "dyad/ops/quantize_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr DTypeSet kByte = set_of({DType::u8, DType::i8}), kI32 = set_of(DType::i32);
constexpr ArgInfo kSums[] = {{"out", kI32}};
constexpr ArgInfo kBytes[] = {{"out", kByte}};

std::string name_of_input(const InferIn& in, std::size_t i) {
  return std::string(input_info(in.op, i)->name);
}

/// Input i, if present, must have the dtype of input `of`.
void require_dtype_of(const InferIn& in, std::size_t i, std::size_t of) {
  if (!in.has(i) || in[i].dtype() == in[of].dtype()) return;
  fail_dtype(in, name_of_input(in, i) + " is " + std::string(name_of(in[i].dtype())) + " but " +
                     name_of_input(in, of) + " is " + std::string(name_of(in[of].dtype())) +
                     "; they have one dtype");
}

bool may_equal(Dim a, Dim b) { return !a.is_number() || !b.is_number() || a == b; }

/// Input i, if present, must be a scalar, or a vector of `size` numbers.
void require_scalar_or(const InferIn& in, std::size_t i, Dim size, std::string_view of) {
  if (!in.has(i) || in[i].rank() == 0) return;
  const Shape& shape = in[i].shape();
  if (shape.rank() == 1 && (shape[0].same_as(Dim(1)) || may_equal(shape[0], size))) return;
  fail_shape(in, name_of_input(in, i) + " must be a scalar or have one number for each of the " +
                     to_string(size) + " " + std::string(of) + ", but is " + to_string(shape));
}

/// The same, or [..., rows, 1] (`last` is 1) or [..., 1, columns] (2) beside a matrix.
void require_beside(const InferIn& in, std::size_t i, const Shape& matrix, std::size_t last) {
  if (!in.has(i)) return;
  const Shape& shape = in[i].shape();
  const auto from_back = [](const Shape& s, std::size_t k) { return s[s.size() - k]; };
  if (shape.rank() <= 1 || shape.size() != matrix.size()) {
    return require_scalar_or(in, i, from_back(matrix, 3 - last), last == 1 ? "rows" : "columns");
  }
  bool fits = from_back(shape, last).same_as(Dim(1));
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    fits = fits && (shape[axis].same_as(Dim(1)) || may_equal(shape[axis], matrix[axis]));
  }
  if (!fits) {
    fail_shape(in, name_of_input(in, i) + " is " + to_string(shape) + ", which does not fit " +
                       to_string(matrix) + ": it has one number for each " +
                       (last == 1 ? "row" : "column"));
  }
}

bool is_present(OnnxEmitter& e, int i) { return i < e.input_count() && !e.input(i).empty(); }
/// Whether an input is absent or has one number.
bool one_number(OnnxEmitter& e, int i) {
  if (!is_present(e, i)) return true;
  const Shape& shape = e.input_type(i).shape();
  return shape.rank() == 0 || (shape.rank() == 1 && shape[0].same_as(Dim(1)));
}
std::vector<std::string> inputs_of(OnnxEmitter& e) {
  std::vector<std::string> inputs;
  for (int i = 0; i < e.input_count(); ++i) inputs.push_back(e.input(i));
  return inputs;
}

struct MatmulInteger {
  using Attrs = NoAttrs;
  static constexpr ArgInfo kInputs[] = {{"a", kByte},
                                        {"b", kByte},
                                        {"a_zero_point", kByte, /*optional=*/true},
                                        {"b_zero_point", kByte, /*optional=*/true}};
  static constexpr Schema schema{
      .name = "matmul_integer",
      .inputs = kInputs,
      .outputs = kSums,
      .doc = "(a - a_zero_point) @ (b - b_zero_point) in i32, modulo 2^32."};
  static Types infer(const InferIn& in, const Attrs&) {
    require_dtype_of(in, 2, 0);
    require_dtype_of(in, 3, 1);
    const Shape shape = product_shape(in, 0, 1);
    require_beside(in, 2, in[0].shape(), 1);
    require_beside(in, 3, in[1].shape(), 2);
    return {Type(DType::i32, shape)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    if (one_number(e, 2) && (one_number(e, 3) || e.input_type(3).rank() == 1)) {
      return e.output(0, e.node("MatMulInteger", inputs_of(e)));
    }
    // Zero points for each row are in the standard; runtimes have none.
    const auto whole = [&](int i) {
      std::string x = e.cast(e.input(i), DType::i32);
      if (!is_present(e, i + 2)) return x;
      std::string zero = e.cast(e.input(i + 2), DType::i32);
      const std::int64_t last[] = {1};
      if (i == 0 && e.input_type(2).rank() == 1) {
        zero = e.node("Unsqueeze", {zero, e.constant_i64(last)});
      }
      return e.node("Sub", {x, zero});
    };
    const std::string a = whole(0);
    e.output(0, e.node("MatMul", {a, whole(1)}));
  }
};

struct ConvInteger {
  using Attrs = ConvAttrs;
  static constexpr ArgInfo kInputs[] = {{"x", kByte},
                                        {"weight", kByte},
                                        {"x_zero_point", kByte, /*optional=*/true},
                                        {"weight_zero_point", kByte, /*optional=*/true}};
  static constexpr Schema schema{
      .name = "conv_integer",
      .inputs = kInputs,
      .outputs = kSums,
      .doc =
          "Cross-correlation of x[n, c, ...] - x_zero_point with weight[o, c / groups, ...] - "
          "weight_zero_point (a scalar or [o]) in i32, modulo 2^32."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_dtype_of(in, 2, 0);
    require_dtype_of(in, 3, 1);
    const Shape shape = conv_result(in, 0, 1, attrs);
    require_scalar_or(in, 2, 1, "tensors x");
    require_scalar_or(in, 3, in[1].shape()[0], "output channels");
    return {Type(DType::i32, shape)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    std::vector<std::string> inputs = inputs_of(e);
    const OnnxAttrs windows = onnx_conv(e, attrs);
    if (one_number(e, 3)) return e.output(0, e.node("ConvInteger", inputs, windows));
    // One for each channel is in the standard; runtimes have none: what it takes off is the sum of
    // each window.

    inputs[3].clear();
    const std::string sums = e.node("ConvInteger", inputs, windows);
    inputs[1] = e.node("ConstantOfShape", {e.shape(e.input_type(1).shape())},
                       {{"value", full({1}, 1, e.input_type(1).dtype())}});
    const std::string of_windows = e.node("ConvInteger", inputs, windows);
    std::vector<std::int64_t> channels(attrs.stride.size() + 1, 1);
    channels[0] = -1;
    const std::string zero =
        e.node("Reshape", {e.cast(e.input(3), DType::i32), e.constant_i64(channels)});
    e.output(0, e.node("Sub", {sums, e.node("Mul", {zero, of_windows})}));
  }
};

Tensor optional(TensorRefs in, std::size_t i) { return i < in.size() ? *in[i] : Tensor(); }

struct QLinearMatmul {
  using Attrs = NoAttrs;
  static constexpr ArgInfo kInputs[] = {
      {"a", kByte},      {"a_scale", kF32},       {"a_zero_point", kByte}, {"b", kByte},
      {"b_scale", kF32}, {"b_zero_point", kByte}, {"scale", kF32},         {"zero_point", kByte}};
  static constexpr Schema schema{
      .name = "qlinear_matmul",
      .inputs = kInputs,
      .outputs = kBytes,
      .doc =
          "saturate(round(matmul_integer(a, b, ...) * (a_scale * b_scale / scale)) + zero_point).",
      .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs&) {
    require_dtype_of(in, 2, 0);
    require_dtype_of(in, 5, 3);
    const Shape shape = product_shape(in, 0, 3);
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      require_beside(in, i, in[0].shape(), 1);
      require_beside(in, i + 3, in[3].shape(), 2);
    }
    require_scalar_or(in, 6, 1, "result");
    require_scalar_or(in, 7, 1, "result");
    return {Type(in[7].dtype(), shape)};
  }
  static std::vector<Tensor> expand(const Attrs&, TensorRefs in, Loc loc) {
    const LocScope scope(loc);
    const Tensor sums = apply<MatmulInteger>({}, loc, *in[0], *in[3], *in[2], *in[5]);
    const Tensor by_row = in[1]->rank() == 1 ? unsqueeze(*in[1], -1) : *in[1];
    const Tensor factor = by_row * *in[4] / *in[6];
    return {requantize(sums, factor, *in[7], loc)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const auto fits = [&](int i) { return e.input_type(i).rank() <= (i < 3 ? 0 : 1); };
    if (!fits(1) || !fits(2) || !fits(4) || !fits(5)) return e.parts();
    e.output(0, e.node("QLinearMatMul", inputs_of(e)));
  }
};

struct QLinearConv {
  using Attrs = ConvAttrs;
  static constexpr ArgInfo kInputs[] = {
      {"x", kByte},      {"x_scale", kF32},      {"x_zero_point", kByte},
      {"weight", kByte}, {"weight_scale", kF32}, {"weight_zero_point", kByte},
      {"scale", kF32},   {"zero_point", kByte},  {"bias", kI32, /*optional=*/true}};
  static constexpr Schema schema{
      .name = "qlinear_conv",
      .inputs = kInputs,
      .outputs = kBytes,
      .doc =
          "saturate(round((conv_integer(x, weight, ...) + bias) * (x_scale * weight_scale / "
          "scale)) + zero_point).",
      .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_dtype_of(in, 2, 0);
    require_dtype_of(in, 5, 3);
    const Shape shape = conv_result(in, 0, 3, attrs);
    const Dim channels = in[3].shape()[0];
    for (const std::size_t i : {1, 2, 6, 7}) require_scalar_or(in, i, 1, "tensors");
    for (const std::size_t i : {4, 5}) require_scalar_or(in, i, channels, "output channels");
    if (in.has(8) && !(in[8].rank() == 1 && may_equal(in[8].shape()[0], channels))) {
      fail_shape(in, "bias must be [" + to_string(channels) + "], the output channels, but is " +
                         to_string(in[8].shape()));
    }
    return {Type(in[7].dtype(), shape)};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc loc) {
    const LocScope scope(loc);
    Shape channels(attrs.stride.size() + 1, 1);
    channels[0] = -1;
    Tensor sums = apply<ConvInteger>(attrs, loc, *in[0], *in[3], *in[2], *in[5]);
    if (const Tensor bias = optional(in, 8); bias.defined()) sums = sums + reshape(bias, channels);
    // A scale of one element for all has an axis of its own, which the result has not.
    const Tensor of_x = reshape(*in[1], {}), of_y = reshape(*in[6], {});
    const Tensor of_weight = in[4]->rank() == 0 ? *in[4] : reshape(*in[4], channels);
    return {requantize(sums, of_x * of_weight / of_y, reshape(*in[7], {}), loc)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0, e.node("QLinearConv", inputs_of(e), onnx_conv(e, attrs)));
  }
};

std::size_t spatial_axes(const Tensor& x) {
  // One to three: x of any other rank is refused for what it should be.
  return x.defined() && x.rank() > 2 ? static_cast<std::size_t>(std::min(x.rank() - 2, 3)) : 2;
}

bool all_bytes(std::initializer_list<Tensor> tensors) {
  return std::ranges::all_of(
      tensors, [](const Tensor& t) { return !t.defined() || contains(kByte, t.dtype()); });
}

Tensor single(const Arg& scale, Loc loc) { return as_dtype(scale, DType::f32, loc); }

/// The numbers behind a factor of a product, in f32: with scales for rows (`axis` -2) or columns.
Tensor numbers_of(const Quantized& q, std::int64_t axis, Loc loc) {
  return dequantize_linear(q.values, single(q.scale, loc), q.zero_point, {.axis = axis}, loc);
}

/// The first tensor that is missing, for the row to name.
bool complete(const Quantized& q) {
  return q.values.defined() && q.scale.defined() && q.zero_point.defined();
}

}  // namespace

std::span<const OpInfo* const> quantized_products_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<MatmulInteger>, &op_info<ConvInteger>,
                                            &op_info<QLinearMatmul>, &op_info<QLinearConv>};
  return kRows;
}

}  // namespace ops

Tensor matmul_integer(const Tensor& a, const Tensor& b, const Tensor& a_zero_point,
                      const Tensor& b_zero_point, Loc loc) {
  const bool row = a.defined() && a.rank() == 1, column = b.defined() && b.rank() == 1;
  Tensor out =
      apply<ops::MatmulInteger>({}, loc, row ? unsqueeze(a, 0, loc) : a,
                                column ? unsqueeze(b, 1, loc) : b, a_zero_point, b_zero_point);
  if (column) out = squeeze(out, -1, loc);
  if (row) out = squeeze(out, column ? -1 : -2, loc);
  return out;
}

Tensor conv_integer(const Tensor& x, const Tensor& weight, const Tensor& x_zero_point,
                    const Tensor& weight_zero_point, const PerAxis& stride, const Padding& padding,
                    const PerAxis& dilation, std::int64_t groups, Loc loc) {
  return apply<ops::ConvInteger>(ops::conv_attrs("conv_integer", ops::spatial_axes(x), x, weight,
                                                 stride, padding, dilation, groups, loc),
                                 loc, x, weight, x_zero_point, weight_zero_point);
}

Tensor qlinear_matmul(const Quantized& a, const Quantized& b, const Arg& scale,
                      const Tensor& zero_point, Loc loc) {
  if (!ops::all_bytes({a.values, b.values, zero_point})) {
    const LocScope scope(loc);
    const Tensor product = matmul(ops::numbers_of(a, -2, loc), ops::numbers_of(b, -1, loc), loc);
    return quantize_linear(product, ops::single(scale, loc), zero_point, {}, loc);
  }
  if (!ops::complete(a) || !ops::complete(b)) {
    return apply<ops::QLinearMatmul>({}, loc, a.values, a.scale, a.zero_point, b.values, b.scale,
                                     b.zero_point, scale.tensor(), zero_point);
  }
  return apply<ops::QLinearMatmul>({}, loc, a.values, to(a.scale, f32, loc), a.zero_point, b.values,
                                   to(b.scale, f32, loc), b.zero_point, ops::single(scale, loc),
                                   zero_point);
}

Tensor qlinear_conv(const Quantized& x, const Quantized& weight, const Arg& scale,
                    const Tensor& zero_point, const Tensor& bias, const PerAxis& stride,
                    const Padding& padding, const PerAxis& dilation, std::int64_t groups, Loc loc) {
  const auto attrs = ops::conv_attrs("qlinear_conv", ops::spatial_axes(x.values), x.values,
                                     weight.values, stride, padding, dilation, groups, loc);
  if (!ops::complete(x) || !ops::complete(weight)) {
    return apply<ops::QLinearConv>(attrs, loc, x.values, x.scale, x.zero_point, weight.values,
                                   weight.scale, weight.zero_point, scale.tensor(), zero_point,
                                   bias);
  }
  return apply<ops::QLinearConv>(attrs, loc, x.values, to(x.scale, f32, loc), x.zero_point,
                                 weight.values, to(weight.scale, f32, loc), weight.zero_point,
                                 ops::single(scale, loc), zero_point, bias);
}

}  // namespace dyad
