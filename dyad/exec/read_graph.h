#pragma once

#include <string_view>

#include "dyad/ir/graph_texts.h"

namespace dyad::exec {

/// Makes every operator of the library known by name.
void register_all_ops();

/// parse_graph with every operator of the library known.
[[nodiscard]] Ref<GraphImpl> read_graph(std::string_view text, const NamedTensors& variables = {},
                                        const NamedTensors& constants = {});

}  // namespace dyad::exec
