#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "dyad/ir/dot.h"
#include "dyad/ir/layered_layout.h"
#include "dyad/ir/picture_node.h"
#include "tests/ir/ops_for_tests.h"
#include "tests/ir/xml_problem.h"

namespace dyad::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Ref<GraphImpl> small_graph() {
  return parse_graph(R"(graph {
    %x = placeholder : f32[batch, 3] @train.cpp:3
    %w = variable : f32[3, 10] @train.cpp:4
    %0 = matmul(%x, %w) @train.cpp:5
    %1 = constant 2.5 : f32[]
    %2 = add(%0, %1) @train.cpp:6
    %3 = sum(%2) {axes = [1]} @train.cpp:7
    return %3
  })");
}

TEST(LayeredLayout, LayersLieBelowWhatTheyRead) {
  // 4 could stand at the top, but is nearer to what it leads to.
  const std::vector<LayoutEdge> edges = {
      {.from = 0, .to = 1}, {.from = 1, .to = 2}, {.from = 2, .to = 5}, {.from = 4, .to = 5}};
  EXPECT_EQ(layers_of(6, edges), (std::vector<int>{0, 1, 2, 0, 2, 3}));
  EXPECT_TRUE(layers_of(0, {}).empty());
}

TEST(LayeredLayout, BoxesDoNotOverlapAndEdgesLeadDown) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const std::size_t count = 2 + random() % 80;
    Layout layout;
    for (std::size_t to = 1; to < count; ++to) {
      for (std::size_t k = random() % 3; k > 0; --k) {
        layout.edges.push_back({.from = random() % to, .to = to});
      }
    }
    const std::vector<int> layers = layers_of(count, layout.edges);
    for (std::size_t i = 0; i < count; ++i) {
      layout.boxes.push_back({.width = 30.0 + static_cast<double>(random() % 90),
                              .height = 20.0 + static_cast<double>(random() % 50),
                              .layer = layers[i]});
    }
    arrange(layout);
    for (std::size_t i = 0; i < count; ++i) {
      const LayoutBox& a = layout.boxes[i];
      EXPECT_GE(a.x, -1e-6);
      EXPECT_LE(a.x + a.width, layout.width + 1e-6);
      EXPECT_LE(a.y + a.height, layout.height + 1e-6);
      for (std::size_t j = i + 1; j < count; ++j) {
        const LayoutBox& b = layout.boxes[j];
        const bool apart = a.x + a.width < b.x + 1e-6 || b.x + b.width < a.x + 1e-6 ||
                           a.y + a.height < b.y + 1e-6 || b.y + b.height < a.y + 1e-6;
        EXPECT_TRUE(apart) << i << " and " << j;
      }
    }
    for (const LayoutEdge& edge : layout.edges) {
      const LayoutBox &from = layout.boxes[edge.from], &to = layout.boxes[edge.to];
      ASSERT_GE(edge.path.size(), 4u);
      EXPECT_DOUBLE_EQ(edge.path.front().y, from.y + from.height);
      EXPECT_DOUBLE_EQ(edge.path.back().y, to.y);
      EXPECT_GE(edge.path.front().x, from.x);
      EXPECT_LE(edge.path.front().x, from.x + from.width);
      for (std::size_t i = 1; i < edge.path.size(); ++i) {
        EXPECT_GE(edge.path[i].y, edge.path[i - 1].y - 1e-9);
        if (i % 2 == 1) {
          EXPECT_DOUBLE_EQ(edge.path[i].x, edge.path[i - 1].x);
        }
      }
    }
  }
}

TEST(LayeredLayout, AvoidsCrossingsThatCanBeAvoided) {
  // Two ladders, written so that program order crosses at every step.
  Layout layout;
  layout.boxes.assign(8, {.width = 40, .height = 20});
  layout.edges = {{.from = 0, .to = 3}, {.from = 1, .to = 2}, {.from = 3, .to = 4},
                  {.from = 2, .to = 5}, {.from = 4, .to = 7}, {.from = 5, .to = 6},
                  {.from = 0, .to = 2}};
  const std::vector<int> layers = layers_of(8, layout.edges);
  for (std::size_t i = 0; i < 8; ++i) layout.boxes[i].layer = layers[i];
  arrange(layout);
  const auto left_of = [&](std::size_t a, std::size_t b) {
    return layout.boxes[a].x < layout.boxes[b].x;
  };
  EXPECT_EQ(left_of(3, 2), left_of(0, 1));
  EXPECT_EQ(left_of(4, 5), left_of(0, 1));
  EXPECT_EQ(left_of(7, 6), left_of(0, 1));
}

TEST(Svg, ShowsOperatorTypeAndLine) {
  const std::string svg = to_svg(*small_graph(), {.title = "before"});
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr(">before</text>"));
  EXPECT_THAT(svg, HasSubstr("class=\"op\">matmul</text>"));
  EXPECT_THAT(svg, HasSubstr(">f32[batch, 10]</text>"));
  EXPECT_THAT(svg, HasSubstr(">train.cpp:5</text>"));
  EXPECT_THAT(svg, HasSubstr(">axes = [1], keepdim = false</text>"));
  EXPECT_THAT(svg, HasSubstr(">output 0</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>%3 = sum(%2) {axes = [1], keepdim = false} : f32[batch]\n"
                             "train.cpp:7</title>"));
}

