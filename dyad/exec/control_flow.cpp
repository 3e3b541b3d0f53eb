#include "dyad/exec/control_flow.h"

#include <fmt/format.h>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_flow_region.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/graph_of_call.h"
#include "dyad/exec/recorded_branch.h"
#include "dyad/exec/recorded_loop.h"
#include "dyad/ir/recorded.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

/// The region that is being recorded, if one is.
const RegionEvaluator* current_region() {
  return dynamic_cast<const RegionEvaluator*>(&Evaluator::current());
}

Types types_of(std::span<const Tensor> tensors) {
  const RegionEvaluator* const region = current_region();
  Types types;
  for (const Tensor& t : tensors) types.push_back(region ? region->type_inside(t) : type_of(t));
  return types;
}

Types types_of(std::span<const Value> values) {
  Types types;
  for (const Value v : values) types.push_back(v.type());
  return types;
}

std::vector<Tensor> joined(std::span<const Tensor> a, std::span<const Tensor> b) {
  std::vector<Tensor> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

/// Host numbers among operands are tensors from here on.
std::vector<Tensor> as_tensors(std::string_view construct, std::span<const Tensor> given, Loc loc) {
  std::vector<Tensor> tensors;
  for (const Tensor& t : given) {
    if (!t.defined()) {
      throw ValueError(fmt::format("{}: an argument is an undefined tensor", construct), loc);
    }
    tensors.push_back(t.impl()->is_number ? clone(t, loc) : t);
  }
  return tensors;
}

/// The states that a loop on data begins with, as in a graph: copies, so that they lie row by row
/// as those of later steps do, and what the steps contribute to their gradients is a sum of its
/// own.
std::vector<Tensor> begin_states(std::span<const Tensor> given, Loc loc) {
  std::vector<Tensor> states(given.begin(), given.end());
  // The last one first: gradients come to them in the opposite order.
  for (std::size_t i = given.size(); i-- > 0;) {
    const bool is_differentiated = grad_enabled() && given[i].tracks_grad();
    if (given[i].rank() > 0 || is_differentiated) states[i] = clone(given[i], loc);
  }
  return states;
}

void check_count(std::string_view construct, std::size_t expected, std::size_t given,
                 std::string_view expected_by, std::string_view given_by, Loc loc) {
  if (expected == given) return;
  throw GraphError(fmt::format("{}: {} gives {} tensors, but {} {}", construct, given_by, given,
                               expected_by, expected),
                   loc);
}

/// Of a loop whose steps give the next state, and `kept` rows after it.
void check_body_count(std::size_t state, std::size_t kept, std::size_t given, Loc loc) {
  check_count("while_loop", state + kept, given,
              kept > 0 ? "the state and what is kept of a step are" : "the state", "the body", loc);
}

void check_same(std::string_view construct, const Types& expected, const Types& given,
                std::string_view expected_by, std::string_view given_by, Loc loc) {
  check_count(construct, expected.size(), given.size(), expected_by, given_by, loc);
  const RegionEvaluator* const region = current_region();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (region ? region->is_one_type(expected[i], given[i]) : expected[i].same_as(given[i]))
      continue;
    const std::string message = fmt::format(
        "{}: tensor {} is {} by {} but {} by {}; they must have one dtype and shape", construct, i,
        to_string(expected[i]), expected_by, to_string(given[i]), given_by);
    if (expected[i].dtype() != given[i].dtype()) throw DTypeError(message, loc);
    throw ShapeError(message, loc);
  }
}

/// A recording of these steps depends on their states having the same sizes, which check_same()
/// looked at.
void guard_same_sizes(std::span<const Tensor> states, std::span<const Tensor> next) {
  if (Evaluator::is_eager()) return;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Shape &before = shape_of(states[i]), &after = shape_of(next[i]);
    for (std::size_t axis = 0; axis < before.size(); ++axis)
      static_cast<void>(before[axis] == after[axis]);
  }
}

