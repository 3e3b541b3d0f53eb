#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dyad/core/storage.h"
#include "dyad/onnx/proto_types.h"
#include "dyad/onnx/value_info.h"

namespace dyad::onnx {

/// The message in the bytes of a model file, which messages call `file`. OnnxError when they are no
/// model, or more than 2 GB.
[[nodiscard]] pb::ModelProto read_model(std::string_view bytes, const std::string& file, Loc loc);

/// The message of a file, which is read in blocks: it is never in memory beside its message. Errors
/// as above; IoError when it cannot be read.
[[nodiscard]] pb::ModelProto read_model_file(const std::string& path, Loc loc);

/// The parts of a path: the file's name without folders, and its folder, `.` when the path has
/// none.
struct ModelPlace {
  explicit ModelPlace(const std::string& path);
  std::string name, folder;
};

/// A file in memory. IoError when it cannot be read.
struct MappedFile {
  MappedFile(const std::string& path, Loc loc);
  Ref<Storage> storage;
  std::string_view bytes;
  std::string name;    ///< without folders
  std::string folder;  ///< `.` when the path has none
};

/// Whether it is a map or a list of maps.
[[nodiscard]] bool is_map(const pb::TypeProto& type);

/// Inputs that a run must feed (those without a default), and results. A map is two: `NAME.keys`
/// and `NAME.values`.
[[nodiscard]] std::vector<ValueInfo> inputs_of(const pb::ModelProto& model);
[[nodiscard]] std::vector<ValueInfo> outputs_of(const pb::ModelProto& model);

/// `f32[3, 4]` for a tensor of a model; what it says even if Dyad has no such dtype.
[[nodiscard]] std::string type_text(const pb::TensorProto& tensor);

}  // namespace dyad::onnx
