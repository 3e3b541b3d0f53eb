#include "dyad/exec/path.h"

#include <algorithm>
#include <bit>
#include <string>

#include "dyad/base/error.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/ir/graph_ops.h"

namespace dyad::exec {
namespace {

std::string describe(const Node& node) {
  return std::string(node.op().name) + to_string(node.attrs().info(), node.attrs().data());
}

bool same_inputs(const Node& a, const Node& b) noexcept {
  return std::equal(a.inputs().begin(), a.inputs().end(), b.inputs().begin(), b.inputs().end(),
                    same_value);
}

bool same_attrs(const Node& a, const Node& b) {
  if (a.is("variable")) {
    return same_elements(a.attrs_as<VariableAttrs>().tensor, b.attrs_as<VariableAttrs>().tensor);
  }
  // What a call makes anew each time, such as a literal, has the same elements and not the same
  // address.
  return attrs_equal(a.attrs().info(), a.attrs().data(), b.attrs().data(), /*all_elements=*/true);
}

bool is_loop(const Node& node) { return &node.op() == &kWhileOp || &node.op() == &kScanOp; }

/// Whether a loop is at this place of the path, as a node or step by step.
bool has_loop_at(const Path& path, std::size_t at) {
  const auto& nodes = path.graph->nodes();
  if (at < nodes.size() && is_loop(*nodes[at])) return true;
  return std::ranges::any_of(path.unrolled, [&](const auto& range) {
    return static_cast<int>(at) >= range.first && static_cast<int>(at) <= range.second;
  });
}

std::optional<PathDifference> compare_nodes(const Node& a, const Node& b) {
  if (&a.op() != &b.op() || !same_attrs(a, b)) {
    const std::string what =
        a.is("variable") && b.is("variable") ? "another tensor from outside is used" : "";
    return PathDifference{what.empty() ? "first " + describe(a) + ", now " + describe(b) : what,
                          a.loc(), b.loc()};
  }
  if (!same_regions(a, b)) {
    return PathDifference{std::string(a.op().name) + " repeats something else now", a.loc(),
                          b.loc()};
  }
  if (!same_inputs(a, b)) {
    return PathDifference{std::string(a.op().name) + " has other operands now", a.loc(), b.loc()};
  }
  return std::nullopt;
}

std::optional<PathDifference> compare_outputs(const Path& a, const Path& b) {
  const bool same = std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(),
                               b.outputs.end(), same_value);
  if (same && a.same_as == b.same_as) return std::nullopt;
  return PathDifference{"other values are returned now", {}, {}};
}

/// Where two paths part; see compare_paths.
std::optional<PathDifference> find_difference(const Path& a, const Path& b, std::size_t& common) {
  common = 0;
  const auto& nodes_a = a.graph->nodes();
  const auto& nodes_b = b.graph->nodes();
  std::size_t at = 0;
  for (;;) {
    const bool more_a = common < a.decisions.size(), more_b = common < b.decisions.size();
    const std::size_t end_a =
        more_a ? static_cast<std::size_t>(a.decisions[common].position) : nodes_a.size();
    const std::size_t end_b =
        more_b ? static_cast<std::size_t>(b.decisions[common].position) : nodes_b.size();
    for (; at < std::min(end_a, end_b); ++at) {
      if (auto difference = compare_nodes(*nodes_a[at], *nodes_b[at])) {
        difference->in_loop = has_loop_at(a, at) || has_loop_at(b, at);
        return difference;
      }
    }
    if (end_a != end_b || more_a != more_b) {
      const bool longer_a = end_a > end_b;
      const Loc loc = longer_a ? nodes_a[at]->loc() : end_b > end_a ? nodes_b[at]->loc() : Loc();
      return PathDifference{
          end_a == end_b ? "one call read a number on the host where the other did not"
          : longer_a     ? "first " + describe(*nodes_a[at]) + ", now nothing more"
                         : "now " + describe(*nodes_b[at]) + ", which was not there at first",
          loc, loc, has_loop_at(a, at) || has_loop_at(b, at)};
    }
    if (!more_a) return compare_outputs(a, b);
    if (a.decisions[common].outcome != b.decisions[common].outcome) return std::nullopt;
    ++common;
  }
}

}  // namespace

