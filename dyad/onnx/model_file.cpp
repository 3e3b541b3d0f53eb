#include "dyad/onnx/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <unordered_set>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/exec/eager.h"
#include "dyad/io/atomic_file.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/graph_writer.h"

namespace dyad::onnx {
namespace {

/// The format's version that came with an opset, so that a program that knows the opset reads the
/// file.
int ir_version_for(int opset) noexcept {
  return opset >= 23 ? 11 : opset >= 21 ? 10 : opset >= 19 ? 9 : 8;
}

/// Names for `count` results, none of which is among `taken`.
std::vector<std::string> output_names(std::size_t count, std::unordered_set<std::string> taken,
                                      const SaveOptions& options, Loc loc) {
  std::vector<std::string> names = options.outputs;
  if (names.empty()) {
    for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("output{}", i));
  } else if (names.size() != count) {
    throw OnnxError(fmt::format("onnx::save: the model has {} results but {} names for them", count,
                                names.size()),
                    loc);
  }
  for (const std::string& name : names) {
    if (name.empty()) throw OnnxError("onnx::save: the name of a result is empty", loc);
    if (!taken.insert(name).second) {
      throw OnnxError(
          fmt::format("onnx::save: two inputs or results are called \"{}\"; give the results "
                      "names of their own in SaveOptions::outputs",
                      name),
          loc);
    }
  }
  return names;
}

[[noreturn]] void fail_with(const std::vector<Problem>& problems, Loc loc) {
  const bool one = problems.size() == 1;
  std::string text = fmt::format("onnx::save: {} {} be written as ONNX:", problems.size(),
                                 one ? "operator cannot" : "operators cannot");
  for (const Problem& problem : problems) text += "\n  " + problem.text;
  throw OnnxError(text, loc);
}

void set_entry(pb::TensorProto& tensor, std::string_view key, std::string value) {
  pb::StringStringEntryProto& entry = *tensor.add_external_data();
  entry.set_key(std::string(key));
  entry.set_value(std::move(value));
}

std::size_t weight_bytes(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel().number()) * size_of(tensor.dtype());
}

/// Readers map the file into memory: where a page begins.
constexpr std::uint64_t kAlignment = 4096;

/// Writes a weight behind the others and says in the model where it is.
void append_external(io::AtomicFile& file, const std::string& name, const Weight& weight) {
  static constexpr char kZeros[kAlignment] = {};
  file.write(kZeros, (kAlignment - file.offset() % kAlignment) % kAlignment);
  pb::TensorProto& proto = *weight.proto;
  const Tensor raw = raw_elements(weight.tensor);
  const std::string_view bytes = bytes_of(raw);
  set_entry(proto, "location", name);
  set_entry(proto, "offset", std::to_string(file.offset()));
  set_entry(proto, "length", std::to_string(bytes.size()));
  proto.set_data_location(pb::TensorProto::EXTERNAL);
  file.write(bytes);
}

void fill_in(std::span<const Weight> weights, Loc loc) {
  std::size_t total = 0;
  for (const Weight& weight : weights) total += weight_bytes(weight.tensor);
  if (total > std::size_t{std::numeric_limits<std::int32_t>::max()} / 16 * 15) {
    throw OnnxError(
        fmt::format("onnx::save: the weights take {} bytes, and one file of the format holds less "
                    "than 2 GB; set SaveOptions::external_data",
                    total),
        loc);
  }
  for (const Weight& weight : weights) {
    const Tensor raw = raw_elements(weight.tensor);
    weight.proto->set_raw_data(std::string(bytes_of(raw)));
  }
}

std::string to_string(const pb::ModelProto& proto, Loc loc) {
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) {
    throw OnnxError("onnx::save: the model takes more than the 2 GB that one file may hold", loc);
  }
  return bytes;
}

/// A model with an empty graph.
Draft make_draft(std::size_t results, const SaveOptions& options, Loc loc) {
  if (options.opset < 17 || options.opset > 23) {
    throw OnnxError(fmt::format("onnx::save: opset {} cannot be written; choose one from 17 to 23",
                                options.opset),
                    loc);
  }
  if (results == 0) {
    throw OnnxError("onnx::save: the model gives no results; return tensors from it", loc);
  }
  Draft model;
  model.proto.set_ir_version(ir_version_for(options.opset));
  model.proto.set_producer_name("dyad");
  pb::OperatorSetIdProto& opset = *model.proto.add_opset_import();
  opset.set_domain("");
  opset.set_version(options.opset);
  model.proto.mutable_graph()->set_name(options.name);
  return model;
}

