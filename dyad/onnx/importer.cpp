#include "dyad/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/eager.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/op_info.h"
#include "dyad/ir/undecided.h"
#include "dyad/onnx/model_reader.h"
#include "dyad/onnx/text_ops.h"
#include "dyad/onnx/unsupported.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/registry.h"

namespace dyad::onnx {
namespace {

/// Calls of functions and subgraphs inside one another.
constexpr int kMaxDepth = 100;
/// The version of ONNX's own operators that is the last one with a meaning known here.
constexpr int kNewestOpset = 27;
/// Integers of an input that may say what a graph does: a shape, axes, a count.
constexpr std::int64_t kMostParameters = 16;
/// ONNX's own domain has two names.
std::string domain_of(const pb::NodeProto& node) {
  return node.domain() == "ai.onnx" ? "" : node.domain();
}

std::map<std::string, int> opsets_of(
    const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports) {
  std::map<std::string, int> opsets;
  for (const pb::OperatorSetIdProto& import : imports) {
    const std::string domain = import.domain() == "ai.onnx" ? "" : import.domain();
    opsets[domain] = static_cast<int>(std::clamp<std::int64_t>(import.version(), 0, 1 << 20));
  }
  return opsets;
}

std::string node_title(const pb::NodeProto& node) {
  if (!node.name().empty()) return fmt::format("\"{}\"", node.name());
  for (const std::string& output : node.output()) {
    if (!output.empty()) return fmt::format("the node of \"{}\"", output);
  }
  return "a node without name";
}

constexpr const char* kNoOperator = "Dyad has no such operator";
constexpr const char* kNoDomain = "the model does not import its domain";

/// Whether the node, or its subgraphs, read what a refused node would give.
bool reads_refused(const pb::NodeProto& node, const ImportScope& scope) {
  const auto is_refused = [&](const std::string& name) {
    const Imported* value = scope.find(name);
    return value != nullptr && value->is_refused;
  };
  if (std::ranges::any_of(node.input(), is_refused)) return true;
  return std::ranges::any_of(node.attribute(), [&](const pb::AttributeProto& attribute) {
    const pb::GraphProto& graph = attribute.g();
    return std::ranges::any_of(graph.node(),
                               [&](const auto& inner) { return reads_refused(inner, scope); }) ||
           std::ranges::any_of(graph.output(),
                               [&](const auto& output) { return is_refused(output.name()); });
  });
}

/// The row of a pointwise operator without attributes that an ONNX operator is exported from: its
/// own rule.
const OpInfo* row_of(std::string_view op) {
  static const std::map<std::string_view, const OpInfo*> rows = [] {
    std::map<std::string_view, const OpInfo*> found;
    for (const OpInfo* row : all_ops()) {
      if (row->onnx.op.empty() || row->attrs != &attrs_info<NoAttrs>) continue;
      if (row->outputs.size() == 1 && row->kind == BodyKind::pointwise) found[row->onnx.op] = row;
    }
    return found;
  }();
  const auto found = rows.find(op);
  return found == rows.end() ? nullptr : found->second;
}

void build_row(const OpInfo& row, NodeImport& node) {
  const std::vector<Tensor> inputs = node.inputs_from(0);
  std::vector<const Tensor*> refs;
  for (const Tensor& input : inputs) refs.push_back(&input);
  Tensor out;
  const NoAttrs none;
  Evaluator::current().apply(row, refs, &none, std::span<Tensor>(&out, 1), node.loc());
  node.output(0, out);
}

struct Builder {
  const ModelRule* model = nullptr;
  const OnnxRule* rule = nullptr;
  const OpInfo* row = nullptr;

