#include "dyad/passes/recompute.h"

#include <gmock/gmock.h>

#include <algorithm>

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

std::string with_call(std::string text, std::string_view what, std::string_view call) {
  for (std::size_t at; (at = text.find(what)) != std::string::npos;)
    text.replace(at, what.size(), call);
  return text;
}
std::string with_op(std::string text, std::string_view op) {
  return with_call(std::move(text), "OP", op);
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

TEST(Recompute, OtherPointwiseOperatorsWhereTheyAreLittleBesideTheProducts) {
  // Four products of 64 x 64 by 64 x 64 and a first one along W: 2% of their operations are 45 for
  // each of the 4096 elements of %r from W = 869 on.
  const auto with_width = [](std::string text, const char* width) {
    const std::string wide = std::string("64, ") + width, tall = std::string(width) + ", 64";
    text.replace(text.find("64, 64"), 6, wide);
    text.insert(text.find("  %w ="), "  %v = placeholder : f32[" + tall + "]\n");
    text.replace(text.find("matmul(%x, %w)"), 14, "matmul(%x, %v)");
    return text;
  };
  const std::string kept = with_op(kKept, "tanh"), again = with_op(kComputedAgain, "tanh");
  EXPECT_TRUE(is_graph(recompute(parse(with_width(kept, "860"))), with_width(kept, "860")));
  EXPECT_TRUE(is_graph(recompute(parse(with_width(kept, "880"))), with_width(again, "880")));
}

TEST(Recompute, ANormalisationOfRowsOnlyOverTheLimit) {
  // It counts as a pointwise operator that takes the time of some multiplications.
  const auto with_norm = [](std::string text, std::string_view norm) {
    text = with_call(std::move(text), "OP(%a)", norm);
    return text.insert(text.find("  %a ="), "  %u = placeholder : f32[64]\n");
  };
  for (const char* norm :
       {"layer_norm(%a, %u, %u) {eps = 1e-5}", "rms_norm(%a, %u) {eps = 1e-5}"}) {
    const std::string kept = with_norm(kKept, norm), again = with_norm(kComputedAgain, norm);
    constexpr std::int64_t kMatrix = 64 * 64 * 4;
    EXPECT_TRUE(is_graph(recompute(parse(kept)), kept));
    EXPECT_TRUE(is_graph(recompute(parse(kept), {.memory_limit = 5 * kMatrix - 1}), again));
  }
}

TEST(Recompute, RowsOfATableOnlyOverTheLimit) {
  const auto with_rows = [](std::string text) {
    text = with_call(std::move(text), "OP(%a)", "index_select(%w, %i) {axis = 0}");
    return text.insert(text.find("  %a ="), "  %i = placeholder : i64[64]\n");
  };
  const std::string kept = with_rows(kKept), again = with_rows(kComputedAgain);
  constexpr std::int64_t kMatrix = 64 * 64 * 4;
  EXPECT_TRUE(is_graph(recompute(parse(kept)), kept));
  EXPECT_TRUE(is_graph(recompute(parse(kept), {.memory_limit = 5 * kMatrix - 1}), again));
}

TEST(Recompute, AResultInThePlaceOfAnInputTakesNoMemory) {
  // %k lies where %e did. So the peak is %f, with %a, %r and %e, and there %r can be made again.
  const std::string kept = R"(graph {
  %x = placeholder : f32[64, 64]
  %w = placeholder : f32[64, 64]
  %a = matmul(%x, %w) : f32[64, 64]
  %r = relu(%a) : f32[64, 64]
  %b = sum(%r) : f32[]
  %e = matmul(%w, %x) : f32[64, 64]
  %f = matmul(%w, %r) : f32[64, 64]
  %g = matmul(%f, %w) : f32[64, 64]
  %k = mul(%e, %a) : f32[64, 64]
  %h = add(%f, %k) : f32[64, 64]
  %i = matmul(%g, %h) : f32[64, 64]
  return %i, %b
})";
  EXPECT_TRUE(is_graph(recompute(parse(kept)), R"(graph {
  %x = placeholder : f32[64, 64]
  %w = placeholder : f32[64, 64]
  %a = matmul(%x, %w) : f32[64, 64]
  %r = relu(%a) : f32[64, 64]
  %b = sum(%r) : f32[]
  %e = matmul(%w, %x) : f32[64, 64]
  %s, %k = fused(%a, %e) : f32[64, 64], f32[64, 64]
    region {
      %in0 = placeholder : f32[64, 64]
      %0 = relu(%in0) : f32[64, 64]
      %in1 = placeholder : f32[64, 64]
      %1 = mul(%in1, %in0) : f32[64, 64]
      return %0, %1
    }
  %f = matmul(%w, %s) : f32[64, 64]
  %g = matmul(%f, %w) : f32[64, 64]
  %h = add(%f, %k) : f32[64, 64]
  %i = matmul(%g, %h) : f32[64, 64]
  return %i, %b
})"));
}

