#include "dyad/ops/reduce_support.h"

#include "dyad/ops/views.h"

namespace dyad::ops {

Types infer_reduction(const InferIn& in, const ReduceAttrs& attrs, DType dtype) {
  const Ints axes = checked_axes(in, attrs.axes, in[0].rank());
  return {Type(dtype, reduced_shape(in[0].shape(), axes, attrs.keepdim))};
}

void require_elements(const InferIn& in, const Ints& axes) {
  const Shape& shape = in[0].shape();
  for (const std::int64_t axis : axes) {
    if (shape[static_cast<std::size_t>(axis)].same_as(0)) {
      fail_shape(in, "axis " + std::to_string(axis) +
                         " has size 0, and no elements have no largest or smallest one");
    }
  }
}

Tensor with_axes(const Tensor& reduced, const Shape& shape, const ReduceAttrs& attrs) {
  if (attrs.keepdim) return reduced;
  return reshape(reduced, reduced_shape(shape, sorted_axes(attrs.axes, shape.rank()), true));
}

void write_reduction(OnnxEmitter& e, std::string_view op, const std::string& x,
                     const ReduceAttrs& attrs) {
  // Axes became an input in opset 13 for sums, in 18 for the others.
  const bool as_input = e.opset() >= (op == "ReduceSum" ? 13 : 18);
  std::vector<std::string> inputs{x};
  OnnxAttrs options{{"keepdims", std::int64_t{attrs.keepdim}}};
  if (!attrs.axes.empty() && as_input) inputs.push_back(e.constant_i64(attrs.axes));
  if (!attrs.axes.empty() && !as_input) {
    options.emplace_back("axes", std::vector<std::int64_t>(attrs.axes.begin(), attrs.axes.end()));
  }
  e.output(0, e.node(op, inputs, options));
}

}  // namespace dyad::ops
