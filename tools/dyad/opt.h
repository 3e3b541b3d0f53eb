#pragma once

#include "tools/dyad/arguments.h"

namespace dyad::tool {

/// `dyad passes`: lists the compiler's passes.
[[nodiscard]] Command add_passes(CLI::App& program);
/// `dyad opt`: runs passes on a graph in text form.
[[nodiscard]] Command add_opt(CLI::App& program);

}  // namespace dyad::tool
