#include "dyad/onnx/graph_writer.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "dyad/autograd/expansion_evaluator.h"
#include "dyad/base/error.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/program_writer.h"

namespace dyad::onnx {
namespace {

/// Ends the writing of one operator; the writer notes it and goes on, to report all at once.
struct CannotWrite {
  std::string reason;
};

/// The dtype that a pointwise operator computes in.
DType compute_dtype(const Node& node) {
  bool any = false;
  DType promoted = DType::boolean;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const Value input = node.inputs()[i];
    if (!input || !takes_part_in_promotion(*input_info(node.op(), i))) continue;
    promoted = any ? promote(promoted, input.type().dtype()) : input.type().dtype();
    any = true;
  }
  const bool to_float = node.op().typing == Typing::floating && !is_floating(promoted);
  return to_float ? DType::f32 : promoted;
}

/// What ONNX's operator takes, for those that take less than Dyad's in some opset from 17 on.
DTypeSet dtypes_of(std::string_view op) {
  constexpr DTypeSet kBrain = set_of(DType::bf16);
  if (op == "Pow") return kFloat | kIndex;
  if (op == "Neg" || op == "Relu") return kNumber & ~kUnsigned;
  constexpr std::string_view kAngles[] = {"Sin",  "Cos",  "Tan",   "Asin",  "Acos", "Atan",
                                          "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"};
  if (std::ranges::find(kAngles, op) != std::end(kAngles)) return kFloat & ~kBrain;
  if (op.starts_with("Less") || op.starts_with("Greater")) return kNumber;
  return kAny;
}

/// The opset that brought a dtype.
int first_opset(DType dtype) {
  if (dtype == DType::i2 || dtype == DType::u2) return 25;
  if (dtype == DType::f8e8m0) return 24;
  if (dtype == DType::f4e2m1) return 23;
  if (contains(kSmallInteger, dtype)) return 21;
  return contains(kFloat8, dtype) ? 19 : 1;
}

/// A dtype of `allowed` that holds every value of `dtype`.
DType widened(DType dtype, DTypeSet allowed) {
  if (contains(allowed, dtype)) return dtype;
  if (is_floating(dtype) || contains(kSmallFloat, dtype)) return DType::f32;
  const bool narrow = dtype == DType::i32 || size_of(dtype) < size_of(DType::i32);
  return contains(allowed, DType::i32) && narrow ? DType::i32 : DType::i64;
}

/// The nodes that the values need. Of what an `after` node comes after, ONNX can say writes alone:
/// its sizes need no checks, each of its nodes makes its own.
std::unordered_set<const Node*> needed_by(std::span<const Value> roots) {
  std::unordered_set<const Node*> found;
  std::vector<const Node*> pending;
  for (const Value root : roots) pending.push_back(root.node);
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!found.insert(node).second) continue;
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      const Value input = node->inputs()[i];
      if (!input) continue;
      const bool is_check = i > 0 && &node->op() == &kAfterOp && &input.node->op() != &kAssignOp;
      if (!is_check) pending.push_back(input.node);
    }
  }
  return found;
}

/// Replaces a value's name wherever the graph and its subgraphs mention it.
void rename(pb::GraphProto& graph, const std::string& from, const std::string& to) {
  const auto replace = [&](auto& names) {
    for (std::string& name : names) {
      if (name == from) name = to;
    }
  };
  for (pb::NodeProto& node : *graph.mutable_node()) {
    replace(*node.mutable_input());
    replace(*node.mutable_output());
    for (pb::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) rename(*attribute.mutable_g(), from, to);
    }
  }
}

void add_property(pb::NodeProto& node, std::string_view key, std::string value) {
  pb::StringStringEntryProto& entry = *node.add_metadata_props();
  entry.set_key(std::string(key));
  entry.set_value(std::move(value));
}

}  // namespace

void GraphWriter::add_inputs(const GraphImpl& graph) {
  for (const Value& placeholder : graph.placeholders()) {
    check_interface(placeholder);
    bind(placeholder,
         add_input(placeholder.node->attrs_as<PlaceholderAttrs>().name, placeholder.type()));
  }
}

void GraphWriter::check_interface(Value value) {
  if (!value.type().is_tensor() || !is_complex(value.type().dtype())) return;
  context_.add_problem(*value.node,
                       "an input or result is " + to_string(value.type()) +
                           ": a model takes and gives the parts, view_as_real() of them");
}

