#include "dyad/exec/part_writer.h"

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_flow_region.h"
#include "dyad/exec/control_node.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"
#include "dyad/passes/peephole.h"

namespace dyad::exec {

void PartWriter::append(Node& node) {
  const Evaluator::Scope current(evaluator_);
  const std::vector<Reach> inputs = reached_.of_inputs(node);
  std::vector<Value> outputs;
  for (int i = 0; i < static_cast<int>(node.types().size()); ++i) outputs.push_back(node.output(i));
  const bool is_left_out =
      outputs.empty() ? !inputs.empty() && std::ranges::max(inputs) == Reach::missing
                      : std::ranges::all_of(outputs, [&](Value v) { return is_missing(v); });
  if (is_left_out) return;
  const bool is_reached = std::ranges::find(inputs, Reach::given) != inputs.end();
  if (is_reached && &node.op() == &kScanOp) return append_scan(node);
  if (const Value left = is_reached ? left_of_sum(node) : Value()) {
    now_.emplace(node.output(), left);
    return;
  }
  std::vector<Value> here;
  for (const Value& input : node.inputs()) here.push_back(now_or_zeros(input, node.loc()));
  Node& made = append_copy(node, here);
  if (is_reached && &node.op() == &kCondOp) {
    for (std::size_t way = 0; way < 2; ++way)
      made.set_region(way, region(*node.regions()[way], std::span(inputs).subspan(1), nullptr));
  } else if (is_reached && &node.op() == &kWhileStatesOp) {
    made.set_region(2, region(*node.regions()[2], inputs, nullptr));
  }
}

Value PartWriter::now_or_zeros(const Value& value, Loc loc) {
  if (!value) return {};
  return is_missing(value) ? written(zeros_of(value.type(), loc), loc) : now(value);
}

/// Of a sum of gradients of which one does not come: the other one, or nothing.
Value PartWriter::left_of_sum(const Node& node) const {
  if (!node.is("add")) return {};
  const Value a = node.inputs()[0], b = node.inputs()[1];
  const auto is_nothing = [&](const Value& v) { return reached_.in(node, v) == Reach::missing; };
  if (is_nothing(a) || is_nothing(b)) {
    const Value left = is_nothing(a) ? b : a;
    const bool is_whole = left.type().same_as(node.types()[0]) && !is_missing(left);
    return is_whole ? now(left) : Value();
  }
  // Several slices of a gradient lie side by side, plus 0; a single one has zeros around it.
  if (!a.node->is("concat") || passes::number_of(b) != 0.0) return {};
  const auto is_given = [&](const Value& part) { return reached_[part] == Reach::given; };
  const auto parts = a.node->inputs();
  const bool is_single = std::ranges::count_if(parts, is_given) == 1;
  const bool any_missing =
      std::ranges::any_of(parts, [&](const Value& part) { return is_missing(part); });
  return is_single && any_missing ? now(a) : Value();
}

void PartWriter::append_scan(Node& scan) {
  const GraphImpl& body = *scan.regions()[0];
  const std::size_t states = states_of(scan);
  const Loc loc = scan.loc();
  std::vector<Reach> inputs = reached_.of_inputs(scan);
  std::vector<Value> here;
  for (const Value& input : scan.inputs()) here.push_back(now_or_zeros(input, loc));
  std::vector<std::vector<Tensor>> rows(body.outputs().size());  // of the steps before the loop
  LoopSteps apart;
  if (states < scan.inputs().size()) apart.length = scan.inputs()[states].type().shape()[0];
  const std::optional<std::int64_t> count = apart.in(*sizes_);
  const auto most = count ? std::min(*count, static_cast<std::int64_t>(states)) : 0;
  for (; is_other_at_first(scan, inputs) && apart.before < most; ++apart.before) {
    const std::vector<Value> made = append_first_step(scan, inputs, here);
    const std::vector<Reach> reached = reached_in(body, inputs).of(body.outputs());
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (i < states) {
        here[i] = made[i];
        inputs[i] = reached[i];
      } else {
        rows[i].push_back(unsqueeze(symbolic_tensor(graph_, made[i]), 0, loc));
      }
    }
  }
  apart.is_all = apart.before == count && is_other_at_first(scan, inputs);
  if (apart.before > 0 || apart.is_all) apart_.push_back(apart);
  const bool peeled = apart.before > 0;
  const std::vector<Reach> parameters = in_any_step(scan, inputs);
  const Dim steps = scan.inputs().size() > states ? here[states].type().shape()[0] : Dim(1);
  for (std::size_t i = 0; i < states && !peeled; ++i) {
    // A sum that the loop goes on with; what a step before it lacks is nothing already.
    if (inputs[i] == Reach::missing && parameters[i] == Reach::given)
      here[i] = written(nothing_of(here[i].type(), steps, loc), loc);
  }
  Types types(scan.types().begin(), scan.types().end());
  for (std::size_t i = states; i < types.size(); ++i)
    if (peeled) types[i] = stacked(body.outputs()[i].type(), steps);
  Node* const made = graph_->append(scan.op(), scan.shared_attrs(), here, std::move(types), loc);
  made->add_region(region(body, parameters, &scan));
  for (std::size_t i = 0; i < scan.types().size(); ++i) {
    const Value output = scan.output(static_cast<int>(i));
    Value now = made->output(static_cast<int>(i));
    if (i >= states && peeled) {
      std::vector<Tensor> parts = std::move(rows[i]);
      parts.push_back(symbolic_tensor(graph_, now));
      if (scan.attrs_as<LoopAttrs>().reverse) std::ranges::reverse(parts);
      now = written(assume_shape(concat(parts, 0, loc), output.type().shape(), loc), loc);
    }
    now_.emplace(output, now);
  }
}

