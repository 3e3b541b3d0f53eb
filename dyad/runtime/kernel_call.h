#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dyad/codegen/iteration.h"
#include "dyad/codegen/kernel.h"
#include "dyad/codegen/recipe.h"

namespace dyad::runtime {

/// The axes of a reduction's space in the order that kernels take them: kept ones, then reduced
/// ones.
class AxisOrder {
 public:
  AxisOrder(std::size_t rank, std::span<const std::int64_t> reduced);
  [[nodiscard]] Ints permuted(std::span<const std::int64_t> values) const;

 private:
  Ints axes_;
};

/// A generated kernel on a space: splits it over threads, and into spaces of no more axes than a
/// kernel takes. For the files of this layer.
struct KernelCall {
  explicit KernelCall(codegen::Iteration iteration) : space(std::move(iteration)) {}

  /// Collapses the space and finds the recipe's kernel for it.
  void prepare(codegen::KernelRecipe recipe);
  /// Collapses the space and makes the recipe fit it; `prepare` with the kernel found for it
  /// follows.
  void specialize(codegen::KernelRecipe& recipe);
  void prepare(std::shared_ptr<const codegen::CompiledKernel> found);
  /// The same with a kernel found before for a space of the same access key, which lives as long.
  void prepare(const codegen::CompiledKernel& found);

  /// Runs on the operands at `data`, in the kernel's order.
  void run(void* const* data, const std::uint64_t* slots) const;

  /// Whether each unit is computed by itself, on the operands as they are: not where axes are
  /// looped over here, or a reduction is split by chunks.
  [[nodiscard]] bool is_plain() const noexcept { return outer_ == 0 && partials_ == 0; }
  [[nodiscard]] std::int64_t units() const noexcept { return units_; }
  /// Units that are worth a thread.
  [[nodiscard]] std::int64_t grain() const noexcept { return grain_; }
  /// Some units of a plain call, on this thread.
  void run_units(void* const* data, const std::uint64_t* slots, std::int64_t lo,
                 std::int64_t hi) const;

  /// A pointwise kernel's results leave the caches before anything reads them, whatever their size.
  bool past_caches = false;
  codegen::Iteration space;
  const codegen::CompiledKernel* kernel = nullptr;
  std::shared_ptr<const codegen::CompiledKernel> held = {};  ///< the kernel, where it was not found

 private:
  void plan();
  void run_block(void* const* data, const std::uint64_t* slots) const;
  [[noreturn]] void fail_rank() const;

  std::int64_t units_ = 0, grain_ = 1;
  std::int64_t partials_ = 0,
               partial_grain_ = 1;  ///< partials_ > 0: a reduction is split by chunks
  std::size_t scratch_bytes_ = 0;
  std::uint32_t flags_ = 0;
  int outer_ = 0;  ///< axes looped over here
};

}  // namespace dyad::runtime
