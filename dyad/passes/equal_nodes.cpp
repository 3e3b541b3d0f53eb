#include "dyad/passes/equal_nodes.h"

#include <algorithm>
#include <functional>

namespace dyad::passes {

Node* EqualNodes::first(const Node& node) const {
  const auto found = first_.find(&node);
  return found == first_.end() ? nullptr : found->second;
}

Value EqualNodes::first(Value v) const {
  Node* const other = v ? first(*v.node) : nullptr;
  return other ? Value{other, v.index} : v;
}

bool EqualNodes::has_before(Node& node) {
  std::size_t hash = std::hash<const void*>()(&node.op());
  const auto mix = [&](std::size_t more) { hash = (hash ^ more) * 0x9E3779B97F4A7C15u; };
  mix(attrs_hash(node.attrs().info(), node.attrs().data()));
  for (const Value v : node.inputs()) mix(ValueHash()(first(v)));

  const auto of_first = [this](Value v) { return first(v); };
  const auto [begin, end] = seen_.equal_range(hash);
  const auto found = std::find_if(begin, end, [&](const auto& entry) {
    const Node& other = *entry.second;
    return &other.op() == &node.op() &&
           std::ranges::equal(other.inputs(), node.inputs(), {}, of_first, of_first) &&
           attrs_equal(other.attrs().info(), other.attrs().data(), node.attrs().data()) &&
           same_regions(other, node);
  });
  if (found == end) {
    seen_.emplace(hash, &node);
    return false;
  }
  first_.emplace(&node, found->second);
  return true;
}

}  // namespace dyad::passes
