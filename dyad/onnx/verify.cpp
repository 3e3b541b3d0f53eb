#include "dyad/onnx/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_set>

#include "dyad/base/error.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/literal.h"
#include "dyad/onnx/model_file.h"
#include "dyad/onnx/model_reader.h"
#include "dyad/onnx/model_state.h"
#include "dyad/onnx/numbers.h"
#include "dyad/onnx/sort_nodes.h"
#include "dyad/onnx/unsupported.h"

namespace dyad::onnx {
namespace {

using Tensors = std::map<std::string, Tensor>;

/// A model in memory, and where its weights are.
struct File {
  std::string name;
  std::optional<std::string> folder;
  pb::ModelProto proto;
};

File read_file(const std::string& path, Loc loc) {
  const MappedFile held(path, loc);
  File file{
      .name = held.name, .folder = held.folder, .proto = read_model(held.bytes, held.name, loc)};
  sort_nodes(file.proto, file.name, loc);
  return file;
}

/// What the first `count` nodes of the outermost graph give.
Tensors run_nodes(const File& file, int count, const Tensors& inputs, Loc loc) {
  pb::ModelProto proto = file.proto;
  pb::GraphProto& graph = *proto.mutable_graph();
  graph.mutable_node()->DeleteSubrange(count, graph.node_size() - count);
  graph.clear_output();
  std::vector<std::string> names;
  for (const pb::NodeProto& node : graph.node()) {
    for (const std::string& output : node.output()) {
      if (output.empty()) continue;
      names.push_back(output);
      graph.add_output()->set_name(output);
    }
  }
  if (names.empty()) return {};
  const Model model = model_of(std::move(proto), file.name, file.folder, {.fast_math = false}, loc);
  std::vector<NamedValue> feeds;
  for (const std::string& name : model.inputs()) {
    if (const auto given = inputs.find(name); given != inputs.end()) {
      feeds.push_back({name, ModelValue(given->second)});
    }
  }
  const std::vector<ModelValue> results = model.run_values(feeds, loc);
  Tensors values;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (results[i].is_tensor()) values[names[i]] = results[i].tensor();
  }
  return values;
}

/// The values of as many nodes as can be run, and why the next one cannot.
struct Ran {
  Tensors values;
  int nodes = 0;
  std::string error;  ///< empty when all nodes ran
};

Ran run_what_runs(const File& file, const Tensors& inputs, Loc loc) {
  const int all = file.proto.graph().node_size();
  Ran ran{.values = {}, .nodes = all, .error = {}};
  try {
    ran.values = run_nodes(file, all, inputs, loc);
    return ran;
  } catch (const Error& error) {
    ran.error = error.message();
  }
  int good = 0, bad = all;
  while (bad - good > 1) {
    const int middle = good + (bad - good) / 2;
    try {
      ran.values = run_nodes(file, middle, inputs, loc);
      good = middle;
    } catch (const Error& error) {
      ran.error = error.message();
      bad = middle;
    }
  }
  ran.nodes = good;
  return ran;
}

/// Whether a run that fetches the value writes to variables.
bool has_effects(const Node* root) {
  std::vector<const Node*> pending{root};
  std::unordered_set<const Node*> seen;
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (&node->op() == &kAssignOp) return true;
    if (!seen.insert(node).second) continue;
    for (const Value input : node->inputs()) {
      if (input) pending.push_back(input.node);
    }
  }
  return false;
}

/// The rounding step of a dtype at 1.
double step_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0;
}

class Verifier {
 public:
  Verifier(File file, const Graph& graph, Tensors inputs, std::vector<Tensor> eager,
           const VerifyOptions& options, Loc loc)
      : file_(std::move(file)),
        graph_(graph),
        inputs_(std::move(inputs)),
        eager_(std::move(eager)),
        options_(options),
        loc_(loc) {}

  VerifyReport run() {
    const pb::GraphProto& graph = file_.proto.graph();
    report_.file = file_.name;
    report_.nodes = graph.node_size();
    options_.save.outputs.clear();
    for (const pb::ValueInfoProto& output : graph.output()) {
      options_.save.outputs.push_back(output.name());
    }
    for (const pb::OperatorSetIdProto& set : file_.proto.opset_import()) {
      if (set.domain().empty()) options_.save.opset = static_cast<int>(set.version());
    }
    Draft draft = to_model(*graph_.impl(), {}, options_.save, loc_);
    compare_weights(draft);
    if (report_.first) return report_;
    Tensors want = values_of_source(draft);
    const Ran ran = run_what_runs(file_, inputs_, loc_);
    compare(ran, want);
    if (!report_.first) return report_;
    // Which of the nodes that are one operator of the source: what each should give is known from
    // the same model written again.
    File fresh{.name = file_.name, .folder = {}, .proto = {}};
    fresh.proto.ParseFromString(serialize(draft, loc_));
    Ran reference = run_what_runs(fresh, inputs_, loc_);
    want.merge(reference.values);
    const NodeDifference known = *report_.first;
    report_ = {.file = report_.file, .nodes = report_.nodes, .first = {}};
    compare(ran, want);
    if (!report_.first) report_.first = known;
    return report_;
  }

