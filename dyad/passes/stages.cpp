#include "dyad/passes/stages.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/size_sources.h"

namespace dyad::passes {
namespace {

bool is_stored(const Node& node) {
  return &node.op() == &kVariableOp || &node.op() == &kConstantOp;
}
bool is_write(const Node& node) { return &node.op() == &kAssignOp || &node.op() == &kAfterOp; }

/// Which nodes of a graph have results whose sizes only data tell, asked of one after the other.
class OpenSizes {
 public:
  /// Whether results have sizes that are neither those of what the node takes nor among its
  /// attributes, nor known before. A node that was copied has the same ones again.
  bool are_of(const Node& node) {
    std::vector<Dim> given, made;
    const bool may_be_open =
        node.op().kind == BodyKind::opaque || node.is("cond") || node.is("while_loop");
    if (may_be_open) {
      collect_attr_symbols(node, given);
      for (const Value v : node.inputs()) {
        if (v) collect_result_symbols(*v.node, given);
      }
    }
    for (const Dim size : given) known_.insert(size.word());
    collect_result_symbols(node, made);
    bool open = false;
    for (const Dim size : made) {
      const bool is_new = known_.insert(size.word()).second;
      if (!may_be_open) continue;
      if (is_new) open_.insert(size.word());
      const bool is_given =
          std::ranges::any_of(given, [&](Dim each) { return each.same_as(size); });
      open = open || (!is_given && open_.contains(size.word()));
    }
    return open;
  }

 private:
  std::unordered_set<std::int64_t> known_, open_;
};

class Cutter {
 public:
  explicit Cutter(const GraphImpl& graph) : graph_(graph) {}

  std::vector<Stage> cut() {
    number_nodes();
    if (count_ == 1) return {};
    stages_.resize(count_);
    maps_.resize(count_);
    for (Stage& stage : stages_) stage.graph = make_ref<GraphImpl>();
    for (const auto& node : graph_.nodes()) {
      if (is_stored(*node) || &node->op() == &kPlaceholderOp) continue;
      const std::size_t at = stage_of_.at(node.get());
      if (stages_[at].open == node.get()) {  // it runs by itself, on what its stage gives
        for (const Value v : node->inputs()) give(before_writes(v));
        continue;
      }
      std::vector<Value> inputs;
      for (const Value v : node->inputs()) {
        if (is_checked_before(*node, v)) continue;
        inputs.push_back(v ? here(as_seen(v, at), at) : Value());
      }
      Node* const made = stages_[at].graph->append_copy(*node, inputs);
      for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
        maps_[at][{node.get(), i}] = made->output(i);
      }
    }
    Stage& last = stages_.back();
    for (const Value v : graph_.outputs()) {
      last.graph->outputs().push_back(here(v, count_ - 1));
      last.outputs.push_back(v);
    }
    return std::move(stages_);
  }

 private:
  /// Whether `node` only comes after v, and that is made, and its sizes are checked, in a stage
  /// before: it need not be kept for that.
  [[nodiscard]] bool is_checked_before(const Node& node, Value v) const {
    return &node.op() == &kAfterOp && !(v == node.inputs()[0]) && &v.node->op() != &kAssignOp &&
           stage_of_.at(v.node) + 1 != count_;
  }

  void number_nodes() {
    std::vector<const Node*> open;
    OpenSizes sizes;
    for (const auto& node : graph_.nodes()) {
      stage_of_[node.get()] = open.size();
      if (sizes.are_of(*node)) open.push_back(node.get());
    }
    if (open.empty()) return;
    count_ = open.size() + 1;
    for (const auto& node : graph_.nodes()) {
      if (is_write(*node)) stage_of_[node.get()] = count_ - 1;
    }
    stages_.resize(count_);
    for (std::size_t i = 0; i < open.size(); ++i) stages_[i].open = open[i];
  }

  /// Writes happen in the last stage.
  [[nodiscard]] Value as_seen(Value v, std::size_t at) const {
    return at + 1 == count_ ? v : before_writes(v);
  }

  /// The value in the graph of a stage: made there, or a placeholder for what came before.
  Value here(Value v, std::size_t at) {
    auto& map = maps_[at];
    if (const auto known = map.find(v); known != map.end()) return known->second;
    GraphImpl& graph = *stages_[at].graph;
    if (is_stored(*v.node)) {
      return map[v] = graph.append_copy(*v.node, {})->output();
    }
    if (v.node->op().kind == BodyKind::view) {
      // Made anew where it is read: handed on, it would lie row by row, and how an operand lies
      // decides how a library computes.
      std::vector<Value> inputs;
      for (const Value input : v.node->inputs()) {
        inputs.push_back(here(as_seen(input, at), at));
      }
      return map[v] = graph.append_copy(*v.node, inputs)->output();
    }
    if (&v.node->op() != &kPlaceholderOp) {
      const std::size_t from = stage_of_.at(v.node);
      if (stages_[from].open != v.node) wanted(v, from);
    }
    stages_[at].inputs.push_back(v);
    // No name that a variable has.
    const std::string name = "stage input " + std::to_string(stages_[at].inputs.size());
    return map[v] = graph.add_placeholder(name, v.type(), v.node->loc());
  }

  /// What the node behind a stage takes, or takes views of, is made then.
  void give(Value v) {
    if (!v || is_stored(*v.node) || &v.node->op() == &kPlaceholderOp) return;
    if (v.node->op().kind == BodyKind::view) {
      for (const Value input : v.node->inputs()) give(before_writes(input));
      return;
    }
    const std::size_t from = stage_of_.at(v.node);
    if (stages_[from].open != v.node) wanted(v, from);
  }

  void wanted(Value v, std::size_t from) {
    Stage& stage = stages_[from];
    if (std::ranges::find(stage.outputs, v) != stage.outputs.end()) return;
    stage.outputs.push_back(v);
    stage.graph->outputs().push_back(maps_[from].at(v));
  }

  const GraphImpl& graph_;
  std::size_t count_ = 1;
  std::unordered_map<const Node*, std::size_t> stage_of_;
  std::vector<Stage> stages_;
  std::vector<std::unordered_map<Value, Value, ValueHash>> maps_;
};

}  // namespace

Value before_writes(Value value) {
  while (value && is_write(*value.node)) {
    value = value.node->inputs()[&value.node->op() == &kAssignOp ? 1 : 0];
  }
  return value;
}

std::vector<Stage> cut_at_open_sizes(const GraphImpl& graph) { return Cutter(graph).cut(); }

}  // namespace dyad::passes
