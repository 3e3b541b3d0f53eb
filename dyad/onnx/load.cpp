#include "dyad/onnx/load.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <set>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_constants.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/cut_model.h"
#include "dyad/onnx/importer.h"
#include "dyad/onnx/model_reader.h"
#include "dyad/onnx/model_state.h"
#include "dyad/onnx/sort_nodes.h"
#include "dyad/onnx/tensor_reader.h"

namespace dyad::onnx {
namespace {

/// The graph for somebody who may do anything with it.
const Graph& handed_out(const Graph& graph) {
  visit_constants(*graph.impl(),
                  [](const Tensor& constant) { constant.impl()->storage->keep_contents(); });
  return graph;  // NOLINT(bugprone-return-const-ref-from-parameter): the model's own
}

std::vector<std::string> names_of(const std::vector<ValueInfo>& values) {
  std::vector<std::string> names;
  for (const ValueInfo& value : values) names.push_back(value.name);
  return names;
}

}  // namespace

Model model_of(pb::ModelProto proto, const std::string& file, std::optional<std::string> folder,
               const LoadOptions& options, Loc loc) {
  auto state = std::make_shared<Model::State>();
  state->file = file;
  state->folder = std::move(folder);
  state->options = options;
  state->loc = loc;
  state->proto = std::move(proto);
  sort_nodes(state->proto, file, loc);
  if (!options.outputs.empty()) cut_model(state->proto, options.outputs, file, loc);
  Importer importer(state->proto, file, state->folder, options, loc);
  std::vector<std::string> missing = importer.unsupported();
  state->options.limits = importer.limits();
  for (pb::TensorProto& tensor : *state->proto.mutable_graph()->mutable_initializer()) {
    state->initializers.push_back(take_tensor(tensor));
  }
  state->opset = importer.opset();
  state->input_info = inputs_of(state->proto);
  state->output_info = outputs_of(state->proto);
  state->inputs = names_of(state->input_info);
  state->outputs = names_of(state->output_info);
  state->producer = state->proto.producer_name();
  for (const pb::StringStringEntryProto& entry : state->proto.metadata_props()) {
    state->metadata[entry.key()] = entry.value();
  }
  try {
    state->build_first();
  } catch (const RefusedNodes& refused) {
    if (missing.empty()) throw;
    const std::set<std::string> listed(missing.begin(), missing.end());
    for (const std::string& line : refused.lines()) {
      if (!listed.contains(line)) missing.push_back(line);
    }
  } catch (const Error&) {
    if (missing.empty()) throw;
  }
  if (!missing.empty()) throw importer.refused(std::move(missing));
  if (state->value_inputs.names().empty()) {
    const ImportedGraph& made = state->first();
    if (!made.guesses && made.equal_sizes.empty()) {
      state->proto = {};
      state->initializers = {};
    }
    // While nobody else has the graph, kernels that have weights in layouts of their own let the
    // memory of the constants go.
    let_constants_shed(*made.graph.impl());
  }
  return Model(std::move(state));
}

const Graph& Model::graph(Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->value_inputs.names().empty()) {
    std::string names;
    for (const std::string& name : state_->value_inputs.names()) {
      names += (names.empty() ? "\"" : ", \"") + name + "\"";
    }
    throw GraphError(
        fmt::format("'{}': what the graph looks like depends on the values of {}; fill "
                    "them in with specialize(), or run() the model{}",
                    state_->file, names,
                    state_->reason.empty()
                        ? ""
                        : ". The first node that asks for them is " + state_->reason),
        loc.user());
  }
  return handed_out(state_->first().graph);
}

const std::vector<std::string>& Model::inputs() const noexcept { return state_->inputs; }
const std::vector<std::string>& Model::outputs() const noexcept { return state_->outputs; }
const std::vector<ValueInfo>& Model::input_info() const noexcept { return state_->input_info; }
const std::vector<ValueInfo>& Model::output_info() const noexcept { return state_->output_info; }
const std::string& Model::file() const noexcept { return state_->file; }
const std::vector<std::string>& Model::value_inputs() const noexcept {
  return state_->value_inputs.names();
}
int Model::opset() const noexcept { return state_->opset; }
const std::string& Model::producer() const noexcept { return state_->producer; }
const std::map<std::string, std::string>& Model::metadata() const noexcept {
  return state_->metadata;
}

TensorDict Model::weights(Loc loc) const {
  TensorDict weights;
  for (auto& [name, tensor] : graph(loc).variables()) weights.add(name, tensor);
  return weights;
}