  [[nodiscard]] explicit operator bool() const noexcept { return model || rule || row; }
  void operator()(NodeImport& node) const {
    if (model) {
      model->build(node);
    } else if (rule) {
      rule->build(node);
    } else {
      build_row(*row, node);
    }
  }
};

Builder builder_of(const std::string& domain, const std::string& op, int version) {
  Builder found;
  found.model = find_model_rule(domain, op, version);
  if (!found) found.rule = find_onnx_rule(domain, op, version);
  if (!found && domain.empty()) found.row = row_of(op);
  return found;
}

/// Operators whose results are new at each run though nothing enters them.
bool draws_numbers(std::string_view op) {
  return op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial" || op == "Dropout";
}

}  // namespace

std::string refusal(const pb::NodeProto& node, int version, const std::string& reason) {
  const std::string domain = domain_of(node);
  return to_string(NodeUse{.op = domain.empty() ? node.op_type() : domain + "." + node.op_type(),
                           .version = version,
                           .node = node_title(node),
                           .reason = reason});
}

const Imported* ImportScope::find(const std::string& name) const noexcept {
  for (const ImportScope* scope = this; scope != nullptr; scope = scope->outer_) {
    const auto found = scope->values_.find(name);
    if (found != scope->values_.end()) return &found->second;
  }
  return nullptr;
}

bool Imported::is_known() const noexcept {
  if (sequence) {
    return std::ranges::all_of(*sequence, [](const Imported& e) { return e.is_known(); });
  }
  return !tensor.defined() || tensor.is_concrete();
}

Imported sequence_of(std::vector<Imported> elements) {
  Imported made;
  made.sequence = std::make_shared<const std::vector<Imported>>(std::move(elements));
  return made;
}

Imported imported(const Tensor& tensor) {
  Imported made;
  made.tensor = tensor;
  if (tensor.defined() && tensor.is_concrete()) made.constant = tensor;
  return made;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved
bool ImportScope::add(const std::string& name, Imported value) {
  return values_.try_emplace(name, std::move(value)).second;
}

Importer::Importer(const pb::ModelProto& model, std::string file, std::optional<std::string> folder,
                   const LoadOptions& options, Loc loc)
    : model_(model),
      file_(std::move(file)),
      options_(options),
      loc_(loc),
      external_(std::move(folder)),
      opsets_(opsets_of(model.opset_import())) {
  ops::register_builtin_ops();
  exec::register_control_ops();
  register_text_ops();
  for (const pb::FunctionProto& function : model.functions()) {
    const std::string domain = function.domain() == "ai.onnx" ? "" : function.domain();
    functions_.try_emplace({domain, function.name()}, &function);
  }
  if (!model.has_graph()) fail("the file holds no graph; it is no ONNX model");
  if (opsets_.empty()) fail("the model does not say which operator sets it imports");
  check_versions(opsets_);
  for (const pb::FunctionProto& function : model.functions()) {
    check_versions(opsets_of(function.opset_import()));
  }
  set_limits();
  find_functions_that_draw();
}

void Importer::check_versions(const std::map<std::string, int>& opsets) const {
  for (const auto& [domain, newest] : {std::pair("", kNewestOpset), std::pair("ai.onnx.ml", 5)}) {
    const auto found = opsets.find(domain);
    if (found == opsets.end() || found->second <= newest) continue;
    fail(fmt::format(
        "it imports version {} of the operators of {}; versions up to {} are known, and what newer "
        "ones change is not",
        found->second, *domain == 0 ? "ai.onnx" : domain, newest));
  }
}

void Importer::fail(const std::string& message) const {
  throw OnnxError(fmt::format("'{}': {}", file_, message), loc_);
}

int Importer::opset() const {
  const auto found = opsets_.find("");
  return found == opsets_.end() ? 0 : found->second;
}

const pb::FunctionProto* Importer::find_function(const pb::NodeProto& node) const {
  const auto found = functions_.find({domain_of(node), node.op_type()});
  return found == functions_.end() ? nullptr : found->second;
}

void Importer::list_nodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
                          const std::map<std::string, int>& opsets, int depth,
                          std::vector<NodeUse>& uses) const {
  if (depth > kMaxDepth) fail("subgraphs are nested too deeply");
  for (const pb::NodeProto& node : nodes) {
    const std::string domain = domain_of(node);
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) {
        list_nodes(attribute.g().node(), opsets, depth + 1, uses);
      }
    }
    const auto version = opsets.find(domain);
    NodeUse use{.op = domain.empty() ? node.op_type() : domain + "." + node.op_type(),
                .version = version == opsets.end() ? 0 : version->second,
                .node = node_title(node),
                .reason = {}};
    if (find_function(node)) {
      use.is_function = true;
    } else if (version == opsets.end()) {
      use.reason = kNoDomain;
    } else if (!builder_of(domain, node.op_type(), version->second)) {
      use.reason = kNoOperator;
    }
    uses.push_back(std::move(use));
  }
}

