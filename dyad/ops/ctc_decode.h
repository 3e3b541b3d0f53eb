#pragma once

#include "dyad/core/tensor.h"

namespace dyad {

/// What the outputs of a network trained with ctc_loss() say.
struct CtcDecoded {
  Tensor labels;     ///< i64 [n, t], or [n, paths, t] from a beam search; -1 after the last label
  Tensor lengths;    ///< i64 [n] or [n, paths]: how many labels
  Tensor log_probs;  ///< of the alignment, or of all alignments found, in the dtype of log_probs
};

/// The most probable class of each step, without repetitions and blanks: log_probs[t, n, c] of
/// which the first input_lengths[i] steps count (i64 or i32 [n]; undefined: all). No gradient
/// reaches the labels. ShapeError; IndexError for a blank beyond the classes.
[[nodiscard]] CtcDecoded ctc_greedy_decode(const Tensor& log_probs,
                                           const Tensor& input_lengths = {}, std::int64_t blank = 0,
                                           Loc loc = std::source_location::current());

struct CtcBeamArgs {
  std::int64_t blank = 0;
  std::int64_t width = 16;  ///< label sequences that are followed at once
  std::int64_t paths = 1;   ///< of which the best are returned, at most width
};
/// The most probable label sequences, each with the sum over its alignments (prefix beam search,
/// Hannun et al., 2014); of equal ones the one found first. Where there are fewer than `paths`,
/// the others have length 0 and probability 0. No gradient. ValueError for a width or paths below
/// 1, or more paths than width.
[[nodiscard]] CtcDecoded ctc_beam_search(const Tensor& log_probs, const Tensor& input_lengths = {},
                                         const CtcBeamArgs& args = {},
                                         Loc loc = std::source_location::current());

}  // namespace dyad
