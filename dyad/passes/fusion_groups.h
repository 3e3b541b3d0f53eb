#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "dyad/passes/fuse.h"
#include "dyad/passes/node_table.h"

namespace dyad::passes {

/// A partition of a graph's nodes into groups, each of which can run as one step: the graph of
/// groups has no cycles. Every node starts alone.
class FusionGroups {
 public:
  FusionGroups(const GraphImpl& graph, const FuseOptions& options);

  /// Makes one group of the groups of a and b, unless that would make a cycle or a group beyond the
  /// limits; says whether they are one now.
  bool merge(const Node& a, const Node& b);
  /// Why the last merge that said no did.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }
  /// The nodes of a group, in program order, by any member.
  [[nodiscard]] std::span<Node* const> members(const Node& node) const;
  [[nodiscard]] bool together(const Node& a, const Node& b) const;
  /// Nodes that read an output of `node`, each once, in program order.
  [[nodiscard]] std::span<Node* const> users(const Node& node) const;
  /// Whether a node of another group than its own reads `value`.
  [[nodiscard]] bool is_read_outside(Value value) const;
  /// The groups in an order in which each comes after those it uses, effects as in the program.
  [[nodiscard]] std::vector<std::span<Node* const>> schedule() const;

 private:
  struct Group {
    std::vector<Node*> nodes;  // empty once merged into another
    int max_position = 0;
  };
  [[nodiscard]] std::size_t position(const Node& node) const { return position_[node]; }
  [[nodiscard]] std::size_t group_of(const Node& node) const { return group_of_[position(node)]; }
  /// True when a path leads from a or b out to other groups and back.
  [[nodiscard]] bool would_cycle(std::size_t a, std::size_t b);
  [[nodiscard]] bool within_limits(std::size_t a, std::size_t b);

  const FuseOptions& options_;
  std::vector<Node*> nodes_;
  NodeTable<std::size_t> position_;
  std::vector<std::size_t> group_of_;  // by position
  std::vector<Group> groups_;
  std::vector<std::vector<Node*>> users_;  // by position
  std::vector<const Node*> before_;        // by position: of an effect, the one before it
  std::vector<std::size_t> reach_;  // by position: the last of any group that begins up to there
  std::vector<std::uint32_t> visited_;  // by group: the search that saw it last
  std::uint32_t search_ = 0;
  std::string refusal_;
};

[[nodiscard]] bool is_output(const GraphImpl& graph, const Node& node);

/// A member of the group of `of` that is a result of the graph, or that somebody outside reads who
/// may not, by `may_read(member, user)`; null for none.
template <class MayRead>
const Node* find_read_elsewhere(const FusionGroups& groups, const GraphImpl& graph, const Node& of,
                                const MayRead& may_read) {
  for (const Node* member : groups.members(of)) {
    const bool leaves = std::ranges::any_of(groups.users(*member), [&](const Node* user) {
      return !groups.together(*user, *member) && !may_read(*member, *user);
    });
    if (leaves || is_output(graph, *member)) return member;
  }
  return nullptr;
}

}  // namespace dyad::passes
