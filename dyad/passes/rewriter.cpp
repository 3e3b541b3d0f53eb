#include "dyad/passes/rewriter.h"

#include <fmt/format.h>

#include "dyad/base/error.h"

namespace dyad::passes {

Rewriter::Rewriter(const GraphImpl& from) : from_(from), to_(make_ref<GraphImpl>()) {}

Value Rewriter::at(Value old) const {
  if (!old) return {};
  const auto found = map_.find(old);
  if (found == map_.end()) {
    throw InternalError(
        fmt::format("rewriting a graph: {} is used before it was copied", old.node->op().name),
        old.node->loc());
  }
  return found->second;
}

std::vector<Value> Rewriter::at(std::span<const Value> old) const {
  std::vector<Value> now;
  now.reserve(old.size());
  for (const Value v : old) now.push_back(at(v));
  return now;
}

Node* Rewriter::copy(const Node& node) {
  Node* made = to_->append_copy(node, at(node.inputs()));
  for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
    set({const_cast<Node*>(&node), i}, made->output(i));
  }
  return made;
}

Ref<GraphImpl> Rewriter::finish() {
  to_->outputs() = at(from_.outputs());
  return to_;
}

std::unordered_map<Value, int, ValueHash> count_uses(const GraphImpl& graph) {
  std::unordered_map<Value, int, ValueHash> uses;
  for (const auto& node : graph.nodes()) {
    for (const Value v : node->inputs()) {
      if (v) ++uses[v];
    }
  }
  for (const Value v : graph.outputs()) ++uses[v];
  return uses;
}

}  // namespace dyad::passes
