#include "dyad/onnx/model_reader.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/io/input_file.h"
#include "dyad/onnx/tensor_reader.h"

namespace dyad::onnx {
namespace {

std::string dtype_text(std::int64_t number) {
  try {
    return std::string(name_of(read_dtype(number, "", {})));
  } catch (const OnnxError&) {
    return fmt::format("elements of ONNX type {}", number);
  }
}

std::string type_text(const pb::TypeProto& type) {
  if (type.has_sequence_type()) {
    return fmt::format("seq({})", type_text(type.sequence_type().elem_type()));
  }
  if (type.has_optional_type()) {
    return fmt::format("optional({})", type_text(type.optional_type().elem_type()));
  }
  if (type.has_map_type()) return "map";
  if (!type.has_tensor_type()) return "type not said";
  const pb::TypeProto::Tensor& tensor = type.tensor_type();
  std::string text = dtype_text(tensor.elem_type());
  if (!tensor.has_shape()) return text + ", rank not said";
  std::string sizes;
  for (const auto& dim : tensor.shape().dim()) {
    if (!sizes.empty()) sizes += ", ";
    sizes += dim.has_dim_value()       ? fmt::format("{}", dim.dim_value())
             : dim.dim_param().empty() ? "?"
                                       : dim.dim_param();
  }
  return text + "[" + sizes + "]";
}

ValueInfo info_of(const pb::ValueInfoProto& value) {
  ValueInfo info{.name = value.name(), .text = type_text(value.type()), .type = {}, .rows = {}};
  if (value.type().has_sequence_type()) info.kind = Type::Kind::sequence;
  if (value.type().has_optional_type()) info.kind = Type::Kind::optional;
  try {
    info.type = read_type(value.type(), value.name(), {});
    if (info.type) info.text = to_string(*info.type);
  } catch (const OnnxError&) {
    info.type.reset();
  }
  return info;
}

/// One value, or the two of a map.
void add_infos(const pb::ValueInfoProto& value, std::vector<ValueInfo>& infos) {
  if (!is_map(value.type())) {
    infos.push_back(info_of(value));
    return;
  }
  const bool is_list = value.type().has_sequence_type();
  const pb::TypeProto::Map& map =
      is_list ? value.type().sequence_type().elem_type().map_type() : value.type().map_type();
  const Dim entries = Dim::symbol(value.name() + "_entries");
  const auto add = [&](const char* part, std::int64_t dtype, const Shape& shape) {
    ValueInfo info{.name = value.name() + part, .text = "type not said", .type = {}, .rows = {}};
    try {
      info.type = Type(read_dtype(dtype, fmt::format("\"{}\"", value.name()), {}), shape);
      info.text = to_string(*info.type);
    } catch (const OnnxError&) {
      info.type.reset();
    }
    infos.push_back(std::move(info));
  };
  add(".keys", map.key_type(), {entries});
  infos.back().is_keys = true;
  infos.back().is_list = is_list;
  Shape shape{entries};
  if (is_list) shape = {Dim::symbol(value.name() + "_rows"), entries};
  add(".values", map.value_type().tensor_type().elem_type(), shape);
}

/// Finds which inputs hold numbers of rows of an initializer: those of Gather and of embeddings.
class RowNumbers {
 public:
  explicit RowNumbers(const pb::GraphProto& graph) {
    for (const pb::TensorProto& tensor : graph.initializer()) tables_[tensor.name()] = &tensor;
    for (const pb::NodeProto& node : graph.node()) {
      const std::string& op = node.op_type();
      if ((op == "Cast" || op == "Identity" || op == "Unsqueeze" || op == "Reshape") &&
          node.input_size() > 0 && node.output_size() > 0) {
        same_[node.output(0)] = node.input(0);
      } else if (op == "Gather" || op == "GatherElements") {
        std::int64_t axis = 0;
        for (const auto& attribute : node.attribute()) {
          if (attribute.name() == "axis") axis = attribute.i();
        }
        note(node, 1, 0, axis);
      } else if (op == "EmbedLayerNormalization") {
        note(node, 0, 2, 0);
        note(node, 1, 4, 0);
      }
    }
  }

  [[nodiscard]] std::optional<std::int64_t> find(const std::string& name) const {
    const auto found = rows_.find(name);
    if (found == rows_.end()) return {};
    return found->second;
  }

 private:
  void note(const pb::NodeProto& node, int index, int table, std::int64_t axis) {
    if (node.input_size() <= std::max(index, table)) return;
    const auto found = tables_.find(node.input(table));
    if (found == tables_.end()) return;
    const pb::TensorProto& tensor = *found->second;
    if (axis < 0) axis += tensor.dims_size();
    if (axis < 0 || axis >= tensor.dims_size()) return;
    const std::int64_t size = tensor.dims(static_cast<int>(axis));
    std::string name = node.input(index);
    // Nodes come in order, so a chain of names ends at an input.
    for (auto from = same_.find(name); from != same_.end(); from = same_.find(name)) {
      name = from->second;
      if (++steps_ > kMostSteps) return;
    }
    const auto [row, added] = rows_.try_emplace(name, size);
    if (!added) row->second = std::min(row->second, size);
  }