std::string GraphWriter::add_input(std::string_view hint, const Type& type) {
  std::string name = context_.fresh(hint);
  pb::ValueInfoProto& info = *graph_.add_input();
  info.set_name(name);
  fill_type(*info.mutable_type(), type);
  if (outer_ == nullptr) {
    for (const Dim size : type.shape()) collect_symbols(size, input_sizes_);
  }
  return name;
}

void GraphWriter::bind(Value value, const std::string& name) {
  remember_sizes(value.type(), name);
  if (value.type().is_tensor()) context_.set_dtype(name, real_dtype(value.type().dtype()));
  names_.insert_or_assign(value, name);
}

void GraphWriter::bind_all(const GraphImpl& region, std::size_t begin,
                           std::span<const std::string> names) {
  for (std::size_t i = 0; i < names.size(); ++i) bind(region.placeholders()[begin + i], names[i]);
}

const std::string& GraphWriter::name_of(Value value) const {
  for (const GraphWriter* writer = this; writer; writer = writer->outer_) {
    if (auto it = writer->names_.find(value); it != writer->names_.end()) return it->second;
  }
  throw InternalError("onnx::save: a value of " + std::string(value.node->op().name) +
                      " is used before it is written");
}

std::vector<std::string> GraphWriter::names_of(std::span<const Value> values) const {
  std::vector<std::string> names;
  for (const Value value : values) names.push_back(name_of(value));
  return names;
}

void GraphWriter::write_nodes(const GraphImpl& graph, std::span<const Value> roots) {
  const auto needed = needed_by(roots);
  for (const auto& node : graph.nodes()) {
    if (needed.contains(node.get())) write_node(*node);
  }
  node_ = nullptr;
}

void GraphWriter::write_node(Node& node) {
  node_ = &node;
  if (&node.op() == &kPlaceholderOp) return;
  if (&node.op() == &kConstantOp) {
    return bind(node.output(), constant(node.attrs_as<ConstantAttrs>().value));
  }
  if (&node.op() == &kVariableOp) {
    if (names_.contains(node.output())) return;  // an input
    const auto& attrs = node.attrs_as<VariableAttrs>();
    return bind(node.output(), context_.weight(attrs.name, attrs.tensor));
  }
  try {
    write_operator();
  } catch (const CannotWrite& problem) {
    const std::string name(node.op().name);
    context_.add_problem(
        node, (composite_ ? std::string(composite_->op().name) + ", which uses " + name : name) +
                  " (" + to_string(node.loc()) + "): " + problem.reason);
    for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
      bind(node.output(i), context_.fresh("missing"));
    }
  }
}

void GraphWriter::check_dtypes() {
  const OpInfo& op = node_->op();
  const auto check = [&](const Type& type) {
    if (!type.is_tensor()) return;
    if (is_complex(type.dtype()) && op.name != "view_as_real" && op.name != "view_as_complex") {
      fail("ONNX has next to no operators on complex numbers; work on view_as_real() of them");
    }
    if (type.dtype() == DType::string) fail("strings are not written to ONNX models");
    const int since = first_opset(type.dtype());
    if (opset() < since) {
      fail("ONNX has " + std::string(dyad::name_of(type.dtype())) + " from opset " +
           std::to_string(since) + " on");
    }
  };
  for (const Type& type : node_->types()) check(type);
  for (const Value input : node_->inputs()) {
    if (input) check(input.type());
  }
}

void GraphWriter::write_operator() {
  check_dtypes();
  const OpInfo& op = node_->op();
  if (&op == &kAfterOp) return bind(node_->output(), name_of(node_->inputs()[0]));
  if (context_.training() && write_training()) return;
  if (op.kind == BodyKind::control) {
    write_control();
  } else if (op.to_onnx) {
    write_form();
  } else if (!op.onnx.op.empty()) {
    write_by_name();
  } else if (op.expand) {
    write_parts();
  } else if (op.kind == BodyKind::pointwise) {
    write_program(*this, *node_);
  } else if (&op == &kAssignOp) {
    fail(
        "ONNX models have no state to write to; call eval(model) before exporting, return the new "
        "value as a result, or write a training step with save_training()");
  } else {
    fail("it has no counterpart in ONNX");
  }
}

