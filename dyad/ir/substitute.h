#pragma once

#include <functional>

#include "dyad/ir/attrs.h"

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

}  // namespace dyad
