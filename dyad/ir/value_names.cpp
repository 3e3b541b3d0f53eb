#include "dyad/ir/value_names.h"

#include <cctype>
#include <unordered_set>

#include "dyad/ir/graph_ops.h"

namespace dyad {

const std::string* name_of(const Node& node) noexcept {
  if (&node.op() == &kPlaceholderOp) return &node.attrs_as<PlaceholderAttrs>().name;
  if (&node.op() == &kVariableOp) return &node.attrs_as<VariableAttrs>().name;
  return nullptr;
}

bool is_identifier(std::string_view text) noexcept {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.') {
    return false;
  }
  for (const char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  }
  return true;
}

ValueNames::ValueNames(const GraphImpl& graph) {
  std::unordered_set<std::string_view> taken;
  entries_.reserve(graph.nodes().size());
  int next = 0;
  for (const auto& node : graph.nodes()) {
    const std::string* name = name_of(*node);
    if (name != nullptr && is_identifier(*name) && taken.insert(*name).second) {
      entries_.emplace(node.get(), Entry{.name = name});
    } else {
      entries_.emplace(node.get(), Entry{.first = next});
      next += static_cast<int>(node->types().size());
    }
  }
}

std::string ValueNames::operator()(const Value& value) const {
  const auto it = entries_.find(value.node);
  if (it == entries_.end()) return "%?";
  if (it->second.name != nullptr && value.index == 0) return "%" + *it->second.name;
  return "%" + std::to_string(it->second.first + value.index);
}

std::string ValueNames::of_outputs(const Node& node) const {
  std::string names;
  for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
    names += (i ? ", " : "") + (*this)(Value{const_cast<Node*>(&node), i});
  }
  return names;
}

bool ValueNames::by_own_name(const Node& node) const {
  const auto it = entries_.find(&node);
  return it != entries_.end() && it->second.name != nullptr;
}

}  // namespace dyad
