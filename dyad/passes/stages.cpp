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

/// Which symbols the nodes of a graph have met so far.
class KnownSymbols {
 public:
  /// Takes in what the node makes; true when an operator's results have sizes that are neither
  /// those of what it takes nor among its attributes: only its data tell them.
  bool meets_open_sizes(const Node& node) {
    if (node.op().kind == BodyKind::opaque) {
      std::vector<Dim> named;
      collect_attr_symbols(node, named);
      add(named);
    }
    std::vector<Dim> made;
    collect_result_symbols(node, made);
    const bool news = add(made);
    return news && (node.op().kind == BodyKind::opaque || node.is("cond"));
  }

 private:
  bool add(const std::vector<Dim>& symbols) {
    bool news = false;
    for (const Dim symbol : symbols) news = known_.insert(symbol.word()).second || news;
    return news;
  }
  std::unordered_set<std::int64_t> known_;
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
        for (const Value v : node->inputs()) give(before_writes(v), at);
        continue;
      }
      std::vector<Value> inputs;
      for (const Value v : node->inputs()) {
        inputs.push_back(v ? here(at + 1 == count_ ? v : before_writes(v), at) : Value());
      }
      Node* const made = stages_[at].graph->append_copy(*node, std::move(inputs));
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
  void number_nodes() {
    std::vector<const Node*> open;
    KnownSymbols known;
    for (const auto& node : graph_.nodes()) {
      stage_of_[node.get()] = open.size();
      if (known.meets_open_sizes(*node)) open.push_back(node.get());
    }
    if (open.empty()) return;
    count_ = open.size() + 1;
    for (const auto& node : graph_.nodes()) {
      if (is_write(*node)) stage_of_[node.get()] = count_ - 1;
    }
    stages_.resize(count_);
    for (std::size_t i = 0; i < open.size(); ++i) stages_[i].open = open[i];
  }

  /// The value in the graph of a stage: made there, or a placeholder for what came before.
  Value here(Value v, std::size_t at) {
    auto& map = maps_[at];
    if (const auto known = map.find(v); known != map.end()) return known->second;
    GraphImpl& graph = *stages_[at].graph;
    if (is_stored(*v.node)) {
      return map[v] = graph.append_copy(*v.node, {})->output();
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

  /// What the node behind a stage takes is among its outputs, wherever it comes from.
  void give(Value v, std::size_t at) {
    if (!v || std::ranges::find(stages_[at].outputs, v) != stages_[at].outputs.end()) return;
    const Value made = here(v, at);
    stages_[at].outputs.push_back(v);
    stages_[at].graph->outputs().push_back(made);
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
