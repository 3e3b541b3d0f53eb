#include "dyad/exec/update.h"

#include <algorithm>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/anomaly.h"
#include "dyad/exec/cancel_scope.h"
#include "dyad/exec/eager.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/runtime/launch.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::exec {
namespace {

/// Whether element i of both lies at one address, for all i.
bool lies_as(const Tensor& a, const Tensor& b) {
  return a.raw_data() == b.raw_data() && a.dtype() == b.dtype() && a.shape().same_as(b.shape()) &&
         a.strides() == b.strides();
}

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

bool try_in_place(const OpInfo& op, TensorRefs inputs, const void* attrs,
                  std::span<const Tensor> targets, Loc loc) {
  const auto concrete = [](const Tensor& t) { return t.defined() && t.is_concrete(); };
  if (!Evaluator::is_eager() || DetectAnomaly::active() || autograd::should_record(op, inputs) ||
      !std::ranges::all_of(inputs, [&](const Tensor* input) { return concrete(*input); }) ||
      !std::ranges::all_of(targets, concrete) || !can_be_computed_there(inputs, targets)) {
    return false;
  }
  const runtime::OpKernel* kernel =
      op.kind == BodyKind::opaque ? runtime::find_kernel(op) : nullptr;
  if (op.kind != BodyKind::pointwise && !(kernel && kernel->in_place)) return false;
  Types types;
  for (const Tensor* input : inputs) types.push_back(type_of(*input));
  types = infer_types(op, types, attrs, loc.user());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (!types[i].same_as(type_of(targets[i]))) return false;
  }
  for (const Tensor& target : targets) autograd::check_write(target, target, 1, loc.user());
  if (kernel) {
    std::vector<Tensor> held, results(targets.begin(), targets.end());
    for (const Tensor* input : inputs) held.push_back(*input);
    kernel->run({op, attrs, held, results, loc});
  } else {
    runtime::run_pointwise_into(op, attrs, inputs, targets);
  }
  for (const Tensor& target : targets) target.impl()->storage->bump_version();
  return true;
}

}  // namespace

void update(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<const Tensor> targets,
            Loc loc) {
  CancelScope::check(loc);
  if (try_in_place(op, inputs, attrs, targets, loc)) return;
  std::vector<Tensor> results(targets.size());
  Evaluator::current().apply(op, inputs, attrs, results, loc);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    Evaluator::current().write(targets[i], results[i], loc);
  }
}

}  // namespace dyad::exec
