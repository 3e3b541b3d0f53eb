#include "dyad/passes/hoist.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

bool is_loop(const Node& node) { return node.is("while_loop") || node.is("scan"); }

using Predicate = std::function<bool(const Node&)>;

/// Nothing in its data can make it fail.
bool may_move(const Node& node, const Predicate& cannot_fail) {
  if (node.op().effect != Effect::pure || !node.regions().empty()) return false;
  const BodyKind kind = node.op().kind;
  return kind == BodyKind::pointwise || kind == BodyKind::reduction || kind == BodyKind::view ||
         (kind == BodyKind::opaque && cannot_fail && cannot_fail(node));
}

/// What a region computes from its captures alone.
class Invariants {
 public:
  Invariants(const GraphImpl& region, std::size_t captures_from, const Predicate& cannot_fail) {
    for (std::size_t i = captures_from; i < region.placeholders().size(); ++i) {
      known_.insert(region.placeholders()[i].node);
    }
    const auto is_known = [&](Value v) { return v && known_.contains(v.node); };
    for (const auto& node : region.nodes()) {
      const bool moves = may_move(*node, cannot_fail) &&
                         std::ranges::any_of(node->inputs(), is_known) &&
                         std::ranges::all_of(node->inputs(), [&](Value v) {
                           return !v || is_known(v) || &v.node->op() == &kConstantOp;
                         });
      if (!moves) continue;
      known_.insert(node.get());
      moved_.push_back(node.get());
    }
    // A view alone costs nothing inside, and a capture something.
    if (std::ranges::all_of(moved_, [](const Node* n) { return n->op().kind == BodyKind::view; })) {
      known_.clear();
      moved_.clear();
    }
    std::unordered_set<Value, ValueHash> used;
    const auto use = [&](Value v) {
      if (v && moves(*v.node) && used.insert(v).second) wanted_.push_back(v);
    };
    for (const auto& node : region.nodes()) {
      if (moves(*node)) continue;
      for (const Value v : node->inputs()) use(v);
    }
    for (const Value v : region.outputs()) use(v);
  }

  /// Whether an operator of the region runs before the loop.
  [[nodiscard]] bool moves(const Node& node) const {
    return known_.contains(&node) && &node.op() != &kPlaceholderOp;
  }
  /// Those operators, in their order.
  [[nodiscard]] const std::vector<Node*>& moved() const noexcept { return moved_; }
  /// Those of their results that the rest of the region reads.
  [[nodiscard]] const std::vector<Value>& wanted() const noexcept { return wanted_; }

 private:
  std::unordered_set<const Node*> known_;  // captures, and what moves
  std::vector<Node*> moved_;
  std::vector<Value> wanted_;
};

/// A loop on its way into the new graph, with more captures and less to do.
class LoopWriter {
 public:
  LoopWriter(Rewriter& rewriter, const Node& loop, const Predicate& cannot_fail)
      : rewriter_(rewriter),
        loop_(loop),
        cannot_fail_(cannot_fail),
        inputs_(rewriter.at(loop.inputs())) {
    const auto fixed = static_cast<std::size_t>(int_attr(loop, "states").value_or(0) +
                                                int_attr(loop, "slices").value_or(0));
    no_parameters_ = inputs_.size() - loop.regions()[0]->placeholders().size();
    captures_from_ = fixed - no_parameters_;
  }

  void write() {
    // The values of each region before the loop that the region shall capture.
    std::vector<Invariants> invariants;
    for (const Ref<GraphImpl>& region : loop_.regions()) {
      invariants.emplace_back(*region, captures_from_, cannot_fail_);
    }
    std::vector<Type> added;
    std::vector<std::size_t> first_added;
    for (std::size_t r = 0; r < invariants.size(); ++r) {
      first_added.push_back(added.size());
      if (invariants[r].wanted().empty()) continue;
      move_out(*loop_.regions()[r], invariants[r]);
      for (const Value v : invariants[r].wanted()) added.push_back(v.type());
    }
    if (added.empty()) {
      rewriter_.copy(loop_);
      return;
    }
    Node* made =
        rewriter_.to()->append(loop_.op(), loop_.shared_attrs(), inputs_,
                               Types(loop_.types().begin(), loop_.types().end()), loop_.loc());
    for (std::size_t r = 0; r < invariants.size(); ++r) {
      made->add_region(without(*loop_.regions()[r], invariants[r], added, first_added[r]));
    }
    for (int i = 0; i < static_cast<int>(loop_.types().size()); ++i) {
      rewriter_.set({const_cast<Node*>(&loop_), i}, made->output(i));
    }
  }

 private:
  void move_out(const GraphImpl& region, const Invariants& invariants) {
    std::unordered_map<Value, Value, ValueHash> outside;
    for (std::size_t i = captures_from_; i < region.placeholders().size(); ++i) {
      outside[region.placeholders()[i]] = inputs_[no_parameters_ + i];
    }
    for (Node* node : invariants.moved()) {
      std::vector<Value> inputs;
      for (const Value v : node->inputs()) {
        if (v && &v.node->op() == &kConstantOp && !outside.contains(v)) {
          outside[v] = rewriter_.to()->append_copy(*v.node, {})->output();
        }
        inputs.push_back(v ? outside.at(v) : Value());
      }
      Node* made = rewriter_.to()->append_copy(*node, inputs);
      for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
        outside[node->output(i)] = made->output(i);
      }
    }
    for (const Value v : invariants.wanted()) inputs_.push_back(outside.at(v));
  }

  /// The region with placeholders for `added` at its end, of which its own begin at `first`.
  [[nodiscard]] Ref<GraphImpl> without(const GraphImpl& region, const Invariants& invariants,
                                       const std::vector<Type>& added, std::size_t first) const {
    Rewriter rewriter(region);
    for (const Value v : region.placeholders()) rewriter.copy(*v.node);
    for (std::size_t i = 0; i < added.size(); ++i) {
      const Value made =
          rewriter.to()->add_placeholder(free_name(*rewriter.to(), i), added[i], loop_.loc());
      const std::size_t own = i - first;
      if (i >= first && own < invariants.wanted().size()) {
        rewriter.set(invariants.wanted()[own], made);
      }
    }
    for (const auto& node : region.nodes()) {
      if (&node->op() != &kPlaceholderOp && !invariants.moves(*node)) rewriter.copy(*node);
    }
    return rewriter.finish();
  }

  static std::string free_name(const GraphImpl& graph, std::size_t i) {
    std::string name = fmt::format("hoisted{}", i);
    while (graph.find_placeholder(name)) name += "_";
    return name;
  }

  Rewriter& rewriter_;
  const Node& loop_;
  const Predicate& cannot_fail_;
  std::vector<Value> inputs_;
  std::size_t captures_from_ = 0;  // parameters of the regions
  std::size_t no_parameters_ =
      0;  // inputs before these that regions do not see: while_loop's slices
};

}  // namespace

Ref<GraphImpl> hoist(const GraphImpl& graph, const std::function<bool(const Node&)>& cannot_fail) {
  Rewriter rewriter(graph);
  for (const auto& node : graph.nodes()) {
    if (is_loop(*node)) {
      LoopWriter(rewriter, *node, cannot_fail).write();
    } else {
      rewriter.copy(*node);
    }
  }
  return rewriter.finish();
}

}  // namespace dyad::passes
