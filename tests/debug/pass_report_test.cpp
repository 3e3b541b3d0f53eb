#include "dyad/debug/pass_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/pass_log.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/lower.h"

namespace dyad {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Tensor twice_exp(const Tensor& x) {
  const Tensor a = sin(exp(x));
  return a + cos(exp(x));
}

/// What passes do by default, by name.
std::vector<std::string> default_passes() {
  std::vector<std::string> names;
  for (const passes::Pass& pass : passes::passes_for({})) names.push_back(pass.name);
  return names;
}

const ExplainedPass& find_told(const ExplainedPasses& told, std::string_view name) {
  return *std::ranges::find(told.passes, name, &ExplainedPass::name);
}

int operators_of(const std::string& text) {
  passes::register_fused_ops();
  return exec::count_operators(*Graph::parse(text).impl());
}

std::string page_of(const std::vector<ExplainedPasses>& told) {
  debug::HtmlReport page("Passes");
  debug::add_passes(page, told);
  return page.html();
}

TEST(PassReport, TellsWhatEachPassDoesToARecording) {
  const auto fast = compile(twice_exp, {.recheck = false});
  for (int i = 0; i < 2; ++i) (void)fast(ones({4}));
  const std::vector<ExplainedPasses> told = fast.explain_passes();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].graph, "recording 1");
  EXPECT_EQ(told[0].text, to_string(*fast.graphs()[0].recorded));
  EXPECT_EQ(told[0].undecided, "");
  std::vector<std::string> names;
  int operators = 5;
  const std::string* latest = &told[0].text;
  for (const ExplainedPass& pass : told[0].passes) {
    names.push_back(pass.name);
    EXPECT_EQ(pass.summary, passes::find_pass(pass.name).summary);
    EXPECT_EQ(pass.operators_before, operators) << pass.name;
    EXPECT_GE(pass.ms, 0);
    operators = pass.operators_after;
    if (!pass.changed()) {
      EXPECT_EQ(pass.operators_before, pass.operators_after) << pass.name;
      continue;
    }
    EXPECT_NE(pass.text, *latest) << pass.name;
    EXPECT_EQ(operators_of(pass.text), pass.operators_after) << pass.name;
    latest = &pass.text;
  }
  EXPECT_EQ(names, default_passes());
  EXPECT_EQ(find_told(told[0], "cse").operators_after, 4);
  EXPECT_EQ(find_told(told[0], "fuse").operators_after, 1);
  EXPECT_EQ(*latest, to_string(*fast.graphs()[0].compiled)) << "the graph that runs";
}

TEST(PassReport, JsonTellsAllOfIt) {
  const auto fast = compile(twice_exp, {.recheck = false, .passes_off = {"fuse_rows"}});
  for (int i = 0; i < 2; ++i) (void)fast(ones({4}));
  const std::vector<ExplainedPasses> told = fast.explain_passes();
  const json page = json::parse(debug::to_json(told));
  ASSERT_EQ(page.size(), 1u);
  EXPECT_EQ(page[0]["graph"], "recording 1");
  EXPECT_EQ(page[0]["text"], told[0].text);
  EXPECT_EQ(page[0]["undecided"], "");
  ASSERT_EQ(page[0]["passes"].size(), told[0].passes.size());
  EXPECT_EQ(told[0].passes.size() + 1, default_passes().size());
  int changes = 0;
  for (std::size_t i = 0; i < told[0].passes.size(); ++i) {
    const ExplainedPass& pass = told[0].passes[i];
    const json& shown = page[0]["passes"][i];
    EXPECT_EQ(shown["name"], pass.name);
    EXPECT_NE(shown["name"], "fuse_rows");
    EXPECT_EQ(shown["changed"], pass.changed());
    EXPECT_EQ(shown["ms"], pass.ms);
    EXPECT_EQ(shown.contains("text"), pass.changed());
    if (!pass.changed()) continue;
    ++changes;
    EXPECT_EQ(shown["summary"], pass.summary);
    EXPECT_EQ(shown["operators_before"], pass.operators_before);
    EXPECT_EQ(shown["operators_after"], pass.operators_after);
    EXPECT_EQ(operators_of(shown["text"]), pass.operators_after);
  }
  EXPECT_GE(changes, 2);
  EXPECT_LT(changes, static_cast<int>(told[0].passes.size()));
}

