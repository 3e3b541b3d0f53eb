#pragma once

#include <string_view>

namespace dyad::runtime::cpu {

/// The family of CPUs for which the kernels are that OpenBLAS runs: "Haswell", "SkylakeX"...
[[nodiscard]] std::string_view openblas_kernels();

}  // namespace dyad::runtime::cpu
