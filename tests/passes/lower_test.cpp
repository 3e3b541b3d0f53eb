#include "dyad/passes/lower.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
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
  EXPECT_THAT(passes,
              ::testing::ElementsAre("input", "sink_assigns", "expand_composites", "canonical",
                                     "fold_constants", "simplify_views", "simplify_algebra",
                                     "hoist", "join_parts", "cse", "dce", "join_epilogues", "fuse",
                                     "widen_calls", "recompute", "fuse_rows"));
  EXPECT_EQ(to_string(*given), before) << "the given graph stays as it is";
}

TEST(Lower, PassesAreSwitchedOffByName) {
  std::vector<std::string> passes;
  LowerOptions options;
  options.off = {"cse", "fuse"};
  options.dump = [&](std::string_view pass, const GraphImpl&) { passes.emplace_back(pass); };
  const Ref<GraphImpl> lowered = lower(*parse(kNormalize), options);
  EXPECT_THAT(passes, ::testing::AllOf(::testing::Contains("dce"),
                                       ::testing::Not(::testing::Contains("cse")),
                                       ::testing::Not(::testing::Contains("fuse"))));
  for (const auto& node : lowered->nodes()) EXPECT_FALSE(node->is("fused"));
}

/// The message of the ValueError that `f` throws.
std::string refusal_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ValueError& error) {
    return error.message();
  }
  return "no ValueError";
}

TEST(Lower, AnUnknownOrNeededPassIsRefusedWithTheList) {
  using ::testing::EndsWith;
  using ::testing::HasSubstr;
  using ::testing::StartsWith;
  LowerOptions options;
  options.off = {"cse", "csf"};
  EXPECT_THAT(refusal_of([&] { static_cast<void>(lower(*parse(kNormalize), options)); }),
              ::testing::AllOf(StartsWith("passes_off: there is no pass 'csf'; those that can be "
                                          "switched off are fold_norms, "),
                               HasSubstr(" cse, "), HasSubstr(" fuse, "), EndsWith(" fuse_rows")));
  options.off = {"expand_composites"};
  EXPECT_THAT(refusal_of([&] { static_cast<void>(lower(*parse(kNormalize), options)); }),
              StartsWith("passes_off: the pass 'expand_composites' is needed; those that can "));
  EXPECT_THAT(refusal_of([] { static_cast<void>(find_pass("x")); }),
              StartsWith("there is no pass 'x'; there are sink_assigns, "));
}

TEST(Pipeline, EveryPassHasANameASummaryAndRunsAlone) {
  for (const Pass& pass : pipeline()) {
    EXPECT_THAT(pass.name, ::testing::MatchesRegex("[a-z_]+"));
    EXPECT_THAT(pass.summary, ::testing::Not(::testing::IsEmpty()));
    EXPECT_LE(pass.summary.size(), 80u) << pass.name;
    verify(*find_pass(pass.name).run(parse(kNormalize), {}));
  }
}

TEST(Pipeline, AProgramsOwnPassRunsInItsPlaceWhileItLives) {
  const auto names = [] {
    std::vector<std::string> names;
    for (const Pass& pass : pipeline()) names.push_back(pass.name);
    return names;
  };
  const std::vector<std::string> before = names();
  int runs = 0;
  const auto make = [&](std::string name) {
    return Pass{std::move(name), "counts", PassUse::optional,
                [&](const Ref<GraphImpl>& graph, const LowerOptions&) {
                  ++runs;
                  return graph;
                }};
  };
  {
    const RegisteredPass first(make("count"), "fuse");
    const RegisteredPass last(make("count_again"));
    const std::vector<std::string> now = names();
    ASSERT_EQ(now.size(), before.size() + 2);
    EXPECT_EQ(*(std::ranges::find(now, "fuse") - 1), "count");
    EXPECT_EQ(now.back(), "count_again");
    static_cast<void>(lower(*parse(kNormalize), {}));
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(refusal_of([&] { const RegisteredPass twice(make("count")); }),
              "there is a pass 'count' already");
    EXPECT_THAT(
        refusal_of([&] { const RegisteredPass nowhere(make("other"), "nothing"); }),
        ::testing::StartsWith("pass 'other' is to run before 'nothing', which is none of "));
  }
  EXPECT_EQ(names(), before);
}

/// What DYAD_DUMP_PASSES has written after compiling the graph.
std::string dump_of(const GraphImpl& graph) {
  const std::string path = ::testing::TempDir() + "passes" + std::to_string(::getpid()) + ".txt";
  ::setenv("DYAD_DUMP_PASSES", path.c_str(), 1);
  static_cast<void>(lower(graph, {}));
  ::unsetenv("DYAD_DUMP_PASSES");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

TEST(Dump, TheEnvironmentAsksForTheGraphAfterEachPass) {
  EXPECT_THAT(dump_of(*parse(kNormalize)),
              ::testing::AllOf(::testing::HasSubstr(", as given\ngraph {\n  %x = "),
                               ::testing::HasSubstr(", after sink_assigns: as before\n"),
                               ::testing::HasSubstr(", after expand_composites\ngraph {"),
                               ::testing::HasSubstr(", after fuse\ngraph {")));
  ::setenv("DYAD_DUMP_PASSES", "/no/such/folder/x", 1);
  EXPECT_THROW(static_cast<void>(lower(*parse(kNormalize), {})), IoError);
  ::unsetenv("DYAD_DUMP_PASSES");
}

TEST(Dump, LeavesLargeConstantsOut) {
  const auto graph = make_ref<GraphImpl>();
  graph->outputs() = {graph->add_constant(tensor(std::vector<float>(20000)), Loc())};
  const std::string text = dump_of(*graph);
  EXPECT_THAT(text, ::testing::HasSubstr("}\n// 1 constants of 80000 bytes are left out\n"));
  EXPECT_LT(text.size(), 4000u);
}

TEST(Lower, NormalizeTakesTwoKernelsOnTheSameRows) {
  LowerOptions options;
  EXPECT_EQ(lower(*parse(kNormalize), options)->nodes().size(), 2u);  // the placeholder, the rows
  options.off = {"fuse_rows"};
  EXPECT_EQ(lower(*parse(kNormalize), options)->nodes().size(),
            4u);  // the placeholder, eps, the sum of squares, the rest
}

}  // namespace
}  // namespace dyad::passes
