#include "dyad/onnx/load.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>

#include "dyad/base/error.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/io/input_file.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/registry.h"

namespace dyad::onnx {

struct Model::State {
  Graph graph;
  std::vector<std::string> inputs, outputs;
  int opset = 0;
  std::string producer;
  std::map<std::string, std::string> metadata;
  std::mutex mutex;
  std::optional<Session> session;  // made at the first run
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
  pb::ModelProto proto;
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  if (bytes.empty() || !proto.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage()) {
    throw OnnxError(fmt::format("'{}' is no ONNX model, or is cut or damaged", file), loc);
  }
  ops::register_builtin_ops();
  exec::register_control_ops();
  auto state = std::make_shared<Model::State>();
  Importer importer(proto, file, std::move(folder), options, loc);
  importer.check_supported();
  state->graph = importer.build(state->inputs, state->outputs);
  state->opset = importer.opset();
  state->producer = proto.producer_name();
  for (const pb::StringStringEntryProto& entry : proto.metadata_props()) {
    state->metadata[entry.key()] = entry.value();
  }
  return Model(std::move(state));
}

}  // namespace

const Graph& Model::graph() const noexcept { return state_->graph; }
const std::vector<std::string>& Model::inputs() const noexcept { return state_->inputs; }
const std::vector<std::string>& Model::outputs() const noexcept { return state_->outputs; }
int Model::opset() const noexcept { return state_->opset; }
const std::string& Model::producer() const noexcept { return state_->producer; }
const std::map<std::string, std::string>& Model::metadata() const noexcept {
  return state_->metadata;
}

TensorDict Model::weights() const {
  TensorDict weights;
  for (auto& [name, tensor] : state_->graph.variables()) weights.add(name, tensor);
  return weights;
}

std::vector<Tensor> Model::run(const std::vector<Feed>& feeds, Loc loc) const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->session) state_->session.emplace(state_->graph);
  return state_->session->run(state_->graph.outputs(), feeds, loc.user());
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