TEST(Recompute, AReshapeThatMayCopyIsMadeAgainFromWhatIsKept) {
  // %c is the peak; %r is read before and after it, %a at the end.
  const std::string kept = R"(graph {
  %x = placeholder : f32[64, 64]
  %w = placeholder : f32[64, 64]
  %a = matmul(%x, %w) : f32[64, 64]
  %t = permute(%a) {axes = [1, 0]} : f32[64, 64]
  %r = reshape(%t) {shape = [-1]} : f32[4096]
  %b = concat(%r, %r, %r) {axis = 0} : f32[12288]
  %c = concat(%b, %b) {axis = 0} : f32[24576]
  %d = slice(%c) {axis = 0, begin = 0, end = 4096, step = 1} : f32[4096]
  %e = concat(%d, %r) {axis = 0} : f32[8192]
  %g = matmul(%a, %w) : f32[64, 64]
  return %e, %g
})";
  std::string again = kept;
  again.insert(again.find("  %e ="), "  %s = reshape(%t) {shape = [-1]} : f32[4096]\n");
  again.replace(again.find("concat(%d, %r)"), 14, "concat(%d, %s)");
  EXPECT_TRUE(is_graph(recompute(parse(kept)), again));

  // Kept for the reshape alone, %a would take as much as its copy.
  std::string alone = kept;
  alone.replace(alone.find("matmul(%a, %w)"), 14, "matmul(%w, %w)");
  EXPECT_TRUE(is_graph(recompute(parse(alone)), alone));
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

/// %g reads what %r is computed from, later than %f needs %r.
constexpr const char* kReadLater = R"(graph {
  %x = placeholder : f32[64, 64]
  %w = placeholder : f32[64, 64]
  %a = matmul(%x, %w) : f32[64, 64]
  %r = relu(%a) : f32[64, 64]
  %b = matmul(%r, %w) : f32[64, 64]
  %c = concat(%b, %b, %b) {axis = 0} : f32[192, 64]
  %d = slice(%c) {axis = 0, begin = 0, end = 64, step = 1} : f32[64, 64]
  %k = matmul(%d, %w) : f32[64, 64]
  %e = matmul(%k, %w) : f32[64, 64]
  %f = matmul(%k, %r) : f32[64, 64]
  %g = mul(%e, %a) : f32[64, 64]
  %h = matmul(%f, %g) : f32[64, 64]
  return %h
})";

/// `relu` twice, each in a kernel of its own.
bool has_two_of_relu(const GraphImpl& graph) {
  return std::ranges::count_if(graph.nodes(), [](const auto& node) { return node->is("relu"); }) ==
         2;
}

/// Computed again beside %g, which reads the same.
constexpr const char* kMadeBeside = R"(graph {
  %x = placeholder : f32[64, 64]
  %w = placeholder : f32[64, 64]
  %a = matmul(%x, %w) : f32[64, 64]
  %r = relu(%a) : f32[64, 64]
  %b = matmul(%r, %w) : f32[64, 64]
  %c = concat(%b, %b, %b) {axis = 0} : f32[192, 64]
  %d = slice(%c) {axis = 0, begin = 0, end = 64, step = 1} : f32[64, 64]
  %k = matmul(%d, %w) : f32[64, 64]
  %e = matmul(%k, %w) : f32[64, 64]
  %s, %g = fused(%a, %e) : f32[64, 64], f32[64, 64]
    region {
      %in0 = placeholder : f32[64, 64]
      %0 = relu(%in0) : f32[64, 64]
      %in1 = placeholder : f32[64, 64]
      %1 = mul(%in1, %in0) : f32[64, 64]
      return %0, %1
    }
  %f = matmul(%k, %s) : f32[64, 64]
  %h = matmul(%f, %g) : f32[64, 64]
  return %h
})";

TEST(Recompute, AKernelThatReadsTheSameMakesTheValueToo) {
  EXPECT_TRUE(is_graph(recompute(parse(kReadLater)), kMadeBeside));
}

TEST(Recompute, AKernelThatWouldTakeMoreMemoryEarlierStaysWhereItIs) {
  // %e is needed after it, so its result takes memory of its own.
  std::string text = kReadLater;
  text.replace(text.find("matmul(%f, %g)"), 14, "matmul(%e, %g)");
  text.replace(text.find("return %h"), 9, "return %h, %f");
  EXPECT_TRUE(has_two_of_relu(*recompute(parse(text))));
}

TEST(Recompute, AProductThatSuchAKernelReadsRunsBeforeIt) {
  std::string text = kReadLater;
  const std::string product = "  %e = matmul(%k, %w) : f32[64, 64]\n";
  text.erase(text.find(product), product.size());
  text.insert(text.find("  %g ="), product);
  EXPECT_TRUE(is_graph(recompute(parse(text)), kMadeBeside));
}

TEST(Recompute, SoDoesOneOfAValueThatIsComputedAgainToo) {
  // As a weight's copy in half precision is.
  std::string text = kReadLater, expected = kMadeBeside;
  const std::string product = "  %e = matmul(%k, %w) : f32[64, 64]\n";
  text.erase(text.find(product), product.size());
  text.insert(text.find("  %g ="), "  %e = matmul(%k, %q) : f32[64, 64]\n");
  const std::string first = "  %b = matmul(%r, %w)";
  for (std::string* graph : {&text, &expected}) {
    graph->replace(graph->find(first), first.size(),
                   "  %q = abs(%w) : f32[64, 64]\n  %b = matmul(%r, %q)");
  }
  expected.replace(expected.find(product), product.size(),
                   "  %p = abs(%w) : f32[64, 64]\n  %e = matmul(%k, %p) : f32[64, 64]\n");
  EXPECT_TRUE(is_graph(recompute(parse(text)), expected));
}

TEST(Recompute, AKernelWhoseOtherInputsComeLaterStaysWhereItIs) {
  std::string text = kReadLater;
  const std::string product = "  %e = matmul(%k, %w) : f32[64, 64]\n";
  text.erase(text.find(product), product.size());
  text.insert(text.find("  %g ="), "  %e = matmul(%f, %w) : f32[64, 64]\n");
  EXPECT_TRUE(has_two_of_relu(*recompute(parse(text))));
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
