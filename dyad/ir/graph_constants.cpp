#include "dyad/ir/graph_constants.h"

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"

namespace dyad {

void visit_constants(const GraphImpl& graph, const std::function<void(const Tensor&)>& visit) {
  for (const auto& node : graph.nodes()) {
    if (&node->op() == &kConstantOp) visit(node->attrs_as<ConstantAttrs>().value);
    for (const Ref<GraphImpl>& region : node->regions()) visit_constants(*region, visit);
  }
}

void let_constants_shed(const GraphImpl& graph) {
  constexpr std::size_t kLarge = std::size_t{64} << 10;  // below, a page or two more or less
  visit_constants(graph, [](const Tensor& constant) {
    Storage& storage = *constant.impl()->storage;
    if (storage.bytes() >= kLarge) storage.allow_shedding();
  });
}

std::vector<ContentsHold> hold_constants(const GraphImpl& graph) {
  std::vector<ContentsHold> holds;
  visit_constants(graph, [&](const Tensor& constant) {
    ContentsHold hold(constant.impl()->storage);
    if (hold.holds()) holds.push_back(std::move(hold));
  });
  return holds;
}

}  // namespace dyad
