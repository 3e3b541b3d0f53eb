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

std::string reduction_node(OnnxEmitter& e, std::string_view op, const std::string& x,
                           const ReduceAttrs& attrs) {
  // Axes became an input in opset 13 for sums, in 18 for the others.
  const bool as_input = e.opset() >= (op == "ReduceSum" ? 13 : 18);
  std::vector<std::string> inputs{x};
  OnnxAttrs options{{"keepdims", std::int64_t{attrs.keepdim}}};
  if (!attrs.axes.empty()) {
    // Counted from the front: runtimes have got negative ones wrong where a size is 0.
    const Ints axes = sorted_axes(attrs.axes, e.input_type(0).rank());
    if (as_input) {
      inputs.push_back(e.constant_i64(axes));
    } else {
      options.emplace_back("axes", std::vector<std::int64_t>(axes.begin(), axes.end()));
    }
  }
  return e.node(op, inputs, options);
}

void write_reduction(OnnxEmitter& e, std::string_view op, const std::string& x,
                     const ReduceAttrs& attrs) {
  e.output(0, reduction_node(e, op, x, attrs));
}

}  // namespace dyad::ops
