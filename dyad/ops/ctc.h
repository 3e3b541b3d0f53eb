#pragma once

#include "dyad/core/tensor.h"
#include "dyad/ops/loss.h"

namespace dyad {

struct CtcArgs {
  std::int64_t blank = 0;  ///< the class that stands for no label
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  ///< samples whose targets cannot be reached count as 0
};

/// Connectionist temporal classification (Graves et al., 2006): -log of the probability that a
/// sequence of distributions gives a sequence of labels, summed over their alignments.
/// log_probs[t, n, c] as log_softmax gives them (or [t, c]: one sample); targets[n, s], of which
/// the first target_lengths[i] count, or all samples' one after the other; lengths are i64 or i32
/// [n] ([] for one sample). f32 or f64 inside. The mean is that of each loss divided by its target
/// length, as in PyTorch. The gradient is that of log_probs themselves (PyTorch's differs by what
/// log_softmax takes away again); it is 0 where the loss is infinite. ShapeError, DTypeError,
/// ValueError and IndexError for lengths and labels out of range.
[[nodiscard]] Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                              const Tensor& input_lengths, const Tensor& target_lengths,
                              const CtcArgs& args = {}, Loc loc = std::source_location::current());

}  // namespace dyad
