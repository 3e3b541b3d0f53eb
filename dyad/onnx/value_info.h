#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dyad/ir/type.h"

namespace dyad::onnx {

/// What a model says of one of its inputs or outputs.
struct ValueInfo {
  std::string name;
  std::string text;  ///< `f32[batch, 3, 224, 224]`, `seq(f32[n])`, `f32, rank not said`
  Type::Kind kind = Type::Kind::tensor;
  std::optional<Type> type;  ///< when the model says all of it
  /// The keys of a map, or of a list of maps; the next one are its values.
  bool is_keys = false;
  bool is_list = false;
  /// Integers that look up rows of a table of the model (token ids): how many rows it has.
  std::optional<std::int64_t> rows;
};

}  // namespace dyad::onnx