void check_condition(std::string_view construct, const Type& type, Loc loc) {
  if (type.dtype() != boolean) {
    throw DTypeError(
        fmt::format("{}: the condition must be a bool scalar but is {}; compare, as in "
                    "x > 0",
                    construct, to_string(type)),
        loc);
  }
  if (type.rank() != 0) {
    throw ShapeError(fmt::format("{}: the condition must be a bool scalar but is {}; reduce it, as "
                                 "in mean(x) > 0",
                                 construct, to_string(type)),
                     loc);
  }
}

Ref<Attrs> no_attrs() {
  const NoAttrs none;
  return Attrs::copy_of(attrs_info<NoAttrs>, &none);
}

/// The length of the slices' first axes, which must agree.
Dim scan_length(std::span<const Tensor> xs, Loc loc) {
  if (xs.empty()) throw ValueError("scan: there is no tensor to scan", loc);
  for (const Tensor& x : xs) {
    if (x.rank() == 0) {
      throw ShapeError(fmt::format("scan: {} has no first axis to scan", type_string(x)), loc);
    }
    // By size(), which a recording keeps as a guard: it repeats the body so often.
    if (!(x.size(0, loc) == xs[0].size(0, loc))) {
      throw ShapeError(fmt::format("scan: the first axes must agree, but {} has {} and {} has {}",
                                   type_string(xs[0]), size_text(xs[0].size(0, loc)),
                                   type_string(x), size_text(x.size(0, loc))),
                       loc);
    }
  }
  return xs[0].size(0, loc);
}

/// What the body of a loop makes, found by recording it: with the symbols of the recording around,
/// if there is one, or with the sizes at hand.
Types body_types(std::string_view construct, const TensorFunction& body,
                 std::span<const Tensor> carries, std::span<const Tensor> xs, bool symbols,
                 Loc loc) {
  const auto shape = [&](const Tensor& x) { return symbols ? shape_of(x) : x.impl()->shape; };
  Types parameters;
  for (const Tensor& x : carries) parameters.emplace_back(x.dtype(), shape(x));
  for (const Tensor& x : xs) parameters.push_back(without_first_axis({x.dtype(), shape(x)}));
  Captures captures;
  RegionEvaluator region(construct, captures);
  if (symbols) region.ask_around();
  region.record(body, parameters, loc);
  return types_of(region.graph()->outputs());
}

/// The same of a loop of no steps, whose body does not run.
Types types_of_no_steps(std::string_view construct, const TensorFunction& body,
                        std::span<const Tensor> carries, std::span<const Tensor> xs, Loc loc) {
  try {
    return body_types(construct, body, carries, xs, true, loc);
  } catch (const Error&) {
    // Of a recording the error would name symbols where eager execution names numbers.
    if (&Evaluator::current() != &EagerEvaluator::instance()) {
      static_cast<void>(body_types(construct, body, carries, xs, false, loc));
    }
    throw;
  }
}

/// Rows that steps made, as one tensor for each of them.
std::vector<Tensor> stacked_rows(std::vector<std::vector<Tensor>> rows, Loc loc) {
  std::vector<Tensor> stacks;
  for (std::vector<Tensor>& each : rows) {
    stacks.push_back(stack(each, 0, loc));
    each.clear();
  }
  return stacks;
}

/// Those of no step.
std::vector<Tensor> stacks_of_no_rows(std::span<const Type> rows, Dim length, Loc loc) {
  std::vector<Tensor> stacks;
  for (const Type& row : rows) {
    const Type none = stacked(row, length);
    stacks.push_back(zeros(none.shape(), none.dtype(), loc));
  }
  return stacks;
}