std::optional<std::int64_t> LoopSteps::in(const SymbolMap& sizes) const try {
  return evaluate(length, sizes);
} catch (const Error&) {
  return std::nullopt;  // data that the call does not keep told it
}

bool LoopSteps::hold(const SymbolMap& sizes) const {
  const std::optional<std::int64_t> steps = in(sizes);
  return steps && (is_all ? *steps == before : *steps >= before);
}

bool PartWriter::is_other_at_first(const Node& scan, std::span<const Reach> inputs) {
  const GraphImpl& body = *scan.regions()[0];
  const std::size_t states = states_of(scan);
  if (scan.inputs().size() == states) return false;
  const std::vector<Reach> later = in_any_step(scan, {inputs.begin(), inputs.end()});
  const SeedReach reached = reached_in(body, inputs);
  for (std::size_t i = 0; i < states; ++i) {
    if (inputs[i] != Reach::missing || later[i] != Reach::given) continue;
    const Value state = body.placeholders()[i];
    const auto is_it = [&](const Value& value) { return value == state; };
    if (std::ranges::any_of(body.outputs(), is_it)) return true;
    for (const auto& node : body.nodes()) {
      if (std::ranges::none_of(node->inputs(), is_it)) continue;
      const auto is_given = [&](const Value& v) { return reached[v] == Reach::given; };
      if (!node->is("add") || std::ranges::none_of(node->inputs(), is_given)) return true;
    }
  }
  return false;
}

std::vector<Value> PartWriter::append_first_step(const Node& scan, std::span<const Reach> inputs,
                                                 std::vector<Value>& here) {
  const auto& attrs = scan.attrs_as<LoopAttrs>();
  const Loc loc = scan.loc();
  std::vector<Value> arguments = here;
  const std::size_t begin = states_of(scan), end = begin + static_cast<std::size_t>(attrs.slices);
  for (std::size_t i = begin; i < end; ++i) {
    const Tensor all = symbolic_tensor(graph_, here[i]);
    const Dim last = here[i].type().shape()[0] - 1;
    arguments[i] = written(select(all, 0, attrs.reverse ? last : Dim(0), loc), loc);
    here[i] = written(
        attrs.reverse ? slice(all, 0, 0, last, 1, loc) : slice(all, 0, 1, kEnd, 1, loc), loc);
  }
  return inline_region(*region(*scan.regions()[0], inputs, nullptr), graph_, arguments);
}

Node& PartWriter::append_copy(Node& node, std::span<const Value> inputs) {
  Node& made = *graph_->append_copy(node, inputs);
  for (int i = 0; i < static_cast<int>(node.types().size()); ++i)
    now_.emplace(node.output(i), made.output(i));
  return made;
}

Ref<GraphImpl> PartWriter::region(const GraphImpl& of, std::span<const Reach> parameters,
                                  const Node* scan) {
  PartWriter writer(reached_in(of, parameters), *sizes_);
  const Evaluator::Scope current(writer.evaluator_);
  for (const Value& parameter : of.placeholders()) writer.append_copy(*parameter.node, {});
  for (const auto& node : of.nodes()) {
    if (!node->is("placeholder")) writer.append(*node);
  }
  for (std::size_t i = 0; i < of.outputs().size(); ++i) {
    const Value& output = of.outputs()[i];
    const Loc loc = output.node->loc();
    Value now;
    if (!writer.is_missing(output)) {
      now = writer.now(output);
    } else if (scan && i < states_of(*scan) && parameters[i] != Reach::given) {
      now = writer.now(of.placeholders()[i]);  // nobody looks at it: it stays as it is
    } else {
      now = writer.written(nothing_of(output.type(), loc), loc);
    }
    writer.graph_->outputs().push_back(now);
  }
  apart_.insert(apart_.end(), writer.apart_.begin(), writer.apart_.end());
  return writer.graph_;
}

}  // namespace dyad::exec
