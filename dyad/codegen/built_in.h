#pragma once

#include <cstdint>
#include <span>

#include "dyad/codegen/recipe.h"

/// Kernels that were compiled with the library (tools/kernelgen): functions by their content's
/// hash, for two levels of x86-64. A program that links the generated objects finds them here
/// before it looks anywhere else.
namespace dyad::codegen {

struct BuiltInFunction {
  KernelHash key;
  const void* address;
};

/// Functions sorted by key: AVX2, FMA and F16C (x86-64-v3), and AVX-512 besides (x86-64-v4).
struct BuiltInKernels {
  std::span<const BuiltInFunction> level3, level4;
};

/// Called by the generated objects before main; the table must live as long as the process.
void set_built_in_kernels(const BuiltInKernels& kernels) noexcept;

/// The level of x86-64 whose functions this machine's CPU runs: 4, 3, or 0 for neither.
[[nodiscard]] int built_in_level() noexcept;

/// The function with that key (KernelFunction::key) for a level, or null.
[[nodiscard]] const void* find_built_in(const KernelHash& key,
                                        int level = built_in_level()) noexcept;
/// In one level's table.
[[nodiscard]] const void* find_function(std::span<const BuiltInFunction> sorted,
                                        const KernelHash& key) noexcept;

}  // namespace dyad::codegen
