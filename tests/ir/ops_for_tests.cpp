#include "tests/ir/ops_for_tests.h"

#include <algorithm>
#include <cstring>

#include "dyad/base/error.h"

namespace dyad::testing {
namespace {

constexpr ArgInfo kX[] = {{.name = "x", .dtypes = kFloat}};
constexpr ArgInfo kAnyX[] = {{.name = "x"}};
constexpr ArgInfo kAB[] = {{.name = "a", .dtypes = kNumber}, {.name = "b", .dtypes = kNumber}};
constexpr ArgInfo kFloatAB[] = {{.name = "a", .dtypes = kFloat}, {.name = "b", .dtypes = kFloat}};
constexpr ArgInfo kWhere[] = {{.name = "condition", .dtypes = kBool}, {.name = "a"}, {.name = "b"}};
constexpr ArgInfo kLinear[] = {{.name = "x", .dtypes = kFloat},
                               {.name = "weight", .dtypes = kFloat},
                               {.name = "bias", .dtypes = kFloat, .optional = true}};
constexpr ArgInfo kTensors[] = {{.name = "tensors", .dtypes = kAny, .variadic = true}};
constexpr ArgInfo kOut[] = {{.name = "y"}};
constexpr ArgInfo kTwoOut[] = {{.name = "values"}, {.name = "indices"}};

Types infer_sum(const InferIn& in) {
  const auto& attrs = *static_cast<const SumAttrs*>(in.attrs);
  Shape shape;
  for (int i = 0; i < in[0].rank(); ++i) {
    const bool reduced = attrs.axes.empty() || std::ranges::find(attrs.axes, i) != attrs.axes.end();
    if (!reduced) shape.push_back(in[0].shape()[static_cast<std::size_t>(i)]);
    if (reduced && attrs.keepdim) shape.push_back(1);
  }
  return {Type(in[0].dtype(), shape)};
}

Types infer_matmul(const InferIn& in) {
  if (!(in[0].shape()[1] == in[1].shape()[0])) {
    fail_shape(in, "columns of a = " + to_string(in[0].shape()[1]) +
                       " but rows of b = " + to_string(in[1].shape()[0]));
  }
  return {Type(in[0].dtype(), Shape{in[0].shape()[0], in[1].shape()[1]})};
}

Types infer_transpose(const InferIn& in) {
  const auto& attrs = *static_cast<const TransposeAttrs*>(in.attrs);
  Shape shape = in[0].shape();
  std::swap(shape[static_cast<std::size_t>(attrs.a)], shape[static_cast<std::size_t>(attrs.b)]);
  return {Type(in[0].dtype(), shape)};
}

Types infer_same(const InferIn& in) { return {in[0]}; }
Types infer_two(const InferIn& in) { return {in[0], Type(DType::i64, in[0].shape())}; }
Types infer_nonzero(const InferIn& in) {
  return {Type(DType::i64, Shape{unknown_size(), in[0].rank()})};
}

constexpr OpInfo kRows[] = {
    {.name = "add",
     .kind = BodyKind::pointwise,
     .inputs = kAB,
     .outputs = kOut,
     .infer = infer_pointwise},
    {.name = "less",
     .kind = BodyKind::pointwise,
     .typing = Typing::boolean,
     .inputs = kAB,
     .outputs = kOut,
     .infer = infer_pointwise},
    {.name = "div",
     .kind = BodyKind::pointwise,
     .typing = Typing::floating,
     .inputs = kAB,
     .outputs = kOut,
     .infer = infer_pointwise},
    {.name = "where",
     .kind = BodyKind::pointwise,
     .inputs = kWhere,
     .outputs = kOut,
     .infer = infer_pointwise},
    {.name = "tanh",
     .kind = BodyKind::pointwise,
     .inputs = kX,
     .outputs = kOut,
     .infer = infer_pointwise},
    {.name = "matmul", .inputs = kFloatAB, .outputs = kOut, .infer = infer_matmul},
    {.name = "linear", .inputs = kLinear, .outputs = kOut, .infer = infer_same},
    {.name = "concat", .inputs = kTensors, .outputs = kOut, .infer = infer_same},
    {.name = "topk", .inputs = kAnyX, .outputs = kTwoOut, .infer = infer_two},
    {.name = "nonzero", .inputs = kAnyX, .outputs = kOut, .infer = infer_nonzero},
    {.name = "sum",
     .kind = BodyKind::reduction,
     .inputs = kAnyX,
     .outputs = kOut,
     .attrs = &attrs_info<SumAttrs>,
     .infer = infer_sum},
    {.name = "transpose",
     .kind = BodyKind::view,
     .inputs = kAnyX,
     .outputs = kOut,
     .attrs = &attrs_info<TransposeAttrs>,
     .infer = infer_transpose},
    {.name = "every",
     .version = 3,
     .inputs = kAnyX,
     .outputs = kOut,
     .attrs = &attrs_info<EveryAttrs>,
     .infer = infer_same},
    {.name = "branch",
     .kind = BodyKind::control,
     .inputs = kTensors,
     .outputs = kOut,
     .infer = infer_same},
};

/// Registers the rows before the first test.
const bool registered = [] {
  std::vector<const OpInfo*> rows;
  for (const OpInfo& row : kRows) rows.push_back(&row);
  register_ops(rows);
  return true;
}();

}  // namespace

const OpInfo& op(std::string_view name) {
  const OpInfo* row = registered ? find_op(name) : nullptr;
  if (row == nullptr) throw InternalError("the tests have no operator " + std::string(name));
  return *row;
}

Tensor values(std::vector<float> elements, Shape shape) {
  Tensor made = make_empty(DType::f32, shape);
  std::memcpy(made.impl()->data, elements.data(), elements.size() * sizeof(float));
  return made;
}

}  // namespace dyad::testing
