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
#include "dyad/ops/registry.h"

namespace dyad::onnx {

namespace {

using Values = std::map<std::string, Tensor>;

/// The graph of a model for some values of inputs.
struct Built {
  Graph graph;
  std::optional<Session> session;  // made at the first run
};

/// More graphs than that are not kept for different values.
constexpr std::size_t kMaxBuilt = 16;

}  // namespace

struct Model::State {
  pb::ModelProto proto;  // emptied when no other graph can be asked for
  std::string file;
  std::optional<std::string> folder;
  LoadOptions options;
  Loc loc;

  std::vector<std::string> inputs, outputs, value_inputs;
  int opset = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
  Values fixed;  ///< by specialize()
  std::mutex mutex;
  std::map<std::string, Built> built;  ///< by the elements of the inputs that decide

  /// The graph for these values; learns which inputs decide.
  Built build(const Values& values) {
    Importer importer(proto, file, folder, options, loc);
    Built made;
    inputs.clear();
    outputs.clear();
    made.graph = importer.build(values, inputs, outputs);
    std::erase_if(inputs, [&](const std::string& name) { return fixed.contains(name); });
    return made;
  }

  /// The graph for the inputs that decide, out of all that are fed.
  Built& graph_for(const Values& fed, Loc where) {
    for (;;) {
      Values values = fixed;
      std::string key;
      for (const std::string& name : value_inputs) {
        const auto found = fed.find(name);
        if (found == fed.end()) {
          throw GraphError(fmt::format("'{}': input \"{}\" is not fed; its values decide what the "
                                       "graph looks like",
                                       file, name),
                           where);
        }
        values[name] = found->second;
        key += type_string(found->second) + ":";
        for (const std::byte b : packed_elements(found->second)) key += static_cast<char>(b);
      }
      const auto known = built.find(key);
      if (known != built.end()) return known->second;
      try {
        Built made = build(values);
        if (built.size() >= kMaxBuilt) built.clear();
        return built[key] = std::move(made);
      } catch (const NeedsValues& needs) {
        built.clear();
        value_inputs.insert(value_inputs.end(), needs.inputs.begin(), needs.inputs.end());
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
  Importer importer(state->proto, file, state->folder, options, loc);
  importer.check_supported();
  state->opset = importer.opset();
  state->producer = state->proto.producer_name();
  for (const pb::StringStringEntryProto& entry : state->proto.metadata_props()) {
    state->metadata[entry.key()] = entry.value();
  }
  try {
    state->built[""] = state->build({});
    state->proto.Clear();
  } catch (const NeedsValues& needs) {
    state->value_inputs = needs.inputs;
  }
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
  return state_->built.at("").graph;
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
  try {
    made->built[""] = made->build(made->fixed);
  } catch (const NeedsValues& needs) {
    made->value_inputs = needs.inputs;
  }
  return Model(std::move(made));
}

std::vector<Tensor> Model::run(const std::vector<Feed>& feeds, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  Values fed;
  for (const Feed& feed : feeds) fed[feed.name] = feed.value;
  Built& built = state_->graph_for(fed, loc.user());
  if (!built.session) built.session.emplace(built.graph);
  std::vector<Feed> rest;
  for (const Feed& feed : feeds) {
    const auto& known = state_->value_inputs;
    if (std::ranges::find(known, feed.name) == known.end()) rest.push_back(feed);
  }
  return built.session->run(built.graph.outputs(), rest, loc.user());
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
