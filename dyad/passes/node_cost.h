#pragma once

#include <cstdint>

#include "dyad/core/dim.h"
#include "dyad/ir/graph.h"

namespace dyad::passes {

/// What one node of a graph moves and computes, by its operators and sizes alone.
struct NodeCost {
  std::int64_t bytes = 0;  ///< of the tensors that it reads and writes, each once
  /// Of numbers: one for each element of a pointwise operator or read by a reduction, two for each
  /// term of a product or convolution, those of attention and recurrent layers among them, and for
  /// softmaxes and normalisations what they are written out. 0 for operators that are none of
  /// these.
  std::int64_t operations = 0;
};

/// What a size may be expected to be, at least 0: symbols that `sizes` does not have are bound
/// to 64.
[[nodiscard]] std::int64_t expected_size(Dim size, SymbolMap& sizes);

/// The bytes that a tensor of that type takes; symbols that `sizes` does not have are bound as
/// expected_size() does. At most 2^50: a graph may claim any size.
[[nodiscard]] std::int64_t bytes_of(const Type& type, SymbolMap& sizes);

/// The operations of a product, convolution, attention or recurrent layer; 0 of other operators.
[[nodiscard]] std::int64_t product_operations(const Node& node, const SymbolMap& symbols);

/// The cost of a node, its symbols being `symbols`.
[[nodiscard]] NodeCost cost_of(const Node& node, const SymbolMap& symbols);

}  // namespace dyad::passes