std::vector<NodeUse> Importer::nodes() const {
  std::vector<NodeUse> uses;
  list_nodes(model_.graph().node(), opsets_, 0, uses);
  for (const pb::FunctionProto& function : model_.functions()) {
    list_nodes(function.node(), opsets_of(function.opset_import()), 0, uses);
  }
  return uses;
}

std::string to_string(const NodeUse& use) {
  return fmt::format("{} {}, {}: {}", use.op, use.version, use.node, use.reason);
}

std::vector<std::string> Importer::unsupported() const {
  std::vector<std::string> lines;
  for (const NodeUse& use : nodes()) {
    if (!use.reason.empty()) lines.push_back(to_string(use));
  }
  return lines;
}

RefusedNodes Importer::refused(std::vector<std::string> lines) const {
  std::string text =
      fmt::format("{} {} cannot be run:", lines.size(), lines.size() == 1 ? "node" : "nodes");
  constexpr std::size_t kShown = 50;
  for (std::size_t i = 0; i < std::min(lines.size(), kShown); ++i) text += "\n  " + lines[i];
  if (lines.size() > kShown) text += fmt::format("\n  and {} more", lines.size() - kShown);
  return {fmt::format("'{}': {}", file_, text), std::move(lines), loc_};
}

Loc Importer::place_of(const pb::NodeProto& node) {
  const auto [found, added] =
      numbers_.try_emplace(&node, static_cast<std::uint32_t>(numbers_.size() + 1));
  if (added) operators_.push_back(node.op_type());
  return Loc::intern(file_, found->second, node.name());
}

Tensor Importer::operand(const Imported& value) {
  if (!value.tensor.defined() || value.tensor.is_symbolic()) return value.tensor;
  auto* evaluator = dynamic_cast<GraphEvaluator*>(&Evaluator::current());
  if (evaluator == nullptr) return value.tensor;
  Constant& made = constants_[{evaluator->graph().get(), value.tensor.impl()}];
  if (!made.concrete.defined()) {
    // Nobody writes to what the importer holds: weights stay where the file has them.
    const ConstantAttrs attrs{value.tensor};
    Node* const node = evaluator->graph()->append_checked(
        kConstantOp, Attrs::copy_of(attrs_info<ConstantAttrs>, &attrs), {}, loc_);
    made = {value.tensor, symbolic_tensor(evaluator->graph(), node->output())};
  }
  return made.symbolic;
}

void Importer::add_initializers(const pb::GraphProto& graph, std::span<const Tensor> taken,
                                ImportScope& scope) {
  const auto add = [&](const std::string& name, const Tensor& data) {
    Imported value = imported(data);
    auto* evaluator = dynamic_cast<GraphEvaluator*>(&Evaluator::current());
    if (options_.trainable && evaluator != nullptr && is_floating(data.dtype())) {
      value.tensor =
          symbolic_tensor(evaluator->graph(), evaluator->graph()->add_variable(name, data, loc_),
                          /*follows_writes=*/true);
    }
    if (!scope.add(name, std::move(value))) {
      fail(fmt::format("two initializers are called \"{}\"", name));
    }
  };
  std::size_t number = 0;
  const auto is_taken = [&] { return number < taken.size() && taken[number].defined(); };
  for (const pb::TensorProto& tensor : graph.initializer()) {
    add(tensor.name(), is_taken() ? taken[number] : read_tensor(tensor, external_, loc_));
    ++number;
  }
  for (const pb::SparseTensorProto& tensor : graph.sparse_initializer()) {
    add(tensor.values().name(),
        is_taken() ? taken[number] : tensor_of(tensor, /*repeated=*/false, loc_));
    ++number;
  }
}

