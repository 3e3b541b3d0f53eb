#include <limits>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/onnx/graph_writer.h"

// Control flow: regions become subgraphs that see the names outside, so captured tensors need no
// passing in.

namespace dyad::onnx {
namespace {

pb::GraphProto& add_subgraph(pb::NodeProto& node, std::string_view attribute,
                             const std::string& name) {
  pb::AttributeProto& proto = *node.add_attribute();
  proto.set_name(std::string(attribute));
  proto.set_type(pb::AttributeProto::GRAPH);
  proto.mutable_g()->set_name(name);
  return *proto.mutable_g();
}

}  // namespace

void GraphWriter::write_control() {
  if (&node_->op() == &exec::kCondOp) return write_cond();
  if (&node_->op() == &exec::kWhileOp) return write_while();
  if (&node_->op() == &exec::kScanOp) return write_scan();
  if (&node_->op() == &exec::kWhileStatesOp) return write_while_states();
  fail("it has no counterpart in ONNX");
}

void GraphWriter::finish_region(const GraphImpl& region, std::string_view hint) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < region.outputs().size(); ++i) names.push_back(context_.fresh(hint));
  add_outputs(region.outputs(), names);
}

void GraphWriter::write_cond() {
  const std::vector<std::string> inputs = names_of(node_->inputs());
  pb::NodeProto& proto = add_node("If", std::span(inputs).first(1), {});
  constexpr std::string_view kBranches[] = {"then_branch", "else_branch"};
  for (std::size_t i = 0; i < 2; ++i) {
    const GraphImpl& region = *node_->regions()[i];
    GraphWriter branch(context_, add_subgraph(proto, kBranches[i], context_.fresh(kBranches[i])),
                       this);
    branch.bind_all(region, 0, std::span(inputs).subspan(1));
    branch.write_nodes(region, region.outputs());
    branch.finish_region(region, proto.name() + (i == 0 ? "_then" : "_else"));
  }
  add_results(proto);
}

std::vector<std::string> GraphWriter::loop(const std::string& most, const std::string& begins,
                                           std::span<const std::string> states,
                                           const GraphImpl& body, std::span<const Value> rows,
                                           const StepWriter& write_step) {
  std::vector<std::string> inputs{most, begins};
  inputs.insert(inputs.end(), states.begin(), states.end());
  pb::NodeProto& proto = add_node("Loop", inputs, {});
  GraphWriter step(context_, add_subgraph(proto, "body", context_.fresh("body")), this);
  const std::string number = step.add_input("step", Type(DType::i64, {})),
                    runs = step.add_input("go_on", Type(DType::boolean, {}));
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Value state = body.placeholders()[i];
    step.bind(state, step.add_input("state", state.type()));
  }
  std::vector<std::string> made{write_step(step, number, runs)};
  Types types{Type(DType::boolean, {})};
  std::vector<std::string> names{context_.fresh(proto.name() + "_go_on")}, results;
  const auto give = [&](Value value, std::string_view hint) {
    made.push_back(step.name_of(value));
    types.push_back(value.type());
    names.push_back(context_.fresh(proto.name() + std::string(hint)));
    results.push_back(context_.fresh(proto.name() + "_out"));
    proto.add_output(results.back());
    context_.set_dtype(results.back(), real_dtype(value.type().dtype()));
  };
  for (const Value state : std::span(body.outputs()).first(states.size())) give(state, "_next");
  for (const Value row : rows) give(row, "_row");
  step.finish(made, types, names);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string& stack = results[states.size() + i];
    stack = with_sizes_of_rows(stack, rows[i].type().shape());
  }
  return results;
}

/// Of no steps a runtime knows no open sizes, and gives 0 for them.
std::string GraphWriter::with_sizes_of_rows(const std::string& stack, const Shape& row) {
  if (row.is_concrete()) return stack;
  std::vector<std::string> sizes{size_along(stack, 0)};
  for (const Dim size : row) sizes.push_back(size_of_dim(size));
  return node("Reshape", {stack, node("Concat", std::move(sizes), {{"axis", std::int64_t{0}}})},
              {});
}

