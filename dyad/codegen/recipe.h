#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "dyad/core/dtype.h"
#include "dyad/ir/scalar_reduction.h"

namespace dyad::codegen {

/// Limits of a kernel.
inline constexpr int kMaxOperands = 64, kMaxAccumulators = 4, kMaxRank = 8;

/// What the stride of an operand along the vectorised dim is.
enum class Access : std::uint8_t {
  contiguous,  ///< 1
  broadcast,   ///< 0
  strided,     ///< any
};

/// An input or output of a kernel. An index operand is an i64 input without memory: its element is
/// the sum of the origin and coordinate * stride, as an address would be; so an arange, or the
/// number of a reduced element, follows every permutation and collapsing of dims.
struct Operand {
  DType dtype = DType::f32;
  Access access = Access::contiguous;
  bool index = false;
  bool operator==(const Operand&) const = default;
};

/// Which dim a kernel's loop runs along.
enum class KernelKind : std::uint8_t {
  pointwise,       ///< the innermost dim
  reduce_rows,     ///< a reduction, along the innermost reduced dim
  reduce_columns,  ///< a reduction, along the innermost kept dim, with the accumulators of many
                   ///< outputs at once
};

/// 128 bits that name a recipe.
struct KernelHash {
  std::uint64_t high = 0, low = 0;
  auto operator<=>(const KernelHash&) const = default;
  [[nodiscard]] std::string hex() const;
};

/// All that a kernel's code depends on. Sizes, strides, addresses and slots come with each call.
struct KernelRecipe {
  std::string name =
      "kernel";  ///< for profiles and debuggers; two recipes that differ in it alone are the same
  KernelKind kind = KernelKind::pointwise;
  std::vector<Operand> inputs, outputs;
  ScalarProgram program;  ///< pointwise: inputs to outputs; a reduction: its map
  ScalarProgram combine, finish;
  std::vector<std::uint64_t> init;

  [[nodiscard]] bool is_reduction() const noexcept { return kind != KernelKind::pointwise; }
  /// Types of the accumulators.
  [[nodiscard]] std::vector<ScalarType> accumulators() const;

  /// Stable text of everything but the name; `with_locs` adds the source lines of instructions.
  [[nodiscard]] std::string text(bool with_locs = false) const;
  /// Content hash of the text with source lines, which debug information holds.
  [[nodiscard]] KernelHash hash() const;
  /// Throws InternalError when operands and programs do not fit together.
  void verify() const;
};

/// A pointwise recipe with all operands contiguous; `specialize` (iteration.h) sets the accesses.
[[nodiscard]] KernelRecipe pointwise_recipe(std::string name, ScalarProgram program,
                                            const std::vector<DType>& inputs,
                                            const std::vector<DType>& outputs);
/// A reduction recipe, kind and accesses to be set by `specialize`. `inputs` are the dtypes of the
/// map's inputs but for the index.
[[nodiscard]] KernelRecipe reduction_recipe(std::string name, ReductionProgram program,
                                            const std::vector<DType>& inputs,
                                            const std::vector<DType>& outputs);

/// Accumulators, then the recipe's inputs -> accumulators: the map and the combine of a reduction
/// as one program.
[[nodiscard]] ScalarProgram accumulate_program(const KernelRecipe& recipe);

/// Hash of bytes (MurmurHash3 x64 128).
[[nodiscard]] KernelHash hash_bytes(std::string_view bytes, std::uint64_t seed = 0) noexcept;

}  // namespace dyad::codegen