void Importer::check_value(const std::string& name, const Type& type, const Tensor& value) const {
  bool fits = value.dtype() == type.dtype() && value.rank() == type.rank();
  for (std::size_t i = 0; fits && i < type.shape().size(); ++i) {
    const Dim wanted = type.shape()[i];
    fits = !wanted.is_number() || wanted.number() == value.shape()[i].number();
  }
  if (fits) return;
  throw ShapeError(fmt::format("'{}': input \"{}\" is {}, but was given {}", file_, name,
                               to_string(type), type_string(value)),
                   loc_);
}

namespace {

/// Whether the model says what an input is, if not with which sizes.
bool has_kind(const pb::TypeProto& type) {
  return type.has_sequence_type() || type.has_optional_type() ||
         (type.has_tensor_type() && type.tensor_type().elem_type() != 0);
}

}  // namespace

Imported Importer::add_map(const std::string& name, const pb::TypeProto::Map& type,
                           const KnownInputs& known) {
  const Shape shape{Dim::symbol(name + "_entries")};
  const DType keys = read_dtype(type.key_type(), fmt::format("\"{}\"", name), loc_);
  const DType values =
      read_dtype(type.value_type().tensor_type().elem_type(), fmt::format("\"{}\"", name), loc_);
  Imported made = add_input(name + ".values", {values, shape}, known);
  made.keys = add_input(name + ".keys", {keys, shape}, known).tensor;
  return made;
}

Imported Importer::add_form(const std::string& name, const ModelValue& form,
                            const KnownInputs& known) {
  if (form.is_tensor()) {
    return add_input(name, {form.tensor().dtype(), form.tensor().shape()}, known);
  }
  if (form.is_empty()) {
    Imported nothing;
    nothing.is_empty_optional = true;
    return nothing;
  }
  std::vector<Imported> elements;
  for (std::size_t i = 0; i < form.sequence().size(); ++i) {
    elements.push_back(add_form(fmt::format("{}[{}]", name, i), form.sequence()[i], known));
  }
  return sequence_of(std::move(elements));
}

Imported Importer::add_input(const std::string& name, const Type& type, const KnownInputs& known) {
  if (const auto given = known.values.find(name); given != known.values.end()) {
    check_value(name, type, given->second);
    const Evaluator::Scope now(EagerEvaluator::instance());
    return imported(given->second.clone(loc_));  // the program may write to its own
  }
  const Dim elements = type.shape().numel();
  if (is_integer(type.dtype()) && elements.is_number() && elements.number() <= kMostParameters) {
    small_inputs_.insert(name);
  }
  Shape shape = type.shape();
  if (const auto like = known.sizes.find(name); like != known.sizes.end()) {
    check_value(name, type, like->second);
    shape = like->second.shape();
  }
  std::vector<Dim> symbols;
  for (const Dim size : shape) collect_symbols(size, symbols);
  for (const Dim each : symbols) input_symbols_.insert(each.word());
  return imported(placeholder(name, type.dtype(), shape, loc_));
}

ModelValue Importer::result_of(const Imported& value, std::vector<Tensor>& results) {
  if (value.is_empty_optional) return {};
  if (!value.sequence) {
    results.push_back(operand(value));
    return ModelValue(results.back());
  }
  std::vector<ModelValue> elements;
  for (const Imported& element : *value.sequence) elements.push_back(result_of(element, results));
  return ModelValue(std::move(elements));
}

