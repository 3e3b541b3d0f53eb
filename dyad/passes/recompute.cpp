#include "dyad/passes/recompute.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/min_cut.h"
#include "dyad/passes/node_cost.h"
#include "dyad/passes/rewriter.h"

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

/// Other pointwise operators take the time of about this many multiplications and additions of a
/// product for each element (gelu 45, tanh 40, exp 20).
constexpr std::int64_t kOperations = 45;
/// They are worth the memory where all of them together take less than this part of the graph's
/// products.
constexpr std::int64_t kPartOfProducts = 50;

bool is_source(const Node& node) {
  return &node.op() == &kPlaceholderOp || &node.op() == &kVariableOp || &node.op() == &kConstantOp;
}

/// The value in whose memory a value lies.
Value root_of(Value v) {
  while (v.node->op().kind == BodyKind::view) v = v.node->inputs()[0];
  return v;
}

/// A kernel for one result of a node: a pointwise operator, or the part of a fused one.
struct Part {
  std::vector<Value> inputs;
  Ref<GraphImpl> region;  ///< null for an operator that is not fused

  /// How many of its operators take longer than reading their inputs.
  [[nodiscard]] std::int64_t costly(Value result) const {
    if (!region) return costs_little(*result.node) ? 0 : 1;
    return std::ranges::count_if(region->nodes(), [](const auto& node) {
      return !is_source(*node) && !costs_little(*node);
    });
  }
};

bool part_of(Value result, bool any_pointwise, Part& part) {
  const auto may = [&](const Node& node) {
    return node.op().kind == BodyKind::pointwise && node.op().effect == Effect::pure &&
           (any_pointwise || costs_little(node));
  };
  const Node& node = *result.node;
  if (&node.op() != &kFusedOp) {
    part.inputs.assign(node.inputs().begin(), node.inputs().end());
    return node.types().size() == 1 && may(node) &&
           std::ranges::all_of(part.inputs, [](Value v) { return bool(v); });
  }
  const GraphImpl& region = *node.regions()[0];
  std::unordered_set<const Node*> needed{
      region.outputs()[static_cast<std::size_t>(result.index)].node};
  const auto& inner = region.nodes();
  for (std::size_t i = inner.size(); i-- > 0;) {
    if (!needed.contains(inner[i].get())) continue;
    if (!is_source(*inner[i]) && !may(*inner[i])) return false;
    for (const Value v : inner[i]->inputs()) needed.insert(v.node);
  }
  part.region = make_ref<GraphImpl>();
  std::unordered_map<Value, Value, ValueHash> made;
  std::size_t input = 0;
  for (const auto& old : inner) {
    const bool is_input = &old->op() == &kPlaceholderOp;
    const Value outside = is_input ? node.inputs()[input++] : Value();
    if (!needed.contains(old.get())) continue;
    std::vector<Value> operands;
    for (const Value v : old->inputs()) operands.push_back(made.at(v));
    Node* const copy = part.region->append_copy(*old, std::move(operands));
    for (int i = 0; i < static_cast<int>(old->types().size()); ++i) {
      made[old->output(i)] = copy->output(i);
    }
    if (is_input) part.inputs.push_back(outside);
  }
  part.region->outputs().push_back(
      made.at(region.outputs()[static_cast<std::size_t>(result.index)]));
  return true;
}

/// How long the values of a graph are in memory, and how large they are.
class Lifetimes {
 public:
  Lifetimes(const GraphImpl& graph, const SymbolMap& sizes) : sizes_(sizes) {
    for (const auto& node : graph.nodes()) position_.emplace(node.get(), position_.size());
    for (const auto& node : graph.nodes()) {
      for (const Value v : node->inputs()) {
        if (v) last_use_[root_of(v)] = position(*node);
      }
    }
    for (const Value v : graph.outputs()) last_use_[root_of(v)] = graph.nodes().size();
    find_peak(graph);
  }

  /// What the products and convolutions of a graph do.
  [[nodiscard]] std::int64_t operations_of_products(const GraphImpl& graph) {
    std::int64_t sum = 0;
    for (const auto& node : graph.nodes()) {
      if (node->op().kind != BodyKind::opaque || !node->regions().empty()) continue;
      const auto know = [&](const Type& type) {
        if (!type.is_tensor()) return;
        for (const Dim d : type.shape()) (void)number(d);
      };
      for (const Value v : node->inputs()) {
        if (v) know(v.type());
      }
      for (const Type& type : node->types()) know(type);
      sum += cost_of(*node, sizes_).operations;
    }
    return sum;
  }

