#pragma once

#include <array>
#include <string>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/ir/type.h"
#include "dyad/onnx/model_value.h"

namespace dyad::onnx {

/// The value in a file: a tensor in NumPy's format (`.npy`), or a message of ONNX (any other name,
/// usually `.pb`), which is a tensor, a sequence or an optional as `kind` says. IoError for a file
/// that cannot be read, OnnxError for one that holds no such message.
[[nodiscard]] ModelValue load_value(const std::string& path, Type::Kind kind = Type::Kind::tensor,
                                    Loc loc = std::source_location::current());

/// Keys and values, both [k], of the map in a message; of a list of maps with the same keys, the
/// keys of the first and a row of values for each. IoError, OnnxError.
[[nodiscard]] std::array<ModelValue, 2> load_map(const std::string& path, bool is_list,
                                                 Loc loc = std::source_location::current());

/// Writes a value into `folder` and gives the paths of what was written: `NAME.npy`; for a sequence
/// one file an element, `NAME_0.npy`, `NAME_1.npy`...; nothing for an empty optional. Dtypes that
/// NumPy does not have become the next that holds them exactly: bf16 and the floats of 8 and 4 bits
/// f32, the integers of 4 and 2 bits i8 or u8. Strings become `NAME.pb`, a message that load_value
/// reads. Characters of the name that do not belong into the name of a file become `_`. IoError.
std::vector<std::string> save_value(const std::string& folder, const std::string& name,
                                    const ModelValue& value,
                                    Loc loc = std::source_location::current());
/// The same for several, no two in one file: where names only differ in characters that became `_`,
/// the later ones are NAME.2, NAME.3...
std::vector<std::string> save_values(const std::string& folder,
                                     const std::vector<NamedValue>& values,
                                     Loc loc = std::source_location::current());

}  // namespace dyad::onnx
