#include "dyad/passes/epilogue_ops.h"

#include <string>

#include "dyad/ops/attrs/epilogue.h"
#include "dyad/ops/conv_support.h"

namespace dyad::passes {
namespace {

constexpr DTypeSet kOnlyF32 = set_of(DType::f32);
constexpr ArgInfo kEpilogueInputs[] = {{"x", kOnlyF32},
                                       {"weight", kOnlyF32},
                                       {"bias", kOnlyF32, /*optional=*/true},
                                       {"residual", kOnlyF32, /*optional=*/true}};

/// The type of the result; a bias has its channels, a residual is like it.
Types checked(const InferIn& in, const std::string& activation, Dim channels, const Shape& result) {
  if (!ops::is_epilogue_activation(activation)) {
    fail_value(in, "activation = \"" + activation + "\" is none that an epilogue may have");
  }
  if (in.has(2) && !(in[2].rank() == 1 && in[2].shape()[0] == channels)) {
    fail_shape(in, "bias must be [" + to_string(channels) +
                       "], the channels of the result, but is " + to_string(in[2].shape()));
  }
  if (in.has(3) && !in[3].shape().same_as(result)) {
    fail_shape(in, "residual must be " + to_string(result) + ", like the result, but is " +
                       to_string(in[3].shape()));
  }
  return {Type(DType::f32, result)};
}

struct ConvEpilogue {
  using Attrs = ops::ConvEpilogueAttrs;
  static constexpr Schema schema{.name = "conv_epilogue",
                                 .inputs = kEpilogueInputs,
                                 .outputs = ops::kOut,
                                 .doc = "activation(conv(x, weight, bias) + residual)."};
  static Types infer(const InferIn& in, const Attrs& a) {
    const ops::ConvAttrs windows{.stride = a.stride,
                                 .low = a.low,
                                 .high = a.high,
                                 .dilation = a.dilation,
                                 .groups = a.groups};
    return checked(in, a.activation, in[1].shape()[0], ops::conv_result(in, 0, 1, windows));
  }
};

struct ProductEpilogue {
  using Attrs = ops::ProductEpilogueAttrs;
  static constexpr Schema schema{.name = "product_epilogue",
                                 .inputs = kEpilogueInputs,
                                 .outputs = ops::kOut,
                                 .doc = "activation(x @ weight + bias + residual)."};
  static Types infer(const InferIn& in, const Attrs& a) {
    const Shape &x = in[0].shape(), &weight = in[1].shape();
    if (x.rank() < 1) fail_shape(in, "x needs 1 axis or more");
    if (weight.rank() != 2) {
      fail_shape(in, "weight must have 2 axes but has " + std::to_string(weight.rank()));
    }
    const Dim rows = weight[a.transposed ? 1 : 0], columns = weight[a.transposed ? 0 : 1];
    if (!(x.back() == rows)) {
      fail_shape(in, "the last axis of x has size " + to_string(x.back()) + " but weight takes " +
                         to_string(rows));
    }
    Shape result = x;
    result.back() = columns;
    return checked(in, a.activation, columns, result);
  }
};

}  // namespace

constinit const OpInfo kConvEpilogueOp = make_op_info<ConvEpilogue>();
constinit const OpInfo kProductEpilogueOp = make_op_info<ProductEpilogue>();

void register_epilogue_ops() {
  static const bool done = [] {
    const OpInfo* const rows[] = {&kConvEpilogueOp, &kProductEpilogueOp};
    register_ops(rows);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace dyad::passes
