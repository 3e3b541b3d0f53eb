#pragma once

#include <span>
#include <vector>

#include "dyad/autograd/row_grad.h"
#include "dyad/core/tensor.h"
#include "dyad/ir/op_info.h"

namespace dyad::autograd {

/// How a backward pass treats the tape.
struct BackwardOptions {
  bool retain_graph = false;  ///< keep saved tensors for another pass
  bool create_graph = false;  ///< put the pass itself on the tape, to be differentiated again
};

/// Walks the tape from `outputs`, weighted by `grads` (undefined: ones, allowed for a scalar only).
/// Without `inputs` the gradients are accumulated into the leaves; with them they are returned in
/// that order, undefined where `outputs` do not depend on the input, and leaves are left alone.
/// GradError for outputs that track nothing, for released or stale saved tensors.
std::vector<Tensor> run_backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                                 std::span<const Tensor> inputs, BackwardOptions options, Loc loc);

/// What comes to an input from one place: a gradient, or that of some rows of it.
struct GradientPart {
  Tensor whole;
  SparseRows rows;
};
/// The same for each of `inputs` in parts: what the tape adds up there, in its order, rows as rows.
/// Nothing goes on through an input to what it was computed from. The tape is retained.
std::vector<std::vector<GradientPart>> run_backward_in_parts(std::span<const Tensor> outputs,
                                                             std::span<const Tensor> grads,
                                                             std::span<const Tensor> inputs,
                                                             Loc loc);

/// The leaves that the tape of `outputs` leads to, each once; nodes of `end` are not passed.
[[nodiscard]] std::vector<Tensor> reachable_leaves(std::span<const Tensor> outputs,
                                                   const OpInfo* end = nullptr);

/// Puts numbers in the place of symbols on the tape of `outputs`, up to nodes of `end`, so that it
/// can be walked after the recording that made it.
void settle_sizes(std::span<const Tensor> outputs, const OpInfo* end, const SymbolMap& sizes);

/// `gradient` summed over the axes along which an input of `shape` was broadcast, and converted to
/// its dtype.
[[nodiscard]] Tensor reduce_to(Tensor gradient, const Shape& shape, DType dtype);

/// The operator whose gradient rule runs in this thread now (for messages), or null.
[[nodiscard]] const OpInfo* current_rule() noexcept;

/// Names the rule that runs while it lives.
class RuleScope {
 public:
  explicit RuleScope(const OpInfo& op) noexcept;
  ~RuleScope();
  RuleScope(const RuleScope&) = delete;
  RuleScope& operator=(const RuleScope&) = delete;

 private:
  const OpInfo* previous_;
};

}  // namespace dyad::autograd
