#pragma once

#include <memory>

#include "dyad/codegen/kernel.h"

namespace dyad::codegen {

/// A kernel that runs its recipe instruction by instruction over blocks of 256 elements: works
/// everywhere, compiles nothing, and is what generated code is compared with, bit for bit.
[[nodiscard]] std::unique_ptr<CompiledKernel> interpret(const KernelRecipe& recipe);

}  // namespace dyad::codegen
