#include "dyad/ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "tests/ir/ops_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

using ::testing::HasSubstr;

Loc here(Loc loc = std::source_location::current()) { return loc; }

TEST(Graph, PlaceholdersKeepOrderAndNames) {
  GraphImpl g;
  const Value x = g.add_placeholder("x", Type(f32, {"batch", 3}), here());
  const Value y = g.add_placeholder("y", Type(i64, {"batch"}), here());
  EXPECT_EQ(to_string(x.type()), "f32[batch, 3]");
  EXPECT_EQ(g.find_placeholder("y"), y);
  EXPECT_FALSE(g.find_placeholder("z"));
  ASSERT_EQ(g.placeholders().size(), 2u);
  EXPECT_EQ(g.placeholders()[0], x);
  EXPECT_LT(x.node->id(), y.node->id());
}

TEST(Graph, RefusesAPlaceholderNameTwice) {
  GraphImpl g;
  g.add_placeholder("x", Type(f32, {3}), here());
  const std::string message =
      message_of<GraphError>([&] { g.add_placeholder("x", Type(f32, {4}), here()); });
  EXPECT_THAT(message, HasSubstr("placeholder \"x\": the graph already has a placeholder of that "
                                 "name, of type f32[3]; choose another name"));
  EXPECT_THAT(message, HasSubstr("\n  at graph_test.cpp:"));
  EXPECT_THAT(message, HasSubstr("\n  declared at graph_test.cpp:"));
}

TEST(Graph, RefusesANegativeSize) {
  GraphImpl g;
  EXPECT_THAT(message_of<ShapeError>([&] { g.add_placeholder("x", Type(f32, {-1, 3}), here()); }),
              HasSubstr("shape = [-1, 3]): a size is negative; name a size that varies"));
}

TEST(Graph, OneVariableForEachTensor) {
  GraphImpl g;
  const Tensor w = values({1, 2}, {2}), other = values({1, 2}, {2});
  const Value v = g.add_variable("w", w, here());
  EXPECT_EQ(g.add_variable("again", w, here()), v);
  const Value second = g.add_variable("w", other, here());
  EXPECT_NE(second, v);
  EXPECT_EQ(second.node->attrs_as<VariableAttrs>().name, "w_1");
  EXPECT_EQ(g.find_variable(other), second);
  EXPECT_EQ(g.variables().size(), 2u);
}

TEST(Graph, VariablesAndConstantsNeedData) {
  GraphImpl other;
  auto g = make_ref<GraphImpl>();
  const Value x = g->add_placeholder("x", Type(f32, {3}), here());
  const Tensor symbolic = symbolic_tensor(g, x);
  EXPECT_EQ(to_string(symbolic), "x: f32[3]");
  EXPECT_THAT(message_of<GraphError>([&] { other.add_constant(symbolic, here()); }),
              HasSubstr("constant: the tensor has no data (f32[3] is a value of a graph)"));
  EXPECT_THROW(other.add_variable("w", symbolic, here()), GraphError);
  EXPECT_THROW(other.add_constant(Tensor(), here()), ValueError);
  EXPECT_TRUE(other.nodes().empty());
}

TEST(Graph, AConstantDoesNotChangeWithItsTensor) {
  GraphImpl g;
  const Tensor t = values({1, 2}, {2});
  const Value c = g.add_constant(t, here());
  *reinterpret_cast<float*>(t.impl()->data) = 7;
  const auto first = [](const Value& constant) {
    return *reinterpret_cast<float*>(constant.node->attrs_as<ConstantAttrs>().value.impl()->data);
  };
  EXPECT_EQ(first(c), 1);
  // One that is moved in is taken over, unless somebody else could still write it.
  Tensor shared = values({5}, {1}), sole = values({6}, {1});
  const Tensor holder = shared;
  const void* const memory = sole.impl()->data;
  const Value of_shared = g.add_constant(std::move(shared), here());
  const Value of_sole = g.add_constant(std::move(sole), here());
  *reinterpret_cast<float*>(holder.impl()->data) = 7;
  EXPECT_EQ(first(of_shared), 5);
  EXPECT_EQ(of_sole.node->attrs_as<ConstantAttrs>().value.impl()->data, memory);
}

TEST(Graph, AppendCheckedInfersAndRefuses) {
  GraphImpl g;
  const Value x = g.add_placeholder("x", Type(f32, {"n", 3}), here());
  const Value y = g.add_placeholder("y", Type(f32, {4}), here());
  EXPECT_EQ(to_string(g.append_checked(op("add"), no_attrs(), {x, x}, here())->output().type()),
            "f32[n, 3]");
  const std::size_t before = g.nodes().size();
  EXPECT_THROW(g.append_checked(op("add"), no_attrs(), {x, y}, here()), ShapeError);
  EXPECT_EQ(g.nodes().size(), before);
  EXPECT_NO_THROW(g.append_checked(op("linear"), no_attrs(), {x, y, Value()}, here()));
}

TEST(Graph, SizesThatOnlyARunCanTellAreFreshSymbols) {
  GraphImpl g;
  const Value x = g.add_placeholder("x", Type(f32, {"u4", 3}), here());
  const Value a = g.append_checked(op("nonzero"), no_attrs(), {x}, here())->output();
  const Value b = g.append_checked(op("nonzero"), no_attrs(), {x}, here())->output();
  EXPECT_EQ(to_string(a.type()), "i64[u5, 2]");
  EXPECT_EQ(to_string(b.type()), "i64[u6, 2]");
  EXPECT_EQ(to_string(clone(g)->fresh_symbol()), "u7");
}

