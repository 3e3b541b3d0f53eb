#include "dyad/onnx/load.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/io/input_file.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/literal.h"
#include "dyad/onnx/importer.h"
#include "dyad/onnx/text_ops.h"
#include "dyad/ops/registry.h"

namespace dyad::onnx {

namespace {

/// The graph of a model for some values of inputs.
struct Built {
  ImportedGraph imported;
  std::optional<Session> session;  // made at the first run
};

/// More graphs than that are not kept for different values.
constexpr std::size_t kMaxBuilt = 16;

/// A value taken apart: tensors by the names that the graph has for them.
void flatten(const std::string& name, const ModelValue& value,
             std::map<std::string, Tensor>& tensors) {
  if (value.is_tensor()) tensors[name] = value.tensor();
  for (std::size_t i = 0; i < value.sequence().size(); ++i) {
    flatten(fmt::format("{}[{}]", name, i), value.sequence()[i], tensors);
  }
}

/// What a graph depends on of a value that is no tensor of a known rank.
std::string form_of(const ModelValue& value) {
  if (value.is_empty()) return "-";
  if (value.is_tensor()) return type_string(value.tensor());
  std::string all = "(";
  for (const ModelValue& element : value.sequence()) all += form_of(element) + ",";
  return all + ")";
}

/// The value with the tensors that a run gave.
ModelValue filled(const ModelValue& like, std::vector<Tensor>::iterator& next) {
  if (like.is_tensor()) return ModelValue(*next++);
  if (like.is_empty()) return {};
  std::vector<ModelValue> elements;
  for (const ModelValue& element : like.sequence()) elements.push_back(filled(element, next));
  return ModelValue(std::move(elements));
}

}  // namespace

struct Model::State {
  pb::ModelProto proto;  // emptied when no other graph can be asked for
  std::string file;
  std::optional<std::string> folder;
  LoadOptions options;
  Loc loc;

  std::vector<std::string> inputs, outputs;
  /// The tensors, as the graph calls them, whose elements decide; the inputs whose form decides.
  std::vector<std::string> decisive_values, decisive_forms;
  std::vector<std::string> value_inputs;  ///< both, as inputs of the model
  bool sizes_decide = false;              ///< those of all inputs
  int opset = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
  std::map<std::string, Tensor> fixed;  ///< by specialize()
  std::mutex mutex;
  std::map<std::string, Built> built;  ///< by what decides

  Built build(const KnownInputs& known) {
    Importer importer(proto, file, folder, options, loc);
    return {.imported = importer.build(known), .session = {}};
  }

  /// Takes note of what decides.
  void learn(const NeedsValues& needs) {
    built.clear();
    if (needs.weights) options.trainable = false;
    sizes_decide |= needs.sizes;
    if (needs.sizes) value_inputs = inputs;
    for (const std::string& name : needs.inputs) {
      decisive_values.push_back(name);
      note(std::ranges::count(inputs, name) > 0 ? name : name.substr(0, name.rfind('[')));
    }
    for (const std::string& name : needs.forms) {
      decisive_forms.push_back(name);
      note(name);
    }
  }
  void note(const std::string& name) {
    if (std::ranges::find(value_inputs, name) == value_inputs.end()) value_inputs.push_back(name);
  }

  /// The graph that nothing fed decides about, if there is one.
  void try_build() {
    for (;;) {
      try {
        built[""] = build({.values = fixed, .forms = {}, .sizes = {}});
        return;
      } catch (const NeedsValues& needs) {
        learn(needs);
        if (!value_inputs.empty()) return;
      }
    }
  }

  /// The graph for what is fed.
  Built& graph_for(const std::map<std::string, ModelValue>& fed, Loc where) {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, value] : fed) flatten(name, value, tensors);
    for (;;) {
      KnownInputs known{.values = fixed, .forms = {}, .sizes = {}};
      std::string key;
      if (sizes_decide) {
        known.sizes = tensors;
        for (const auto& [name, tensor] : tensors) key += name + ":" + type_string(tensor) + ";";
      }
      for (const std::string& name : decisive_forms) {
        const auto found = fed.find(name);
        known.forms[name] = found == fed.end() ? ModelValue() : found->second;
        key += form_of(known.forms[name]) + ";";
      }
      for (const std::string& name : decisive_values) {
        const auto found = tensors.find(name);
        if (found == tensors.end()) {
          if (name.ends_with(']')) continue;  // of a longer sequence
          throw GraphError(fmt::format("'{}': input \"{}\" is not fed; its values decide what the "
                                       "graph looks like",
                                       file, name),
                           where);
        }
        known.values[name] = found->second;
        key += name + ":" + type_string(found->second) + ":";
        for (const std::byte b : packed_elements(found->second)) key += static_cast<char>(b);
      }
      const auto existing = built.find(key);
      if (existing != built.end()) return existing->second;
      try {
        Built made = build(known);
        if (built.size() >= kMaxBuilt) built.clear();
        return built[key] = std::move(made);
      } catch (const NeedsValues& needs) {
        learn(needs);
      }
    }
  }
};

