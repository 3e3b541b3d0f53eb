#include "dyad/exec/body_gradient.h"

#include <algorithm>

#include "dyad/autograd/itself.h"
#include "dyad/exec/control_node.h"
#include "dyad/ir/gradient.h"

namespace dyad::exec {
namespace {

/// The results of a body that have a gradient, and which of its states they are.
std::vector<BodyGradient::Result> reached_results(const GraphImpl& body, std::size_t state_count,
                                                  std::span<const std::size_t> states,
                                                  const Reached& reached) {
  std::vector<BodyGradient::Result> found;
  for (std::size_t r = body.outputs().size(); r-- > state_count;) {
    if (!is_differentiable(body.outputs()[r].type()) || !reached.results[r - state_count]) continue;
    BodyGradient::Result& made = found.emplace_back();
    made.output = r;
    for (std::size_t k = 0; reached.a_step_later && k < states.size() && !made.state; ++k) {
      if (autograd::itself(body.outputs()[states[k]]) == autograd::itself(body.outputs()[r]))
        made.state = k;
    }
  }
  return found;
}

/// Writes `made.graph`. `found`: the gradients of all differentiable states, the captures and the
/// slices of `made`, undefined where there is none; with what comes to them from outside of a step
/// where they are `summed`, or only what a step contributes.
void build_body_gradient(BodyGradient& made, std::vector<Tensor>& found, const GraphImpl& body,
                         std::size_t state_count, std::size_t slice_count, bool summed, Loc loc) {
  const std::size_t inputs = body.placeholders().size(), fixed = state_count + slice_count;
  GradientRegion region(loc);
  std::vector<Value> of, weights, sums, weights_of_results;
  for (const std::size_t s : made.states) {
    weights.push_back(region.add_weight(body.outputs()[s].type()));
  }
  for (const std::size_t c : made.captures) {
    sums.push_back(region.add_weight(body.placeholders()[c].type()));
  }
  std::vector<Value> operands = region.add_parameters(parameter_types(body, 0, fixed));
  for (const BodyGradient::Result& r : made.results) {
    weights_of_results.push_back(region.add_weight(body.outputs()[r.output].type()));
  }
  append_all<Value>(operands, region.add_parameters(parameter_types(body, fixed, inputs)));

  const std::vector<Value> forward = region.inline_forward(body, operands);
  for (const std::size_t s : made.states) of.push_back(forward[s]);
  for (std::size_t i = 0; i < made.results.size(); ++i) {
    const BodyGradient::Result& r = made.results[i];
    if (r.state && !summed) continue;
    weights.push_back(weights_of_results[i]);
    of.push_back(r.state ? operands[made.states[*r.state]] : forward[r.output]);
  }
  if (summed) {
    for (const std::size_t c : made.captures) of.push_back(operands[c]);
    append_all<Value>(weights, sums);
  }
  const std::vector<std::size_t> states = differentiable_outputs(body, 0, state_count);
  std::vector<Value> by;
  std::vector<std::size_t> places = states;
  append_all<std::size_t>(places, made.captures);
  append_all<std::size_t>(places, made.slices);
  by.reserve(places.size());
  for (const std::size_t i : places) by.push_back(operands[i]);
  found = region.gradients(of, weights, by);

  std::vector<Tensor> outputs;
  {
    const Evaluator::Scope current(region.evaluator());
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i < states.size() && std::ranges::find(made.states, states[i]) == made.states.end())
        continue;
      outputs.push_back(found[i].defined() ? found[i] : nothing_of(grad_type(by[i].type()), loc));
    }
  }
  region.add_outputs(outputs);
  made.graph = region.graph();
}

}  // namespace

BodyGradient body_gradient(const GraphImpl& body, std::size_t state_count, std::size_t slice_count,
                           Reached reached, std::span<const std::size_t> wanted_slices,
                           std::span<const std::size_t> wanted_captures, Loc loc) {
  const std::vector<std::size_t> differentiable = differentiable_outputs(body, 0, state_count);
  for (const BodyGradient::Result& r :
       reached_results(body, state_count, differentiable, reached)) {
    if (r.state) reached.states[differentiable[*r.state]] = true;
  }
  // A step may carry a gradient on to states that nothing after the loop has one of.
  for (;;) {
    BodyGradient made;
    for (const std::size_t s : differentiable) {
      if (reached.states[s]) made.states.push_back(s);
    }
    made.results = reached_results(body, state_count, made.states, reached);
    made.captures.assign(wanted_captures.begin(), wanted_captures.end());
    made.slices.assign(wanted_slices.begin(), wanted_slices.end());
    std::vector<Tensor> found;
    build_body_gradient(made, found, body, state_count, slice_count, false, loc);
    bool grows = false;
    for (std::size_t i = 0; i < differentiable.size(); ++i) {
      if (!found[i].defined() || reached.states[differentiable[i]]) continue;
      grows = reached.states[differentiable[i]] = true;
    }
    if (grows) continue;
    std::size_t next = differentiable.size();
    for (const std::size_t s : made.states) {
      const auto at = std::ranges::find(differentiable, s) - differentiable.begin();
      made.end_here.push_back(!found[static_cast<std::size_t>(at)].defined());
    }
    const auto is_unreached = [&](std::size_t) { return !found[next++].defined(); };
    std::erase_if(made.captures, is_unreached);
    std::erase_if(made.slices, is_unreached);
    build_body_gradient(made, found, body, state_count, slice_count, true, loc);
    return made;
  }
}

}  // namespace dyad::exec
