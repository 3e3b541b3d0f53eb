// Ranges of sizes that static graphs take for granted.

#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using ::dyad::testing::bare_message_of;
using ::dyad::testing::message_of;
using exec::bits;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Does something else for long sequences.
Tensor by_length(const Tensor& x) { return x.size(0) <= 512 ? tanh(x) : x * 2.0f; }

Tensor sequence(std::int64_t length) { return normal({length, 3}); }

TEST(AssumedSizes, DecideWhatAFunctionAsks) {
  Graph open;
  EXPECT_THAT(message_of<GraphError>(
                  [&] { open.define([] { return by_length(placeholder("x", f32, {"n", 3})); }); }),
              HasSubstr("whether the size 512 is less than n is not known in this graph"));
  Graph graph;
  graph.assume("n", 2, 512);
  const Tensor y = graph.define([] { return by_length(placeholder("x", f32, {"n", 3})); });
  Session session(graph);
  for (const std::int64_t n : {2, 7, 512}) {
    const Tensor x = sequence(n);
    EXPECT_EQ(bits(session.run({y}, {{"x", x}})[0]), bits(tanh(x)));
  }
}

TEST(AssumedSizes, RunsOfOtherSizesAreErrors) {
  Graph graph;
  const Tensor y = graph.define([] {
    assume("n", 2, 512);
    return by_length(placeholder("x", f32, {"n", 3}));
  });
  Session session(graph);
  const auto run = [&](std::int64_t n) { session.run({y}, {{"x", sequence(n)}}); };
  EXPECT_THAT(
      message_of<ValueError>([&] { run(513); }),
      AllOf(HasSubstr("the size n is 513, but the graph assumes that it is from 2 to 512\n"),
            HasSubstr("declared at assumed_sizes_test.cpp:")));
  EXPECT_THROW(run(1), ValueError);
  EXPECT_THROW(session.prepare({y}, {{"x", sequence(1)}}), ValueError);
  EXPECT_THROW(static_cast<void>(session.memory({y}, {{"x", sequence(1)}})), ValueError);
  EXPECT_NO_THROW(run(2));
}

TEST(AssumedSizes, RelationsOfSizes) {
  Graph graph;
  graph.assume(Dim("long") - "short", 1);
  const auto longer = [](const Tensor& x, const Tensor& y) {
    return x.size(0) > y.size(0) ? sum(x) : sum(y);
  };
  const Tensor z = graph.define([&] {
    const Tensor x = placeholder("x", f32, {"long", 3}), y = placeholder("y", f32, {"short", 3});
    return longer(x, y);
  });
  Session session(graph);
  const Tensor x = sequence(5), y = sequence(4);
  EXPECT_EQ(bits(session.run({z}, {{"x", x}})[0]), bits(longer(x, y)));
  // The fetched sum needs no y, but what is fed decided which sum it is.
  EXPECT_EQ(bits(session.run({z}, {{"x", x}, {"y", y}})[0]), bits(longer(x, y)));
  EXPECT_THROW(session.run({z}, {{"x", y}, {"y", x}}), ValueError);
  Graph both;
  both.assume(Dim("long") - "short", 1);
  const Tensor w = both.define([&] {
    const Tensor a = placeholder("x", f32, {"long", 3}), b = placeholder("y", f32, {"short", 3});
    return longer(a, b) + sum(b);
  });
  Session joint(both);
  EXPECT_EQ(bits(joint.run({w}, {{"x", x}, {"y", y}})[0]), bits(longer(x, y) + sum(y)));
  EXPECT_THAT(message_of<ValueError>([&] { joint.run({w}, {{"x", y}, {"y", x}}); }),
              HasSubstr("the size long - short is -1, but the graph assumes that it is 1 or more"));
}

TEST(AssumedSizes, HoldInBranchesOfTheHostAndInLoops) {
  const auto fn = [](const Tensor& x) {
    Tensor y = mean(x) > 0.0f ? by_length(x) : -by_length(x);
    return while_loop([](const Tensor& v) { return sum(abs(v)) > 1.0f; },
                      [](const Tensor& v) { return by_length(v) * 0.5f; }, y);
  };
  Graph graph;
  graph.assume("n", 0, 512);
  const Tensor y = graph.define([&] { return fn(placeholder("x", f32, {"n", 3})); });
  Session session(graph);
  for (const std::int64_t n : {3, 9}) {
    const Tensor x = sequence(n);
    for (const Tensor& each : {x, -x})
      EXPECT_EQ(bits(session.run({y}, {{"x", each}})[0]), bits(fn(each)));
  }
  EXPECT_THROW(session.run({y}, {{"x", sequence(513)}}), ValueError);
}

