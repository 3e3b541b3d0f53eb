#include "dyad/onnx/network.h"

#include <fmt/format.h>

#include <unordered_set>

#include "dyad/base/error.h"
#include "dyad/exec/call_graph.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_ops.h"

namespace dyad::onnx {
namespace {

/// The variables that are statistics of normalisations.
std::unordered_set<const Node*> statistics_of(const GraphImpl& graph) {
  std::unordered_set<const Node*> found;
  for (const auto& node : graph.nodes()) {
    if (!node->is("batch_norm")) continue;
    for (const std::size_t i : {3, 4}) found.insert(node->inputs()[i].node);
  }
  return found;
}

}  // namespace

Network::Network(const Model& model, Loc loc) : graph_(model.graph(loc)) {
  const GraphImpl& graph = *graph_.impl();
  const auto statistics = statistics_of(graph);
  for (const Value variable : graph.variables()) {
    const auto& attrs = variable.node->attrs_as<VariableAttrs>();
    Weight& weight = weights_.emplace_back();
    weight.name = attrs.name;
    if (attrs.tensor.rank() == 0 || !is_floating(attrs.tensor.dtype()) ||
        statistics.contains(variable.node)) {
      weight.buffer = nn::Buffer(attrs.tensor);
    } else {
      weight.parameter = nn::Parameter(attrs.tensor, loc);
    }
  }
}

std::vector<Tensor> Network::run(std::span<const Tensor> inputs, Loc loc) const {
  std::vector<Tensor> variables;
  for (const Weight& weight : weights_) {
    const bool learned = weight.parameter.defined();
    variables.push_back(learned ? Tensor(weight.parameter) : Tensor(weight.buffer));
  }
  return exec::call_graph(*graph_.impl(), inputs, variables, loc);
}

Tensor Network::single(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> results = run(inputs, {});
  if (results.size() == 1) return results[0];
  throw GraphError(fmt::format("the network has {} results; run() gives them all", results.size()),
                   {});
}

void Network::visit(nn::Visitor& visitor) {
  for (Weight& weight : weights_) {
    visitor(weight.name, weight.parameter);
    visitor(weight.name, weight.buffer);
  }
}

}  // namespace dyad::onnx
