#include "dyad/onnx/value_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <span>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/text.h"
#include "dyad/io/atomic_file.h"
#include "dyad/io/npy.h"
#include "dyad/onnx/model_reader.h"
#include "dyad/onnx/tensor_reader.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::onnx {
namespace {

template <class Proto>
Proto read_message(const std::string& path, std::string_view what, Loc loc) {
  const MappedFile file(path, loc);
  Proto message;
  const auto size = static_cast<int>(std::min<std::size_t>(file.bytes.size(), 1u << 31 >> 1));
  if (!message.ParseFromArray(file.bytes.data(), size)) {
    throw OnnxError(fmt::format("'{}' holds no {} in ONNX's format; other formats that are read: "
                                ".npy",
                                path, what),
                    loc);
  }
  return message;
}

ModelValue value_of(const pb::TensorProto& proto, Loc loc) {
  ExternalData none({});
  return {read_tensor(proto, none, loc)};
}
ModelValue value_of(const pb::OptionalProto& proto, Loc loc);
ModelValue value_of(const pb::SequenceProto& proto, Loc loc) {
  std::vector<ModelValue> elements;
  for (const auto& element : proto.tensor_values()) elements.push_back(value_of(element, loc));
  for (const auto& element : proto.sequence_values()) elements.push_back(value_of(element, loc));
  for (const auto& element : proto.optional_values()) elements.push_back(value_of(element, loc));
  return ModelValue(std::move(elements));
}
ModelValue value_of(const pb::OptionalProto& proto, Loc loc) {
  if (proto.has_tensor_value()) return value_of(proto.tensor_value(), loc);
  if (proto.has_sequence_value()) return value_of(proto.sequence_value(), loc);
  if (proto.has_optional_value()) return value_of(proto.optional_value(), loc);
  return {};
}

/// What `make` makes of the contents of a file, which its errors name.
template <class F>
auto named_in_errors(const std::string& path, Loc loc, F&& make) {
  try {
    return make();
  } catch (const OnnxError& error) {
    throw OnnxError(fmt::format("'{}': {}", path, error.message()), loc);
  }
}

template <class Proto>
ModelValue from_message(const std::string& path, std::string_view what, Loc loc) {
  const auto message = read_message<Proto>(path, what, loc);
  return named_in_errors(path, loc, [&] { return value_of(message, loc); });
}

std::array<ModelValue, 2> values_of(std::span<const pb::MapProto* const> maps, bool is_list,
                                    Loc loc) {
  if (maps.empty()) throw OnnxError("a list of maps is empty: nothing tells its keys", loc);
  const pb::MapProto& first = *maps[0];
  const Tensor keys =
      first.string_keys_size() > 0
          ? strings(
                std::vector<std::string>(first.string_keys().begin(), first.string_keys().end()))
          : tensor(std::vector<std::int64_t>(first.keys().begin(), first.keys().end()));
  std::vector<Tensor> rows;
  for (const pb::MapProto* map : maps) {
    std::vector<Tensor> row;
    for (const auto& value : map->values().tensor_values()) {
      row.push_back(reshape(value_of(value, loc).tensor(), {}, loc));
    }
    if (std::ssize(row) != keys.numel().number()) {
      throw OnnxError(
          fmt::format("a map has {} values for {} keys", row.size(), keys.numel().number()), loc);
    }
    rows.push_back(stack(row, 0, loc));
  }
  return {ModelValue(keys), ModelValue(is_list ? stack(rows, 0, loc) : rows[0])};
}

/// What NumPy has instead.
DType numpy_dtype(DType dtype) {
  if (dtype == bf16 || contains(kSmallFloat, dtype)) return f32;
  if (contains(kSmallInteger, dtype)) return small_int_is_signed(dtype) ? i8 : u8;
  return dtype;
}

void save_strings(const std::string& path, const Tensor& tensor, Loc loc) {
  pb::TensorProto message;
  fill_tensor_type(message, "", tensor);
  for (std::string& text : to_strings(tensor)) message.add_string_data(std::move(text));
  std::string bytes;
  if (!message.SerializeToString(&bytes)) {
    throw OnnxError(fmt::format("'{}': {} takes more than the 2 GB that a message may hold", path,
                                type_string(tensor)),
                    loc);
  }
  io::write_file(path, bytes, loc);
}

/// A tensor and the file for it.
struct Part {
  std::string path;
  Tensor tensor;
};

std::vector<Part> parts_of(const std::string& stem, const ModelValue& value) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < value.sequence().size(); ++i) {
    std::ranges::move(parts_of(fmt::format("{}_{}", stem, i), value.sequence()[i]),
                      std::back_inserter(parts));
  }
  if (value.is_tensor()) {
    const bool is_text = value.tensor().dtype() == DType::string;
    parts.push_back({stem + (is_text ? ".pb" : ".npy"), value.tensor()});
  }
  return parts;
}