  [[nodiscard]] std::size_t position(const Node& node) const { return position_.at(&node); }
  /// Where values take most memory: the position of a node.
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }
  [[nodiscard]] std::int64_t peak_bytes() const noexcept { return peak_bytes_; }
  /// Whether the value is used at the peak or after it.
  [[nodiscard]] bool crosses_peak(Value root) const {
    const auto use = last_use_.find(root);
    return use != last_use_.end() && use->second >= peak_;
  }

  /// Of a value that needs memory of its own during a run.
  [[nodiscard]] std::int64_t bytes(Value v) {
    if (is_source(*v.node) || v.node->is("full") || &v.node->op() == &kAssignOp) return 0;
    // A graph may claim any size. Beyond what machines have all are the same, and add up.
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    std::int64_t count = static_cast<std::int64_t>(size_of(v.type().dtype()));
    for (const Dim d : v.type().shape()) {
      if (__builtin_mul_overflow(count, number(d), &count) || count > kMost) return kMost;
    }
    return count;
  }

 private:
  std::int64_t number(Dim d) {
    if (d.is_number()) return d.number();
    constexpr std::int64_t kUnknown = 64;
    std::vector<Dim> symbols;
    collect_symbols(d, symbols);
    for (const Dim symbol : symbols) {
      if (!sizes_.find(symbol)) sizes_.bind(symbol, kUnknown);
    }
    return evaluate(d, sizes_);
  }

  void find_peak(const GraphImpl& graph) {
    std::vector<std::int64_t> change(graph.nodes().size() + 2, 0);
    for (const auto& node : graph.nodes()) {
      if (node->op().kind == BodyKind::view) continue;
      for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
        const auto use = last_use_.find(node->output(i));
        const std::size_t last = use == last_use_.end() ? position(*node) : use->second;
        const std::int64_t size = bytes(node->output(i));
        change[position(*node)] += size;
        change[last + 1] -= size;
      }
    }
    std::int64_t live = 0;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      live += change[i];
      if (live > peak_bytes_) {
        peak_bytes_ = live;
        peak_ = i;
      }
    }
  }

  SymbolMap sizes_;
  std::unordered_map<const Node*, std::size_t> position_;
  std::unordered_map<Value, std::size_t, ValueHash> last_use_;  // by root
  std::size_t peak_ = 0;
  std::int64_t peak_bytes_ = 0;
};

using Parts = std::unordered_map<Value, Part, ValueHash>;

/// The values before the peak that are worth computing again after it, each with its kernel.
class Choice {
 public:
  Choice(const GraphImpl& graph, Lifetimes& lifetimes, bool any_pointwise)
      : graph_(graph), lifetimes_(lifetimes), any_pointwise_(any_pointwise) {}

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
    const std::vector<bool> after = network_.sink_side();
    Parts chosen;
    for (auto& [value, part] : parts_) {
      if (after[static_cast<std::size_t>(vertex_.at(value))]) chosen.emplace(value, part);
    }
    return chosen;
  }

 private:
  /// A vertex where the value is made and one where it is kept; between them its bytes.
  void add(Value v, bool is_result) {
    const std::int64_t bytes = lifetimes_.bytes(v);
    if (bytes == 0) return;
    const int made = network_.add_vertex(), kept = network_.add_vertex();
    vertex_.emplace(v, made);
    network_.add_edge(made, kept, bytes);
    if (lifetimes_.crosses_peak(v)) network_.add_edge(kept, FlowNetwork::sink(), kUnlimited);
    Part part;
    if (is_result || !part_of(v, any_pointwise_, part)) {
      network_.add_edge(FlowNetwork::source(), made, kUnlimited);
      return;
    }
    for (const Value input : part.inputs) {
      const auto from = vertex_.find(root_of(input));
      if (from != vertex_.end()) network_.add_edge(from->second + 1, made, kUnlimited);
    }
    parts_.emplace(v, std::move(part));
  }

  static constexpr std::int64_t kUnlimited = FlowNetwork::kUnlimited;
  const GraphImpl& graph_;
  Lifetimes& lifetimes_;
  bool any_pointwise_;
  FlowNetwork network_;
  std::unordered_map<Value, int, ValueHash> vertex_;
  Parts parts_;
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

