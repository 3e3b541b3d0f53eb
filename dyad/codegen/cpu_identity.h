#pragma once

#include <string>

namespace dyad::codegen {

/// Names this machine's CPU and all its instruction set extensions, so that code compiled for it
/// runs wherever this is the same.
[[nodiscard]] std::string cpu_identity();

}  // namespace dyad::codegen
