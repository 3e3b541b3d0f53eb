#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Writes normalisations that are spelled out as one call of the operator that they are; for those
/// who allow other bits (`fast_math`):
/// - `e / sum(e)`, e = exp(x - max(x)) along an axis: softmax,
/// - `x - max(x) - log(sum(exp(x - max(x))))`, `x - logsumexp(x)`, the log of a softmax:
///   log_softmax,
/// - `d / sqrt(mean(d * d) + eps)`, d = x - mean(x) over the last axes, or with var(x) of
///   correction 0: layer_norm, with a weight that multiplies it and a bias that is added,
/// - `x / sqrt(mean(x * x) + eps)` over the last axes: rms_norm, with a weight.
/// Squares, roots and quotients may be spelled in the ways that there are (`pow`, `rsqrt`,
/// times 1 / y), and `x * r + (bias - mean(x) * r)` is a layer_norm too. A reduction may
/// drop its axes where what reads it has them back.
///
/// eps is a positive number, x floating and of the result's type. Nothing else, dead nodes not
/// excepted, may read what becomes part of the call: what a gradient needs stays. Rows of -inf are
/// NaN before and after. What differs: narrow dtypes are rounded once, at the end; a softmax along
/// an axis of size 0 is empty, where max() refuses; the log of a softmax is finite where that is
/// too small for its dtype; a row with +inf is NaN as a whole, also where logsumexp gives its other
/// elements -inf.
///
/// Rows that are known to be short stay as they are, unless `short_rows`: below 128 elements of a
/// softmax, 256 of layer_norm, 512 of rms_norm one call is slower than the operators, fused.
[[nodiscard]] Ref<GraphImpl> join_norms(const GraphImpl& graph, bool short_rows = false);

}  // namespace dyad::passes