/// In training an operator that is refused otherwise is written by its parts.
void GraphWriter::write_form() {
  const OpInfo& op = node_->op();
  if (!context_.training() || !op.expand) return op.to_onnx(*this, node_->attrs().data());
  try {
    op.to_onnx(*this, node_->attrs().data());
  } catch (const CannotWrite&) {
    write_parts();
  }
}

void GraphWriter::write_by_name() {
  const OnnxName& onnx = node_->op().onnx;
  const bool pointwise = node_->op().kind == BodyKind::pointwise;
  if (opset() < onnx.since) {
    if (pointwise) return write_program(*this, *node_);
    fail("ONNX has it as " + std::string(onnx.op) + " from opset " + std::to_string(onnx.since) +
         " on");
  }
  const DType computed =
      pointwise ? widened(compute_dtype(*node_), dtypes_of(onnx.op)) : DType::f32;
  std::vector<std::string> inputs;
  for (int i = 0; i < input_count(); ++i) {
    const bool promoted =
        pointwise && takes_part_in_promotion(*input_info(node_->op(), static_cast<std::size_t>(i)));
    inputs.push_back(promoted ? cast(input(i), computed) : input(i));
  }
  output(0, node(onnx.op, std::move(inputs), {}));
}

void GraphWriter::write_parts() {
  Node& composite = *node_;
  const Ref<GraphImpl>& parts = context_.keep(make_ref<GraphImpl>());
  autograd::ExpansionEvaluator evaluator(parts);
  std::vector<Tensor> inputs(composite.inputs().size());
  std::vector<const Tensor*> refs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const Value from = composite.inputs()[i]) {
      const Value here =
          parts->add_placeholder("in" + std::to_string(i), from.type(), composite.loc());
      bind(here, name_of(from));
      inputs[i] = symbolic_tensor(parts, here);
    }
    refs.push_back(&inputs[i]);
  }
  std::vector<Value> results;
  {
    const Evaluator::Scope scope(evaluator);
    const LocScope place(composite.loc());
    for (const Tensor& t : composite.op().expand(composite.attrs().data(), refs, composite.loc())) {
      results.push_back(evaluator.value_of(t, nullptr, composite.loc()));
    }
  }
  const Node* const outer = std::exchange(composite_, composite_ ? composite_ : &composite);
  write_nodes(*parts, results);
  composite_ = outer;
  node_ = &composite;
  for (std::size_t i = 0; i < results.size(); ++i) {
    output(static_cast<int>(i), name_of(results[i]));
  }
}

void GraphWriter::add_outputs(std::span<const Value> values, std::span<const std::string> names) {
  Types types;
  for (const Value value : values) types.push_back(value.type());
  finish(names_of(values), types, names);
}

void GraphWriter::finish(std::span<const std::string> made, const Types& types,
                         std::span<const std::string> names) {
  std::unordered_set<std::string> written;
  for (const pb::NodeProto& node : graph_.node()) {
    written.insert(node.output().begin(), node.output().end());
  }
  // A value gets the name of the output; one that is an output already, or comes from elsewhere, a
  // copy.
  std::unordered_map<std::string, std::string> renamed;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto first = renamed.find(made[i]);
    if (first == renamed.end() && written.contains(made[i])) {
      rename(graph_, made[i], names[i]);
      renamed[made[i]] = names[i];
    } else {
      const std::string from = first == renamed.end() ? made[i] : first->second;
      add_node("Identity", {&from, 1}, {}).add_output(names[i]);
    }
    pb::ValueInfoProto& info = *graph_.add_output();
    info.set_name(names[i]);
    fill_type(*info.mutable_type(), types[i]);
  }
}

std::string GraphWriter::input(int i) {
  const Value value = node_->inputs()[static_cast<std::size_t>(i)];
  return value ? name_of(value) : std::string();
}

const Tensor* GraphWriter::constant_input(int i) const {
  const Value value = node_->inputs()[static_cast<std::size_t>(i)];
  if (!value || &value.node->op() != &kConstantOp) return nullptr;
  return &value.node->attrs_as<ConstantAttrs>().value;
}

std::string GraphWriter::operand(int i) { return cast(input(i), compute_dtype(*node_)); }

std::string GraphWriter::input_as(int i, DTypeSet dtypes) {
  const Value value = node_->inputs()[static_cast<std::size_t>(i)];
  return value ? cast(name_of(value), widened(value.type().dtype(), dtypes)) : std::string();
}

