#include "dyad/passes/peephole.h"

#include <algorithm>
#include <ranges>

#include "dyad/core/element.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

/// How its result lies follows from how its inputs lie.
bool passes_layout_on(const Node& node) {
  const BodyKind kind = node.op().kind;
  return kind == BodyKind::view || (kind == BodyKind::pointwise && !node.is("clone"));
}

/// Gives the same numbers however its inputs lie.
bool is_blind(const Node& node) {
  return node.op().kind == BodyKind::reduction || node.is("clone") || &node.op() == &kAssignOp;
}

}  // namespace

Ref<GraphImpl> Peephole::rewrite(const Rule& rule) {
  find_seen();
  Rewriter rewriter(graph_);
  for (const auto& node : graph_.nodes()) {
    const bool simple = node->types().size() == 1 && node->op().effect == Effect::pure &&
                        node->op().kind != BodyKind::structural && node->regions().empty();
    const Value found = simple ? rule(*node, rewriter.at(node->inputs()), *rewriter.to()) : Value();
    if (found) {
      rewriter.set({node.get(), 0}, found);
    } else {
      rewriter.copy(*node);
    }
  }
  return rewriter.finish();
}

void Peephole::find_seen() {
  for (const Value v : graph_.outputs()) seen_[*v.node] = 1;
  for (const auto& node : std::views::reverse(graph_.nodes())) {
    if (is_blind(*node) || (passes_layout_on(*node) && !is_seen(*node))) continue;
    for (const Value v : node->inputs()) {
      if (v) seen_[*v.node] = 1;
    }
  }
}

bool Peephole::is_row_major(Value value) {
  // Chains may be as long as the graph: what waits for its inputs is no call in progress.
  std::vector<const Node*> waiting{value.node};
  while (!waiting.empty()) {
    const Node& node = *waiting.back();
    if (const std::optional<bool> is = row_major_by_inputs(node)) {
      row_major_[&node] = *is;
      waiting.pop_back();
      continue;
    }
    for (const Value v : node.inputs()) {
      if (v && !row_major_.contains(v.node)) waiting.push_back(v.node);
    }
  }
  return row_major_.at(value.node);
}

std::optional<bool> Peephole::row_major_by_inputs(const Node& node) const {
  if (const auto known = row_major_.find(&node); known != row_major_.end()) return known->second;
  if (&node.op() == &kConstantOp) {
    return node.attrs_as<ConstantAttrs>().value.impl()->contiguous;
  }
  if (node.op().kind == BodyKind::reduction || node.is("clone") || node.is("contiguous") ||
      node.is("full")) {
    return true;
  }
  const bool follows =
      node.op().kind == BodyKind::pointwise || node.is("reshape") || node.is("stop_gradient");
  if (!follows) return false;
  bool all_known = true;
  for (const Value v : node.inputs()) {
    if (!v) continue;
    const auto known = row_major_.find(v.node);
    if (known == row_major_.end()) {
      all_known = false;
    } else if (!known->second) {
      return false;
    }
  }
  return all_known ? std::optional(true) : std::nullopt;
}

bool Peephole::may_replace(const Node& node, Value value) {
  return node.types()[0].is_tensor() && node.types()[0].same_as(value.type()) &&
         may_read(node, value);
}

bool Peephole::may_read(const Node& node, Value value) {
  return !is_seen(node) || is_row_major(value);
}

bool Peephole::may_swap(const Node& node, Value a, Value b) {
  return !is_seen(node) || (is_row_major(a) && is_row_major(b));
}

std::optional<double> number_of(Value value) {
  if (!value) return {};
  if (value.node->is("full")) return value.node->attrs_as<ops::FullAttrs>().value;
  if (&value.node->op() != &kConstantOp) return {};
  const Tensor& literal = value.node->attrs_as<ConstantAttrs>().value;
  if (!contains(kAny, literal.dtype()) || literal.impl()->numel() != 1) return {};
  return visit_element(literal.dtype(), [&]<class T>(std::type_identity<T>) {
    return convert_element<double>(*reinterpret_cast<const T*>(literal.impl()->data));
  });
}

bool only_names_sizes(const Node& node) {
  return node.is("reshape") || node.is("squeeze") || node.is("unsqueeze");
}

}  // namespace dyad::passes
