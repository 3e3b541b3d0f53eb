#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "dyad/codegen/kernel_abi.h"
#include "dyad/codegen/recipe.h"

namespace dyad::codegen {

using KernelArgs = DyadKernelArgs;

/// Bytes moved and operations done.
struct KernelCost {
  double bytes = 0, flops = 0;
};

/// Where a kernel's code came from.
enum class KernelOrigin : std::uint8_t { built_in, disk, llvm, interpreter };

/// Reduced elements that are combined before anything else: see docs/design/kernels.md, "Order of a
/// reduction".
inline constexpr std::int64_t kReduceChunk = 4096;
inline constexpr int kReduceLanes = 16;

/// A recipe that can be called. Immutable and thread-safe.
///
/// The work of a call is numbered in units: elements (pointwise) or outputs (reduction), row-major
/// over the kept dims. A caller runs any ranges of units, on any threads:
///
///     runtime::parallel_for(0, kernel.units(args), grain, [&](auto lo, auto hi) { kernel(args, lo,
///     hi); });
///
/// A reduction with fewer outputs than are worth splitting has a second way: ranges of partials,
/// then ranges of outputs. The bits are the same.
///
///     args.scratch = ...kernel.scratch_bytes(args)...
///     parallel_for(0, kernel.partials(args), grain, [&](auto lo, auto hi) { kernel.partial(args,
///     lo, hi); }); kernel.combine(args, 0, kernel.units(args));
class CompiledKernel {
 public:
  /// `owner` keeps the code mapped.
  CompiledKernel(KernelRecipe recipe, const DyadKernelCode& code, KernelOrigin origin,
                 std::shared_ptr<const void> owner, const void* const contexts[5] = nullptr);
  CompiledKernel(const CompiledKernel&) = delete;
  CompiledKernel& operator=(const CompiledKernel&) = delete;
  ~CompiledKernel() = default;

  /// Runs units lo..hi-1.
  void operator()(const KernelArgs& args, std::int64_t lo, std::int64_t hi) const {
    run_(*this, args, lo, hi);
  }
  /// Runs a pointwise kernel without params on `n` elements; all operands are contiguous or
  /// broadcast.
  void run_dense(void* const* data, std::int64_t n) const {
    static constexpr std::int64_t kUnread[kMaxOperands] = {};
    code_.row(contexts_[0], reinterpret_cast<char* const*>(data), kUnread, n, nullptr, 0);
  }

  [[nodiscard]] std::int64_t units(const KernelArgs& args) const noexcept;
  /// Elements that each output of a reduction combines; 1 for pointwise kernels.
  [[nodiscard]] std::int64_t reduced_count(const KernelArgs& args) const noexcept;
  /// An estimate for one unit.
  [[nodiscard]] KernelCost unit_cost(const KernelArgs& args) const noexcept;

  /// Number of partials, units * chunks, and the scratch memory that they need.
  [[nodiscard]] std::int64_t partials(const KernelArgs& args) const noexcept;
  [[nodiscard]] std::size_t scratch_bytes(const KernelArgs& args) const noexcept;
  void partial(const KernelArgs& args, std::int64_t lo, std::int64_t hi) const;
  void combine(const KernelArgs& args, std::int64_t lo, std::int64_t hi) const;

  [[nodiscard]] const KernelRecipe& recipe() const noexcept { return recipe_; }
  [[nodiscard]] KernelOrigin origin() const noexcept { return origin_; }
  [[nodiscard]] const DyadKernelCode& code() const noexcept { return code_; }

 private:
  friend class PointwiseDriver;
  friend class ReductionDriver;
  using Run = void (*)(const CompiledKernel&, const KernelArgs&, std::int64_t, std::int64_t);

  Run run_;
  DyadKernelCode code_;
  const void* contexts_[5] = {};  // of code_'s functions, in their order
  std::int32_t operands_ = 0, inputs_ = 0;
  std::int32_t sizes_[kMaxOperands];  // bytes of an element; 1 for an index
  std::uint8_t accumulators_ = 0;
  std::uint8_t accumulator_bytes_[kMaxAccumulators] = {};
  KernelCost element_cost_, output_cost_;
  KernelRecipe recipe_;
  KernelOrigin origin_;
  std::shared_ptr<const void> owner_;
};

}  // namespace dyad::codegen
