#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "tests/ir/ops_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

using ::testing::HasSubstr;

std::string violations(const GraphImpl& graph) {
  return message_of<GraphError>([&] { verify(graph); });
}

class VerifyTest : public ::testing::Test {
 protected:
  Node* tanh_of(Value x) {
    return graph->append_checked(op("tanh"), no_attrs(), {x}, Loc::intern("a.cpp", 5));
  }
  Ref<GraphImpl> graph = make_ref<GraphImpl>();
  Value x = graph->add_placeholder("x", Type(f32, {"n", 3}), Loc::intern("a.cpp", 1));
};

TEST_F(VerifyTest, ASoundGraph) {
  graph->outputs() = {tanh_of(x)->output()};
  graph->append_checked(op("nonzero"), no_attrs(), {x}, Loc());
  EXPECT_NO_THROW(verify(*graph));
}

TEST_F(VerifyTest, UseBeforeTheValueIsMade) {
  Node* first = tanh_of(x);
  Node* second = tanh_of(x);
  first->set_input(0, second->output());
  EXPECT_EQ(violations(*graph),
            "the graph is not valid:\n"
            "  %0 = tanh at a.cpp:5: input 0, %1, is made after it");
}

TEST_F(VerifyTest, ValuesOfOtherGraphs) {
  GraphImpl other;
  const Value foreign = other.add_placeholder("x", Type(f32, {"n", 3}), Loc());
  tanh_of(x)->set_input(0, foreign);
  EXPECT_THAT(violations(*graph), HasSubstr("input 0 is a value of another graph"));
}

TEST_F(VerifyTest, OutputsThatDoNotExist) {
  tanh_of(x)->set_input(0, Value{x.node, 2});
  graph->outputs() = {Value{}, Value{x.node, 1}};
  const std::string text = violations(*graph);
  EXPECT_THAT(text, HasSubstr("input 0 is output 2 of placeholder, which has 1"));
  EXPECT_THAT(text, HasSubstr("\n  output 0 is no value of the graph"));
  EXPECT_THAT(text, HasSubstr("\n  output 1 is no value of the graph"));
}

TEST_F(VerifyTest, TypesThatTheOperatorDoesNotGive) {
  tanh_of(x)->set_types({Type(f32, {"n", 4})});
  EXPECT_THAT(violations(*graph),
              HasSubstr("%0 = tanh at a.cpp:5: its type is f32[n, 4], but tanh(x: f32[n, 3]) gives "
                        "f32[n, 3]"));
}

TEST_F(VerifyTest, InputsThatTheOperatorDoesNotTake) {
  tanh_of(x)->set_input(0, Value());
  EXPECT_THAT(violations(*graph),
              HasSubstr("tanh(x: none): x is an undefined tensor, but the operator needs it"));
}

TEST_F(VerifyTest, EveryViolationIsListed) {
  tanh_of(x)->set_types({Type(f64, {3})});
  tanh_of(x)->set_types({Type(f64, {3})});
  const std::string text = violations(*graph);
  EXPECT_THAT(text, HasSubstr("\n  %0 = tanh"));
  EXPECT_THAT(text, HasSubstr("\n  %1 = tanh"));
}

TEST_F(VerifyTest, AssignmentToWhatIsNoVariable) {
  graph->append(kAssignOp, no_attrs(), {x, x}, {x.type()}, Loc());
  EXPECT_THAT(violations(*graph), HasSubstr("only a variable can be assigned"));
}

TEST_F(VerifyTest, NamesUsedTwice) {
  const PlaceholderAttrs attrs{"x", f32, {3}};
  graph->append(kPlaceholderOp, Attrs::copy_of(attrs_info<PlaceholderAttrs>, &attrs), {},
                {Type(f32, {3})}, Loc());
  EXPECT_THAT(violations(*graph), HasSubstr("the name \"x\" is used twice"));
}

TEST_F(VerifyTest, AttributesWithoutData) {
  EveryAttrs attrs;
  attrs.value = symbolic_tensor(graph, x);
  auto other = make_ref<GraphImpl>();
  const Value y = other->add_placeholder("y", Type(f32, {3}), Loc());
  other->append(op("every"), Attrs::copy_of(attrs_info<EveryAttrs>, &attrs), {y}, {y.type()},
                Loc());
  EXPECT_THAT(violations(*other), HasSubstr("attribute value is a tensor without data"));
}

TEST_F(VerifyTest, Regions) {
  auto region = make_ref<GraphImpl>();
  const Value y = region->add_placeholder("y", Type(f32, {3}), Loc());
  region->append(op("tanh"), no_attrs(), {y}, {Type(f32, {4})}, Loc());
  Node* node = graph->append_checked(op("branch"), no_attrs(), {x}, Loc::intern("a.cpp", 9));
  node->add_region(region);
  EXPECT_THAT(violations(*graph),
              HasSubstr("%0 = branch at a.cpp:9: in region 0: %0 = tanh: its type is f32[4]"));
}

TEST_F(VerifyTest, ALongChain) {
  Value value = x;
  for (int i = 0; i < 200000; ++i) value = tanh_of(value)->output();
  EXPECT_NO_THROW(verify(*graph));
}

}  // namespace
}  // namespace dyad::testing