 private:
  void compare_weights(const Draft& draft) {
    std::map<std::string, Tensor> want;
    for (const Weight& weight : draft.weights) want[weight.proto->name()] = weight.tensor;
    ExternalData external(file_.folder);
    for (const pb::TensorProto& proto : file_.proto.graph().initializer()) {
      const auto found = want.find(proto.name());
      if (found == want.end()) continue;
      NodeDifference difference;
      difference.value = proto.name();
      if (differs(read_tensor(proto, external, loc_), found->second, {}, difference)) {
        report_.first = difference;
        return;
      }
    }
  }

  /// What the graph gives, by the names of the file: results, and everything that needs no writes.
  Tensors values_of_source(const Draft& draft) {
    std::vector<std::string> names = options_.save.outputs;
    std::vector<Tensor> fetches = graph_.outputs();
    for (const auto& [value, name] : draft.names) {
      const OpInfo& op = value.node->op();
      if (&op == &kPlaceholderOp || &op == &kConstantOp || &op == &kVariableOp) continue;
      if (!value.type().is_tensor() || has_effects(value.node)) continue;
      names.push_back(name);
      fetches.push_back(symbolic_tensor(graph_.impl(), value));
    }
    std::vector<Feed> feeds;
    for (const auto& [name, tensor] : inputs_) feeds.emplace_back(name, tensor);
    const std::vector<Tensor> results = Session(graph_).run(fetches, feeds, loc_);
    Tensors values;
    for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = results[i];
    for (std::size_t i = 0; i < eager_.size(); ++i) values[options_.save.outputs[i]] = eager_[i];
    return values;
  }

  void compare(const Ran& ran, const Tensors& want) {
    const pb::GraphProto& graph = file_.proto.graph();
    const auto& results = options_.save.outputs;
    for (int i = 0; i < ran.nodes; ++i) {
      for (const std::string& output : graph.node(i).output()) {
        const auto expected = want.find(output);
        if (expected == want.end()) continue;
        const bool is_result = std::ranges::find(results, output) != results.end();
        ++(is_result ? report_.results : report_.values);
        NodeDifference difference = place(graph.node(i), output);
        double* relative = is_result ? &report_.largest : nullptr;
        if (!differs(ran.values.at(output), expected->second, relative, difference)) continue;
        report_.first = difference;
        return;
      }
    }
    if (ran.error.empty()) return;
    NodeDifference difference = place(graph.node(ran.nodes), graph.node(ran.nodes).output(0));
    difference.problem = "cannot be run: " + ran.error;
    report_.first = difference;
  }

  static NodeDifference place(const pb::NodeProto& node, const std::string& value) {
    NodeDifference made;
    made.value = value;
    made.node = node.name();
    made.op = node.op_type();
    for (const pb::StringStringEntryProto& entry : node.metadata_props()) {
      if (entry.key() == "dyad.source") made.source = entry.value();
      if (entry.key() == "dyad.operator") made.dyad_op = entry.value();
    }
    return made;
  }

  /// Fills in what differs. `relative` gets the largest difference by the largest element.
  bool differs(const Tensor& got, const Tensor& want, double* relative,
               NodeDifference& difference) const {
    if (got.dtype() != want.dtype() || !got.shape().same_as(want.shape())) {
      difference.problem = fmt::format("is {}, not {}", type_string(got), type_string(want));
      return true;
    }
    const std::vector<double> a = numbers(got), b = numbers(want);
    double scale = 0;
    for (const double x : b) {
      if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
    }
    const double step = 4 * step_of(want.dtype());
    const double rtol = std::max(options_.relative, step), floor = std::max(options_.floor, step);
    std::size_t worst = 0, count = 0;
    double largest = -1, any = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      const double distance = std::abs(a[i] - b[i]);
      any = std::max(any, distance);
      if (distance <= rtol * std::abs(b[i]) + floor * scale) continue;
      ++count;
      const double size = std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
      if (size <= largest) continue;
      largest = size;
      worst = i;
    }
    if (relative != nullptr && scale > 0) *relative = std::max(*relative, any / scale);
    if (count == 0) return false;
    difference.largest = largest;
    difference.index = index_of(worst / (a.size() / elements(want)), want.shape());
    difference.problem =
        fmt::format("element {} of {} is {}, not {} ({} of {} elements differ)",
                    fmt::format("[{}]", fmt::join(difference.index, ", ")), type_string(want),
                    number_text(a[worst]), number_text(b[worst]), count, a.size());
    return true;
  }

  static std::size_t elements(const Tensor& x) {
    return static_cast<std::size_t>(x.shape().numel().number());
  }
  static std::vector<std::int64_t> index_of(std::size_t element, const Shape& shape) {
    std::vector<std::int64_t> index(shape.size());
    auto rest = static_cast<std::int64_t>(element);
    for (std::size_t i = shape.size(); i-- > 0;) {
      index[i] = rest % shape[i].number();
      rest /= shape[i].number();
    }
    return index;
  }

  File file_;
  Graph graph_;
  Tensors inputs_;
  std::vector<Tensor> eager_;
  VerifyOptions options_;
  Loc loc_;
  VerifyReport report_;
};

