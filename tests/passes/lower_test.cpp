#include "dyad/passes/lower.h"

#include <gmock/gmock.h>

#include "dyad/passes/expand_composites.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

constexpr const char* kSoftmax = R"(graph {
  %x = placeholder : f32[batch, 3] @model.cpp:10
  %y = softmax(%x) {axis = 1} : f32[batch, 3] @model.cpp:11
  return %y
})";

TEST(ExpandComposites, WritesTheOperatorsAtTheLineOfTheComposite) {
  const Ref<GraphImpl> graph = expand_composites(*parse(kSoftmax));
  verify(*graph);
  std::vector<std::string> names;
  for (const auto& node : graph->nodes()) {
    names.emplace_back(node->op().name);
    EXPECT_NE(node->op().kind, BodyKind::composite);
    EXPECT_EQ(to_string(node->loc()), node->is("placeholder") ? "model.cpp:10" : "model.cpp:11");
  }
  EXPECT_THAT(names, ::testing::ElementsAre("placeholder", "max", "sub", "exp", "sum", "div"));
  EXPECT_EQ(to_string(graph->outputs()[0].type()), "f32[batch, 3]");
}

TEST(ExpandComposites, GoesDownThroughCompositesOfComposites) {
  const Ref<GraphImpl> graph = expand_composites(*parse(R"(graph {
    %x = placeholder : f32[batch, 3]
    %t = placeholder : i64[batch]
    %loss = cross_entropy(%x, %t) : f32[]
    return %loss
  })"));
  verify(*graph);
  for (const auto& node : graph->nodes()) EXPECT_NE(node->op().kind, BodyKind::composite);
}

TEST(Lower, TheDriverRunsThePassesInOrderAndDumpsEach) {
  std::vector<std::string> passes;
  LowerOptions options;
  options.dump = [&](std::string_view pass, const GraphImpl& graph) {
    passes.emplace_back(pass);
    verify(graph);
  };
  const Ref<GraphImpl> given = parse(kSoftmax);
  const std::string before = to_string(*given);
  static_cast<void>(lower(*given, options));
  EXPECT_THAT(passes, ::testing::ElementsAre("input", "sink_assigns", "expand_composites",
                                             "fold_constants", "cse", "dce", "fuse"));
  EXPECT_EQ(to_string(*given), before) << "the given graph stays as it is";
}

TEST(Lower, SoftmaxTakesFourKernels) {
  EXPECT_EQ(lower(*parse(kSoftmax), {})->nodes().size(),
            5u);  // the placeholder, max, exp(x-max), sum, div
}

}  // namespace
}  // namespace dyad::passes
