#include "dyad/passes/simplify_views.h"

#include <algorithm>
#include <vector>

#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/peephole.h"

namespace dyad::passes {
namespace {

/// The axes of a permutation, from the front.
Ints axes_of(const Node& node) {
  Ints axes = *ints_attr(node, "axes");
  const auto rank = static_cast<std::int64_t>(axes.size());
  for (std::int64_t& axis : axes) axis = axis < 0 ? axis + rank : axis;
  return axes;
}

/// `node` permutes x: x itself, or one permutation of what x permutes.
Value without_permute(const Node& node, Value x, GraphImpl& to) {
  Ints axes = axes_of(node);
  const bool composed = x.node->is("permute");
  if (composed) {
    const Ints inner = axes_of(*x.node);
    for (std::int64_t& axis : axes) axis = inner[static_cast<std::size_t>(axis)];
    x = x.node->inputs()[0];
  }
  bool moves = false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    moves = moves || axes[i] != static_cast<std::int64_t>(i);
  }
  if (!moves) return x;
  if (!composed) return {};
  return to
      .append(node.op(), with_attr(node, "axes", axes), {x},
              Types(node.types().begin(), node.types().end()), node.loc())
      ->output();
}

/// Gives the elements of its first input, in their order, when the shape is the same.
bool keeps_elements(const Node& node) {
  if (node.is("slice")) return int_attr(node, "step") == 1;
  return only_names_sizes(node) || node.is("expand") || node.is("clone") ||
         (node.is("concat") && node.inputs().size() == 1);
}

}  // namespace

Ref<GraphImpl> simplify_views(const GraphImpl& graph) {
  Peephole peephole(graph);
  return peephole.rewrite([&](const Node& node, std::span<const Value> inputs, GraphImpl& to) {
    if (node.is("stop_gradient")) return inputs[0];
    if (node.is("permute")) return without_permute(node, inputs[0], to);
    if (keeps_elements(node) && peephole.may_replace(node, inputs[0])) return inputs[0];
    if (!only_names_sizes(node) || !only_names_sizes(*inputs[0].node)) return Value();
    Value inner = inputs[0];
    while (only_names_sizes(*inner.node)) {
      inner = inner.node->inputs()[0];
      if (peephole.may_replace(node, inner)) return inner;
    }
    if (!node.is("reshape") || !peephole.may_read(node, inner)) return Value();
    return to.append_copy(node, {&inner, 1})->output();
  });
}

}  // namespace dyad::passes
