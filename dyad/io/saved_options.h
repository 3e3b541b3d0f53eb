#pragma once

#include <nlohmann/json_fwd.hpp>

#include "dyad/exec/compile.h"
#include "dyad/io/json_fields.h"

namespace dyad::io {

/// Those of a compiled function's options that are its own, wherever it runs.
[[nodiscard]] nlohmann::json save_options(const CompileOptions& options);
/// Throws std::invalid_argument for what compile() would refuse.
[[nodiscard]] CompileOptions load_options(const JsonValue& from);

}  // namespace dyad::io
