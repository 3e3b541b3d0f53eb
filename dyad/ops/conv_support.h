#pragma once

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/per_axis.h"

/// What convolutions of any numbers share. For the .cpp files of this layer.
namespace dyad::ops {

/// The attributes of a call: padding by name becomes numbers. ValueError.
[[nodiscard]] ConvAttrs conv_attrs(std::string_view name, std::size_t axes, const Tensor& x,
                                   const Tensor& weight, const PerAxis& stride,
                                   const Padding& padding, const PerAxis& dilation,
                                   std::int64_t groups, Loc loc);
/// The shape of the convolution of inputs `x` and `weight` (their numbers); what does not fit is an
/// error.
[[nodiscard]] Shape conv_result(const InferIn& in, std::size_t x, std::size_t weight,
                                const ConvAttrs& attrs);
/// The attributes of ONNX's convolutions; the export fails when the padding depends on an open
/// size.
[[nodiscard]] OnnxAttrs onnx_conv(OnnxEmitter& e, const ConvAttrs& attrs);
/// `auto_pad` of an ONNX node, or its `pads`: those before each axis, then those after.
[[nodiscard]] Padding padding_of(OnnxNode& n);

}  // namespace dyad::ops