std::vector<Tensor> scan_eagerly(const TensorFunction& body, std::span<const Tensor> carries,
                                 std::span<const Tensor> xs, Dim length, Loc loc) {
  RecordedLoop loop(kScanOp, xs, length, loc);
  const std::int64_t steps = loop.steps();
  std::vector<Tensor> carry = begin_states(carries, loc), slices;
  const std::vector<Tensor> rows = loop.to_slice(xs);
  std::vector<std::vector<Tensor>> ys;
  for (std::int64_t t = 0; t < steps; ++t) {
    loop.begin_step(carry);
    std::vector<Tensor> arguments = carry;
    for (const Tensor& x : rows) arguments.push_back(select(x, 0, t, loc));
    loop.end_slicing(std::span<const Tensor>(arguments).subspan(carry.size()));
    const std::vector<Tensor> results = body(arguments);
    const std::span<const Tensor> next(results.data(), std::min(results.size(), carry.size()));
    check_same("scan", types_of(carries), types_of(next), "init", "the body", loc);
    guard_same_sizes(carry, next);
    carry.assign(next.begin(), next.end());
    slices.assign(results.begin() + static_cast<std::ptrdiff_t>(carry.size()), results.end());
    loop.end_body(slices);
    ys.resize(slices.size());
    for (std::size_t i = 0; i < ys.size(); ++i) ys[i].push_back(slices[i]);
  }
  if (steps == 0) {
    const Types types = types_of_no_steps("scan", body, carries, xs, loc);
    carry = joined(carry, stacks_of_no_rows(std::span(types).subspan(carry.size()), length, loc));
  }
  carry = joined(carry, stacked_rows(std::move(ys), loc));
  loop.end(carry, slices);
  return carry;
}

/// What both regions give: where they differ in a size that data tell in one of them, it is one
/// that only a run of the cond tells.
Types joined_types(const RegionEvaluator& then, const RegionEvaluator& otherwise, Loc loc) {
  Types types = types_of(then.graph()->outputs()), others = types_of(otherwise.graph()->outputs());
  for (std::size_t i = 0; i < std::min(types.size(), others.size()); ++i) {
    if (types[i].rank() != others[i].rank()) continue;
    Shape shape = types[i].shape(), other = others[i].shape();
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (then.is_of_data(shape[axis]) || otherwise.is_of_data(other[axis])) {
        shape[axis] = other[axis] = unknown_size();
      }
    }
    types[i] = Type(types[i].dtype(), shape);
    others[i] = Type(others[i].dtype(), other);
  }
  check_same("cond", types, others, "the first function", "the second function", loc);
  return types;
}

}  // namespace

std::vector<Tensor> run_cond(const Tensor& pred, const TensorFunction& then,
                             const TensorFunction& otherwise, std::span<const Tensor> given,
                             Loc loc) {
  loc = loc.user();
  const std::vector<Tensor> operands = as_tensors("cond", given, loc);
  std::vector<Tensor> inputs = as_tensors("cond", {&pred, 1}, loc);
  check_condition("cond", type_of(inputs[0]), loc);
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  const GraphOfCall recording(inputs);
  if (!recording.evaluator()) {
    RecordedBranch branch(inputs[0], loc);
    const bool is_true = Evaluator::current().read_bool(pred, loc);
    branch.begin(is_true);
    std::vector<Tensor> results = is_true ? then(operands) : otherwise(operands);
    branch.end(results);
    return results;
  }
  register_control_ops();
  Captures captures;
  GraphEvaluator* const into = recording.evaluator();
  RegionEvaluator then_region("cond", captures, into), else_region("cond", captures, into);
  then_region.record(then, types_of(operands), loc);
  else_region.record(otherwise, types_of(operands), loc);
  Types types = joined_types(then_region, else_region, loc);
  into->bind_unknown_sizes(types);
  return append_control(*into, kCondOp, no_attrs(), joined(inputs, captures.tensors()),
                        {then_region.finish(), else_region.finish()}, types, loc);
}

