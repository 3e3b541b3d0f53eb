#pragma once

#include <cstdint>
#include <span>

#include "dyad/base/inline_vector.h"
#include "dyad/codegen/kernel_abi.h"
#include "dyad/codegen/recipe.h"

namespace dyad::codegen {

/// The rectangular space that a kernel call runs over: sizes, kept dims before reduced ones, and
/// for each operand (inputs, then outputs) a stride in elements for each dim, 0 where it repeats.
/// Outputs have stride 0 in reduced dims.
class Iteration {
 public:
  /// Over `sizes`, of which the last `reduced` are reduced.
  explicit Iteration(std::span<const std::int64_t> sizes, int reduced = 0);
  /// Adds the next operand; as many strides as there are sizes.
  void add(std::span<const std::int64_t> strides);
  /// Adds an index operand that counts the elements (reduced ones, in a reduction) row-major.
  void add_index();

  /// Drops dims of size 1, reorders kept dims so that memory is walked in order, and merges dims
  /// that every operand walks as one. Reduced dims keep their order, which the result's bits depend
  /// on.
  void collapse();

  [[nodiscard]] int rank() const noexcept { return static_cast<int>(sizes_.size()); }
  [[nodiscard]] int reduced() const noexcept { return reduced_; }
  [[nodiscard]] int operands() const noexcept { return operands_; }
  [[nodiscard]] std::span<const std::int64_t> sizes() const noexcept { return sizes_; }
  [[nodiscard]] std::int64_t stride(int operand, int dim) const noexcept {
    return strides_[operand * rank() + dim];
  }
  [[nodiscard]] std::int64_t elements() const noexcept;

  /// What a recipe depends on, of a collapsed iteration: the kind of loop and each operand's
  /// access. Equal keys (and equal operators and dtypes) need the same kernel, so a caller may keep
  /// kernels by it. At most 30 operands.
  [[nodiscard]] std::uint64_t access_key(int outputs = 1) const noexcept;
  /// Sets kind and accesses of a recipe with these operands to fit; what verify() checks may throw.
  void specialize(KernelRecipe& recipe) const;
  /// Arguments that point into this object, `data` and `slots`.
  [[nodiscard]] DyadKernelArgs args(void* const* data,
                                    const std::uint64_t* slots = nullptr) const noexcept;

 private:
  [[nodiscard]] KernelKind kind(int outputs) const noexcept;
  [[nodiscard]] Access access(int operand, int dim) const noexcept;
  void order_kept();
  void keep_dims(std::span<const int> dims, int reduced);
  [[nodiscard]] bool mergeable(int dim) const noexcept;

  InlineVector<std::int64_t, kMaxRank> sizes_;
  InlineVector<std::int64_t, 32> strides_;
  int reduced_ = 0, operands_ = 0;
};

}  // namespace dyad::codegen
