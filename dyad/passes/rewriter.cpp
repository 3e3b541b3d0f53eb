#include "dyad/passes/rewriter.h"

#include <fmt/format.h>

#include "dyad/base/error.h"

namespace dyad::passes {

Rewriter::Rewriter(const GraphImpl& from) : from_(from), to_(make_ref<GraphImpl>()), first_(from) {}

void Rewriter::set(Value old, Value now) {
  if (old.index == 0) {
    first_[*old.node] = now;
  } else {
    others_[old] = now;
  }
}

Value Rewriter::at(Value old) const {
  if (!old) return {};
  if (old.index == 0) {
    if (const Value now = first_[*old.node]) return now;
  } else if (const auto found = others_.find(old); found != others_.end()) {
    return found->second;
  }
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
