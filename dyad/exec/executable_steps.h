#pragma once

#include <memory>
#include <span>
#include <vector>

#include "dyad/exec/executable_draft.h"
#include "dyad/exec/executable_plan.h"
#include "dyad/exec/executable_program.h"
#include "dyad/runtime/launch.h"

namespace dyad::exec {

/// What a generated kernel of a step is made from: its program and where its operands lie in the
/// space that it runs over.
struct KernelParts {
  KernelParts(const Plan& plan, const DraftStep& draft);
  /// The kernel on a space of these sizes, operands as far apart as in the whole.
  [[nodiscard]] runtime::KernelLaunch launch(std::span<const std::int64_t> sizes,
                                             runtime::KernelBatch& batch) const;

  StepProgram program;
  Shape space;
  std::vector<runtime::LaunchOperand> inputs, outputs;
};

/// The step of kernels that run on some rows at a time.
[[nodiscard]] std::unique_ptr<Step> make_rows_step(Plan& plan, const DraftStep& draft,
                                                   runtime::KernelBatch& batch);

/// The step of a generated kernel: a pointwise operator, a reduction, or a fused node. Adds patches
/// for the addresses of its operands. It may run once `batch` is finished.
[[nodiscard]] std::unique_ptr<Step> make_kernel_step(Plan& plan, const DraftStep& draft,
                                                     runtime::KernelBatch& batch);

/// One step of several that make_kernel_step made, which need nothing of one another.
[[nodiscard]] std::unique_ptr<Step> make_together_step(std::vector<std::unique_ptr<Step>> steps);

/// The step of an opaque operator: a call of its kernel on tensors made in advance.
[[nodiscard]] std::unique_ptr<Step> make_opaque_step(Plan& plan, const DraftStep& draft);

/// Copies elements from one value to another of the same shape.
[[nodiscard]] std::unique_ptr<Step> make_copy_step(Plan& plan, const DraftStep& draft);

/// Keeps the part of a variable that the next step writes over, to undo that.
[[nodiscard]] std::unique_ptr<Step> make_save_step(Plan& plan, const DraftStep& draft);

/// Runs `step`, then throws AnomalyError when it made a NaN or an infinity.
[[nodiscard]] std::unique_ptr<Step> make_checked_step(Plan& plan, const DraftStep& draft,
                                                      std::unique_ptr<Step> step);

/// The tensors of slots, patched whenever their buffers move; undefined for -1. Constants among
/// them keep their contents, but for number `packed`, whose reader sees to it itself.
[[nodiscard]] std::vector<Tensor> patched_tensors(Plan& plan, std::span<const int> slots,
                                                  int packed = -1);

}  // namespace dyad::exec
