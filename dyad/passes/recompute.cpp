#include "dyad/passes/recompute.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/checkpoints.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/made_again.h"
#include "dyad/passes/min_cut.h"
#include "dyad/passes/node_cost.h"

namespace dyad::passes {
namespace {

/// Pointwise operators that take about as long as reading what they are computed from.
bool costs_little(const Node& node) {
  static const std::unordered_set<std::string_view> kNames = {
      "abs",     "add",        "cast",        "clamp", "clone",         "div",   "eq",
      "full",    "ge",         "gt",          "le",    "logical_and",   "lt",    "max",
      "min",     "mul",        "logical_not", "ne",    "neg",           "relu",  "logical_or",
      "rsqrt",   "sqrt",       "square",      "sub",   "relu_backward", "where", "maximum",
      "minimum", "reciprocal", "one_hot"};
  return kNames.contains(node.op().name);
}

/// Operators of the library that read their inputs about once: normalisations of rows.
bool is_cheap_call(const Node& node) {
  return node.op().kind == BodyKind::opaque && node.op().cheap;
}

/// What may be computed again, each with what is before it.
enum class Again : std::uint8_t {
  pointwise_like_reading,
  pointwise_and_norms,
  rows_of_tables,  // which read about as much as they give, but lead to long chains
};
bool may_come_again(const Node& node, Again what) {
  if (what == Again::pointwise_like_reading) return is_pointwise(node) && costs_little(node);
  return is_pointwise(node) || is_cheap_call(node) ||
         (what == Again::rows_of_tables && node.is("index_select"));
}

/// Those and other pointwise operators take the time of about this many multiplications and
/// additions of a product for each element (gelu 45, tanh 40, exp 20).
constexpr std::int64_t kOperations = 45;
/// They are worth the memory where all of them together take less than this part of the graph's
/// products.
constexpr std::int64_t kPartOfProducts = 50;

/// How many of the part's operators take longer than reading their inputs.
std::int64_t costly(Value result, const Part& part) {
  if (!part.region) return costs_little(*result.node) ? 0 : 1;
  // A random number takes about as long as four functions.
  constexpr std::int64_t kCounted = 4;
  std::int64_t count = 0;
  for (const auto& node : part.region->nodes()) {
    if (!is_source(*node) && !costs_little(*node)) count += node->op().counted ? kCounted : 1;
  }
  return count;
}

/// The values before the peak that are worth computing again after it, each with its kernel.
class Choice {
 public:
  Choice(const GraphImpl& graph, Lifetimes& lifetimes, Again what)
      : graph_(graph),
        lifetimes_(lifetimes),
        may_([what](const Node& node) { return may_come_again(node, what); }),
        vertex_(graph, -1) {}

  Parts make() {
    std::unordered_set<Value, ValueHash> results;
    for (const Value v : graph_.outputs()) results.insert(root_of(v));
    for (std::size_t i = 0; i < lifetimes_.peak(); ++i) {
      Node& node = *graph_.nodes()[i];
      if (node.op().kind == BodyKind::view) continue;
      for (int k = 0; k < static_cast<int>(node.types().size()); ++k) {
        add(node.output(k), results.contains(node.output(k)));
      }
    }
    Parts chosen;
    if (candidates_.empty()) return chosen;
    const std::vector<bool> after = network_.sink_side();
    for (const Value value : candidates_) {
      if (after[static_cast<std::size_t>(vertex_[value])])
        chosen.emplace(value, *part_of(value, may_));
    }
    return chosen;
  }

 private:
  /// A vertex where the value is made and one where it is kept; between them its bytes.
  void add(Value v, bool is_result) {
    const std::int64_t bytes = lifetimes_.bytes(v);
    if (bytes == 0) return;
    const int made = network_.add_vertex(), kept = network_.add_vertex();
    vertex_[v] = made;
    network_.add_edge(made, kept, bytes);
    if (lifetimes_.crosses_peak(v)) network_.add_edge(kept, FlowNetwork::sink(), kUnlimited);
    const auto inputs = is_result ? std::nullopt : inputs_of_part(v, may_);
    if (!inputs) {
      network_.add_edge(FlowNetwork::source(), made, kUnlimited);
      return;
    }
    for (const Value input : *inputs) {
      const int from = vertex_[root_of(input)];
      if (from >= 0) network_.add_edge(from + 1, made, kUnlimited);
    }
    candidates_.push_back(v);
  }