ImportedGraph Importer::build(const KnownInputs& known) {
  const pb::GraphProto& proto = model_.graph();
  ImportedGraph made;
  is_all_known_ = known.is_all;
  static_cast<void>(made.graph.define(
      [&] {
        // Only initializers are weights; what rules make of numbers is not.
        if (auto* evaluator = dynamic_cast<GraphEvaluator*>(&Evaluator::current())) {
          evaluator->capture_constants();
        }
        ImportScope scope;
        add_initializers(proto, known.initializers, scope);
        NeedsValues unknown;
        std::unordered_set<std::string> seen;
        for (const pb::ValueInfoProto& input : proto.input()) {
          if (!seen.insert(input.name()).second) {
            fail(fmt::format("two inputs are called \"{}\"", input.name()));
          }
          if (scope.find(input.name()) != nullptr) continue;  // an initializer is its default
          const auto type = read_type(input.type(), input.name(), loc_);
          if (type && type->is_tensor()) {
            scope.add(input.name(), add_input(input.name(), *type, known));
          } else if (input.type().has_map_type()) {
            scope.add(input.name(), add_map(input.name(), input.type().map_type(), known));
          } else if (is_map(input.type())) {
            fail(fmt::format("input \"{}\" is a sequence of maps", input.name()));
          } else if (const auto form = known.forms.find(input.name()); form != known.forms.end()) {
            scope.add(input.name(), add_form(input.name(), form->second, known));
          } else if (has_kind(input.type())) {
            unknown.forms.push_back(input.name());
          } else {
            fail(fmt::format("input \"{}\" has no type", input.name()));
          }
        }
        if (!unknown.forms.empty()) throw NeedsValues(std::move(unknown));
        run_nodes(proto.node(), {.scope = scope, .opsets = opsets_});
        std::vector<Tensor> results;
        for (const pb::ValueInfoProto& output : proto.output()) {
          const Imported* value = scope.find(output.name());
          if (value == nullptr) fail(fmt::format("no node gives the output \"{}\"", output.name()));
          if (value->keys.defined() != is_map(output.type())) {
            fail(fmt::format("the output \"{}\" is {}, but its type says otherwise", output.name(),
                             value->keys.defined() ? "a map" : "no map"));
          }
          if (value->keys.defined()) {
            made.results.push_back(result_of(imported(value->keys), results));
          }
          made.results.push_back(result_of(*value, results));
        }
        check_before(results);
        return results;
      },
      loc_));
  made.operators = operators_;
  made.equal_sizes = equal_sizes_;
  made.guesses = guesses_;
  return made;
}

bool Importer::draws(const pb::NodeProto& node) const {
  if (draws_numbers(node.op_type())) return true;
  const pb::FunctionProto* function = find_function(node);
  return function != nullptr && functions_that_draw_.at(function);
}

void Importer::find_functions_that_draw() {
  using Function = const pb::FunctionProto*;
  std::unordered_map<Function, std::vector<Function>> callers;
  std::vector<Function> found;
  for (const auto& [name, function] : functions_) {
    bool& draws_itself = functions_that_draw_[function];
    for (const pb::NodeProto& node : function->node()) {
      draws_itself |= draws_numbers(node.op_type());
      if (const Function called = find_function(node)) callers[called].push_back(function);
    }
    if (draws_itself) found.push_back(function);
  }
  while (!found.empty()) {
    const Function function = found.back();
    found.pop_back();
    for (const Function caller : callers[function]) {
      bool& known = functions_that_draw_[caller];
      if (!known) found.push_back(caller);
      known = true;
    }
  }
}

bool Importer::is_closed(const pb::GraphProto& graph, const ImportFrame& around) const {
  const auto is_known = [&](const std::string& name) {
    const Imported* value = around.scope.find(name);
    return value == nullptr || value->is_known();  // otherwise it is the subgraph's own
  };
  for (const pb::NodeProto& node : graph.node()) {
    if (draws(node) || !std::ranges::all_of(node.input(), is_known)) return false;
    for (const pb::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g() && !is_closed(attribute.g(), around)) return false;
    }
  }
  return std::ranges::all_of(graph.output(), [&](const auto& o) { return is_known(o.name()); });
}

