#pragma once

#include "tools/dyad/arguments.h"

namespace dyad::tool {

/// `dyad inspect MODEL`: what is in an ONNX model, and whether Dyad can run it.
[[nodiscard]] Command add_inspect(CLI::App& program);

}  // namespace dyad::tool