std::unordered_map<const TensorImpl*, std::string> names_of_weights(const SaveOptions& options) {
  std::unordered_map<const TensorImpl*, std::string> names;
  for (const auto& [name, tensor] : options.weights) names.try_emplace(tensor.impl(), name);
  return names;
}

}  // namespace

Draft to_model(const GraphImpl& graph, std::span<const Value> effects, const SaveOptions& options,
               Loc loc) {
  const Evaluator::Scope eager(EagerEvaluator::instance());
  Draft model = make_draft(graph.outputs().size(), options, loc);
  for (const SizeRange& range : graph.ranges()) {
    pb::StringStringEntryProto& entry = *model.proto.add_metadata_props();
    entry.set_key("dyad.assume." + dyad::to_string(range.size));
    entry.set_value(dyad::to_string(range));
  }
  pb::GraphProto& proto = *model.proto.mutable_graph();
  ModelContext context(proto, options.opset, names_of_weights(options));
  GraphWriter writer(context, proto);
  std::unordered_set<std::string> taken;
  for (const Value input : graph.placeholders()) {
    taken.insert(input.node->attrs_as<PlaceholderAttrs>().name);
  }
  std::vector<std::string> results = output_names(graph.outputs().size(), taken, options, loc);
  writer.add_inputs(graph);
  for (const std::string& name : results) static_cast<void>(context.fresh(name));
  std::vector<Value> roots = graph.outputs();
  roots.insert(roots.end(), effects.begin(), effects.end());
  for (const Value value : graph.outputs()) writer.check_interface(value);
  writer.write_nodes(graph, roots);
  if (!context.problems().empty()) fail_with(context.problems(), loc);
  model.names = writer.names();
  writer.add_outputs(graph.outputs(), results);
  model.weights = context.weights();
  return model;
}

Draft to_training_model(const GraphImpl& graph, const Step& step, bool with_defaults,
                        const SaveOptions& options, Loc loc) {
  const Evaluator::Scope eager(EagerEvaluator::instance());
  Draft model = make_draft(step.results.size(), options, loc);
  pb::GraphProto& proto = *model.proto.mutable_graph();
  ModelContext context(proto, options.opset, names_of_weights(options), /*training=*/true);
  GraphWriter writer(context, proto);
  std::unordered_set<std::string> taken;
  for (const auto& [name, value] : step.inputs) taken.insert(name);
  for (const StepState& state : step.state) taken.insert({state.name, "next." + state.name});
  std::vector<std::string> names = output_names(step.results.size(), taken, options, loc);
  for (const auto& [name, value] : step.inputs) writer.add_input_for(value, name, {});
  for (const StepState& state : step.state) {
    writer.add_input_for(state.before, state.name, with_defaults ? state.tensor : Tensor());
  }
  std::vector<Value> results = step.results, roots;
  for (const StepState& state : step.state) {
    if (!state.after) continue;
    results.push_back(state.after);
    names.push_back("next." + state.name);
  }
  roots = results;
  bool draws = false;
  for (const auto& node : graph.nodes()) {
    if (!node->is("random_key")) continue;
    roots.push_back(node->output());  // those that nothing reads move the offset too
    draws = true;
  }
  if (draws) writer.add_random_inputs(default_generator().state(), with_defaults);
  for (const std::string& name : names) static_cast<void>(context.fresh(name));
  writer.write_nodes(graph, roots);
  if (!context.problems().empty()) fail_with(context.problems(), loc);
  model.names = writer.names();
  writer.add_outputs(results, names);
  if (draws) writer.add_random_output();
  model.weights = context.weights();
  return model;
}

std::string serialize(Draft& model, Loc loc) {
  fill_in(model.weights, loc);
  return to_string(model.proto, loc);
}

void write(const std::string& path, Draft& model, const SaveOptions& options, Loc loc) {
  std::vector<Weight> inside;
  std::optional<io::AtomicFile> data;
  const std::string name = std::filesystem::path(path).filename().string() + ".data";
  for (const Weight& weight : model.weights) {
    if (!options.external_data || weight_bytes(weight.tensor) < options.external_threshold) {
      inside.push_back(weight);
      continue;
    }
    if (!data) data.emplace(path + ".data", loc);
    append_external(*data, name, weight);
  }
  fill_in(inside, loc);
  io::AtomicFile file(path, loc);
  file.write(to_string(model.proto, loc));
  if (data) data->commit();
  file.commit();
}

}  // namespace dyad::onnx
