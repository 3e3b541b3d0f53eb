#include "dyad/passes/rewriter.h"

#include <fmt/format.h>

#include "dyad/base/error.h"

namespace dyad::passes {

Rewriter::Rewriter(const GraphImpl& from) : from_(from), to_(make_ref<GraphImpl>()), now_(from) {
  for (const SizeRange& range : from.ranges()) to_->assume(range);
}

Value Rewriter::at(Value old) const {
  if (!old) return {};
  if (const Value now = now_[old]) return now;
  throw InternalError(
      fmt::format("rewriting a graph: {} is used before it was copied", old.node->op().name),
      old.node->loc());
}

std::vector<Value> Rewriter::at(std::span<const Value> old) const {
  std::vector<Value> now;
  now.reserve(old.size());
  for (const Value v : old) now.push_back(at(v));
  return now;
}

Node* Rewriter::copy(const Node& node) {
  InlineVector<Value, 8> inputs;
  for (const Value v : node.inputs()) inputs.push_back(at(v));
  Node* made = to_->append_copy(node, inputs);
  for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
    set({const_cast<Node*>(&node), i}, made->output(i));
  }
  return made;
}

Ref<GraphImpl> Rewriter::finish() {
  to_->outputs() = at(from_.outputs());
  return to_;
}

ValueTable<int> count_uses(const GraphImpl& graph) {
  ValueTable<int> uses(graph);
  for (const auto& node : graph.nodes()) {
    for (const Value v : node->inputs()) {
      if (v) ++uses[v];
    }
  }
  for (const Value v : graph.outputs()) ++uses[v];
  return uses;
}

}  // namespace dyad::passes
