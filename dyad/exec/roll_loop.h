#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/exec/rolled_block.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

using ValueMap = std::unordered_map<Value, Value, ValueHash>;

/// What the value is now: itself, where the map has no other.
[[nodiscard]] inline Value now_of(const ValueMap& now, Value value) {
  const auto found = now.find(value);
  return found == now.end() ? value : found->second;
}

inline void replace_all(std::vector<Value>& values, const std::function<Value(Value)>& by) {
  for (Value& value : values) value = by(value);
}

/// One step of a loop in a graph: nodes `condition..body - 1` are the condition (of a scan: the
/// slicing), `body..end - 1` the body, with the loop's parts from `first_part` to `last_part - 1`.
/// The last step of a while_loop is a condition alone.
struct TracedStep {
  std::vector<Value> states, slices;
  int condition = 0, body = 0, end = 0;
  std::size_t first_part = 0, last_part = 0;
};

/// What steps may do each in its own way, nodes `begin..end - 1` of one of them: a `cond`, of which
/// they are the way that it went, or a while_loop of any number of steps.
struct TracedPart {
  int begin = 0, end = 0;
  std::vector<Value> results;
  std::size_t last = 0;       ///< those inside of it follow it in a list up to here
  std::size_t decisions = 1;  ///< of the host, without theirs

  // Of a cond.
  Loc loc;
  Value pred;
  bool then = false;
  std::size_t guards_begin = 0, guards_end = 0;  ///< of the recording, that the way asked for
  std::uint64_t tape_begin = 0, tape_end = 0;    ///< numbers of the tape before and after
  // Of a while_loop.
  Node* node = nullptr;           ///< all steps as one; none: there are as many as are listed
  std::vector<TracedStep> steps;  ///< of a node the first alone
  std::vector<Value> conditions;  ///< what they gave

  [[nodiscard]] bool is_loop() const noexcept { return !steps.empty(); }
};

/// What a loop did in a graph, one step after the other.
struct LoopTrace {
  using Step = TracedStep;
  const OpInfo* op = nullptr;
  Loc loc;
  int entered = 0;        ///< copies of what states begin with, that nobody else has, are from
                          ///< here to `begin`
  int begin = 0;          ///< nodes before belong to what came before the loop
  int end = 0;            ///< of a loop on the tape: nodes from here on came after it
  std::vector<Value> xs;  ///< what a scan slices
  std::vector<Step> steps;
  std::span<const TracedPart> parts;  ///< in the order in which they began
  std::vector<Value> conditions;      ///< what a while_loop's conditions gave, one for each step
  std::vector<Value> last_states;
  /// What the bodies gave beside their states, one list for each step.
  std::vector<std::vector<Value>> slices_made;
  std::unordered_set<const Node*> kept;  ///< nodes among the steps that belong to none of them

  void replace_positions(const std::function<int(int)>& by);  ///< but for those of the parts
  void replace_values(const std::function<Value(Value)>& by);
  /// Which states no step changes.
  [[nodiscard]] std::vector<bool> constant_states() const;
  /// The nodes `first..last - 1` that belong to the steps.
  [[nodiscard]] std::vector<Node*> nodes_between(const GraphImpl& graph, int first, int last) const;
};

/// Steps as one: graphs over (states, slices, captures), and the captures.
struct RolledLoop {
  std::vector<Ref<GraphImpl>> regions;
  std::vector<Value> captures;
  std::vector<bool> constant;  ///< states that no step changes
  std::vector<WrittenItem> items;
  /// Which item a node of the trace is, or a part.
  std::unordered_map<const Node*, std::size_t> item_of;
  std::unordered_map<const TracedPart*, std::size_t> item_of_part;
};

/// These nodes, which loops go on using, in the order in which `captures` come to them: which of
/// them a step made first, the way may have told that it went.
[[nodiscard]] std::vector<Node*> in_order_of_use(std::span<Node* const> nodes,
                                                 std::span<const Value> captures);

/// Nothing where two steps differ, or where two of them do not tell which state an operand is.
/// Steps that went different ways through a `cond` are alike if both ways were gone at least twice,
/// and all that went the same way are alike; those whose while_loops had different numbers of steps
/// are alike if what these did is what one of the loops does as a node.
[[nodiscard]] std::optional<RolledLoop> roll_loop(const GraphImpl& graph, const LoopTrace& trace);

}  // namespace dyad::exec
