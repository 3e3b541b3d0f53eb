#pragma once

#include <span>

#include "dyad/core/dim.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// The values of a graph's symbols for these values of its placeholders, on top of those known
/// already (`outer`: a region inside a graph). ValueError, DTypeError, ShapeError: a value that
/// does not fit its placeholder, or another one's sizes.
[[nodiscard]] SymbolMap bind_symbols(const GraphImpl& graph, std::span<const Tensor> placeholders,
                                     const SymbolMap& outer, Loc where);

/// Binds each symbol that is a size of `declared` by itself, and not known yet, to that size of
/// `value`, which was made for it.
void bind_told(const Shape& declared, const Tensor& value, SymbolMap& symbols);

/// Runs each node's rule for types on these sizes: what the rules could not decide on symbols is
/// decided now, with the errors that eager execution gives.
void check_types(const GraphImpl& graph, const SymbolMap& symbols, Loc where);

/// `shape` in numbers.
[[nodiscard]] Shape evaluate(const Shape& shape, const SymbolMap& symbols);

}  // namespace dyad::exec
