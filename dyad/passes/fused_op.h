#pragma once

#include <cstdint>

#include "dyad/ir/graph.h"
#include "dyad/ir/op_info.h"

namespace dyad::passes {

/// Row `fused`: computes its one region in one kernel: a graph of pointwise operators, or of
/// reductions over the same axes, which are its results, and the pointwise operators that these
/// reduce the results of. Inputs are the region's placeholders, outputs its outputs; all pointwise
/// outputs have one shape, to which the inputs broadcast.
extern const OpInfo kFusedOp;

/// How many leading axes of all its members' spaces a `rows` node's rows are numbered by.
struct RowsAttrs {
  std::int64_t axes = 1;
};

/// Row `rows`: runs the kernels of its one region one after the other on a few rows at a time, so
/// that what one leaves is in cache when the next reads it. Each of them works on every row by
/// itself: element-wise, along the row, or as a view of it.
extern const OpInfo kRowsOp;

/// How many samples, counted by axis 0 of its inputs, a `parts` node hands to its graph at a time.
struct PartsAttrs {
  std::int64_t samples = 1;
};

/// Row `parts`: runs its one region on so many samples of the inputs at a time, one part after the
/// other; the results of the parts are put side by side along axis 0. See split_batch.h.
extern const OpInfo kPartsOp;

/// Adds the rows to the registry, so that texts with such nodes can be parsed.
void register_fused_ops();

/// Whether a node is `fused` or `rows`: they hold graphs, but those of kernels.
[[nodiscard]] bool is_kernels(const Node& node) noexcept;

/// Whether a node computes element by element, and nothing else happens.
[[nodiscard]] bool is_pointwise(const Node& node) noexcept;

/// The reduction that a node is, or the first of those of a fused node; null for none.
[[nodiscard]] const Node* reduction_of(const Node& node);

/// The space that a pointwise operator, a reduction or a fused node runs over: the shape of its
/// results, or of the element of its reduction.
[[nodiscard]] const Shape& space_of(const Node& node);

/// The axis that a gather, scatter_add or index_select indexes, from the front.
[[nodiscard]] std::size_t indexed_axis(const Node& node);

/// What the rows of a `rows` node are to an operand of a library operator in it.
enum class RowOperand : std::uint8_t {
  split,  ///< each row has its own part of it
  index,  ///< the same, read as positions, which other members do not make
  whole,  ///< all rows read it: a weight, a table
};
[[nodiscard]] RowOperand row_operand(const Node& node, std::size_t input);
/// Whether the outputs of a library operator but the first are sums over all rows.
[[nodiscard]] bool has_row_sums(const Node& node);
/// Whether a value is a sum over all rows of its node, a library operator: the gradient of a
/// weight that they share. A `rows` node has it at its end; no other member can read it.
[[nodiscard]] bool is_row_sum(Value value);

}  // namespace dyad::passes
