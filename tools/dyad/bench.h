#pragma once

#include "tools/dyad/arguments.h"

namespace dyad::tool {

/// `dyad bench MODEL`: times an ONNX model, and shows where its time goes.
[[nodiscard]] Command add_bench(CLI::App& program);

}  // namespace dyad::tool