bool taken(const std::vector<Part>& parts, const std::vector<std::string>& paths) {
  return std::ranges::any_of(
      parts, [&](const Part& part) { return std::ranges::find(paths, part.path) != paths.end(); });
}

void save(const Part& part, Loc loc) {
  if (part.tensor.dtype() == DType::string) {
    save_strings(part.path, part.tensor, loc);
  } else {
    io::save_npy(part.path, to(part.tensor, numpy_dtype(part.tensor.dtype()), loc), loc);
  }
}

/// The name with `_` for what does not belong into the name of a file.
std::string file_stem(const std::string& name) {
  std::string stem;
  for (const char c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ||
                       (c == '.' && !stem.empty());
    stem += plain ? c : '_';
  }
  return stem;
}

}  // namespace

ModelValue load_value(const std::string& path, Type::Kind kind, Loc loc) {
  loc = loc.user();
  if (path.ends_with(".npy")) return {io::load_npy(path, loc)};
  if (kind == Type::Kind::sequence) {
    const auto message = read_message<pb::SequenceProto>(path, "sequence", loc);
    ModelValue value = named_in_errors(path, loc, [&] { return value_of(message, loc); });
    // The bytes of a tensor pass for an empty sequence, but for fields that sequences have not.
    if (value.sequence().empty() && !message.unknown_fields().empty()) {
      throw OnnxError(fmt::format("'{}' holds no sequence in ONNX's format", path), loc);
    }
    return value;
  }
  if (kind == Type::Kind::optional) {
    return from_message<pb::OptionalProto>(path, "optional", loc);
  }
  return from_message<pb::TensorProto>(path, "tensor", loc);
}

std::array<ModelValue, 2> load_map(const std::string& path, bool is_list, Loc loc) {
  loc = loc.user();
  if (!is_list) {
    const auto map = read_message<pb::MapProto>(path, "map", loc);
    return named_in_errors(path, loc, [&] { return values_of(std::vector{&map}, is_list, loc); });
  }
  const auto list = read_message<pb::SequenceProto>(path, "sequence", loc);
  std::vector<const pb::MapProto*> maps;
  for (const pb::MapProto& map : list.map_values()) maps.push_back(&map);
  return named_in_errors(path, loc, [&] { return values_of(maps, is_list, loc); });
}

std::vector<std::string> save_value(const std::string& folder, const std::string& name,
                                    const ModelValue& value, Loc loc) {
  return save_values(folder, {{name, value}}, loc);
}

std::vector<std::string> save_values(const std::string& folder,
                                     const std::vector<NamedValue>& values, Loc loc) {
  loc = loc.user();
  std::vector<std::string> written;
  for (const NamedValue& value : values) {
    const std::string stem = (std::filesystem::path(folder) / file_stem(value.name)).string();
    std::vector<Part> parts = parts_of(stem, value.value);
    for (int i = 2; taken(parts, written); ++i) {
      parts = parts_of(fmt::format("{}.{}", stem, i), value.value);
    }
    for (const Part& part : parts) {
      save(part, loc);
      written.push_back(part.path);
    }
  }
  return written;
}

}  // namespace dyad::onnx