  static constexpr int kMostSteps = 100'000;  // damaged models may have cycles
  std::map<std::string, const pb::TensorProto*> tables_;
  std::map<std::string, std::string> same_;
  std::map<std::string, std::int64_t> rows_;
  int steps_ = 0;
};

}  // namespace

bool is_map(const pb::TypeProto& type) {
  return type.has_map_type() ||
         (type.has_sequence_type() && type.sequence_type().elem_type().has_map_type());
}

namespace {

using google::protobuf::io::ZeroCopyInputStream;

void check_size(std::uint64_t bytes, const std::string& file, Loc loc) {
  if (bytes <= std::uint64_t{std::numeric_limits<std::int32_t>::max()}) return;
  throw OnnxError(fmt::format("'{}': a model is less than 2 GB; this has {} bytes (weights go "
                              "into files beside it)",
                              file, bytes),
                  loc);
}

/// False for what is no message.
bool parse_whole(ZeroCopyInputStream& stream, pb::ModelProto& model) {
  google::protobuf::io::CodedInputStream coded(&stream);
  return model.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
}

[[noreturn]] void fail_to_parse(const std::string& file, Loc loc) {
  throw OnnxError(
      fmt::format("'{}' is no ONNX model, or is cut or damaged, or its parts are nested "
                  "more than 100 deep",
                  file),
      loc);
}

/// Hands a file on block by block.
class FileBlocks final : public google::protobuf::io::CopyingInputStream {
 public:
  explicit FileBlocks(const io::InputFile& file) : file_(file) {}
  int Read(void* buffer, int size) override {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(size), file_.size() - offset_);
    try {
      file_.read(offset_, buffer, bytes, "the model");
    } catch (...) {  // not through the parser
      error_ = std::current_exception();
      return -1;
    }
    offset_ += bytes;
    return static_cast<int>(bytes);
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const io::InputFile& file_;
  std::uint64_t offset_ = 0;
  std::exception_ptr error_;
};

}  // namespace

pb::ModelProto read_model(std::string_view bytes, const std::string& file, Loc loc) {
  check_size(bytes.size(), file, loc);
  pb::ModelProto model;
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  if (bytes.empty() || !parse_whole(stream, model)) fail_to_parse(file, loc);
  return model;
}

pb::ModelProto read_model_file(const std::string& path, Loc loc) {
  const io::InputFile file(path, loc);
  const std::string name = ModelPlace(path).name;
  check_size(file.size(), name, loc);
  FileBlocks blocks(file);
  constexpr int kBlock = 256 * 1024;
  google::protobuf::io::CopyingInputStreamAdaptor stream(&blocks, kBlock);
  pb::ModelProto model;
  const bool parsed = file.size() > 0 && parse_whole(stream, model);
  blocks.rethrow();
  if (!parsed) fail_to_parse(name, loc);
  return model;
}

ModelPlace::ModelPlace(const std::string& path) {
  const std::filesystem::path whole(path);
  name = whole.filename().string();
  folder = whole.has_parent_path() ? whole.parent_path().string() : ".";
}

MappedFile::MappedFile(const std::string& path, Loc loc)
    : storage(io::InputFile(path, loc).map()),
      bytes(reinterpret_cast<const char*>(storage->data()), storage->bytes()) {
  ModelPlace place(path);
  name = std::move(place.name);
  folder = std::move(place.folder);
}

std::vector<ValueInfo> inputs_of(const pb::ModelProto& model) {
  const pb::GraphProto& graph = model.graph();
  std::set<std::string> defaults;
  for (const pb::TensorProto& tensor : graph.initializer()) defaults.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) defaults.insert(tensor.values().name());
  const RowNumbers numbers(graph);
  std::vector<ValueInfo> inputs;
  for (const pb::ValueInfoProto& input : graph.input()) {
    if (defaults.contains(input.name())) continue;
    add_infos(input, inputs);
    inputs.back().rows = numbers.find(input.name());
  }
  return inputs;
}

std::vector<ValueInfo> outputs_of(const pb::ModelProto& model) {
  std::vector<ValueInfo> outputs;
  for (const pb::ValueInfoProto& output : model.graph().output()) {
    add_infos(output, outputs);
  }
  return outputs;
}

std::string type_text(const pb::TensorProto& tensor) {
  return fmt::format("{}[{}]", dtype_text(tensor.data_type()), fmt::join(tensor.dims(), ", "));
}

}  // namespace dyad::onnx
