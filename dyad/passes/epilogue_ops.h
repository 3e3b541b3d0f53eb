#pragma once

#include "dyad/ir/op_info.h"

namespace dyad::passes {

/// Rows that join_epilogues makes: a convolution, or a product with a weight, and what follows it
/// element by element, in one call of the library. Their attributes and inputs are in
/// ops/attrs/epilogue.h; f32 alone.
extern const OpInfo kConvEpilogueOp;
extern const OpInfo kProductEpilogueOp;
/// The row that block_channels makes: conv_epilogue of images with their channels in blocks of
/// eight.
extern const OpInfo kConvBlocksOp;

/// Adds the rows to the registry, so that texts with them can be parsed.
void register_epilogue_ops();

}  // namespace dyad::passes
