#pragma once

#include <functional>

#include "dyad/ir/attrs.h"
#include "dyad/ir/graph.h"

namespace dyad {

/// True when a size among the attributes is symbolic.
[[nodiscard]] bool has_symbols(const AttrsInfo& info, const void* attrs);

/// A copy of `attrs` with every symbol replaced by its number; null when there is no symbol.
/// GraphError for an unbound one.
[[nodiscard]] Ref<Attrs> substitute_symbols(const AttrsInfo& info, const void* attrs,
                                            const SymbolMap& symbols);
/// The same with what `replace` gives for each symbol.
[[nodiscard]] Ref<Attrs> substitute_symbols(const AttrsInfo& info, const void* attrs,
                                            const std::function<Dim(Dim)>& replace);

/// The type with what `replace` gives for each symbol of its sizes.
[[nodiscard]] Type with_sizes(const Type& type, const std::function<Dim(Dim)>& replace);
/// A copy of the graph, and of those inside its nodes, with what `replace` gives for each symbol.
[[nodiscard]] Ref<GraphImpl> with_sizes(const GraphImpl& graph,
                                        const std::function<Dim(Dim)>& replace);

/// The attributes of a node with numbers for its symbols: its own ones when it has none.
/// GraphError for an unbound symbol.
[[nodiscard]] Ref<Attrs> attrs_with(const Node& node, const SymbolMap& symbols);

}  // namespace dyad