TEST(PassReport, ThePageShowsTheLinesThatDiffer) {
  const auto fast = compile(twice_exp, {.recheck = false});
  for (int i = 0; i < 2; ++i) (void)fast(ones({4}));
  const std::string page = page_of(fast.explain_passes());
  EXPECT_THAT(page, HasSubstr("<h2>Passes: recording 1</h2>"));
  EXPECT_THAT(page, HasSubstr("<tr><td>cse</td><td class=\"text\">equal operators on equal inputs "
                              "become one</td><td>5 -&gt; 4</td><td>"));
  EXPECT_THAT(page, AllOf(HasSubstr("<p>Changed nothing: "), HasSubstr(", hoist, ")));
  // cse: one exp goes, and what read it reads the other.
  const std::size_t at = page.find("<summary>cse: 2 lines removed, 1 added</summary>");
  ASSERT_NE(at, std::string::npos) << page;
  const std::string cse = page.substr(at, page.find("</details>", at) - at);
  EXPECT_THAT(cse, AllOf(HasSubstr("<pre class=\"diff\"><span>  graph {\n"),
                         HasSubstr("<del>-   %was2 = exp(%arg0) : f32[4] @pass_report_test.cpp:"),
                         HasSubstr("\n-   %2 = cos(%was2) : f32[4] @"),
                         HasSubstr("</del><ins>+   %2 = cos(%0) : f32[4] @")));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("src=")), Not(HasSubstr("href="))));
}

TEST(PassReport, TextIsEscapedAndLongLinesAreCut) {
  ExplainedPasses told{
      .graph = "a < b", .text = "graph {\n  \"<i>\"\n}\n", .passes = {}, .undecided = {}};
  told.passes.push_back(
      {.name = "p&q",
       .summary = "<b>",
       .text = "graph {\n  \"<u>\"\n  " + std::string(397, 'x') + "\xC3\xA4yz" + "\n}\n"});
  const std::string page = page_of({told});
  EXPECT_THAT(page, HasSubstr("<h2>Passes: a &lt; b</h2>"));
  EXPECT_THAT(page, HasSubstr("<tr><td>p&amp;q</td><td class=\"text\">&lt;b&gt;</td>"));
  EXPECT_THAT(page, HasSubstr("<del>-   &quot;&lt;i&gt;&quot;</del><ins>+   &quot;&lt;u&gt;&quot;"
                              "\n+   " +
                              std::string(397, 'x') + "...</ins>"));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<i>\"")), Not(HasSubstr("<u>")), Not(HasSubstr("<b>"))));
}

TEST(PassReport, ThreeLinesAroundADifferenceAreShown) {
  std::string before = "graph {\n", after;
  for (int i = 0; i < 40; ++i) before += "  line" + std::to_string(i) + "\n";
  before += "}\n";
  after = before;
  after.replace(after.find("line20"), 6, "other ");
  const std::string page = page_of({{.graph = "g",
                                     .text = before,
                                     .passes = {{.name = "p", .summary = "s", .text = after}},
                                     .undecided = "is n < m?"}});
  EXPECT_THAT(page, HasSubstr("<summary>p: 1 line removed, 1 added</summary><pre class=\"diff\">"
                              "<i>  18 lines as before</i><span>    line17\n    line18\n    line19"
                              "</span><del>-   line20</del><ins>+   other </ins><span>    line21\n"
                              "    line22\n    line23</span><i>  17 lines as before</i></pre>"));
  EXPECT_THAT(page, HasSubstr("at each combination of sizes: is n &lt; m?</p>"));
}

TEST(PassReport, AGraphThatNoPassChanges) {
  Graph graph;
  graph.define([&] { return graph.placeholder("x", f32, {4}); });
  const std::vector<ExplainedPasses> told = Session(graph).explain_passes(graph.outputs());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0].graph, StartsWith("fetches placeholder: f32[4] (pass_report_test.cpp:"));
  EXPECT_FALSE(std::ranges::any_of(told[0].passes, &ExplainedPass::changed));
  EXPECT_EQ(told[0].passes.size(), default_passes().size());
  const json page = json::parse(debug::to_json(told));
  for (const json& pass : page[0]["passes"]) EXPECT_FALSE(pass["changed"]);
  const std::string html = page_of(told);
  EXPECT_THAT(html, AllOf(HasSubstr("<p>No pass changes this graph.</p>"),
                          HasSubstr("<p>Changed nothing: sink_assigns, "),
                          Not(HasSubstr("<pre class=\"diff\">")), Not(HasSubstr("<table>"))));
}

