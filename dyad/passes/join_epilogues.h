#pragma once

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Joins a convolution in f32 and what follows it element by element into one call of the library
/// (rows conv_epilogue and product_epilogue).
///
/// Always, since the bits are the same: a residual that is added, where that is the last use of
/// both (its memory becomes the result's), both are channels-last whatever they are made from (so
/// that the sum lies as it would), and no kernel takes the sum in anyway.
///
/// Only with `fast_math`: any residual, and an activation behind it; products of f32 with constant
/// matrices too, with bias, residual and activation, whose sums are then in the order that is
/// fastest. An activation may take NaN for a number, and -0 for 0.
[[nodiscard]] Ref<GraphImpl> join_epilogues(const GraphImpl& graph, bool fast_math);

}  // namespace dyad::passes