TEST(Svg, VariablesAndConstantsStandWhereTheyAreRead) {
  const std::string svg = to_svg(*small_graph());
  EXPECT_THAT(svg, HasSubstr(">w f32[3, 10]</text>"));
  EXPECT_THAT(svg, HasSubstr(">2.5</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("class=\"op\">w</text>")));
  const auto unread = parse_graph("graph { %w = variable : f32[3] return %w }");
  EXPECT_THAT(to_svg(*unread), HasSubstr("class=\"op\">w</text>"));
}

TEST(Svg, FarValuesAreWrittenWithALink) {
  auto graph = make_ref<GraphImpl>();
  const Value x = graph->add_placeholder("x", Type(f32, {3}), Loc());
  const Value first = graph->append_checked(op("tanh"), no_attrs(), {x}, Loc())->output();
  Value last = first;
  for (int i = 0; i < 12; ++i) {
    last = graph->append_checked(op("tanh"), no_attrs(), {last}, Loc())->output();
  }
  graph->append_checked(op("add"), no_attrs(), {last, first}, Loc());
  const std::string svg = to_svg(*graph, {.id_prefix = "after"});
  EXPECT_THAT(svg, HasSubstr("<a href=\"#after-n"));
  EXPECT_THAT(svg, HasSubstr(">↑ %0 tanh</text>"));
  EXPECT_EQ(xml_problem(svg), "");
}

TEST(Svg, RegionsAreDrawnInsideTheirNode) {
  const auto graph = parse_graph(R"(graph {
    %x = placeholder : f32[3]
    %0 = branch(%x) : f32[3]
      region { %inner = placeholder : f32[3] %y = tanh(%inner) return %y }
      region { return }
    return %0
  })");
  const std::string svg = to_svg(*graph);
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("class=\"op\">inner</text>"));
  EXPECT_THAT(svg, HasSubstr(">control flow</text>"));
}

TEST(Svg, TextIsEscapedAndShortened) {
  auto graph = make_ref<GraphImpl>();
  graph->add_placeholder("<a> & \"b\"\x01", Type(f32, {3}), Loc::intern("a<b>.cpp", 1));
  graph->add_placeholder(std::string(100, 'n'), Type(f32, {3}), Loc());
  const std::string svg =
      to_svg(*graph, {.title = "a < b", .note = [](const Node&) { return "5 > 4"; }});
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("&lt;a&gt; &amp; &quot;b&quot; "));
  EXPECT_THAT(svg, HasSubstr("class=\"note\">5 &gt; 4</text>"));
  EXPECT_THAT(svg, HasSubstr("nnn…</text>"));
  EXPECT_EQ(shortened("ab…cd", 4), "ab…");  // never half a character
}

TEST(Svg, LargeGraphsAreCut) {
  auto graph = make_ref<GraphImpl>();
  Value x = graph->add_placeholder("x", Type(f32, {3}), Loc());
  for (int i = 0; i < 3000; ++i) {
    x = graph->append_checked(op("tanh"), no_attrs(), {x}, Loc())->output();
  }
  const std::string svg = to_svg(*graph, {.max_nodes = 200});
  EXPECT_THAT(svg, HasSubstr(">2801 more nodes are not shown</text>"));
  EXPECT_EQ(xml_problem(svg), "");
}

TEST(Svg, AnEmptyGraph) { EXPECT_EQ(xml_problem(to_svg(*make_ref<GraphImpl>())), ""); }

TEST(Dot, NodesEdgesAndRegions) {
  const std::string dot = to_dot(*small_graph(), {.title = "a \"graph\""});
  EXPECT_THAT(dot, HasSubstr("label = \"a \\\"graph\\\"\""));
  EXPECT_THAT(dot, HasSubstr("n0 [label = \"x\\nf32[batch, 3]\\ntrain.cpp:3\""));
  EXPECT_THAT(dot, HasSubstr("n0 -> n2;"));
  EXPECT_THAT(dot, HasSubstr("matmul  %0\\nf32[batch, 10]\\ntrain.cpp:5"));
  EXPECT_THAT(dot, HasSubstr("peripheries = 2"));
  const auto nested = parse_graph(R"(graph {
    %x = placeholder : f32[3]
    %v, %i = topk(%x)
    %0 = branch(%v, %i) : f32[3]
      region { %y = placeholder : f32[3] return %y }
    return
  })");
  const std::string cluster = to_dot(*nested);
  EXPECT_THAT(cluster,
              HasSubstr("subgraph cluster_n2_0 {\n    label = \"%2 region 0\";\n    n3 ["));
  EXPECT_THAT(cluster, HasSubstr("n1 -> n2 [taillabel = \"1\"];"));
}

}  // namespace
}  // namespace dyad::testing