/// ONNX asks before the first step with a value, and after each step with an output of the body: so
/// the condition is written twice, before the loop and at the end of the body.
std::vector<std::string> GraphWriter::repeat(std::span<const std::string> states,
                                             std::span<const std::string> captures,
                                             bool keeps_states) {
  const GraphImpl &condition = *node_->regions()[0], &body = *node_->regions()[1];
  const std::size_t count = states.size();
  GraphWriter first(context_, graph_, this);
  first.bind_all(condition, 0, states);
  first.bind_all(condition, count, captures);
  first.write_nodes(condition, condition.outputs());
  const auto write_step = [&](GraphWriter& step, const std::string&, const std::string&) {
    step.bind_all(body, count, captures);
    step.write_nodes(body, body.outputs());
    GraphWriter again(context_, step.graph_, &step);
    again.bind_all(condition, 0, step.names_of(std::span(body.outputs()).first(count)));
    again.bind_all(condition, count, captures);
    again.write_nodes(condition, condition.outputs());
    return again.name_of(condition.outputs()[0]);
  };
  const std::span<const Value> rows = keeps_states ? std::span(body.placeholders()).first(count)
                                                   : std::span(body.outputs()).subspan(count);
  return loop("", first.name_of(condition.outputs()[0]), states, body, rows, write_step);
}

/// What the steps keep comes after the rows that the loop is given of it.
void GraphWriter::write_while() {
  const auto& attrs = node_->attrs_as<exec::LoopAttrs>();
  const std::vector<std::string> inputs = names_of(node_->inputs());
  const std::span<const std::string> all(inputs);
  const auto states = static_cast<std::size_t>(attrs.states),
             slices = static_cast<std::size_t>(attrs.slices);
  std::vector<std::string> results =
      repeat(all.first(states), all.subspan(states + slices), /*keeps_states=*/false);
  for (std::size_t i = 0; i < slices; ++i) {
    std::string& rows = results[states + i];
    rows = node("Concat", {inputs[states + i], rows}, {{"axis", std::int64_t{0}}});
  }
  for (std::size_t i = 0; i < results.size(); ++i) output(static_cast<int>(i), results[i]);
}

/// The loop, which keeps its states, and then what is computed from all of them.
void GraphWriter::write_while_states() {
  const auto& attrs = node_->attrs_as<exec::WhileStatesAttrs>();
  const std::vector<std::string> inputs = names_of(node_->inputs());
  const std::span<const std::string> all(inputs);
  const auto states = static_cast<std::size_t>(attrs.states);
  const std::vector<std::string> made =
      repeat(all.first(states), all.subspan(states, static_cast<std::size_t>(attrs.captures)),
             /*keeps_states=*/true);
  const GraphImpl& region = *node_->regions()[2];
  GraphWriter after(context_, graph_, this);
  after.bind_all(region, 0, std::span(made).subspan(states));
  after.bind_all(region, states, all.subspan(states));
  after.write_nodes(region, region.outputs());
  for (std::size_t i = 0; i < region.outputs().size(); ++i) {
    output(static_cast<int>(i), after.name_of(region.outputs()[i]));
  }
}

void GraphWriter::write_scan() {
  const auto& attrs = node_->attrs_as<exec::LoopAttrs>();
  const std::vector<std::string> inputs = names_of(node_->inputs());
  const auto fixed = static_cast<std::size_t>(attrs.states + attrs.slices);
  const GraphImpl& body = *node_->regions()[0];
  const auto results = static_cast<std::int64_t>(body.outputs().size()) - attrs.states;
  const auto states = static_cast<std::size_t>(attrs.states);
  if (!is_of_inputs(node_->inputs()[states].type().shape()[0])) return write_scan_by_numbers();

  OnnxAttrs options{{"num_scan_inputs", attrs.slices}};
  if (attrs.reverse) {
    const auto backwards = [](std::int64_t count) {
      return std::vector<std::int64_t>(static_cast<std::size_t>(count), 1);
    };
    options.emplace_back("scan_input_directions", backwards(attrs.slices));
    if (results > 0) options.emplace_back("scan_output_directions", backwards(results));
  }
  pb::NodeProto& proto = add_node("Scan", std::span(inputs).first(fixed), options);
  GraphWriter step(context_, add_subgraph(proto, "body", context_.fresh("body")), this);
  for (std::size_t i = 0; i < fixed; ++i) {
    const Value parameter = body.placeholders()[i];
    step.bind(parameter, step.add_input(i < states ? "state" : "slice", parameter.type()));
  }
  step.bind_all(body, fixed, std::span(inputs).subspan(fixed));
  step.write_nodes(body, body.outputs());
  step.finish_region(body, proto.name() + "_step");
  add_results(proto);
}

