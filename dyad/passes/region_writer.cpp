#include "dyad/passes/region_writer.h"

#include <fmt/format.h>

#include <utility>

#include "dyad/ir/graph_ops.h"

namespace dyad::passes {

RegionWriter::RegionWriter(Rewriter& rewriter, std::function<bool(const Node&)> is_copied)
    : rewriter_(rewriter), is_copied_(std::move(is_copied)), region_(make_ref<GraphImpl>()) {}

void RegionWriter::add(const Node& node) {
  std::vector<Value> inputs;
  for (const Value v : node.inputs()) inputs.push_back(v ? inside(v) : v);
  Node* made = region_->append_copy(node, inputs);
  for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
    inner_[{const_cast<Node*>(&node), i}] = made->output(i);
  }
}

void RegionWriter::add(const GraphImpl& region, std::span<const Value> inputs,
                       std::span<const Value> results) {
  std::unordered_map<Value, Value, ValueHash> made;
  std::size_t next = 0;
  for (const auto& node : region.nodes()) {
    if (&node->op() == &kPlaceholderOp) {
      made[node->output()] = inside(inputs[next++]);
      continue;
    }
    std::vector<Value> operands;
    for (const Value v : node->inputs()) operands.push_back(v ? made.at(v) : v);
    Node* const copy = region_->append_copy(*node, operands);
    for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
      made[node->output(i)] = copy->output(i);
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    inner_[results[i]] = made.at(region.outputs()[i]);
}

void RegionWriter::finish(const OpInfo& op, Ref<Attrs> attrs, std::span<const Value> results,
                          Loc loc) {
  Types types;
  for (const Value v : results) {
    region_->outputs().push_back(inner_.at(v));
    types.push_back(v.type());
  }
  Node* made = rewriter_.to()->append(op, std::move(attrs), inputs_, std::move(types), loc);
  made->add_region(region_);
  for (int i = 0; i < static_cast<int>(results.size()); ++i) {
    rewriter_.set(results[static_cast<std::size_t>(i)], made->output(i));
  }
}

/// The value inside the region that stands for one outside or of a node added before.
Value RegionWriter::inside(Value v) {
  const auto found = inner_.find(v);
  if (found != inner_.end()) return found->second;
  Value made;
  if (is_copied_(*v.node)) {
    made = region_->append_copy(*v.node, {})->output();
  } else {
    made = region_->add_placeholder(fmt::format("in{}", inputs_.size()), v.type(), v.node->loc());
    inputs_.push_back(rewriter_.at(v));
  }
  return inner_[v] = made;
}

}  // namespace dyad::passes
