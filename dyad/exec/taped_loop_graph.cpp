#include "dyad/exec/taped_loop_graph.h"

#include <algorithm>

#include "dyad/ops/attrs/indexing.h"

namespace dyad::exec {

bool TapedLoopGraph::find() {
  for (BackwardTrace::Step& step : loop.trace.steps) step.gradients.clear();
  users_.emplace(*path.graph);
  gone.insert(loop.nodes.begin(), loop.nodes.end());
  for (std::size_t i = 0; i < loop.last_states.size(); ++i) {
    if (!loop.forward.constant[i]) last_state.emplace(loop.last_states[i], i);
  }
  if (!(loop.is_of_later_pass() ? find_assembled_by_steps() : find_lengths())) return false;
  values.emplace(loop.trace);
  return find_backward();
}

Value TapedLoopGraph::sole_user(Value value) {
  const std::span<Node* const> users = users_->of(*value.node);
  return users.size() == 1 ? users[0]->output() : Value();
}

bool TapedLoopGraph::find_lengths() {
  for (const auto& node : path.graph->nodes()) {
    if (&node->op() != &kWithLengthOp) continue;
    const auto& attrs = node->attrs_as<LengthAttrs>();
    if (attrs.loop != loop.number || (attrs.gradient && attrs.pass != loop.pass)) continue;
    gone.insert(node.get());
    const auto at = static_cast<std::size_t>(attrs.number);
    if (!attrs.gradient && attrs.of_result) {
      results.emplace(node->output(), at);
    } else if (attrs.gradient && attrs.of_result) {
      if (!find_parts(*node)) return false;
    } else if (attrs.gradient) {
      if (!find_assembled(*node)) return false;
    }
  }
  return true;
}

/// The gradients that are put together of what the steps of a later pass give.
bool TapedLoopGraph::find_assembled_by_steps() {
  std::unordered_set<const Node*> own;
  for (const BackwardTrace::Step& step : loop.trace.steps)
    own.insert(step.backward.begin(), step.backward.end());
  for (const auto& node : path.graph->nodes()) {
    if (&node->op() != &kWithLengthOp) continue;
    const auto& attrs = node->attrs_as<LengthAttrs>();
    if (attrs.loop != loop.number || !attrs.gradient || attrs.pass != loop.pass) continue;
    const Node& sum = *node->inputs()[0].node;
    const auto is_of_steps = [&](Value part) { return part && own.contains(part.node); };
    if (!sum.is("add") || std::ranges::none_of(sum.inputs()[0].node->inputs(), is_of_steps))
      continue;
    if (!find_assembled(*node)) return false;
    if (loop.ascends) std::ranges::reverse(assembled.back().parts);
    gone.insert(node.get());
  }
  return true;
}

/// What of the gradient of a stacked result comes to each step.
bool TapedLoopGraph::find_parts(Node& length) {
  std::vector<Value> parts(static_cast<std::size_t>(steps()));
  for (Node* const slice : users_->of(length)) {
    if (!slice->is("slice")) return false;
    const auto& attrs = slice->attrs_as<ops::SliceAttrs>();
    const Dim begin = attrs.begin;
    if (attrs.axis != 0 || attrs.step != 1 || !begin.is_number() || begin.number() >= steps() ||
        !attrs.end.same_as(begin + 1))
      return false;
    const Value part = sole_user(slice->output());
    if (!part || !part.node->is("squeeze")) return false;
    parts[static_cast<std::size_t>(begin.number())] = part;
    gone.insert(slice);
    gone.insert(part.node);
  }
  // A step whose result was there before has no use for its part.
  if (!std::ranges::any_of(parts, [](Value v) { return static_cast<bool>(v); })) return false;
  for (std::size_t t = 0; t < parts.size(); ++t) loop.trace.steps[t].gradients.push_back(parts[t]);
  gradients.push_back(length.inputs()[0]);
  return true;
}

bool TapedLoopGraph::find_assembled(Node& length) {
  const Value sum = length.inputs()[0];
  if (!sum.node->is("add") || !sole_user(sum)) return false;
  const Value joined = sum.node->inputs()[0];
  if (!joined.node->is("concat") || !sole_user(joined)) return false;
  Assembled made{&length, sum.node, joined.node, {}};
  for (const Value part : joined.node->inputs()) {
    // What no step gives a part to has zeros.
    const Dim rows = part.type().shape()[0];
    if (!rows.is_number()) return false;
    const bool is_gap = part.node->is("full") && sole_user(part);
    if (is_gap) gone.insert(part.node);
    if (!is_gap && rows.number() != 1) return false;
    made.parts.insert(made.parts.end(), static_cast<std::size_t>(rows.number()),
                      is_gap ? Value() : part);
  }
  if (static_cast<int>(made.parts.size()) != steps()) return false;
  assembled.push_back(std::move(made));
  gone.insert(joined.node);
  return true;
}

bool TapedLoopGraph::find_backward() {
  std::vector<BackwardTrace::Step>& steps = loop.trace.steps;
  const bool any =
      std::ranges::any_of(steps, [](const auto& step) { return !step.backward.empty(); });
  // Where steps may go other ways, these may be all that keeps a pass away.
  if (!any) return assembled.empty() && !loop.has_ways();
  rolled = roll_backward(loop.trace, *values, loop.forward, in_vain_);
  if (!rolled) return is_at_ends();
  // One at least, which tells how many steps there are.
  if (rolled->stacks().empty() && loop.is_of_later_pass() && loop.xs.empty()) return false;
  if (rolled->stacks().empty())
    rolled->stacks().push_back({.of = loop.is_while() ? Stack::Of::state : Stack::Of::slice});
  for (int t = 0; t < this->steps(); ++t) {
    const std::vector<Node*>& nodes = steps[static_cast<std::size_t>(t)].backward;
    const bool is_rolled = t >= rolled->low() && t <= rolled->high();
    (is_rolled ? gone : in_pass).insert(nodes.begin(), nodes.end());
    if (is_rolled && !nodes.empty() && (!last || nodes.back()->id() > last->id()))
      last = nodes.back();
  }
  return only_computes();
}

/// Whether a later pass did something in the steps at the ends alone, which stay as they are.
bool TapedLoopGraph::is_at_ends() {
  if (!loop.is_of_later_pass() || !assembled.empty() || steps() <= 2 * kMostStepsApart)
    return false;
  for (int t = 0; t < steps(); ++t) {
    const std::vector<Node*>& nodes = loop.trace.steps[static_cast<std::size_t>(t)].backward;
    if (!nodes.empty() && std::min(t, steps() - 1 - t) > kMostStepsApart) return false;
    in_pass.insert(nodes.begin(), nodes.end());
  }
  return true;
}

/// Whether the steps backwards, in which hooks may have done anything, did nothing else.
bool TapedLoopGraph::only_computes() const {
  int first = last->id();
  for (int t = rolled->low(); t <= rolled->high(); ++t) {
    for (const Node* const node : loop.trace.steps[static_cast<std::size_t>(t)].backward) {
      first = std::min(first, node->id());
      const bool is_pure = node->is("constant") || (node->op().effect == Effect::pure &&
                                                    node->op().kind != BodyKind::structural);
      if (!is_pure) return false;
    }
  }
  return std::ranges::none_of(path.decisions, [&](const Decision& read) {
    return read.position > first && read.position <= last->id();
  });
}

}  // namespace dyad::exec
