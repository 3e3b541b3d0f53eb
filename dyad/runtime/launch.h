#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/ir/op_info.h"
#include "dyad/ir/scalar_reduction.h"
#include "dyad/runtime/layout.h"

namespace dyad::codegen {
class CompiledKernel;
struct KernelRecipe;
}  // namespace dyad::codegen

namespace dyad::runtime {

// --- operators, one at a time --------------------------------------------------------------------

/// Runs a pointwise operator whose call looks like one seen before in this thread: the same row,
/// attributes and dtypes, every input row-major and of the result's shape or a single element.
/// False (and nothing done) otherwise. An undefined `output` becomes a new tensor; a defined one,
/// as one of the inputs may be, is overwritten: it must have the result's dtype and shape, and the
/// other inputs other memory.
[[nodiscard]] bool try_run_pointwise(const OpInfo& op, const void* attrs, TensorRefs inputs,
                                     Tensor& output);
/// Runs a pointwise operator on inputs of any layout into new tensors of the inferred types, in the
/// layout of `output_layout`.
void run_pointwise(const OpInfo& op, const void* attrs, TensorRefs inputs,
                   std::span<const Type> types, std::span<Tensor> outputs);
/// Runs a pointwise operator into tensors that exist, of the inferred types and any layout. An
/// output may lie where an input of the same layout lies; no other memory is shared.
void run_pointwise_into(const OpInfo& op, const void* attrs, TensorRefs inputs,
                        std::span<const Tensor> outputs);
/// Runs a counted operator (see OpInfo), whose inputs are scalars, into a row-major tensor.
void run_counted(const OpInfo& op, const void* attrs, TensorRefs inputs, const Tensor& output);
/// Runs a reduction into new row-major tensors of the inferred types.
void run_reduction(const OpInfo& op, const void* attrs, const Tensor& input,
                   std::span<const Type> types, std::span<Tensor> outputs);
/// Overwrites the elements of `target` with those of `value`, broadcast to its shape, converted as
/// convert_element does. The two may overlap: `value` is read before.
void run_copy(const Tensor& target, const Tensor& value);

// --- kernels prepared once and run many times
// -----------------------------------------------------

/// One operand of a prepared kernel: where its elements lie for each place of the iteration space.
struct LaunchOperand {
  DType dtype = DType::f32;
  void* data = nullptr;
  Strides strides = {};  ///< in elements, one for each axis of the space; 0 repeats
  /// An i64 input without memory: its element is `origin` plus coordinates times strides.
  bool index = false;
  std::int64_t origin = 0;

  /// A tensor, broadcast to the space.
  static LaunchOperand of(const Tensor& tensor, std::span<const std::int64_t> space);
};

/// Kernels asked for together, which the compiler makes faster than one by one. A launch made with
/// a batch may run once `finish` has returned.
class KernelBatch {
 public:
  KernelBatch();
  ~KernelBatch();
  KernelBatch(const KernelBatch&) = delete;
  KernelBatch& operator=(const KernelBatch&) = delete;

  /// Finds or makes the kernels of all launches so far, in one request.
  void finish();

 private:
  friend class KernelLaunch;
  struct State;
  std::unique_ptr<State> state_;
};

/// A generated kernel with everything about a call but the addresses: made once for given sizes and
/// strides, run many times. Running it is safe in one thread at a time.
class KernelLaunch {
 public:
  /// `program` at every place of the space.
  static KernelLaunch pointwise(const std::string& name, const ScalarProgram& program,
                                std::span<const std::int64_t> space,
                                std::span<const LaunchOperand> inputs,
                                std::span<const LaunchOperand> outputs,
                                KernelBatch* batch = nullptr);
  /// `program` over the axes `reduced` (sorted) of the space, for each place of the others; outputs
  /// have no stride along reduced axes. An index that the program reads is added here.
  static KernelLaunch reduction(const std::string& name, const ReductionProgram& program,
                                std::span<const std::int64_t> space,
                                std::span<const std::int64_t> reduced,
                                std::span<const LaunchOperand> inputs,
                                std::span<const LaunchOperand> outputs,
                                KernelBatch* batch = nullptr);

  KernelLaunch(KernelLaunch&&) noexcept;
  KernelLaunch& operator=(KernelLaunch&&) noexcept;
  ~KernelLaunch();

  /// Where the address of operand `i` (inputs, then outputs, in the order given) is kept: write
  /// there to move it. Stays where it is while the launch lives, also when the launch is moved.
  [[nodiscard]] void** address(int operand) noexcept;
  /// Values of the program's parameters, bits in the low end.
  [[nodiscard]] std::span<std::uint64_t> slots() noexcept;

  /// Its results leave the caches before anything reads them, whatever their size: those of a
  /// pointwise kernel are stored past these. Before the batch is finished.
  void send_past_caches() noexcept;

  /// Runs on the team where that pays.
  void run();
  /// The same on operands at other addresses (in the order given); several threads may do that at
  /// once.
  void run_at(std::span<void* const> operands) const;

  [[nodiscard]] const codegen::CompiledKernel& kernel() const noexcept;

 private:
  friend class LaunchGroup;
  struct State;
  static KernelLaunch prepared(std::unique_ptr<State> state, codegen::KernelRecipe recipe,
                               KernelBatch* batch);
  explicit KernelLaunch(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// Launches that need nothing of one another, run by one call of the team: what forking and joining
/// cost is paid once, and threads share out all of them, small ones whole. Running it is safe in
/// one thread at a time.
class LaunchGroup {
 public:
  /// `launches` outlive the group.
  explicit LaunchGroup(std::vector<KernelLaunch*> launches) : launches_(std::move(launches)) {}
  void run();

 private:
  void plan();
  void run_shares(std::int64_t lo, std::int64_t hi) const;

  std::vector<KernelLaunch*> launches_;
  std::vector<KernelLaunch*> shared_;  ///< those that threads share out; the others run alone
  std::vector<std::int64_t> ends_;     ///< of the work of these, one after the other
};

}  // namespace dyad::runtime