std::vector<Tensor> run_while(const TensorFunction& condition, const TensorFunction& body,
                              std::span<const Tensor> given, Loc loc, std::size_t kept) {
  loc = loc.user();
  std::vector<Tensor> state = as_tensors("while_loop", given, loc);
  const Types types = types_of(state);
  const GraphOfCall recording(state);
  if (!recording.evaluator()) {
    RecordedLoop loop(kWhileOp, {}, {}, loc);
    state = begin_states(state, loc);
    std::vector<std::vector<Tensor>> rows(kept);
    for (;;) {
      loop.begin_step(state);
      {
        const Tensor go_on = condition(state)[0];
        check_condition("while_loop", type_of(go_on), loc);
        loop.end_condition(go_on);
        if (!Evaluator::current().read_bool(go_on, loc)) break;
      }
      std::vector<Tensor> next = body(state);
      check_body_count(state.size(), kept, next.size(), loc);
      for (; next.size() > state.size(); next.pop_back()) {
        rows[next.size() - state.size() - 1].push_back(next.back());
      }
      check_same("while_loop", types, types_of(next), "the state", "the body", loc);
      guard_same_sizes(state, next);
      state = std::move(next);
      loop.end_body();
    }
    loop.end(state);
    if (kept == 0) return state;
    if (!rows[0].empty()) return joined(state, stacked_rows(std::move(rows), loc));
    const Types made = types_of_no_steps("while_loop", body, state, {}, loc);
    return joined(state, stacks_of_no_rows(std::span(made).last(kept), 0, loc));
  }
  register_control_ops();
  Captures captures;
  RegionEvaluator condition_region("while_loop", captures, recording.evaluator()),
      body_region("while_loop", captures, recording.evaluator());
  condition_region.record(condition, types, loc);
  check_condition("while_loop", condition_region.graph()->outputs()[0].type(), loc);
  body_region.record(body, types, loc);
  Types next = types_of(body_region.graph()->outputs());
  check_body_count(state.size(), kept, next.size(), loc);
  const Types rows(next.end() - static_cast<std::ptrdiff_t>(kept), next.end());
  next.resize(state.size());
  check_same("while_loop", types, next, "the state", "the body", loc);
  Types results = types;
  if (kept > 0) {
    Types steps{Type(i64, {unknown_size()})};
    recording.evaluator()->bind_unknown_sizes(steps);
    for (const Type& row : rows) results.push_back(stacked(row, steps[0].shape()[0]));
  }
  return append_control(*recording.evaluator(), kWhileOp, loop_attrs(state.size(), 0),
                        joined(state, captures.tensors()),
                        {condition_region.finish(), body_region.finish()}, std::move(results), loc);
}

std::vector<Tensor> run_scan(const TensorFunction& body, std::span<const Tensor> init,
                             std::span<const Tensor> slices, Loc loc) {
  loc = loc.user();
  const std::vector<Tensor> carries = as_tensors("scan", init, loc);
  const std::vector<Tensor> xs = as_tensors("scan", slices, loc);
  const std::vector<Tensor> inputs = joined(carries, xs);
  const Dim length = scan_length(xs, loc);
  const GraphOfCall recording(inputs);
  if (!recording.evaluator()) return scan_eagerly(body, carries, xs, length, loc);

  register_control_ops();
  Types parameters = types_of(carries);
  for (const Type& type : types_of(xs)) parameters.push_back(without_first_axis(type));
  Captures captures;
  RegionEvaluator region("scan", captures, recording.evaluator());
  region.record(body, parameters, loc);
  Types types = types_of(region.graph()->outputs());
  check_same("scan", types_of(carries),
             Types(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(
                                                      std::min(types.size(), carries.size()))),
             "init", "the body", loc);
  for (std::size_t i = carries.size(); i < types.size(); ++i) {
    types[i] = stacked(types[i], length);
  }
  return append_control(*recording.evaluator(), kScanOp, loop_attrs(carries.size(), xs.size()),
                        joined(inputs, captures.tensors()), {region.finish()}, types, loc);
}

}  // namespace dyad::exec
