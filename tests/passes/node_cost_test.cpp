#include "dyad/passes/node_cost.h"

#include <map>
#include <string>

#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

/// The operations of each node of a graph, by its operator.
std::map<std::string, std::int64_t> operations_in(std::string_view text) {
  const Ref<GraphImpl> graph = parse(text);
  std::map<std::string, std::int64_t> found;
  for (const auto& node : graph->nodes())
    found[std::string(node->op().name)] = cost_of(*node, {}).operations;
  return found;
}

TEST(NodeCost, RowsAreWhatTheyAreWrittenOut) {
  auto found = operations_in(R"(graph {
    %x = placeholder : f32[4, 8]
    %g = placeholder : f32[4, 8]
    %w = placeholder : f32[8]
    %a = softmax(%x) {axis = 1} : f32[4, 8]
    %b = log_softmax(%x) {axis = 1} : f32[4, 8]
    %c = softmax_backward(%g, %a) {axis = 1} : f32[4, 8]
    %d = log_softmax_backward(%g, %b) {axis = 1} : f32[4, 8]
    %e = layer_norm(%x, %w, %w) {eps = 1e-5} : f32[4, 8]
    %f, %fw, %fb = layer_norm_backward(%g, %x, %w) {eps = 1e-5} : f32[4, 8], f32[8], f32[8]
    %h = rms_norm(%x, %w) {eps = 1e-5} : f32[4, 8]
    %i, %iw = rms_norm_backward(%g, %x, %w) {eps = 1e-5} : f32[4, 8], f32[8]
    return %a
})");
  EXPECT_EQ(found["softmax"], 5 * 32);
  EXPECT_EQ(found["log_softmax"], 5 * 32);
  EXPECT_EQ(found["softmax_backward"], 4 * 32);
  EXPECT_EQ(found["log_softmax_backward"], 4 * 32);
  EXPECT_EQ(found["layer_norm"], 7 * 32);
  EXPECT_EQ(found["layer_norm_backward"], 13 * 32);
  EXPECT_EQ(found["rms_norm"], 4 * 32);
  EXPECT_EQ(found["rms_norm_backward"], 9 * 32);
}

TEST(NodeCost, CausalQueriesSeeTheKeysUpToTheirPlace) {
  const auto attention = [](const std::string& queries, const std::string& keys) {
    return operations_in("graph {\n  %q = placeholder : f32[1, 2, " + queries +
                         ", 4]\n  %k = placeholder : f32[1, 2, " + keys +
                         ", 4]\n  %y, %l = attention_forward(%q, %k, %k, none, none, none) "
                         "{is_causal = true} : f32[1, 2, " +
                         queries + ", 4], f32[1, 2, " + queries +
                         "]\n  return %y\n}")["attention_forward"];
  };
  EXPECT_EQ(attention("3", "3"), 2 * 2 * (1 + 2 + 3) * (4 + 4));
  EXPECT_EQ(attention("1", "100"), 2 * 2 * 1 * (4 + 4));
  EXPECT_EQ(attention("5", "3"), 2 * 2 * (1 + 2 + 3 + 3 + 3) * (4 + 4));
}

TEST(NodeCost, OfARecurrentGradientTheOneOfXOnlyWhereItIsWanted) {
  const auto backward = [](bool with_x) {
    const std::string x = with_x ? "f32[7, 3, 8]" : "f32[0]";
    return operations_in(R"(graph {
    %g = placeholder : f32[7, 3, 5]
    %s = placeholder : f32[3, 5]
    %x = placeholder : f32[7, 3, 8]
    %wi = placeholder : f32[20, 8]
    %wh = placeholder : f32[20, 5]
    %gates = placeholder : f32[7, 3, 20]
    %dx, %di, %dh, %b, %c, %h0, %c0, %p = recurrent_backward(%g, %s, %s, %x, %wi, %wh, none, none, none, none, none, none, %g, %gates, %g) {with_x = )" +
                         std::string(with_x ? "true" : "false") + "} : " + x +
                         R"(, f32[20, 8], f32[20, 5], f32[0], f32[0], f32[0], f32[0], f32[0]
    return %di
})")["recurrent_backward"];
  };
  EXPECT_EQ(backward(true), 2 * 7 * 3 * (2 * 20 * 8 + 2 * 20 * 5));
  EXPECT_EQ(backward(false), 2 * 7 * 3 * (20 * 8 + 2 * 20 * 5));
}

}  // namespace
}  // namespace dyad::passes