std::vector<Imported> Importer::run_graph(const pb::GraphProto& graph,
                                          std::span<const Imported> inputs,
                                          const ImportFrame& around) {
  if (around.depth > kMaxDepth) fail("subgraphs are nested too deeply");
  count_call(graph);
  ImportScope scope(&around.scope);
  for (const pb::TensorProto& tensor : graph.initializer()) {
    scope.add(tensor.name(), imported(tensor_of(tensor, /*repeated=*/true, loc_)));
  }
  if (inputs.size() != static_cast<std::size_t>(graph.input_size())) {
    fail(fmt::format("the subgraph \"{}\" takes {} inputs but is given {}", graph.name(),
                     graph.input_size(), inputs.size()));
  }
  for (int i = 0; i < graph.input_size(); ++i) {
    scope.add(graph.input(i).name(), inputs[static_cast<std::size_t>(i)]);
  }
  run_nodes(graph.node(), {.scope = scope,
                           .opsets = around.opsets,
                           .arguments = around.arguments,
                           .depth = around.depth + 1});
  std::vector<Imported> results;
  for (const pb::ValueInfoProto& output : graph.output()) {
    const Imported* value = scope.find(output.name());
    if (value == nullptr) {
      fail(fmt::format("no node of the subgraph \"{}\" gives its output \"{}\"", graph.name(),
                       output.name()));
    }
    results.push_back(*value);
  }
  return results;
}

void Importer::call_function(const pb::FunctionProto& function, const pb::NodeProto& node, Loc loc,
                             const ImportFrame& frame) {
  if (frame.depth > kMaxDepth) {
    fail(fmt::format("function \"{}\" calls itself, or calls are nested too deeply",
                     function.name()));
  }
  count_call(function);
  std::map<std::string, const pb::AttributeProto*> arguments;
  for (const pb::AttributeProto& otherwise : function.attribute_proto()) {
    arguments[otherwise.name()] = &otherwise;
  }
  for (const pb::AttributeProto& attribute : node.attribute()) {
    const pb::AttributeProto* given = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      given = nullptr;
      if (frame.arguments != nullptr) {
        const auto found = frame.arguments->find(attribute.ref_attr_name());
        if (found != frame.arguments->end()) given = found->second;
      }
    }
    if (given != nullptr) arguments[attribute.name()] = given;
  }
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size()) {
    fail(fmt::format("{} passes {} inputs and takes {} outputs, but function \"{}\" has {} and {}",
                     node_title(node), node.input_size(), node.output_size(), function.name(),
                     function.input_size(), function.output_size()));
  }
  ImportScope scope;
  for (int i = 0; i < function.input_size(); ++i) {
    Imported value;
    if (i < node.input_size() && !node.input(i).empty()) {
      const Imported* found = frame.scope.find(node.input(i));
      if (found == nullptr) {
        fail(fmt::format("{}: nothing before it gives its input \"{}\"", node_title(node),
                         node.input(i)));
      }
      value = *found;
    }
    scope.add(function.input(i), std::move(value));
  }
  const std::map<std::string, int> opsets = opsets_of(function.opset_import());
  const LocScope place(loc);
  run_nodes(function.node(),
            {.scope = scope, .opsets = opsets, .arguments = &arguments, .depth = frame.depth + 1});
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const Imported* value = scope.find(function.output(i));
    if (value == nullptr) {
      fail(fmt::format("no node of function \"{}\" gives its output \"{}\"", function.name(),
                       function.output(i)));
    }
    if (!frame.scope.add(node.output(i), *value)) {
      fail(fmt::format("two nodes give \"{}\"", node.output(i)));
    }
  }
}

