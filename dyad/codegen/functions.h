#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dyad/codegen/kernel_abi.h"
#include "dyad/codegen/recipe.h"

namespace dyad::codegen {

/// Which entry of DyadKernelCode a function is, in its order.
enum class KernelPart : std::uint8_t { row, reduce, accumulate, combine, finish };
inline constexpr int kKernelParts = 5;

/// One function of generated code: a loop along one dim. What `DyadRowFn` does with `inputs`,
/// `outputs` and `program`; the part `reduce` is a DyadReduceFn with a combine and initial values
/// besides.
struct KernelFunction {
  KernelPart part = KernelPart::row;
  /// By content and DYAD_KERNEL_ABI: equal functions of different recipes have the same.
  KernelHash key;
  std::string name;  ///< for debuggers and profiles
  std::vector<Operand> inputs, outputs;
  ScalarProgram program, combine;
  std::vector<std::uint64_t> init;
};

/// Where a part that is a DyadRowFn goes in a kernel's code.
[[nodiscard]] inline DyadRowFn& row_entry(DyadKernelCode& code, KernelPart part) noexcept {
  switch (part) {
    case KernelPart::accumulate:
      return code.accumulate;
    case KernelPart::combine:
      return code.combine;
    case KernelPart::finish:
      return code.finish;
    default:
      return code.row;
  }
}

/// The functions that a recipe consists of.
[[nodiscard]] std::vector<KernelFunction> functions_of(const KernelRecipe& recipe);

/// The address of the function with that key, or null.
using FindFunction = std::function<const void*(const KernelHash& key)>;
/// A kernel's entry points from those of its functions; nothing when one of them is missing.
[[nodiscard]] std::optional<DyadKernelCode> code_of(std::span<const KernelFunction> functions,
                                                    const FindFunction& find);

}  // namespace dyad::codegen
