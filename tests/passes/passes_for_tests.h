#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "dyad/ir/graph.h"
#include "dyad/ops/registry.h"
#include "dyad/passes/fused_op.h"

namespace dyad::passes {

inline Ref<GraphImpl> parse(std::string_view text) {
  ops::register_builtin_ops();
  register_fused_ops();
  return parse_graph(text);
}

/// That a graph is valid and the one that `expected` writes, its lines aside.
inline ::testing::AssertionResult is_graph(const Ref<GraphImpl>& graph, std::string_view expected) {
  verify(*graph);
  if (same_graph(*graph, *parse(expected))) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "the graph is\n"
                                       << to_string(*graph, {.lines = false}) << "but expected\n"
                                       << expected;
}

}  // namespace dyad::passes