Tensors by_name(const std::vector<Feed>& feeds) {
  Tensors inputs;
  for (const Feed& feed : feeds) {
    const GraphValue* value = feed.placeholder.defined() ? graph_value(feed.placeholder) : nullptr;
    inputs[value != nullptr && &value->value.node->op() == &kPlaceholderOp
               ? value->value.node->attrs_as<PlaceholderAttrs>().name
               : feed.name] = feed.value;
  }
  return inputs;
}

VerifyReport verify_file(File file, const Graph& graph, const std::vector<Feed>& feeds,
                         const VerifyOptions& options, Loc loc) {
  return Verifier(std::move(file), graph, by_name(feeds), {}, options, loc).run();
}

}  // namespace

VerifyReport verify(const std::string& path, const Graph& graph, const std::vector<Feed>& inputs,
                    const VerifyOptions& options, Loc loc) {
  return verify_file(read_file(path, loc.user()), graph, inputs, options, loc.user());
}

VerifyReport verify_bytes(std::string_view bytes, const Graph& graph,
                          const std::vector<Feed>& inputs, const VerifyOptions& options, Loc loc) {
  File file{.name = "model", .folder = {}, .proto = read_model(bytes, "model", loc.user())};
  return verify_file(std::move(file), graph, inputs, options, loc.user());
}

TensorDict node_values(const std::string& path, const std::vector<Feed>& inputs, Loc loc) {
  const File file = read_file(path, loc.user());
  const pb::GraphProto& graph = file.proto.graph();
  const Tensors values = run_nodes(file, graph.node_size(), by_name(inputs), loc.user());
  TensorDict found;
  for (const pb::NodeProto& node : graph.node()) {
    for (const std::string& output : node.output()) {
      if (!output.empty()) found.add(output, values.at(output));
    }
  }
  return found;
}

namespace detail {

VerifyReport verify_function(const std::string& path, const Function& function,
                             std::span<const Tensor> inputs, const VerifyOptions& options,
                             Loc loc) {
  loc = loc.user();
  File file = read_file(path, loc);
  const auto& described = file.proto.graph().input();
  if (static_cast<std::size_t>(described.size()) != inputs.size()) {
    throw ValueError(fmt::format("onnx::verify: '{}' has {} inputs but {} tensors are given",
                                 file.name, described.size(), inputs.size()),
                     loc);
  }
  Graph graph;
  static_cast<void>(graph.define(
      [&] {
        std::vector<Tensor> given;
        for (const pb::ValueInfoProto& input : described) {
          const std::optional<Type> type = read_type(input.type(), input.name(), loc);
          if (!type || !type->is_tensor()) {
            throw OnnxError(fmt::format("'{}': input \"{}\" is no tensor of a known type",
                                        file.name, input.name()),
                            loc);
          }
          given.push_back(placeholder(input.name(), type->dtype(), type->shape(), loc));
        }
        return function(given);
      },
      loc));
  Tensors named;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    named[described[static_cast<int>(i)].name()] = inputs[i];
  }
  std::vector<Tensor> eager;
  for (const Tensor& result : function(inputs)) eager.push_back(result.detach());
  return Verifier(std::move(file), graph, std::move(named), std::move(eager), options, loc).run();
}

}  // namespace detail

std::string to_string(const VerifyReport& report) {
  if (!report.first) {
    return fmt::format(
        "'{}' gives what its source gives: {} {} and {} values on the way to them, of {} nodes, "
        "compared; results differ by {} of their largest element at most",
        report.file, report.results, report.results == 1 ? "result" : "results", report.values,
        report.nodes, number_text(report.largest));
  }
  const NodeDifference& first = *report.first;
  if (first.node.empty()) {
    return fmt::format("'{}': weight \"{}\" {}", report.file, first.value, first.problem);
  }
  std::string part;
  if (!first.dyad_op.empty()) part = fmt::format(", part of {}", first.dyad_op);
  if (!first.source.empty()) part += fmt::format(" ({})", first.source);
  return fmt::format("'{}': the first node that differs is \"{}\" (a {}{}): \"{}\" {}", report.file,
                     first.node, first.op, part, first.value, first.problem);
}

}  // namespace dyad::onnx
