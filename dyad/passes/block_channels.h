#pragma once

#include "dyad/core/dim.h"
#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Lets images stay in blocks of eight channels, [n, c / 8, h, w, 8], from one convolution (row
/// conv_blocks) to the next: for CPUs whose convolutions are faster so. Images in blocks are
/// tensors of five axes, so operators that work element by element, means over an image, pools and
/// concatenations of channels between convolutions are the usual ones on views. Convolutions of f32
/// with two axes take part where channels divide by eight, or read images of three channels; bits
/// change.
///
/// What hangs together is done as a whole, where the convolutions gain more than the images cost
/// that are turned on the way in and out. `sizes` are what to count with; symbols that are not
/// there count as 64.
[[nodiscard]] Ref<GraphImpl> block_channels(const GraphImpl& graph, const SymbolMap& sizes = {});

}  // namespace dyad::passes
