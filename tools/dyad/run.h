#pragma once

#include "tools/dyad/arguments.h"

namespace dyad::tool {

/// `dyad run MODEL`: runs an ONNX model once.
[[nodiscard]] Command add_run(CLI::App& program);

}  // namespace dyad::tool