TEST(AssumedSizes, DecideWhetherThereIsOneAndWhichItIs) {
  const auto text_of = [](std::int64_t least) {
    Graph graph;
    graph.assume("n", least);
    const Tensor y = graph.define([] {
      const Tensor x = placeholder("x", f32, {"n", 3});
      return x.size(0) == 0 ? x : x + 1.0f;
    });
    return graph.to_string();
  };
  EXPECT_THAT(text_of(1), HasSubstr("add("));
  EXPECT_THROW(text_of(0), GraphError);
  Graph one;
  one.assume("n", 7, 7);
  one.define([] {
    const Tensor x = placeholder("x", f32, {"n", 3});
    return x * static_cast<float>(x.size(0).value());
  });
  EXPECT_THAT(one.to_string(), HasSubstr("constant 7"));
}

TEST(AssumedSizes, OfWhatNoPlaceholderHasAreErrors) {
  Graph graph;
  graph.assume("m", 1);
  const Tensor y = graph.define([] { return tanh(placeholder("x", f32, {"n", 3})); });
  Session session(graph);
  EXPECT_THAT(
      message_of<GraphError>([&] { session.run({y}, {{"x", sequence(2)}}); }),
      HasSubstr("assume(m): no placeholder has the size m; the graph has \"x\": f32[n, 3]"));
  // What only data tell is none of them.
  Graph counted;
  const Tensor z = counted.define([] {
    const Tensor places = nonzero(placeholder("x", f32, {"n", 3}));
    assume(places.size(0), 1);
    return places.size(0) == 0 ? places : places + 1;
  });
  Session counting(counted);
  EXPECT_THROW(counting.run({z}, {{"x", zeros({2, 3})}}), GraphError);
}

TEST(AssumedSizes, StayThroughPasses) {
  Graph graph;
  const Tensor y = graph.define([] {
    assume("n", 2, 512);
    return by_length(placeholder("x", f32, {"n", 3})) + 1.0f;
  });
  Session session(graph);
  for (const ExplainedPasses& told : session.explain_passes({y})) {
    EXPECT_FALSE(told.passes.empty());
    for (const ExplainedPass& pass : told.passes) {
      if (!pass.changed()) continue;
      EXPECT_THAT(pass.text, HasSubstr("assume (n) from 2 to 512")) << pass.name;
    }
  }
}

TEST(AssumedSizes, AreInTheText) {
  Graph graph;
  const Tensor y = graph.define([] {
    assume("n", 2, 512);
    assume("n", 2, 512);
    return by_length(placeholder("x", f32, {"n", 3}));
  });
  const std::string text = graph.to_string();
  EXPECT_THAT(text, HasSubstr("graph {\n  assume (n) from 2 to 512 @assumed_sizes_test.cpp:"));
  EXPECT_EQ(text.find("assume"), text.rfind("assume ("));
  const Graph read = Graph::parse(text);
  EXPECT_EQ(read.to_string(), text);
  Session session(read);
  EXPECT_THROW(session.run(read.outputs(), {{"x", sequence(513)}}), ValueError);
}

TEST(AssumedSizes, WhatNoSizeCanBe) {
  Graph graph;
  EXPECT_EQ(bare_message_of<ValueError>([&] { graph.assume("n", 5, 4); }),
            "assume(n): no size is from 5 to 4");
  EXPECT_EQ(bare_message_of<ValueError>([&] { graph.assume(5, 1, 9); }),
            "assume(5): a size that varies has a name, as \"time\"");
  EXPECT_EQ(bare_message_of<ValueError>([&] { graph.assume("n", 1, (1LL << 61) + 1); }),
            "assume(n): bounds of sizes are at most 2^61");
  EXPECT_THROW(graph.assume("n", -9, -1), ValueError);
  graph.assume("n", 1, 5);
  EXPECT_NO_THROW(graph.assume("n", 5));
  EXPECT_THAT(message_of<ValueError>([&] { graph.assume("n", 7, 9); }),
              HasSubstr("assume(n): no size is from 7 to 9 and from 1 to 5"));
  EXPECT_NO_THROW(graph.assume(Dim("a") - "b", -9, -1));
  EXPECT_THAT(message_of<GraphError>([] { assume("n", 1); }),
              HasSubstr("assume() belongs to a graph: call it inside Graph::define"));
}

}  // namespace
}  // namespace dyad
