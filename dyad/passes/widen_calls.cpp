#include "dyad/passes/widen_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/ops/elementary.h"
#include "dyad/passes/peephole.h"

namespace dyad::passes {
namespace {

/// The groups of a convolution of any of the three kinds and its input channels; no groups for
/// other operators.
struct Channels {
  std::int64_t groups = 0;
  Dim count = 0;
};

Channels channels_of(const Node& node) {
  const void* const attrs = node.attrs().data();
  if (node.is("conv")) {
    return {static_cast<const ops::ConvAttrs*>(attrs)->groups, node.inputs()[0].type().shape()[1]};
  }
  const bool transposed = node.is("conv_transpose");
  if (!transposed && !node.is("conv_backward_weight")) return {};
  const Type& image = transposed ? node.types()[0] : node.inputs()[1].type();
  return {static_cast<const ops::ConvBackwardAttrs*>(attrs)->groups, image.shape()[1]};
}

bool is_depthwise(const Channels& channels) {
  return channels.groups > 1 &&
         (!channels.count.is_number() || channels.count.number() == channels.groups);
}

}  // namespace

bool is_call_to_widen(const Node& node, const LibraryDTypes& dtypes) {
  const bool is_product = node.is("matmul") || node.is("linear");
  const Channels channels = channels_of(node);
  if (!is_product && (channels.groups == 0 || is_depthwise(channels))) return false;
  const auto& has = is_product ? dtypes.multiplies : dtypes.convolves;
  const DType dtype = node.types()[0].dtype();
  return is_narrow(dtype) && has && !has(dtype);
}

Ref<GraphImpl> widen_calls(const GraphImpl& graph, const LibraryDTypes& dtypes) {
  return Peephole(graph).rewrite([&](const Node& node, std::span<const Value> inputs,
                                     GraphImpl& to) {
    if (!is_call_to_widen(node, dtypes)) return Value();
    GraphEvaluator evaluator{Ref<GraphImpl>(&to)};
    const Evaluator::Scope current(evaluator);
    const auto cast = [&](Value value, DType wanted) {
      if (!value) return Value();
      const Tensor made = dyad::to(symbolic_tensor(evaluator.graph(), value), wanted, node.loc());
      return evaluator.value_of(made, &node.op(), node.loc());
    };
    std::vector<Value> wide;
    for (const Value input : inputs) {
      const auto first =
          static_cast<std::size_t>(std::ranges::find(inputs, input) - inputs.begin());
      wide.push_back(first < wide.size() ? wide[first] : cast(input, DType::f32));
    }
    const Types types{Type(DType::f32, node.types()[0].shape())};
    Node* const made = to.append(node.op(), node.shared_attrs(), wide, types, node.loc());
    return cast(made->output(), node.types()[0].dtype());
  });
}

}  // namespace dyad::passes
