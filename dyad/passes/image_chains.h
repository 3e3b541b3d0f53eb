#pragma once

#include <unordered_set>

#include "dyad/core/dim.h"
#include "dyad/ir/graph.h"
#include "dyad/ops/attrs/epilogue.h"

// Which nodes of a graph compute with channels in blocks of eight: see block_channels.h.
namespace dyad::passes {

using ops::kChannelBlock;

/// Whether a value is an image whose channels divide into blocks.
[[nodiscard]] bool divides_into_blocks(const Type& type);

/// The attributes of a `conv` or `conv_epilogue`.
[[nodiscard]] ops::ConvEpilogueAttrs convolution_of(const Node& node);

/// How a node in blocks reads one of its inputs.
enum class BlockOperand : std::uint8_t {
  plain,    ///< as it is: a weight, a bias, an image of three channels
  image,    ///< that of a convolution: in blocks, or as it is where it is not in blocks
  blocks,   ///< an image in blocks
  numbers,  ///< an operand of a pointwise operator that is no whole image: channels in blocks if it
            ///< has any
};
[[nodiscard]] BlockOperand block_operand(const Node& node, std::size_t input);

/// The nodes that are to compute in blocks, because that saves more than it costs.
[[nodiscard]] std::unordered_set<const Node*> nodes_in_blocks(const GraphImpl& graph,
                                                              const SymbolMap& sizes);

}  // namespace dyad::passes
