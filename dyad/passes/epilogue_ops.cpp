#include "dyad/passes/epilogue_ops.h"

#include <string>
#include <vector>

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

ops::ConvAttrs windows_of(const ops::ConvEpilogueAttrs& a) {
  return {
      .stride = a.stride, .low = a.low, .high = a.high, .dilation = a.dilation, .groups = a.groups};
}

struct ConvEpilogue {
  using Attrs = ops::ConvEpilogueAttrs;
  static constexpr Schema schema{.name = "conv_epilogue",
                                 .inputs = kEpilogueInputs,
                                 .outputs = ops::kOut,
                                 .doc = "activation(conv(x, weight, bias) + residual)."};
  static Types infer(const InferIn& in, const Attrs& a) {
    return checked(in, a.activation, in[1].shape()[0], ops::conv_result(in, 0, 1, windows_of(a)));
  }
};

struct ConvBlocks {
  using Attrs = ops::ConvEpilogueAttrs;
  static constexpr Schema schema{
      .name = "conv_blocks",
      .inputs = kEpilogueInputs,
      .outputs = ops::kOut,
      .doc = "conv_epilogue with channels in blocks of eight, [n, c / 8, h, w, 8]."};
  static Types infer(const InferIn& in, const Attrs& a) {
    const Shape& x = in[0].shape();
    if (a.stride.size() != 2) fail_value(in, "images must have two axes beside their channels");
    std::vector<Type> types(in.inputs.begin(), in.inputs.end());
    if (x.rank() == 5) {
      if (!(x[4] == Dim(ops::kChannelBlock))) {
        fail_shape(
            in, "the last axis of x must be a block of 8 channels but has size " + to_string(x[4]));
      }
      types[0] = Type(DType::f32, {x[0], x[1] * ops::kChannelBlock, x[2], x[3]});
    }
    const InferIn images{in.op, types, in.attrs, in.loc};
    const Shape plain = ops::conv_result(images, 0, 1, windows_of(a));
    if (!(plain[1] % ops::kChannelBlock == Dim(0))) {
      fail_shape(
          in, "the result's " + to_string(plain[1]) + " channels do not divide into blocks of 8");
    }
    return checked(
        in, a.activation, plain[1],
        {plain[0], plain[1] / ops::kChannelBlock, plain[2], plain[3], ops::kChannelBlock});
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
constinit const OpInfo kConvBlocksOp = make_op_info<ConvBlocks>();

void register_epilogue_ops() {
  static const bool done = [] {
    const OpInfo* const rows[] = {&kConvEpilogueOp, &kProductEpilogueOp, &kConvBlocksOp};
    register_ops(rows);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace dyad::passes
