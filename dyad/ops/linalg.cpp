#include "dyad/ops/linalg.h"

#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/complex_support.h"
#include "dyad/ops/matrix_support.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kLinearInputs[] = {
    {"x", kFloat}, {"weight", kFloat}, {"bias", kFloat, /*optional=*/true}};

/// How many rows all matrices of `shape` have together, or -1 for reshape() to find it, which it
/// cannot beside a size that is or may be 0.
Dim rows_of(const Shape& shape, Dim beside, Dim also_beside) {
  const auto is_there = [](Dim size) { return size.is_number() && size.number() > 0; };
  if (is_there(beside) && is_there(also_beside)) return -1;
  Dim rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

struct Matmul {
  using Attrs = MatmulAttrs;
  static constexpr Schema schema{
      .name = "matmul",
      .inputs = kBinaryNumber,
      .outputs = kOut,
      .doc =
          "Matrix product over the last two axes, either operand transposed on request; the axes "
          "before them broadcast.",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::leading};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_one_dtype(in);
    return {Type(in[0].dtype(), product_shape(in, 0, 1, attrs.transpose_a, attrs.transpose_b))};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const bool ta = attrs.transpose_a, tb = attrs.transpose_b;
    if (g.needs(0)) {
      const Tensor b = g.input(1);
      g.set(0, ta ? product(b, g.grad(), tb, true) : product(g.grad(), b, false, !tb));
    }
    if (g.needs(1)) {
      Tensor a = g.input(0), grad = g.grad();
      // A matrix that many share: one long product instead of many and their sum.
      if (g.input_shape(1).rank() == 2 && g.input_shape(0).rank() > 2 && !ta) {
        const Dim inner = from_back(g.input_shape(0), 1), outer = from_back(g.output_shape(), 1);
        const Dim rows = rows_of(g.input_shape(0), inner, outer);
        a = reshape(a, {rows, inner});
        grad = reshape(grad, {rows, outer});
      }
      g.set(1, tb ? product(grad, a, true, ta) : product(a, grad, !ta, false));
    }
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    e.output(0,
             e.node("MatMul", {turned(e, 0, attrs.transpose_a), turned(e, 1, attrs.transpose_b)}));
  }

 private:
  static Tensor product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
    return apply<Matmul>({.transpose_a = transpose_a, .transpose_b = transpose_b}, {}, a, b);
  }
  static std::string turned(OnnxEmitter& e, int i, bool transpose) {
    std::string x = e.input_as(i, kFloat | kIndex);
    if (!transpose) return x;
    std::vector<std::int64_t> perm;
    for (int axis = 0; axis < e.input_type(i).rank(); ++axis) perm.push_back(axis);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return e.node("Transpose", {x}, {{"perm", perm}});
  }
};

struct Linear {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "linear",
      .inputs = kLinearInputs,
      .outputs = kOut,
      .doc = "x @ weight^T + bias: x[..., in], weight[out, in], bias[out].",
      .saved_inputs = kFirst | kSecond,
      .batching = Batching::first};
  static Types infer(const InferIn& in, const Attrs&) {
    require_one_dtype(in);
    const Shape &x = in[0].shape(), &weight = in[1].shape();
    if (x.rank() < 1) fail_shape(in, "x needs 1 axis or more");
    if (weight.rank() != 2) {
      fail_shape(in, "weight must be [out, in] but has " + std::to_string(weight.rank()) + " axes");
    }
    if (!(from_back(x, 1) == weight[1])) {
      fail_shape(in, "the last axis of x has size " + to_string(from_back(x, 1)) +
                         " but weight takes " + to_string(weight[1]));
    }
    if (in.has(2) && !(in[2].rank() == 1 && in[2].shape()[0] == weight[0])) {
      fail_shape(in, "bias must be [" + to_string(weight[0]) + "], the rows of weight, but is " +
                         to_string(in[2].shape()));
    }
    Shape shape = x;
    shape.back() = weight[0];
    return {Type(in[0].dtype(), shape)};
  }
  static void grad(Gradient& g, const Attrs&) {
    const Shape& weight = g.input_shape(1);
    const Dim count = rows_of(g.input_shape(0), weight[0], weight[1]);
    const Tensor rows = reshape(g.grad(), {count, weight[0]});
    // x, which may have to be computed again, is done with before x's gradient takes memory.
    if (g.needs(1)) {
      const Tensor x = reshape(g.take_input(0), {count, weight[1]});
      g.set(1, apply<Matmul>({.transpose_a = true}, {}, rows, x));
    }
    if (g.input_count() > 2 && g.needs(2)) g.set(2, sum(rows, {0}));
    if (g.needs(0)) g.set(0, reshape(matmul(rows, g.input(1)), g.input_shape(0)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    const bool has_bias = e.input_count() > 2 && !e.input(2).empty();
    if (e.input_type(0).rank() == 2) {
      std::vector<std::string> inputs{e.input(0), e.input(1)};
      if (has_bias) inputs.push_back(e.input(2));
      e.output(0, e.node("Gemm", inputs, {{"transB", std::int64_t{1}}}));
      return;
    }
    const std::string turned =
        e.node("Transpose", {e.input(1)}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    const std::string product = e.node("MatMul", {e.input(0), turned});
    e.output(0, has_bias ? e.node("Add", {product, e.input(2)}) : product);
  }
};

}  // namespace

std::span<const OpInfo* const> linalg_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Matmul>, &op_info<Linear>};
  return kRows;
}

/// A product with vectors: as matrices of one row or column, whose axis then goes.
Tensor vector_product(const Tensor& a, const Tensor& b, Loc loc) {
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const Dim columns = a.size(-1, loc), rows = b.size(column ? 0 : -2, loc);
  if (!(columns == rows)) {
    // What is recorded is told of with the sizes of this call.
    const auto told = [](const Tensor& t, int axis, Dim size) {
      const int at = from_front(axis, t.rank());
      return to_string(t.is_concrete() ? t.impl()->shape[static_cast<std::size_t>(at)] : size);
    };
    const Type types[] = {type_of(a), type_of(b)};
    const MatmulAttrs attrs;
    fail_shape({.op = op_info<Matmul>, .inputs = types, .attrs = &attrs, .loc = loc},
               (row ? "elements of a = " : "columns of a = ") + told(a, -1, columns) + " but " +
                   (column ? "elements of b = " : "rows of b = ") + told(b, column ? 0 : -2, rows));
  }
  Tensor out =
      apply<Matmul>({}, loc, row ? unsqueeze(a, 0, loc) : a, column ? unsqueeze(b, 1, loc) : b);
  if (column) out = squeeze(out, -1, loc);
  if (row) out = squeeze(out, column ? -1 : -2, loc);
  return out;
}

}  // namespace ops

Tensor matmul(const Tensor& a, const Tensor& b, Loc loc) {
  if (ops::any_complex(a, b)) return ops::complex_matmul(a, b, loc);
  const bool vectors = a.defined() && b.defined() && a.rank() > 0 && b.rank() > 0 &&
                       (a.rank() == 1 || b.rank() == 1);
  if (vectors) return ops::vector_product(a, b, loc);
  return apply<ops::Matmul>({}, loc, a, b);
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Loc loc) {
  return apply<ops::Linear>({}, loc, x, weight, bias);
}

}  // namespace dyad
