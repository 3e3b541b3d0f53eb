#pragma once

#include "tools/dyad/arguments.h"

namespace dyad::tool {

/// `dyad demo`: trains a CNN on handwritten digits eagerly and compiled, compares, exports,
/// reloads, classifies.
[[nodiscard]] Command add_demo(CLI::App& program);

}  // namespace dyad::tool
