#include <algorithm>
#include <optional>
#include <utility>

#include "dyad/exec/alike_loops.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/later_passes.h"
#include "dyad/exec/moving_recording.h"
#include "dyad/exec/roll_backward.h"
#include "dyad/exec/taped_loop.h"
#include "dyad/exec/taped_loop_roller.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad::exec {
namespace {

/// Says which nodes of the loop's first pass belong to which step backwards, and to which way in
/// it.
void find_steps_backwards(const GraphImpl& graph, TapedLoop& loop,
                          std::span<const TapeVisit> visits) {
  std::vector<std::vector<std::uint64_t>> sequences(loop.trace.steps.size());  // of their nodes
  for (std::size_t i = 0; i + 1 < visits.size(); ++i) {
    const std::uint64_t sequence = visits[i].sequence;
    if (sequence <= loop.tape.front() || sequence > loop.tape.back()) continue;
    if (visits[i].pass != loop.pass) continue;
    const auto after = std::ranges::lower_bound(loop.tape, sequence);
    const auto step = static_cast<std::size_t>(after - loop.tape.begin()) - 1;
    for (int at = visits[i].nodes; at < visits[i + 1].nodes; ++at) {
      Node* const node = graph.nodes()[static_cast<std::size_t>(at)].get();
      if (node->is("variable") || node->is("placeholder")) continue;
      loop.trace.steps[step].backward.push_back(node);
      sequences[step].push_back(sequence);
    }
  }
  for (std::size_t t = 0; t < sequences.size(); ++t) {
    for (BackwardTrace::Way& way : loop.trace.steps[t].ways) {
      const auto count_after = [&](std::uint64_t number) {
        const auto is_after = [&](std::uint64_t sequence) { return sequence > number; };
        return static_cast<std::size_t>(std::ranges::count_if(sequences[t], is_after));
      };
      way.begin = count_after(way.tape_end);
      way.end = count_after(way.tape_begin);
    }
  }
}

/// Puts what it was given in the place of every with_length of these loops.
template <class F>
void remove_lengths(MovingRecording& moving, const F& is_one) {
  ValueMap given;
  std::vector<Node*> order;
  std::vector<int> before{0};
  for (const auto& node : moving.path.graph->nodes()) {
    if (&node->op() == &kWithLengthOp && is_one(node->attrs_as<LengthAttrs>().loop)) {
      const Value of = node->inputs()[0];
      const auto known = given.find(of);
      given.emplace(node->output(), known == given.end() ? of : known->second);
    } else {
      order.push_back(node.get());
    }
    before.push_back(static_cast<int>(order.size()));
  }
  if (given.empty()) return;
  moving.replace(given);
  moving.arrange(order, before);
}

/// Loops in the steps that passes came through in different ways, or not at all.
void give_alike_in_steps(MovingRecording& moving, const LoopTrace& trace) {
  std::vector<std::vector<Node*>> scans;  // of each step
  for (const TracedStep& step : std::span(trace.steps).first(trace.slices_made.size())) {
    std::vector<Node*> nodes = trace.nodes_between(*moving.path.graph, step.body, step.end);
    std::erase_if(nodes, [](const Node* node) { return &node->op() != &kScanOp; });
    if (!scans.empty() && scans[0].size() != nodes.size()) return;
    scans.push_back(std::move(nodes));
  }
  for (std::size_t k = 0; k < scans[0].size(); ++k) {
    std::vector<Node*> alike;
    for (const std::vector<Node*>& of : scans) alike.push_back(of[k]);
    moving.replace(give_alike(alike));
  }
}

void keep_length(MovingRecording& moving, const TapedLoop& loop) {
  if (!loop.length.is_symbolic()) return;
  const auto steps = static_cast<std::int64_t>(loop.tape.size() - 1);
  moving.guard({DimGuard::Kind::value, loop.length, Dim(), steps, loop.loc});
}

/// The steps of the loop are as many in all calls that the recording serves.
void keep_steps(MovingRecording& moving, TapedLoop& loop) {
  keep_length(moving, loop);
  if (loop.open) {
    moving.path.unrolled.emplace_back(loop.open->begin, loop.open->end);
    loop.open.reset();
  } else {
    moving.path.unrolled.emplace_back(loop.nodes.front()->id(), loop.nodes.back()->id() + 1);
  }
  remove_lengths(moving, [&](std::int64_t number) { return number == loop.number; });
}

bool is_length_of(const Node& node, const TapedLoop& loop) {
  return &node.op() == &kWithLengthOp && node.attrs_as<LengthAttrs>().loop == loop.number;
}

/// Makes loops of what later passes did in the steps. Where that cannot be done, what is left of
/// them holds for this number of steps alone.
void roll_later_passes(MovingRecording& moving, const TapedLoop& loop, std::size_t first,
                       std::size_t count) {
  const GraphImpl& graph = *moving.path.graph;
  bool are_rolled = true;
  for (std::size_t k = first; k < count && are_rolled; ++k) {
    gather_steps(moving, find_passes(graph, loop, moving.visits)[k]);
    const std::vector<StepsOfPass> passes = find_passes(graph, loop, moving.visits);
    std::optional<TapedLoop> own = loop_of_pass(moving.path, loop, passes[k]);
    are_rolled = own && roll_taped_loop(moving, *own, nodes_of(passes, k + 1), false);
  }
  // What else goes on with a length that is taken for a number.
  are_rolled = are_rolled && std::ranges::none_of(graph.nodes(), [&](const auto& node) {
                 return std::ranges::any_of(node->inputs(), [&](Value input) {
                   return input && is_length_of(*input.node, loop) && !is_length_of(*node, loop);
                 });
               });
  if (!are_rolled) {
    keep_length(moving, loop);
    const auto left = nodes_of(find_passes(graph, loop, moving.visits), first);
    const auto [begin, end] = std::ranges::minmax_element(left, {}, &Node::id);
    if (begin != left.end()) moving.path.unrolled.emplace_back((*begin)->id(), (*end)->id() + 1);
  }
  remove_lengths(moving, [&](std::int64_t number) { return number == loop.number; });
}

/// Whether the loop has become one in the graph.
bool roll(MovingRecording& moving, TapedLoop& loop) {
  const GraphImpl& graph = *moving.path.graph;
  if (loop.open) {
    give_alike_in_steps(moving, *loop.open);
    std::optional<RolledLoop> forward = roll_loop(graph, *loop.open);
    if (!forward) return false;
    set_steps(loop, graph, *loop.open, *std::move(forward));
  }
  const std::vector<StepsOfPass> passes = find_passes(graph, loop, moving.visits);
  const auto is_unknown = [&](const auto& node) {
    if (!is_length_of(*node, loop) || !node->template attrs_as<LengthAttrs>().gradient)
      return false;
    const auto pass = node->template attrs_as<LengthAttrs>().pass;
    return std::ranges::find(passes, pass, &StepsOfPass::pass) == passes.end();
  };
  // A pass that came to the stacked results, and not to the steps.
  if (std::ranges::any_of(graph.nodes(), is_unknown)) return false;
  loop.pass = passes.empty() ? 0 : passes[0].pass;
  const auto is_later = [&](const StepsOfPass& steps) { return steps.pass != loop.pass; };
  const auto first_later =
      static_cast<std::size_t>(std::ranges::find_if(passes, is_later) - passes.begin());
  const bool has_later_ones = first_later < passes.size();
  if (has_later_ones && (loop.has_ways() || loop.is_while() || moving.path.backward)) return false;
  find_steps_backwards(graph, loop, moving.visits);
  const auto roll_as = [&](bool in_vain) {
    return roll_taped_loop(moving, loop, nodes_of(passes, first_later), in_vain);
  };
  const bool may_be_in_vain = loop.stays_tracked && !has_later_ones && !loop.has_ways();
  const bool may_be_apart = !may_be_in_vain || loop.trace.steps.size() >= kEnoughSteps;
  if (!(may_be_in_vain && roll_as(true)) && !(may_be_apart && roll_as(false))) return false;
  loop.open.reset();
  if (has_later_ones) roll_later_passes(moving, loop, first_later, passes.size());
  return true;
}

}  // namespace

std::vector<std::unique_ptr<Node>> roll_taped_loops(Path& path, std::vector<TapedLoop> loops,
                                                    std::span<const TapeVisit> visits) {
  MovingRecording moving{path, loops, {visits.begin(), visits.end()}, {}};
  GraphEvaluator evaluator(path.graph);
  const Evaluator::Scope current(evaluator);
  remove_lengths(moving, [&](std::int64_t number) {
    return std::ranges::find(loops, number, &TapedLoop::number) == loops.end();
  });
  // Those inside of others come first.
  for (TapedLoop& loop : loops) {
    if (!roll(moving, loop)) keep_steps(moving, loop);
  }
  return std::move(moving.removed);
}

}  // namespace dyad::exec
