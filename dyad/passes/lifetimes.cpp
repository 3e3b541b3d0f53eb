#include "dyad/passes/lifetimes.h"

#include <algorithm>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/node_cost.h"

namespace dyad::passes {

bool is_source(const Node& node) noexcept {
  return &node.op() == &kPlaceholderOp || &node.op() == &kVariableOp || &node.op() == &kConstantOp;
}

Value root_of(Value v) {
  while (v.node->op().kind == BodyKind::view) v = v.node->inputs()[0];
  return v;
}

Lifetimes::Lifetimes(const GraphImpl& graph, const SymbolMap& sizes)
    : sizes_(sizes), position_(graph), last_use_(graph) {
  std::size_t next = 0;
  for (const auto& node : graph.nodes()) {
    for (int i = 0; i < static_cast<int>(node->types().size()); ++i)
      last_use_[node->output(i)] = next;
    position_[*node] = next++;
  }
  for (const auto& node : graph.nodes()) {
    for (const Value v : node->inputs()) {
      if (v) last_use_[root_of(v)] = position(*node);
    }
  }
  for (const Value v : graph.outputs()) last_use_[root_of(v)] = graph.nodes().size();
  find_peak(graph);
}

std::int64_t Lifetimes::operations_of_products(const GraphImpl& graph) {
  std::int64_t sum = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op().kind != BodyKind::opaque || !node->regions().empty()) continue;
    const auto know = [&](const Type& type) {
      if (!type.is_tensor()) return;
      for (const Dim d : type.shape()) (void)expected_size(d, sizes_);
    };
    for (const Value v : node->inputs()) {
      if (v) know(v.type());
    }
    for (const Type& type : node->types()) know(type);
    sum += product_operations(*node, sizes_);
  }
  return sum;
}

bool Lifetimes::crosses_peak(Value root) const { return last_use_[root] >= peak_; }

std::int64_t Lifetimes::bytes(Value v) {
  if (is_source(*v.node) || v.node->is("full") || &v.node->op() == &kAssignOp) return 0;
  // A graph may claim any size. Beyond what machines have all are the same, and add up.
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  std::int64_t count = static_cast<std::int64_t>(size_of(v.type().dtype()));
  for (const Dim d : v.type().shape()) {
    if (__builtin_mul_overflow(count, expected_size(d, sizes_), &count) || count > kMost)
      return kMost;
  }
  return count;
}

std::int64_t Lifetimes::bytes_in_place(Node& node) {
  const bool by_element = &node.op() == &kFusedOp ? !reduction_of(node) : is_pointwise(node);
  if (!by_element) return 0;
  std::vector<Value> free;
  for (const Value v : node.inputs()) {
    Value root = v;
    while (root && root.node->is("reshape")) root = root.node->inputs()[0];
    if (root && root.node->op().kind != BodyKind::view && last_use_[root] == position(node) &&
        std::ranges::find(free, root) == free.end())
      free.push_back(root);
  }
  std::int64_t saved = 0;
  for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
    const std::int64_t size = bytes(node.output(i));
    const auto place = std::ranges::find_if(free, [&](Value v) { return bytes(v) == size; });
    if (place == free.end()) continue;
    saved += size;
    free.erase(place);
  }
  return saved;
}

void Lifetimes::find_peak(const GraphImpl& graph) {
  std::vector<std::int64_t> change(graph.nodes().size() + 2, 0);
  for (const auto& node : graph.nodes()) {
    if (node->op().kind == BodyKind::view) continue;
    for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
      const std::int64_t size = bytes(node->output(i));
      change[position(*node)] += size;
      change[last_use_[node->output(i)] + 1] -= size;
    }
  }
  for (const auto& node : graph.nodes()) {
    const std::int64_t saved = bytes_in_place(*node);
    change[position(*node)] -= saved;
    change[position(*node) + 1] += saved;
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

}  // namespace dyad::passes
