#include "dyad/exec/taped_loop.h"

#include <ranges>
#include <utility>

#include "dyad/autograd/tape.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/recorder.h"
#include "dyad/ir/gradient.h"
#include "dyad/ops/arithmetic.h"

namespace dyad::exec {
namespace {

constexpr ArgInfo kX[] = {{.name = "x"}};

void with_length_grad(Gradient& g) {
  LengthAttrs attrs = attrs_at<LengthAttrs>(g.raw_attrs());
  auto* const recorder = attrs.loop >= 0 ? dynamic_cast<Recorder*>(&Evaluator::current()) : nullptr;
  attrs.gradient = true;
  attrs.pass = recorder ? recorder->pass() : 0;
  // Those of several slices are added up, each with zeros for the others, and no 0 stays negative;
  // nor does it of one, so that loops do the same for any number of steps.
  const bool is_of_one = !attrs.of_result && g.grad().impl()->shape[0].same_as(1);
  const Loc loc = Loc().user();
  const Tensor grad = is_of_one ? add(g.grad(), 0, loc) : g.grad();
  g.set(0, recorder ? recorder->with_length(grad, g.input_shape(0)[0], attrs, loc) : grad);
}

/// What a step did in conds, parts `first..last - 1`, for the pass that comes back through it.
void note_ways(const RolledLoop& rolled, std::span<const TracedPart> parts, std::size_t first,
               std::size_t last, BackwardTrace::Step& step) {
  std::vector<std::size_t> in_order;
  for (std::size_t i = first; i < last; i = parts[i].last) in_order.push_back(i);
  // A pass comes to the last one first.
  for (const std::size_t i : std::views::reverse(in_order)) {
    const TracedPart& part = parts[i];
    const std::size_t item = rolled.item_of_part.at(&part);
    for (std::size_t k = 0; k < part.results.size(); ++k) {
      step.given.emplace_back(part.results[k],
                              Stack{Stack::Of::forward, item, static_cast<int>(k)});
    }
    if (part.is_loop()) continue;
    const std::size_t number = step.ways.size();
    step.ways.push_back({.pred = part.pred,
                         .then = part.then,
                         .loc = part.loc,
                         .cond = item,
                         .tape_begin = part.tape_begin,
                         .tape_end = part.tape_end});
    note_ways(rolled, parts, i + 1, part.last, step);
    step.ways[number].last = step.ways.size();
  }
}

}  // namespace

void TapedLoop::replace_values(const std::function<Value(Value)>& by) {
  replace_all(xs, by);
  replace_all(forward.captures, by);
  replace_all(conditions, by);
  for (BackwardTrace::Step& step : trace.steps) {
    replace_all(step.states, by);
    for (auto& [value, stack] : step.given) value = by(value);
    for (BackwardTrace::Way& way : step.ways) way.pred = by(way.pred);
  }
  if (open) open->replace_values(by);
}

void set_steps(TapedLoop& loop, const GraphImpl& graph, const LoopTrace& trace,
               RolledLoop forward) {
  loop.forward = std::move(forward);
  loop.xs = trace.xs;
  loop.last_states = trace.last_states;
  loop.slices_made = trace.slices_made;
  loop.conditions = trace.conditions;
  loop.nodes = trace.nodes_between(graph, trace.begin, trace.end);
  for (const TracedStep& step : std::span(trace.steps).first(trace.slices_made.size())) {
    BackwardTrace::Step& made = loop.trace.steps.emplace_back();
    for (Node* const node : trace.nodes_between(graph, step.body, step.end)) {
      if (const auto item = loop.forward.item_of.find(node); item != loop.forward.item_of.end())
        made.forward.emplace_back(node, item->second);
    }
    note_ways(loop.forward, trace.parts, step.first_part, step.last_part, made);
    made.states = step.states;
    made.slices = step.slices;
  }
}

constinit const OpInfo kWithLengthOp{
    .name = "with_length",
    .doc = "x itself, whose first size is a number or a symbol from here on.",
    .kind = BodyKind::structural,
    .inputs = kX,
    .outputs = kX,
    .attrs = &attrs_info<LengthAttrs>,
    .grad = with_length_grad,
};

Tensor apart_on_tape(const Tensor& x, const LengthAttrs& attrs, Loc loc) {
  const Tensor made(make_ref<TensorImpl>(*x.impl()));
  made.impl()->grad_meta = nullptr;
  made.impl()->requires_grad = false;
  const Tensor* const inputs[] = {&x};
  if (autograd::should_record(kWithLengthOp, inputs)) {
    Tensor outputs[] = {made};
    autograd::record(kWithLengthOp, inputs, &attrs, outputs, loc);
  }
  return made;
}

}  // namespace dyad::exec