  static constexpr std::int64_t kUnlimited = FlowNetwork::kUnlimited;
  const GraphImpl& graph_;
  Lifetimes& lifetimes_;
  std::function<bool(const Node&)> may_;
  FlowNetwork network_;
  ValueTable<int> vertex_;  // where a value is made; -1 before that, or where it takes no memory
  std::vector<Value> candidates_;
};

/// Views before the peak that are read after it, may have to copy, and look at what is kept anyway.
std::unordered_set<const Node*> find_copies(const GraphImpl& graph, const Lifetimes& lifetimes) {
  std::unordered_set<const Node*> copies, found;
  std::unordered_set<Value, ValueHash> kept;
  for (std::size_t i = lifetimes.peak(); i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i]->op().kind == BodyKind::view) continue;
    for (Value v : graph.nodes()[i]->inputs()) {
      bool as_it_lies = true;
      for (; v && v.node->op().kind == BodyKind::view; v = v.node->inputs()[0]) {
        if (!v.node->is("reshape")) continue;
        as_it_lies = false;
        if (lifetimes.position(*v.node) < lifetimes.peak()) copies.insert(v.node);
      }
      if (v && (as_it_lies || is_source(*v.node))) kept.insert(v);
    }
  }
  for (const Node* copy : copies) {
    if (kept.contains(root_of(copy->inputs()[0]))) found.insert(copy);
  }
  return found;
}

bool same_values(const Parts& a, const Parts& b) {
  return a.size() == b.size() &&
         std::ranges::all_of(a, [&](const auto& one) { return b.contains(one.first); });
}

}  // namespace

Ref<GraphImpl> recompute(const Ref<GraphImpl>& graph, const RecomputeOptions& options) {
  struct Tried {
    Ref<GraphImpl> graph;
    std::int64_t bytes = 0;
    bool is_cheap = true;  ///< beside the graph's products
  };
  Lifetimes lifetimes(*graph, options.sizes);
  const std::unordered_set<const Node*> copies = find_copies(*graph, lifetimes);
  Tried same = {graph, lifetimes.peak_bytes()};
  const auto tried = [&](const Parts& chosen) -> Tried {
    if (chosen.empty() && copies.empty()) return same;
    Tried made;
    made.graph = make_again(*graph, lifetimes, chosen, copies);
    dce(*made.graph);  // what is only used after the peak is computed there alone
    made.bytes = Lifetimes(*made.graph, options.sizes).peak_bytes();
    // Whether views copy is known when strides are, so bytes do not show what that saves.
    if (made.bytes > same.bytes || (made.bytes == same.bytes && copies.empty())) return same;
    std::int64_t operations = 0;
    for (const auto& [value, part] : chosen) {
      operations += costly(value, part) * kOperations * lifetimes.bytes(value) /
                    static_cast<std::int64_t>(size_of(value.type().dtype()));
    }
    made.is_cheap =
        operations == 0 || operations <= lifetimes.operations_of_products(*graph) / kPartOfProducts;
    return made;
  };
  const auto too_much = [&](const Tried& one) {
    return options.memory_limit > 0 && one.bytes > options.memory_limit;
  };
  Parts last = Choice(*graph, lifetimes, Again::pointwise_like_reading).make();
  Tried best = tried(last);
  for (const Again what : {Again::pointwise_and_norms, Again::rows_of_tables}) {
    Parts more = Choice(*graph, lifetimes, what).make();
    if (same_values(last, more)) continue;
    last = std::move(more);
    Tried again = tried(last);
    if (again.bytes < best.bytes && (again.is_cheap || too_much(best))) best = std::move(again);
  }
  return too_much(best) ? checkpoint(graph, best.graph, options) : best.graph;
}

}  // namespace dyad::passes
