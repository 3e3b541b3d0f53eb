#include "dyad/exec/update.h"

#include <algorithm>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/core/autocast_switch.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/anomaly.h"
#include "dyad/exec/cancel_scope.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/recorder.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/runtime/launch.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::exec {
namespace {

/// Whether the results may be computed where the targets lie: nothing else reads that memory.
bool can_be_computed_there(TensorRefs inputs, std::span<const Tensor> targets) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (is_broadcast(*targets[i].impl())) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (share_memory(targets[i], targets[j])) return false;
    }
    const bool apart = std::ranges::all_of(inputs, [&](const Tensor* input) {
      return !share_memory(targets[i], *input) || lies_as(targets[i], *input);
    });
    if (!apart) return false;
  }
  return true;
}

/// The kernel of an opaque operator that may work in place; null for others.
const runtime::OpKernel* kernel_in_place(const OpInfo& op) {
  const runtime::OpKernel* const kernel =
      op.kind == BodyKind::opaque ? runtime::find_kernel(op) : nullptr;
  return kernel && kernel->in_place ? kernel : nullptr;
}

}  // namespace

bool can_update_in_place(const OpInfo& op, TensorRefs inputs, const void* attrs,
                         std::span<const Tensor> targets, Loc loc) {
  const auto concrete = [](const Tensor& t) { return t.defined() && t.is_concrete(); };
  if (DetectAnomaly::active() || autograd::should_record(op, inputs) ||
      !std::ranges::all_of(inputs, [&](const Tensor* input) { return concrete(*input); }) ||
      !std::ranges::all_of(targets, concrete) || !can_be_computed_there(inputs, targets) ||
      (op.kind != BodyKind::pointwise && !kernel_in_place(op)))
    return false;
  Types types;
  for (const Tensor* input : inputs) types.push_back(type_of(*input));
  types = infer_types(op, types, attrs, loc.user());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (!types[i].same_as(type_of(targets[i]))) return false;
  }
  return true;
}

void update_in_place(const OpInfo& op, TensorRefs inputs, const void* attrs,
                     std::span<const Tensor> targets, Loc loc) {
  for (const Tensor& target : targets) target.impl()->storage->before_write();
  if (const runtime::OpKernel* const kernel = kernel_in_place(op)) {
    std::vector<Tensor> held, results(targets.begin(), targets.end());
    for (const Tensor* input : inputs) held.push_back(*input);
    kernel->run({op, attrs, held, results, loc});
  } else {
    runtime::run_pointwise_into(op, attrs, inputs, targets);
  }
}

bool try_over(const OpInfo& op, TensorRefs inputs, const void* attrs, Loc loc) {
  const Tensor& first = *inputs[0];
  if (!first.is_concrete() || autocast_dtype() || DetectAnomaly::active() ||
      autograd::should_record(op, inputs))
    return false;
  const TensorImpl& impl = *first.impl();
  if (impl.use_count() != 1 || !impl.storage || impl.storage->use_count() != 1) return false;
  // The result would lie as all of them do.
  const bool lie_alike = std::ranges::all_of(inputs, [&](const Tensor* input) {
    return input->is_concrete() && ((impl.contiguous && input->impl()->contiguous) ||
                                    impl.strides == input->impl()->strides);
  });
  if (!lie_alike) return false;
  CancelScope::check(loc);
  impl.storage->before_write();
  Tensor result = first;
  if (op.kind != BodyKind::pointwise || !runtime::try_run_pointwise(op, attrs, inputs, result)) {
    constexpr std::int64_t kWorthIt = 64 << 10;  // bytes; smaller ones find their kernel next time
    if (impl.numel() * static_cast<std::int64_t>(size_of(impl.dtype)) < kWorthIt ||
        !can_update_in_place(op, inputs, attrs, {&first, 1}, loc))
      return false;
    update_in_place(op, inputs, attrs, {&first, 1}, loc);
  }
  impl.storage->bump_version();
  return true;
}

void update(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<const Tensor> targets,
            Loc loc) {
  CancelScope::check(loc);
  if (Evaluator::is_eager()) {
    if (can_update_in_place(op, inputs, attrs, targets, loc)) {
      for (const Tensor& target : targets) autograd::check_write(target, target, 1, loc.user());
      update_in_place(op, inputs, attrs, targets, loc);
      for (const Tensor& target : targets) target.impl()->storage->bump_version();
      return;
    }
  } else if (auto* const recorder = dynamic_cast<Recorder*>(&Evaluator::current());
             recorder && recorder->update(op, inputs, attrs, targets, loc)) {
    return;
  }
  std::vector<Tensor> results(targets.size());
  Evaluator::current().apply(op, inputs, attrs, results, loc);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Evaluator::current().write(targets[i], results[i], loc);
  }
}

}  // namespace dyad::exec
