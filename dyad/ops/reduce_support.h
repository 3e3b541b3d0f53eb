#pragma once

#include <string>

#include "dyad/ir/scalar_reduction.h"
#include "dyad/ops/op_support.h"

/// What the structs of reductions share. For the .cpp files of this layer.
namespace dyad::ops {

struct ReduceAttrs {
  Ints axes;
  bool keepdim = false;
};

constexpr Schema reduction(std::string_view name, std::string_view doc,
                           std::span<const ArgInfo> inputs, std::uint32_t saved_inputs = 0,
                           std::uint32_t saved_outputs = 0) {
  return {.name = name,
          .inputs = inputs,
          .outputs = kOut,
          .doc = doc,
          .saved_inputs = saved_inputs,
          .saved_outputs = saved_outputs};
}

/// The type of a result of that dtype; IndexError, ValueError for the axes.
[[nodiscard]] Types infer_reduction(const InferIn& in, const ReduceAttrs& attrs, DType dtype);
/// ShapeError when one of the axes is known to have no elements.
void require_elements(const InferIn& in, const Ints& axes);
/// What was reduced, with its axes back in place as sizes of 1, so that it broadcasts over `shape`.
[[nodiscard]] Tensor with_axes(const Tensor& reduced, const Shape& shape, const ReduceAttrs& attrs);
/// One of ONNX's Reduce nodes over the value `x`, which has the shape of the input.
[[nodiscard]] std::string reduction_node(OnnxEmitter& e, std::string_view op, const std::string& x,
                                         const ReduceAttrs& attrs);
/// Writes the output as such a node.
void write_reduction(OnnxEmitter& e, std::string_view op, const std::string& x,
                     const ReduceAttrs& attrs);

}  // namespace dyad::ops
