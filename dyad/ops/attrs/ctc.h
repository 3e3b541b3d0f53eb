#pragma once

#include <cstdint>

namespace dyad::ops {

/// `ctc_nll(log_probs[t, n, c], targets, input_lengths[n], target_lengths[n])` -> [n]: -log of the
/// probability of each sample's targets, which are [n, s] (padded) or [sum of target_lengths].
/// `ctc_nll_backward(grad[n], log_probs, targets, input_lengths, target_lengths, nll)` -> gradient
/// of log_probs; 0 where the loss is infinite.
struct CtcAttrs {
  std::int64_t blank = 0;
};

/// `ctc_beam_search(log_probs[t, n, c], input_lengths[n])` -> labels i64 [n, paths, t] (-1 after
/// the last one), lengths i64 [n, paths], log_probs [n, paths].
struct CtcBeamAttrs {
  std::int64_t blank = 0;
  std::int64_t width = 16;
  std::int64_t paths = 1;
};

}  // namespace dyad::ops
