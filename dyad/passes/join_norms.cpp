#include "dyad/passes/join_norms.h"

#include <algorithm>
#include <ranges>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/views.h"
#include "dyad/passes/peephole.h"
#include "dyad/passes/rewriter.h"
#include "dyad/passes/written_norms.h"

namespace dyad::passes {
namespace {

/// Whether one call is slower than kernels of the operators, which a CPU runs together on rows:
/// library calls take a row at a time, and short ones cost more than they hold. Unknown sizes are
/// taken for long ones.
bool is_short(const WrittenNorm& norm) {
  const auto least = [&]() -> std::int64_t {
    switch (norm.kind) {
      case NormKind::softmax:
      case NormKind::log_softmax:
        return 128;
      case NormKind::layer_norm:
        return 256;
      case NormKind::rms_norm:
        return 512;
    }
    return 0;
  };
  std::int64_t row = 1;
  for (const std::int64_t axis : norm.axes) {
    const Dim size = norm.x.type().shape()[static_cast<std::size_t>(axis)];
    if (!size.is_number()) return false;
    row *= size.number();
  }
  return row < least();
}

/// The nodes before `root` that its call takes the place of.
std::unordered_set<const Node*> inside(const Node& root, const WrittenNorm& norm) {
  std::unordered_set<const Node*> found;
  std::vector<const Node*> open{&root};
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    for (const Value v : node.inputs()) {
      const bool is_outside = v == norm.x || v == norm.weight || v == norm.bias || number_of(v);
      if (!is_outside && found.insert(v.node).second) open.push_back(v.node);
    }
  }
  return found;
}

/// The calls that a graph is rewritten to have, by the nodes whose place they take.
class NormFinder {
 public:
  NormFinder(const GraphImpl& graph, bool short_rows) : uses_(count_uses(graph)), parts_(graph, 0) {
    // What follows a norm may be part of it, so the last nodes are asked first.
    for (const auto& node : std::views::reverse(graph.nodes())) {
      if (parts_[*node] != 0) continue;
      const auto found = written_norm_at(*node);
      if (!found || (is_short(*found) && !short_rows)) continue;
      const auto nodes = inside(*node, *found);
      if (!are_alone(nodes, *node, *found)) continue;
      for (const Node* part : nodes) parts_[*part] = 1;
      calls_.emplace(node.get(), *found);
    }
  }

  [[nodiscard]] bool empty() const noexcept { return calls_.empty(); }
  /// Whether one of the calls takes the place of a node before it.
  [[nodiscard]] bool is_part(const Node& node) const { return parts_[node] != 0; }
  /// The call that takes the place of a node, with what leads to it; or null.
  [[nodiscard]] const WrittenNorm* at(const Node& node) const {
    const auto found = calls_.find(&node);
    return found == calls_.end() ? nullptr : &found->second;
  }

 private:
  /// Whether nothing but they and `root` reads what the nodes give, nor do they read a weight or
  /// bias otherwise.
  [[nodiscard]] bool are_alone(const std::unordered_set<const Node*>& nodes, const Node& root,
                               const WrittenNorm& norm) const {
    std::unordered_map<Value, int, ValueHash> reads;
    const auto count = [&](const Node& node) {
      for (const Value v : node.inputs()) ++reads[v];
    };
    count(root);
    for (const Node* node : nodes) count(*node);
    return std::ranges::all_of(reads, [&](const auto& read) {
      const auto& [v, times] = read;
      if (nodes.contains(v.node)) return uses_[v] == times;
      const int as_parameter = (v == norm.weight ? 1 : 0) + (v == norm.bias ? 1 : 0);
      return as_parameter == 0 || as_parameter == times;
    });
  }

  ValueTable<int> uses_;
  NodeTable<char> parts_;
  std::unordered_map<const Node*, WrittenNorm> calls_;
};

Value write_norm(const WrittenNorm& norm, const Node& root, Rewriter& rewriter,
                 GraphEvaluator& evaluator) {
  const Loc loc = root.loc();
  const LocScope attributed(loc);
  const auto operand = [&](Value old) { return symbolic_tensor(rewriter.to(), rewriter.at(old)); };
  const Shape last = norm.last_sizes();
  const auto parameter = [&](Value old) {
    Tensor t = operand(old);
    Shape shape = old.type().shape();
    if (shape.rank() > last.rank()) {
      shape = Shape(shape.end() - last.rank(), shape.end());
      t = reshape(t, shape);
    }
    return shape.same_as(last) ? t : expand(t, last);
  };
  const Tensor x = operand(norm.x);
  const auto written = [&] {
    if (norm.kind == NormKind::softmax) return softmax(x, norm.axes[0], loc);
    if (norm.kind == NormKind::log_softmax) return log_softmax(x, norm.axes[0], loc);
    const Tensor weight =
        norm.weight ? parameter(norm.weight) : full(last, 1, norm.x.type().dtype());
    if (norm.kind == NormKind::rms_norm) return rms_norm(x, weight, norm.eps, loc);
    return layer_norm(x, weight, norm.bias ? parameter(norm.bias) : Tensor(), norm.eps, loc);
  };
  return evaluator.value_of(written(), &root.op(), loc);
}

}  // namespace

Ref<GraphImpl> join_norms(const GraphImpl& graph, bool short_rows) {
  const NormFinder finder(graph, short_rows);
  if (finder.empty()) return clone(graph);
  Rewriter rewriter(graph);
  GraphEvaluator evaluator(rewriter.to());
  const Evaluator::Scope current(evaluator);
  for (const auto& node : graph.nodes()) {
    // Left in the graph, they would count as readers of x for the passes that follow.
    if (finder.is_part(*node)) continue;
    if (const WrittenNorm* const norm = finder.at(*node)) {
      rewriter.set(node->output(), write_norm(*norm, *node, rewriter, evaluator));
    } else {
      rewriter.copy(*node);
    }
  }
  return rewriter.finish();
}

}  // namespace dyad::passes