Model Model::specialize(const std::vector<Feed>& values, Loc loc) const {
  if (values.empty()) return *this;
  const std::lock_guard lock(state_->mutex);
  auto made = std::make_shared<State>();
  made->proto = state_->proto;
  made->initializers = state_->initializers;
  made->file = state_->file;
  made->folder = state_->folder;
  made->options = state_->options;
  made->loc = loc.user();
  made->opset = state_->opset;
  made->producer = state_->producer;
  made->metadata = state_->metadata;
  made->fixed = state_->fixed;
  for (const Feed& feed : values) {
    if (!state_->value_inputs.contains(feed.name)) {
      throw GraphError(fmt::format("'{}': \"{}\" is no input whose values decide what the graph "
                                   "looks like",
                                   state_->file, feed.name),
                       loc.user());
    }
    made->fixed[feed.name] = feed.value;
  }
  made->input_info = state_->input_info;
  made->output_info = state_->output_info;
  std::erase_if(made->input_info,
                [&](const ValueInfo& input) { return made->fixed.contains(input.name); });
  made->inputs = names_of(made->input_info);
  made->outputs = state_->outputs;
  made->build_first();
  return Model(std::move(made));
}

std::vector<ModelValue> Model::run_values(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  const Loc where = loc.user();
  const Fed fed = state_->taken_apart(inputs, where);
  const State::Ready ready = state_->ready(state_->graph_for(fed, where), fed);
  if (!ready.built->imported.guesses) return state_->run(ready, where);
  try {
    return state_->run(ready, where);
  } catch (const ShapeError&) {
  } catch (const IndexError&) {
  } catch (const ValueError&) {
  } catch (const MemoryError&) {
  }
  // What was taken for granted of sizes may not hold for these values: their own graph tells. What
  // it holds counts as the run's.
  const auto limit = state_->limit_of_run();
  return state_->run(state_->ready(state_->graph_for_values(fed, where), fed), where);
}

void Model::prepare(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  const Loc where = loc.user();
  const Fed fed = state_->taken_apart(inputs, where);
  const State::Ready ready = state_->ready(state_->graph_for(fed, where), fed);
  if (ready.built->is_for_values) return;  // all that there is to compute has been
  ready.built->session->prepare(ready.built->imported.graph.outputs(), ready.feeds, where);
}

std::optional<exec::MemoryUse> Model::memory(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  const Loc where = loc.user();
  const Fed fed = state_->taken_apart(inputs, where);
  const State::Ready ready = state_->ready(state_->graph_for(fed, where), fed);
  if (ready.built->is_for_values) return std::nullopt;
  return ready.built->session->memory(ready.built->imported.graph.outputs(), ready.feeds, where);
}

Graph Model::graph_for(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  const Fed fed = state_->taken_apart(inputs, loc.user());
  return handed_out(state_->graph_for(fed, loc.user())->imported.graph);
}

std::string Model::operator_at(Loc place) const {
  const std::lock_guard lock(state_->mutex);
  if (!place || place.file() != state_->file) return {};
  for (const auto& [key, built] : state_->built) {
    if (built == nullptr) continue;
    const std::vector<std::string>& operators = built->imported.operators;
    if (place.line() >= 1 && place.line() <= operators.size()) return operators[place.line() - 1];
  }
  return {};
}

std::vector<Tensor> Model::run(const std::vector<Feed>& feeds, Loc loc) const {
  std::vector<NamedValue> inputs;
  for (const Feed& feed : feeds) {
    const GraphValue* value = feed.placeholder.defined() ? graph_value(feed.placeholder) : nullptr;
    inputs.push_back({value != nullptr && value->value.node->is("placeholder")
                          ? value->value.node->attrs_as<PlaceholderAttrs>().name
                          : feed.name,
                      feed.value});
  }
  std::vector<Tensor> results;
  for (const ModelValue& value : run_values(inputs, loc.user())) {
    if (!value.is_tensor()) {
      throw GraphError(fmt::format("'{}': result {} is {}; run_values() gives results that are no "
                                   "tensors",
                                   state_->file, results.size(),
                                   value.is_sequence() ? "a sequence" : "an empty optional"),
                       loc.user());
    }
    results.push_back(value.tensor());
  }
  return results;
}

Model load(const std::string& path, const LoadOptions& options, Loc loc) {
  const ModelPlace place(path);
  return model_of(read_model_file(path, loc.user()), place.name, place.folder, options, loc.user());
}

Model parse(std::string_view bytes, const LoadOptions& options, Loc loc) {
  return model_of(read_model(bytes, "model", loc.user()), "model", {}, options, loc.user());
}

}  // namespace dyad::onnx
