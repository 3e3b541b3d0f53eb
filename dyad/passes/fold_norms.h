#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Puts what scales the channels of a convolution or product, whose result nothing else reads, into
/// its weight and bias, where all of these are constants:
/// - a batch_norm with given statistics, behind a convolution: weight * s and (bias - mean) * s +
///   shift, where s = scale / sqrt(var + eps);
/// - a factor, of one number or one for each channel: weight * factor and bias * factor.
/// Rounding differs, so that this is for fast_math only.
[[nodiscard]] Ref<GraphImpl> fold_norms(const GraphImpl& graph);

}  // namespace dyad::passes
