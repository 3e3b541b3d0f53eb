#include "dyad/passes/recompute.h"

#include <gmock/gmock.h>

#include "dyad/passes/fuse.h"
#include "dyad/passes/min_cut.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

/// `relu` of what is kept anyway (%a, for the gradient of the normalisation, say) is kept too, over
/// the large %peak.
constexpr const char* kKept = R"(graph {
  %x = placeholder : f32[64, 64]
  %w = placeholder : f32[64, 64]
  %a = matmul(%x, %w) : f32[64, 64]
  %r = OP(%a) : f32[64, 64]
  %b = matmul(%r, %w) : f32[64, 64]
  %c = concat(%b, %b) {axis = 0} : f32[128, 64]
  %d = slice(%c) {axis = 0, begin = 0, end = 64, step = 1} : f32[64, 64]
  %e = matmul(%d, %w) : f32[64, 64]
  %f = matmul(%e, %r) : f32[64, 64]
  %g = matmul(%f, %a) : f32[64, 64]
  return %g
})";

constexpr const char* kComputedAgain = R"(graph {
  %x = placeholder : f32[64, 64]
  %w = placeholder : f32[64, 64]
  %a = matmul(%x, %w) : f32[64, 64]
  %r = OP(%a) : f32[64, 64]
  %b = matmul(%r, %w) : f32[64, 64]
  %c = concat(%b, %b) {axis = 0} : f32[128, 64]
  %d = slice(%c) {axis = 0, begin = 0, end = 64, step = 1} : f32[64, 64]
  %e = matmul(%d, %w) : f32[64, 64]
  %s = OP(%a) : f32[64, 64]
  %f = matmul(%e, %s) : f32[64, 64]
  %g = matmul(%f, %a) : f32[64, 64]
  return %g
})";

std::string with_op(std::string text, std::string_view op) {
  for (std::size_t at; (at = text.find("OP")) != std::string::npos;) text.replace(at, 2, op);
  return text;
}

TEST(Recompute, WhatCostsLittleIsComputedAgainFromWhatIsKept) {
  EXPECT_TRUE(is_graph(recompute(parse(with_op(kKept, "relu"))), with_op(kComputedAgain, "relu")));
}

TEST(Recompute, OtherPointwiseOperatorsOnlyOverTheLimit) {
  const Ref<GraphImpl> graph = parse(with_op(kKept, "tanh"));
  EXPECT_TRUE(is_graph(recompute(graph), with_op(kKept, "tanh")));
  // At the peak there are %a, %r, %b and %c.
  constexpr std::int64_t kMatrix = 64 * 64 * 4;
  EXPECT_TRUE(is_graph(recompute(graph, {.memory_limit = 5 * kMatrix}), with_op(kKept, "tanh")));
  EXPECT_TRUE(is_graph(recompute(graph, {.memory_limit = 5 * kMatrix - 1}),
                       with_op(kComputedAgain, "tanh")));
}

TEST(Recompute, NothingIsComputedAgainWhoseInputsWouldHaveToBeKept) {
  // %a is not needed later, so either it or %r is kept: %r, which costs nothing.
  std::string text = with_op(kKept, "relu");
  text.replace(text.find("matmul(%f, %a)"), 14, "matmul(%f, %w)");
  EXPECT_TRUE(is_graph(recompute(parse(text)), text));
}

TEST(Recompute, OfAFusedKernelOnlyThePartThatIsNeeded) {
  const Ref<GraphImpl> graph = fuse(*parse(R"(graph {
    %x = placeholder : f32[64, 64]
    %w = placeholder : f32[64, 64]
    %a = matmul(%x, %w) : f32[64, 64]
    %m = mul(%a, %w) : f32[64, 64]
    %r = relu(%m) : f32[64, 64]
    %n = tanh(%m) : f32[64, 64]
    %b = matmul(%r, %n) : f32[64, 64]
    %c = concat(%b, %b) {axis = 0} : f32[128, 64]
    %d = slice(%c) {axis = 0, begin = 0, end = 64, step = 1} : f32[64, 64]
    %e = matmul(%d, %w) : f32[64, 64]
    %f = matmul(%e, %r) : f32[64, 64]
    %g = matmul(%f, %a) : f32[64, 64]
    return %g
  })"));
  const Ref<GraphImpl> made = recompute(graph);
  verify(*made);
  std::vector<const Node*> fused;
  for (const auto& node : made->nodes()) {
    if (&node->op() == &kFusedOp) fused.push_back(node.get());
  }
  ASSERT_EQ(fused.size(), 2u);
  EXPECT_EQ(fused[0]->types().size(), 2u);
  EXPECT_EQ(fused[1]->types().size(), 1u);
  std::vector<std::string> names;
  for (const auto& node : fused[1]->regions()[0]->nodes()) names.emplace_back(node->op().name);
  EXPECT_THAT(names, ::testing::ElementsAre("placeholder", "placeholder", "mul", "relu"));
}

TEST(Recompute, AResultOfTheGraphIsKept) {
  std::string text = with_op(kKept, "relu");
  text.replace(text.find("return %g"), 9, "return %g, %r");
  EXPECT_TRUE(is_graph(recompute(parse(text)), text));
}

TEST(FlowNetwork, FindsTheCutOfLeastCapacityNearestToTheSink) {
  FlowNetwork network;
  const int a = network.add_vertex(), b = network.add_vertex(), c = network.add_vertex();
  network.add_edge(FlowNetwork::source(), a, 5);
  network.add_edge(a, b, 3);
  network.add_edge(a, c, 2);
  network.add_edge(b, FlowNetwork::sink(), 3);
  network.add_edge(c, FlowNetwork::sink(), 9);
  // Cuts of 5: before a, or after b and before c; the latter is nearer.
  EXPECT_THAT(network.sink_side(), ::testing::ElementsAre(false, true, false, false, true));
}

TEST(FlowNetwork, FlowTakesAnotherWayWhereThatLetsMoreThrough) {
  FlowNetwork network;
  const int a = network.add_vertex(), b = network.add_vertex(), c = network.add_vertex(),
            d = network.add_vertex();
  network.add_edge(FlowNetwork::source(), a, 1);
  network.add_edge(FlowNetwork::source(), b, 1);
  network.add_edge(a, c, 1);  // taken first, then given to b
  network.add_edge(a, d, 1);
  network.add_edge(b, c, 1);
  network.add_edge(c, FlowNetwork::sink(), 1);
  network.add_edge(d, FlowNetwork::sink(), 1);
  EXPECT_THAT(network.sink_side(), ::testing::ElementsAre(false, true, false, false, false, false));
}

}  // namespace
}  // namespace dyad::passes