bool holds(const DimGuard& guard, const SymbolMap& symbols) try {
  const std::int64_t a = evaluate(guard.a, symbols);
  switch (guard.kind) {
    case DimGuard::Kind::equal:
      return (a == evaluate(guard.b, symbols)) == (guard.answer != 0);
    case DimGuard::Kind::less:
      return (a < evaluate(guard.b, symbols)) == (guard.answer != 0);
    case DimGuard::Kind::value:
      return a == guard.answer;
  }
  return false;
} catch (const ShapeError&) {
  return false;  // beyond all integers
}

void Path::replace_values(const std::function<Value(Value)>& by) {
  const auto replace = [&](Value& value) {
    if (value) value = by(value);
  };
  const auto replace_place = [&](Place& place) {
    replace(place.memory);
    replace(place.lies_in);
    for (Value& view : place.views) replace(view);
  };
  for (GradCapture& capture : grad_captures) replace(capture.placeholder);
  for (Decision& decision : decisions) replace(decision.value);
  for (Write& write : writes) replace(write.value);
  for (GradWrite& write : grad_writes) {
    replace(write.value);
    replace_place(write.place);
  }
  for (Value& output : outputs) replace(output);
  for (Place& place : places) replace_place(place);
  if (!backward) return;
  for (Value& seed : backward->seeds) replace(seed);
  for (BackwardPart::Rule& rule : backward->rules) rule.for_each(replace);
  for (auto* const grads : {&backward->leaf_grads, &backward->argument_grads}) {
    for (BackwardPart::Part& part : *grads) {
      replace(part.whole);
      replace(part.index);
      replace(part.rows);
    }
  }
}

void Path::replace_positions(const std::function<int(int)>& by) {
  end = by(end);
  for (Decision& decision : decisions) decision.position = by(decision.position);
  for (auto& [first, last] : unrolled) {
    first = by(first);
    last = by(last);
  }
  if (backward) backward->begin = by(backward->begin);
}

std::size_t hooks_on(const Tensor& leaf) {
  const autograd::LeafGrad* const kept = autograd::leaf_grad_of(*leaf.impl());
  return kept ? kept->hooks.size() : 0;
}

bool knows_rows(std::span<const GradNote> notes, const autograd::LeafGrad& of_leaf,
                std::span<const Tensor> arguments) {
  return std::ranges::any_of(
      notes, [&](const GradNote& note) { return note.in(arguments).is_same(of_leaf.index); });
}

bool same_value(const Value& a, const Value& b) noexcept {
  if (!a || !b) return !a && !b;
  return a.node->id() == b.node->id() && a.index == b.index;
}

bool same_elements(const Tensor& a, const Tensor& b) noexcept {
  const TensorImpl &x = *a.impl(), &y = *b.impl();
  return &x == &y || (x.storage == y.storage && x.data == y.data && x.dtype == y.dtype &&
                      x.shape.same_as(y.shape) && x.strides == y.strides);
}

std::size_t count_loops(const Path& path) {
  const auto& nodes = path.graph->nodes();
  return static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [](const auto& node) { return is_loop(*node); }));
}

std::string outcome_string(std::int64_t outcome, Decision::Kind kind) {
  switch (kind) {
    case Decision::Kind::boolean:
      return outcome ? "true" : "false";
    case Decision::Kind::integer:
      return std::to_string(outcome);
    case Decision::Kind::floating:
      return std::to_string(std::bit_cast<double>(outcome));
  }
  return {};
}

std::optional<PathDifference> compare_paths(const Path& a, const Path& b, std::size_t& common) {
  auto difference = find_difference(a, b, common);
  if (difference && (a.has_ways || b.has_ways)) difference->in_loop = true;
  return difference;
}

}  // namespace dyad::exec
