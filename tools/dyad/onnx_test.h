#pragma once

#include "tools/dyad/arguments.h"

namespace dyad::tool {

/// `dyad onnx-test`: runs cases, prints each failure, closes with `N passed, N failed, N skipped`.
[[nodiscard]] Command add_onnx_test(CLI::App& program);

}  // namespace dyad::tool