/// A Loop that picks its slices. Where data tell the length it may be 0, which ONNX Runtime's Scan
/// refuses.
void GraphWriter::write_scan_by_numbers() {
  const auto& attrs = node_->attrs_as<exec::LoopAttrs>();
  const std::vector<std::string> inputs = names_of(node_->inputs());
  const std::span<const std::string> all(inputs);
  const auto states = static_cast<std::size_t>(attrs.states),
             fixed = states + static_cast<std::size_t>(attrs.slices);
  const GraphImpl& body = *node_->regions()[0];
  const std::string length = size(node_->inputs()[states].type().shape()[0]);
  const auto write_step = [&](GraphWriter& step, const std::string& number,
                              const std::string& runs) {
    const std::string at =
        attrs.reverse
            ? step.node("Sub", {step.node("Sub", {length, context_.integer(1)}, {}), number}, {})
            : number;
    for (std::size_t i = states; i < fixed; ++i) {
      step.bind(body.placeholders()[i],
                step.node("Gather", {inputs[i], at}, {{"axis", std::int64_t{0}}}));
    }
    step.bind_all(body, fixed, all.subspan(fixed));
    step.write_nodes(body, body.outputs());
    return runs;
  };
  std::vector<std::string> results = loop(length, "", all.first(states), body,
                                          std::span(body.outputs()).subspan(states), write_step);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (attrs.reverse && i >= states) {
      const auto number = [&](std::int64_t value) { return context_.integers({&value, 1}); };
      results[i] = node("Slice",
                        {results[i], number(-1), number(std::numeric_limits<std::int64_t>::min()),
                         number(0), number(-1)},
                        {});
    }
    output(static_cast<int>(i), results[i]);
  }
}

std::vector<std::string> GraphWriter::walk(const OnnxWalk& walk) {
  std::vector<std::string> inputs;
  for (const auto& [name, type] : walk.states) inputs.push_back(name);
  inputs.push_back(walk.x);
  const std::vector<std::int64_t> axes(walk.results.size(), walk.axis),
      directions(walk.results.size(), walk.reverse ? 1 : 0);
  pb::NodeProto& proto =
      add_node("Scan", inputs,
               {{"num_scan_inputs", std::int64_t{1}},
                {"scan_input_axes", std::vector<std::int64_t>{walk.axis}},
                {"scan_input_directions", std::vector<std::int64_t>{walk.reverse ? 1 : 0}},
                {"scan_output_axes", axes},
                {"scan_output_directions", directions}});
  GraphWriter step(context_, add_subgraph(proto, "body", context_.fresh("body")), this);
  step.node_ = node_;
  const auto input = [&](std::string_view hint, const Type& type) {
    std::string name = step.add_input(hint, type);
    context_.set_dtype(name, type.dtype());
    return name;
  };
  std::vector<std::string> states;
  Types types;
  for (const auto& [name, type] : walk.states) {
    states.push_back(input("state", type));
    types.push_back(type);
  }
  const std::string slice = input("slice", walk.slice);
  const std::vector<std::string> made = walk.step(step, states, slice);
  types.insert(types.end(), walk.results.begin(), walk.results.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < types.size(); ++i) {
    names.push_back(context_.fresh(proto.name() + "_step"));
  }
  step.finish(made, types, names);
  std::vector<std::string> results;
  for (std::size_t i = 0; i < types.size(); ++i) {
    results.push_back(context_.fresh(proto.name() + "_out"));
    proto.add_output(results.back());
    context_.set_dtype(results.back(), types[i].dtype());
  }
  results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(states.size()));
  return results;
}

}  // namespace dyad::onnx