void GraphWriter::output(int i, const std::string& value) {
  const Type& type = output_type(i);
  const auto dtype = type.is_tensor() ? context_.dtype_of(value) : std::nullopt;
  // Complex numbers go as their parts.
  bind(node_->output(i), dtype ? cast(value, real_dtype(type.dtype())) : value);
}

/// The dtype of what an ONNX operator gives: that of its first operand, but for a few.
std::optional<DType> GraphWriter::result_dtype(
    std::string_view op, const google::protobuf::RepeatedPtrField<std::string>& inputs) const {
  constexpr std::string_view kTruth[] = {
      "Equal", "Less",  "LessOrEqual", "Greater", "GreaterOrEqual",
      "IsNaN", "IsInf", "Not",         "And",     "Or"};
  if (std::ranges::find(kTruth, op) != std::end(kTruth)) return DType::boolean;
  if (op == "Shape" || op == "ArgMax" || op == "ArgMin") return DType::i64;
  const bool own = op == "Cast" || op.find("QuantizeLinear") != std::string_view::npos ||
                   op == "DequantizeLinear" || op.ends_with("Integer") || op.starts_with("QLinear");
  if (own || inputs.empty()) return {};
  return context_.dtype_of(inputs[op == "Where" ? 1 : 0]);
}

pb::NodeProto& GraphWriter::add_node(std::string_view op, std::span<const std::string> inputs,
                                     const OnnxAttrs& attributes) {
  constexpr std::string_view kMovesSmall[] = {
      "Cast", "Reshape", "Transpose",      "Squeeze", "Unsqueeze", "Identity",        "If",
      "Loop", "Scan",    "QuantizeLinear", "Shape",   "Flatten",   "DequantizeLinear"};
  for (const std::string& input : inputs) {
    const std::optional<DType> dtype = context_.dtype_of(input);
    if (dtype && contains(kSmall, *dtype) &&
        std::ranges::find(kMovesSmall, op) == std::end(kMovesSmall)) {
      fail("ONNX has no " + std::string(op) + " of " + std::string(dyad::name_of(*dtype)) +
           "; convert it first");
    }
  }
  pb::NodeProto& proto = *graph_.add_node();
  proto.set_op_type(std::string(op));
  proto.set_name(context_.fresh(op));
  while (!inputs.empty() && inputs.back().empty()) inputs = inputs.first(inputs.size() - 1);
  for (const std::string& input : inputs) proto.add_input(input);
  for (const auto& [name, value] : attributes) fill_attribute(*proto.add_attribute(), name, value);
  if (node_) {
    if (node_->loc()) add_property(proto, "dyad.source", to_string(node_->loc()));
    add_property(proto, "dyad.operator", std::string((composite_ ? composite_ : node_)->op().name));
  }
  return proto;
}

void GraphWriter::add_results(pb::NodeProto& proto) {
  for (std::size_t i = 0; i < node_->types().size(); ++i) {
    const std::string name = context_.fresh(proto.name() + "_out");
    proto.add_output(name);
    output(static_cast<int>(i), name);
  }
}

std::string GraphWriter::node(std::string_view op, std::vector<std::string> inputs,
                              OnnxAttrs attributes) {
  return node_multi(op, std::move(inputs), std::move(attributes), 1)[0];
}

std::vector<std::string> GraphWriter::node_multi(std::string_view op,
                                                 std::vector<std::string> inputs,
                                                 OnnxAttrs attributes, int outputs) {
  pb::NodeProto& proto = add_node(op, inputs, attributes);
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) {
    names.push_back(context_.fresh(proto.name() + "_out"));
    proto.add_output(names.back());
  }
  if (const auto dtype = result_dtype(op, proto.input())) context_.set_dtype(names[0], *dtype);
  return names;
}

std::string GraphWriter::cast(const std::string& value, DType dtype, bool saturate) {
  if (context_.dtype_of(value) == dtype) return value;
  OnnxAttrs attributes{{"to", static_cast<std::int64_t>(to_onnx(dtype))}};
  if (!saturate) attributes.emplace_back("saturate", std::int64_t{0});
  std::string result = node("Cast", {value}, std::move(attributes));
  context_.set_dtype(result, dtype);
  return result;
}

void GraphWriter::fail(const std::string& reason) { throw CannotWrite{reason}; }

}  // namespace dyad::onnx