void Importer::run_nodes(const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes,
                         const ImportFrame& frame) {
  // All refusals are told at once, so what reads a refused node's results is passed over; so is,
  // for the same reason, what reads results that wait for values of inputs.
  std::vector<std::string> lines;
  std::exception_ptr first;
  std::optional<NeedsValues> waiting;
  const auto refuse = [&](const pb::NodeProto& node) {
    Imported refused;
    refused.is_refused = true;
    for (const std::string& output : node.output()) {
      if (!output.empty()) frame.scope.add(output, refused);
    }
  };
  try {
    for (const pb::NodeProto& node : nodes) {
      count_node(node);
      if ((first || waiting) && reads_refused(node, frame.scope)) {
        refuse(node);
        continue;
      }
      try {
        run_node(node, place_of(node), frame);
      } catch (const RefusedNodes& refused) {
        if (!first) first = std::current_exception();
        lines.insert(lines.end(), refused.lines().begin(), refused.lines().end());
        refuse(node);
      } catch (const NeedsValues& needs) {
        const auto asks_for_values = [](const NeedsValues& asked) {
          return !asked.weights && !asked.sizes;
        };
        if (!waiting) {
          waiting = needs;
        } else if (asks_for_values(*waiting) && asks_for_values(needs)) {
          waiting->inputs.insert(waiting->inputs.end(), needs.inputs.begin(), needs.inputs.end());
        }
        refuse(node);
      }
    }
  } catch (...) {
    // Whatever else is wrong: the refusals come first.
    if (!first) throw;
  }
  if (!first && waiting) throw NeedsValues(*waiting);
  if (!first) return;
  if (lines.size() == 1) std::rethrow_exception(first);
  throw refused(std::move(lines));
}

void Importer::run_node(const pb::NodeProto& node, Loc loc, const ImportFrame& frame) {
  if (const pb::FunctionProto* function = find_function(node)) {
    call_function(*function, node, loc, frame);
    return;
  }
  const std::string domain = domain_of(node);
  const auto version = frame.opsets.find(domain);
  const int number = version == frame.opsets.end() ? 0 : version->second;
  NodeImport import(*this, node, number, loc, frame);
  const Builder build = builder_of(domain, node.op_type(), number);
  if (!build) import.fail(version == frame.opsets.end() ? kNoDomain : kNoOperator);
  count_elements(import);
  if (node.op_type() == "NonZero" && reuse_places(import)) {
    import.finish(frame.scope);
    return;
  }
  try {
    if (!import.is_constant() || draws(node) || !fold(import, build)) {
      for (bool is_built = false; !is_built;) {
        try {
          build(import);
          is_built = true;
        } catch (const UndecidedError& question) {
          if (!import.take_for_equal(question)) throw;
          count_node(node);
          count_elements(import);
        }
      }
    }
  } catch (const OnnxError&) {
    throw;
  } catch (const UndecidedError& error) {
    if (const auto needs = import.needs_of(error)) throw NeedsValues(*needs);
    throw OnnxError(fmt::format("'{}': {}: {}", file_, import.description(), error.message()), loc);
  } catch (const MemoryError& error) {
    const std::string text =
        fmt::format("'{}': {}: {}", file_, import.description(), error.message());
    if (is_all_known_) throw MemoryError(text, loc);
    throw OnnxError(text, loc);
  } catch (const Error& error) {
    throw OnnxError(fmt::format("'{}': {}: {}", file_, import.description(), error.message()), loc);
  }
  if (node.op_type() == "NonZero" && node.output_size() > 0 && !in_region()) {
    places_.insert_or_assign(import.value(0).tensor.impl(),
                             Places{import.value(0).tensor, import.result(0)});
  }
  import.finish(frame.scope);
}

bool Importer::reuse_places(NodeImport& node) {
  const auto found = places_.find(node.value(0).tensor.impl());
  if (found == places_.end()) return false;
  node.set_output(0, found->second.places);
  return true;
}

}  // namespace dyad::onnx
