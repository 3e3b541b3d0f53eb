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

/// ONNX asks before the first step with a value, and after each step with an output of the body: so
/// the condition is written twice, before the loop and at the end of the body.
void GraphWriter::write_while() {
  const GraphImpl &condition = *node_->regions()[0], &body = *node_->regions()[1];
  const std::vector<std::string> inputs = names_of(node_->inputs());
  const auto states = static_cast<std::size_t>(node_->attrs_as<exec::LoopAttrs>().states);
  if (node_->types().size() > states) fail("it keeps what its steps made, for a gradient");
  const auto captures = std::span(inputs).subspan(states);

  GraphWriter first(context_, graph_, this);
  first.bind_all(condition, 0, inputs);
  first.write_nodes(condition, condition.outputs());

  std::vector<std::string> loop_inputs{"", first.name_of(condition.outputs()[0])};
  loop_inputs.insert(loop_inputs.end(), inputs.begin(),
                     inputs.begin() + static_cast<std::ptrdiff_t>(states));
  pb::NodeProto& proto = add_node("Loop", loop_inputs, {});
  pb::GraphProto& graph = add_subgraph(proto, "body", context_.fresh("body"));
  GraphWriter step(context_, graph, this);
  step.add_input("step", Type(DType::i64, {}));
  step.add_input("go_on", Type(DType::boolean, {}));
  for (std::size_t i = 0; i < states; ++i) {
    const Value state = body.placeholders()[i];
    step.bind(state, step.add_input("state", state.type()));
  }
  step.bind_all(body, states, captures);
  step.write_nodes(body, body.outputs());

  const std::vector<std::string> next = step.names_of(body.outputs());
  GraphWriter again(context_, graph, &step);
  again.bind_all(condition, 0, next);
  again.bind_all(condition, states, captures);
  again.write_nodes(condition, condition.outputs());

  std::vector<std::string> made{again.name_of(condition.outputs()[0])};
  Types types{condition.outputs()[0].type()};
  std::vector<std::string> names{context_.fresh(proto.name() + "_go_on")};
  for (std::size_t i = 0; i < states; ++i) {
    made.push_back(next[i]);
    types.push_back(body.outputs()[i].type());
    names.push_back(context_.fresh(proto.name() + "_next"));
  }
  step.finish(made, types, names);
  add_results(proto);
}

void GraphWriter::write_scan() {
  const auto& attrs = node_->attrs_as<exec::LoopAttrs>();
  const std::vector<std::string> inputs = names_of(node_->inputs());
  const auto fixed = static_cast<std::size_t>(attrs.states + attrs.slices);
  const GraphImpl& body = *node_->regions()[0];
  const auto results = static_cast<std::int64_t>(body.outputs().size()) - attrs.states;

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
    const bool is_state = i < static_cast<std::size_t>(attrs.states);
    step.bind(parameter, step.add_input(is_state ? "state" : "slice", parameter.type()));
  }
  step.bind_all(body, fixed, std::span(inputs).subspan(fixed));
  step.write_nodes(body, body.outputs());
  step.finish_region(body, proto.name() + "_step");
  add_results(proto);
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