TEST(Graph, CloneIsEqualAndApart) {
  auto g = make_ref<GraphImpl>();
  const Value x = g->add_placeholder("x", Type(f32, {3}), here());
  const Value w = g->add_variable("w", values({1, 2, 3}, {3}), here());
  const Value sum = g->append_checked(op("add"), no_attrs(), {x, w}, here())->output();
  const Value assigned = g->append_checked(kAssignOp, no_attrs(), {w, sum}, here())->output();
  g->outputs() = {sum};

  std::unordered_map<Value, Value, ValueHash> map;
  const Ref<GraphImpl> copy = clone(*g, &map);
  EXPECT_TRUE(same_graph(*g, *copy));
  EXPECT_EQ(map.size(), 4u);
  EXPECT_EQ(copy->outputs()[0], map.at(sum));
  EXPECT_EQ(copy->find_placeholder("x"), map.at(x));
  EXPECT_EQ(copy->current(map.at(w)), map.at(assigned));
  EXPECT_EQ(map.at(sum).node->loc(), sum.node->loc());

  copy->append_checked(op("tanh"), no_attrs(), {map.at(sum)}, here());
  EXPECT_FALSE(same_graph(*g, *copy));
  EXPECT_EQ(g->nodes().size(), 4u);
}

TEST(Graph, SameGraphSeesEachDifference) {
  const auto build = [](auto change) {
    auto g = make_ref<GraphImpl>();
    Value x = g->add_placeholder("x", Type(f32, {3, 3}), here());
    Value y = g->add_placeholder("y", Type(f32, {3, 3}), here());
    SumAttrs attrs{.axes = {0}};
    std::string name = "add";
    change(x, y, attrs, name);
    const Value z = g->append_checked(op(name), no_attrs(), {x, y}, here())->output();
    g->outputs() = {
        g->append_checked(op("sum"), Attrs::copy_of(attrs_info<SumAttrs>, &attrs), {z}, here())
            ->output()};
    return g;
  };
  const auto plain = build([](Value&, Value&, SumAttrs&, std::string&) {});
  EXPECT_TRUE(same_graph(*plain, *build([](Value&, Value&, SumAttrs&, std::string&) {})));
  EXPECT_FALSE(same_graph(
      *plain, *build([](Value& x, Value& y, SumAttrs&, std::string&) { std::swap(x, y); })));
  EXPECT_FALSE(
      same_graph(*plain, *build([](Value&, Value&, SumAttrs& a, std::string&) { a.axes = {1}; })));
  EXPECT_FALSE(
      same_graph(*plain, *build([](Value&, Value&, SumAttrs&, std::string& op) { op = "div"; })));
  const auto fewer = clone(*plain);
  fewer->outputs().clear();
  EXPECT_FALSE(same_graph(*plain, *fewer));
}

TEST(Graph, EraseKeepsOrderAndForgetsWhatIsGone) {
  GraphImpl g;
  const Value x = g.add_placeholder("x", Type(f32, {3}), here());
  g.add_placeholder("unused", Type(f32, {3}), here());
  const Tensor w = values({1, 2, 3}, {3});
  g.add_variable("w", w, here());
  const Value y = g.append_checked(op("tanh"), no_attrs(), {x}, here())->output();
  g.erase_if([](const Node& n) {
    return n.is("variable") ||
           (n.is("placeholder") && n.attrs_as<PlaceholderAttrs>().name == "unused");
  });
  ASSERT_EQ(g.nodes().size(), 2u);
  EXPECT_EQ(g.nodes()[1].get(), y.node);
  EXPECT_EQ(g.placeholders().size(), 1u);
  EXPECT_FALSE(g.find_variable(w));
  EXPECT_NO_THROW(g.add_placeholder("unused", Type(f32, {3}), here()));
}

TEST(Graph, CurrentFollowsLongChainsOfWrites) {
  GraphImpl g;
  const Value x = g.add_placeholder("x", Type(f32, {}), here());
  const Value w = g.add_variable("w", values({1}, {}), here());
  EXPECT_EQ(g.current(w), w);
  Value last;
  for (int i = 0; i < 100000; ++i) {
    last = g.append_checked(kAssignOp, no_attrs(), {w, x}, Loc())->output();
  }
  EXPECT_EQ(g.current(w), last);
  EXPECT_EQ(g.current(last), last);
  EXPECT_EQ(g.current(x), x);
}

TEST(Graph, AMillionNodesInAChain) {
  auto g = make_ref<GraphImpl>();
  GraphEvaluator evaluator(g);
  const Evaluator::Scope scope(evaluator);
  Tensor x = symbolic_tensor(g, g->add_placeholder("x", Type(f32, {3}), here()), true);
  for (int i = 0; i < 1000000; ++i) x = call("tanh", {x});
  EXPECT_EQ(g->nodes().size(), 1000001u);
  const Ref<GraphImpl> copy = clone(*g);
  EXPECT_TRUE(same_graph(*g, *copy));
}

TEST(Graph, AValueKeepsItsGraph) {
  Tensor x;
  {
    auto g = make_ref<GraphImpl>();
    x = symbolic_tensor(g, g->add_placeholder("x", Type(f32, {3}), here()));
  }
  EXPECT_EQ(graph_value(x)->value.node->op().name, "placeholder");
  EXPECT_EQ(graph_value(values({1}, {})), nullptr);
}

}  // namespace
}  // namespace dyad::testing