TEST(PassReport, StaticGraphsArePartsOfTheirFetches) {
  Graph graph;
  const auto [a, b] = graph.define([&] {
    const Tensor x = graph.placeholder("x", f32, {"n"});
    return std::pair(twice_exp(x), x * 2.0f);
  });
  Session session(graph, {.fast_math = true});
  const std::vector<ExplainedPasses> told = session.explain_passes({b});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(operators_of(told[0].text), 1);
  EXPECT_EQ(find_told(told[0], "fast_math").name, "fast_math") << "with the session's options";
  EXPECT_EQ(session.explain_passes({a, b})[0].passes[0].operators_before, 6);
}

TEST(PassReport, EachRecordingHasItsSection) {
  const auto fast = compile(
      [](const Tensor& x) {
        const Tensor y = exp(x);
        return sum(y) > 100.0f ? sin(y) : cos(y);
      },
      {.recheck = false});
  for (int i = 0; i < 2; ++i) (void)fast(ones({4}));
  (void)fast(full({4}, 99.0f));
  (void)fast(ones({4, 2}));
  const std::vector<ExplainedPasses> told = fast.explain_passes();
  std::vector<std::string> graphs;
  for (const ExplainedPasses& each : told) graphs.push_back(each.graph);
  EXPECT_THAT(graphs,
              ::testing::ElementsAre("recording 1, stretch 1 of 3", "recording 1, stretch 2 of 3",
                                     "recording 1, stretch 3 of 3", "recording 2, stretch 1 of 2",
                                     "recording 2, stretch 2 of 2"));
  const std::string page = page_of(told);
  EXPECT_THAT(page, AllOf(HasSubstr("<h2>Passes: recording 1, stretch 3 of 3</h2>"),
                          HasSubstr("<h2>Passes: recording 2, stretch 1 of 2</h2>")));
  EXPECT_EQ(json::parse(debug::to_json(told)).size(), 5u);
}

TEST(PassReport, LoopsAndBackwardPartsAreTold) {
  const auto fast = compile(
      [](const Tensor& x) {
        return scan([](const Tensor& h, const Tensor& row) { return std::pair(tanh(h + row), h); },
                    zeros({3}), x)
            .first;
      },
      {.recheck = false});
  for (int i = 0; i < 3; ++i) sum(fast(ones({5, 3}).requires_grad())).backward();
  std::vector<std::string> graphs;
  for (const ExplainedPasses& each : fast.explain_passes()) graphs.push_back(each.graph);
  EXPECT_THAT(graphs, Contains("recording 1"));
  EXPECT_THAT(graphs, Contains(StartsWith("recording 1, region of the scan at pass_report_test")));
  EXPECT_THAT(graphs, Contains(StartsWith("recording 1, backward")));
}

TEST(PassReport, PartsBetweenSizesThatDataTell) {
  const auto fast =
      compile([](const Tensor& x) { return exp(nonzero(x).to(f32)) * 2.0f; }, {.recheck = false});
  for (int i = 0; i < 2; ++i) (void)fast(ones({5}));
  std::vector<std::string> graphs;
  for (const ExplainedPasses& each : fast.explain_passes()) graphs.push_back(each.graph);
  EXPECT_THAT(graphs,
              ::testing::ElementsAre("recording 1, part 1 of 2", "recording 1, part 2 of 2"));
}

TEST(PassReport, LargeConstantsAreLeftOut) {
  const auto graph = make_ref<GraphImpl>();
  graph->outputs() = {graph->add_constant(tensor(std::vector<float>(20000)), Loc())};
  const ExplainedPasses told = exec::explain_passes(*graph, "g", {});
  EXPECT_THAT(told.text, EndsWith("}\n// 1 constants of 80000 bytes are left out\n"));
  EXPECT_LT(told.text.size(), 4000u);
}

}  // namespace
}  // namespace dyad