/// Copies the graph; nodes from the peak on get the chosen values from kernels of their own, and
/// views of others where those must copy.
class Writer {
 public:
  Writer(const GraphImpl& graph, const Lifetimes& lifetimes, const Parts& chosen,
         const std::unordered_set<const Node*>& copies)
      : rewriter_(graph), lifetimes_(lifetimes), chosen_(chosen), copies_(copies) {}

  Ref<GraphImpl> write() {
    for (const auto& node : rewriter_.from().nodes()) {
      if (lifetimes_.position(*node) >= lifetimes_.peak()) {
        for (const Value v : node->inputs()) {
          if (v) bring(v);
        }
      }
      rewriter_.copy(*node);
    }
    return rewriter_.finish();
  }

 private:
  /// Makes the value anew if it is, or lies in, a chosen one.
  void bring(Value v) {
    if (!is_made_again(v) || !brought_.insert(v).second) return;
    if (v.node->op().kind == BodyKind::view) {
      if (lifetimes_.position(*v.node) >= lifetimes_.peak()) return;  // looks at the new one
      for (const Value input : v.node->inputs()) {
        if (input) bring(input);
      }
      rewriter_.copy(*v.node);
      return;
    }
    const Part& part = chosen_.at(v);
    for (const Value input : part.inputs) bring(input);
    if (!part.region) {
      rewriter_.copy(*v.node);
      return;
    }
    const NoAttrs none;
    Node* const made = rewriter_.to()->append(kFusedOp, Attrs::copy_of(attrs_info<NoAttrs>, &none),
                                              rewriter_.at(part.inputs), {v.type()}, v.node->loc());
    made->add_region(part.region);
    rewriter_.set(v, made->output());
  }

  [[nodiscard]] bool is_made_again(Value v) const {
    for (; v.node->op().kind == BodyKind::view; v = v.node->inputs()[0]) {
      if (copies_.contains(v.node)) return true;
    }
    return chosen_.contains(v);
  }

  Rewriter rewriter_;
  const Lifetimes& lifetimes_;
  const Parts& chosen_;
  const std::unordered_set<const Node*>& copies_;
  std::unordered_set<Value, ValueHash> brought_;
};

}  // namespace

Ref<GraphImpl> recompute(const Ref<GraphImpl>& graph, const RecomputeOptions& options) {
  struct Tried {
    Ref<GraphImpl> graph;
    std::int64_t bytes = 0;
    bool is_cheap = true;  ///< beside the graph's products
  };
  const auto tried = [&](bool any_pointwise) -> Tried {
    Lifetimes lifetimes(*graph, options.sizes);
    Tried same = {graph, lifetimes.peak_bytes()};
    const Parts chosen = Choice(*graph, lifetimes, any_pointwise).make();
    const std::unordered_set<const Node*> copies = find_copies(*graph, lifetimes);
    if (chosen.empty() && copies.empty()) return same;
    Tried made;
    made.graph = Writer(*graph, lifetimes, chosen, copies).write();
    dce(*made.graph);  // what is only used after the peak is computed there alone
    made.bytes = Lifetimes(*made.graph, options.sizes).peak_bytes();
    // Whether views copy is known when strides are, so bytes do not show what that saves.
    if (made.bytes > same.bytes || (made.bytes == same.bytes && copies.empty())) return same;
    std::int64_t operations = 0;
    for (const auto& [value, part] : chosen) {
      operations += part.costly(value) * kOperations * lifetimes.bytes(value) /
                    static_cast<std::int64_t>(size_of(value.type().dtype()));
    }
    made.is_cheap =
        operations == 0 || operations <= lifetimes.operations_of_products(*graph) / kPartOfProducts;
    return made;
  };
  Tried little = tried(false), all = tried(true);
  const bool too_much = options.memory_limit > 0 && little.bytes > options.memory_limit;
  return all.bytes < little.bytes && (all.is_cheap || too_much) ? all.graph : little.graph;
}

}  // namespace dyad::passes
