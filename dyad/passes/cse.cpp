#include "dyad/passes/cse.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "dyad/ir/graph_ops.h"

namespace dyad::passes {
namespace {

bool may_merge(const Node& node) {
  return node.op().effect == Effect::pure && node.regions().empty() &&
         &node.op() != &kPlaceholderOp && &node.op() != &kVariableOp;
}

std::size_t hash_of(const Node& node) {
  std::size_t hash = std::hash<const void*>()(&node.op());
  const auto mix = [&](std::size_t more) { hash = (hash ^ more) * 0x9E3779B97F4A7C15u; };
  mix(attrs_hash(node.attrs().info(), node.attrs().data()));
  for (const Value v : node.inputs()) mix(ValueHash()(v));
  return hash;
}

bool same(const Node& a, const Node& b) {
  return &a.op() == &b.op() && std::ranges::equal(a.inputs(), b.inputs()) &&
         attrs_equal(a.attrs().info(), a.attrs().data(), b.attrs().data());
}

}  // namespace

void cse(GraphImpl& graph) {
  std::unordered_multimap<std::size_t, Node*> seen;
  std::unordered_map<const Node*, Node*> first_of;  // merged node -> the one that stays
  const auto current = [&](Value v) {
    const auto found = first_of.find(v.node);
    return found == first_of.end() ? v : Value{found->second, v.index};
  };

  for (const auto& node : graph.nodes()) {
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      node->set_input(i, current(node->inputs()[i]));
    }
    if (!may_merge(*node)) continue;
    const std::size_t hash = hash_of(*node);
    const auto [begin, end] = seen.equal_range(hash);
    const auto found =
        std::find_if(begin, end, [&](const auto& entry) { return same(*entry.second, *node); });
    if (found != end) {
      first_of.emplace(node.get(), found->second);
    } else {
      seen.emplace(hash, node.get());
    }
  }
  for (Value& v : graph.outputs()) v = current(v);
  graph.erase_if([&](const Node& node) { return first_of.contains(&node); });
}

}  // namespace dyad::passes
