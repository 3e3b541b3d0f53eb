#include "dyad/passes/lower.h"

#include <gmock/gmock.h>

#include "dyad/passes/expand_composites.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

constexpr const char* kNormalize = R"(graph {
  %x = placeholder : f32[batch, 3] @model.cpp:10
  %y = normalize(%x) {p = 2.0, axis = 1, eps = 1e-12} : f32[batch, 3] @model.cpp:11
  return %y
})";

TEST(ExpandComposites, WritesTheOperatorsAtTheLineOfTheComposite) {
  const Ref<GraphImpl> graph = expand_composites(*parse(kNormalize));
  verify(*graph);
  std::vector<std::string> names;
  for (const auto& node : graph->nodes()) {
    names.emplace_back(node->op().name);
    EXPECT_NE(node->op().kind, BodyKind::composite);
    EXPECT_EQ(to_string(node->loc()), node->is("placeholder") ? "model.cpp:10" : "model.cpp:11");
  }
  EXPECT_THAT(names, ::testing::ElementsAre("placeholder", "mul", "sum", "sqrt", "constant",
                                            "maximum", "div"));
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
  const Ref<GraphImpl> given = parse(kNormalize);
  const std::string before = to_string(*given);
  static_cast<void>(lower(*given, options));
  EXPECT_THAT(passes, ::testing::ElementsAre("input", "sink_assigns", "expand_composites",
                                             "fold_constants", "cse", "dce", "fuse"));
  EXPECT_EQ(to_string(*given), before) << "the given graph stays as it is";
}

TEST(Lower, NormalizeTakesTwoKernels) {
  EXPECT_EQ(lower(*parse(kNormalize), {})->nodes().size(),
            4u);  // the placeholder, eps, the sum of squares, the rest
}

}  // namespace
}  // namespace dyad::passes
