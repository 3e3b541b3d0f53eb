#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Puts a batch_norm with given statistics, behind a convolution whose result nothing else reads,
/// into the convolution's weight and bias, where all of these are constants: weight * s and
/// (bias - mean) * s + shift, where s = scale / sqrt(var + eps). Rounding differs, so that this is
/// for fast_math only.
[[nodiscard]] Ref<GraphImpl> fold_norms(const GraphImpl& graph);

}  // namespace dyad::passes