namespace {

Model read(std::string_view bytes, const std::string& file, std::optional<std::string> folder,
           const LoadOptions& options, Loc loc) {
  if (bytes.size() > std::size_t{std::numeric_limits<std::int32_t>::max()}) {
    throw OnnxError(fmt::format("'{}': a model is less than 2 GB; this has {} bytes (weights go "
                                "into files beside it)",
                                file, bytes.size()),
                    loc);
  }
  auto state = std::make_shared<Model::State>();
  state->file = file;
  state->folder = std::move(folder);
  state->options = options;
  state->loc = loc;
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  if (bytes.empty() || !state->proto.ParseFromCodedStream(&coded) ||
      !coded.ConsumedEntireMessage()) {
    throw OnnxError(fmt::format("'{}' is no ONNX model, or is cut or damaged", file), loc);
  }
  ops::register_builtin_ops();
  exec::register_control_ops();
  register_text_ops();
  Importer importer(state->proto, file, state->folder, options, loc);
  importer.check_supported();
  state->opset = importer.opset();
  state->inputs = importer.inputs();
  state->outputs = importer.outputs();
  state->producer = state->proto.producer_name();
  for (const pb::StringStringEntryProto& entry : state->proto.metadata_props()) {
    state->metadata[entry.key()] = entry.value();
  }
  state->try_build();
  if (state->value_inputs.empty()) state->proto.Clear();
  return Model(std::move(state));
}

}  // namespace

const Graph& Model::graph(Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->value_inputs.empty()) {
    std::string names;
    for (const std::string& name : state_->value_inputs) {
      names += (names.empty() ? "\"" : ", \"") + name + "\"";
    }
    throw GraphError(
        fmt::format("'{}': what the graph looks like depends on the values of {}; fill "
                    "them in with specialize(), or run() the model",
                    state_->file, names),
        loc.user());
  }
  return state_->built.at("").imported.graph;
}

const std::vector<std::string>& Model::inputs() const noexcept { return state_->inputs; }
const std::vector<std::string>& Model::outputs() const noexcept { return state_->outputs; }
const std::vector<std::string>& Model::value_inputs() const noexcept {
  return state_->value_inputs;
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
  const std::lock_guard lock(state_->mutex);
  auto made = std::make_shared<State>();
  made->proto = state_->proto;
  made->file = state_->file;
  made->folder = state_->folder;
  made->options = state_->options;
  made->loc = loc.user();
  made->opset = state_->opset;
  made->producer = state_->producer;
  made->metadata = state_->metadata;
  made->fixed = state_->fixed;
  for (const Feed& feed : values) {
    if (std::ranges::find(state_->value_inputs, feed.name) == state_->value_inputs.end()) {
      throw GraphError(fmt::format("'{}': \"{}\" is no input whose values decide what the graph "
                                   "looks like",
                                   state_->file, feed.name),
                       loc.user());
    }
    made->fixed[feed.name] = feed.value;
  }
  made->inputs = state_->inputs;
  made->outputs = state_->outputs;
  std::erase_if(made->inputs, [&](const std::string& name) { return made->fixed.contains(name); });
  made->try_build();
  return Model(std::move(made));
}

std::vector<ModelValue> Model::run_values(const std::vector<NamedValue>& inputs, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  std::map<std::string, ModelValue> fed;
  for (const NamedValue& input : inputs) {
    if (fed.try_emplace(input.name, input.value).second) continue;
    throw GraphError(fmt::format("'{}': input \"{}\" is fed twice", state_->file, input.name),
                     loc.user());
  }
  Built& built = state_->graph_for(fed, loc.user());
  if (!built.session) built.session.emplace(built.imported.graph);
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, value] : fed) flatten(name, value, tensors);
  for (const std::string& name : state_->decisive_values) tensors.erase(name);
  std::vector<Feed> feeds;
  for (const auto& [name, tensor] : tensors) feeds.emplace_back(name, tensor);
  std::vector<Tensor> results =
      built.session->run(built.imported.graph.outputs(), feeds, loc.user());
  auto next = results.begin();
  std::vector<ModelValue> values;
  for (const ModelValue& result : built.imported.results) values.push_back(filled(result, next));
  return values;
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
  const Ref<Storage> file = io::InputFile(path, loc.user()).map();
  const std::string_view bytes(reinterpret_cast<const char*>(file->data()), file->bytes());
  const std::filesystem::path whole(path);
  const std::filesystem::path folder = whole.has_parent_path() ? whole.parent_path() : ".";
  return read(bytes, whole.filename().string(), folder.string(), options, loc.user());
}

Model parse(std::string_view bytes, const LoadOptions& options, Loc loc) {
  return read(bytes, "model", {}, options, loc.user());
}

}  // namespace dyad::onnx
