#include "dyad/ir/graph_evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "tests/ir/ops_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

using ::testing::HasSubstr;

Value value_of(const Tensor& t) { return graph_value(t)->value; }

class GraphEvaluatorTest : public ::testing::Test {
 protected:
  Tensor input(std::string name, Shape shape, DType dtype = f32) {
    return symbolic_tensor(
        graph, graph->add_placeholder(std::move(name), Type(dtype, std::move(shape)), Loc()), true);
  }
  void write(const Tensor& target, const Tensor& value, Loc loc = std::source_location::current()) {
    evaluator.write(target, value, loc);
  }

  Ref<GraphImpl> graph = make_ref<GraphImpl>();
  GraphEvaluator evaluator{graph};
  Evaluator::Scope scope{evaluator};
};

TEST_F(GraphEvaluatorTest, OperatorsBecomeNodes) {
  const Tensor x = input("x", {"batch", 4});
  const int line = __LINE__ + 1;
  const Tensor y = call("tanh", {x});
  EXPECT_TRUE(y.is_symbolic());
  EXPECT_EQ(type_string(y), "f32[batch, 4]");
  EXPECT_EQ(value_of(y).node->inputs()[0], value_of(x));
  EXPECT_EQ(to_string(value_of(y).node->loc()), "graph_evaluator_test.cpp:" + std::to_string(line));
}

TEST_F(GraphEvaluatorTest, NodesCarryTheUsersLine) {
  const Tensor x = input("x", {3});
  const LocScope user(Loc::intern("train.cpp", 41));
  EXPECT_EQ(to_string(value_of(call("tanh", {x})).node->loc()), "train.cpp:41");
}

TEST_F(GraphEvaluatorTest, ConcreteTensorsBecomeVariablesOnce) {
  const Tensor x = input("x", {2}), w = values({1, 2}, {2});
  const Value a = value_of(call("add", {x, w})), b = value_of(call("add", {w, w}));
  EXPECT_TRUE(a.node->inputs()[1].node->is("variable"));
  EXPECT_EQ(a.node->inputs()[1], b.node->inputs()[0]);
  EXPECT_EQ(graph->variables().size(), 1u);
}

TEST_F(GraphEvaluatorTest, AnotherObjectForTheSameElementsIsTheSameVariable) {
  const Tensor w = values({1, 2}, {2});
  const Tensor same = make_view(w, {2}, {1}, 0);
  const Value sum = value_of(call("add", {w, same}));
  EXPECT_EQ(sum.node->inputs()[0], sum.node->inputs()[1]);
}

TEST_F(GraphEvaluatorTest, NumbersBecomeConstantsOfThePromotedDType) {
  const Tensor x = input("x", {2}, f16);
  const Tensor y = call("add", {x, number(2.5)});
  EXPECT_EQ(type_string(y), "f16[2]");
  const Value constant = value_of(y).node->inputs()[1];
  EXPECT_TRUE(constant.node->is("constant"));
  EXPECT_EQ(to_string(constant.type()), "f16[]");
  EXPECT_EQ(type_string(call("add", {input("i", {2}, i64), number(2.5)})), "f32[2]");
}

TEST_F(GraphEvaluatorTest, SeveralOutputs) {
  const Tensor x = input("x", {2});
  const Tensor* refs[] = {&x};
  Tensor out[2];
  const NoAttrs none;
  evaluator.apply(op("topk"), refs, &none, out, Loc());
  EXPECT_EQ(value_of(out[0]).node, value_of(out[1]).node);
  EXPECT_EQ(value_of(out[1]).index, 1);
  EXPECT_EQ(type_string(out[1]), "i64[2]");
  Tensor three[3];
  EXPECT_THROW(evaluator.apply(op("topk"), refs, &none, three, Loc()), InternalError);
}

TEST_F(GraphEvaluatorTest, AbsentOptionalInputs) {
  const Tensor x = input("x", {2});
  const Value y = value_of(call("linear", {x, x, Tensor()}));
  EXPECT_FALSE(y.node->inputs()[2]);
  EXPECT_THAT(message_of<ValueError>([&] { call("linear", {x, Tensor()}); }),
              HasSubstr("weight is an undefined tensor"));
}

TEST_F(GraphEvaluatorTest, ARefusedCallLeavesNothing) {
  const Tensor x = input("x", {2}), w = values({1, 2, 3}, {3});
  const std::size_t before = graph->nodes().size();
  EXPECT_THROW(call("add", {x, w}), ShapeError);
  EXPECT_EQ(graph->nodes().size(), before);
}

TEST_F(GraphEvaluatorTest, ATensorOfAnotherGraph) {
  const auto other = make_ref<GraphImpl>();
  const Tensor foreign =
      symbolic_tensor(other, other->add_placeholder("x", Type(f32, {2}), Loc::intern("a.cpp", 3)));
  const std::string message =
      message_of<GraphError>([&] { call("add", {input("x", {2}), foreign}); });
  EXPECT_THAT(message,
              HasSubstr("add: the input of type f32[2] is a tensor of another graph; build "
                        "both in one graph, or run the other graph and feed its result to "
                        "a placeholder\n  at graph_evaluator_test.cpp:"));
  EXPECT_THAT(message, HasSubstr("\n  declared at a.cpp:3"));
}

TEST_F(GraphEvaluatorTest, SizesAreSymbols) {
  const Tensor x = input("x", {"batch", 4});
  EXPECT_EQ(to_string(x.size(0)), "batch");
  EXPECT_EQ(x.size(1).number(), 4);
}

TEST_F(GraphEvaluatorTest, SizesThatCannotBeCompared) {
  const Tensor a = input("a", {2, "n"}), b = input("b", {"m", 2});
  EXPECT_THAT(
      message_of<GraphError>([&] { call("matmul", {a, b}); }),
      HasSubstr("matmul(a: f32[2, n], b: f32[m, 2]): whether the sizes n and m are equal is "
                "not known in this graph, where sizes have no values; give sizes that are "
                "equal the same name, or use a number, or write the function for compile(), "
                "which runs it on data\n  at graph_evaluator_test.cpp:"));
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(a.size(1) < b.size(0)); }),
              HasSubstr("whether the size n is less than m is not known"));
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(a.size(1).value()); }),
              HasSubstr("the value of the size n is not known"));
  EXPECT_NO_THROW(call("matmul", {a, input("c", {"n", 2})}));
}

TEST_F(GraphEvaluatorTest, HostReads) {
  const Tensor x = call("sum", {input("x", {3})}, SumAttrs{});
  const std::string item = message_of<GraphError>([&] { static_cast<void>(x.item()); });
  EXPECT_THAT(item, HasSubstr("item() of f32[], a value of a graph, which has no data while the "
                              "graph is defined; branch with cond(), fetch the value from a "
                              "session, or write the function for compile()"));
  EXPECT_THAT(item, HasSubstr("\n  at graph_evaluator_test.cpp:"));
  EXPECT_THAT(item, HasSubstr("\n  declared at graph_evaluator_test.cpp:"));
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(static_cast<bool>(x)); }),
              HasSubstr("the truth of f32[]"));
  const Tensor open = input("open", {"n"});
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(static_cast<bool>(open)); }),
              HasSubstr("the truth of f32[n]"));
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(x.to_vector<float>()); }),
              HasSubstr("the elements of f32[]"));
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(values({1}, {}).item()); }),
              HasSubstr("item() of a tensor of type f32[] while a graph is defined: its data would "
                        "become a constant of the graph; read it before"));
  EXPECT_NO_THROW(values({1}, {}).to_vector<float>());
}

TEST_F(GraphEvaluatorTest, Backward) {
  const Tensor x = input("x", {});
  EXPECT_THAT(message_of<GraphError>([&] { x.backward(); }),
              HasSubstr("ask for gradients as values of the graph with gradients(loss, {w})"));
}

TEST_F(GraphEvaluatorTest, AWriteToACapturedTensorIsAssigned) {
  const Tensor x = input("x", {2}), w = values({1, 2}, {2});
  const Tensor before = call("tanh", {w});
  write(w, x);
  const Value assigned = graph->current(graph->find_variable(w));
  EXPECT_TRUE(assigned.node->is("assign"));
  EXPECT_EQ(assigned.node->inputs()[0], graph->find_variable(w));
  EXPECT_EQ(assigned.node->inputs()[1], value_of(x));
  EXPECT_TRUE(value_of(before).node->inputs()[0].node->is("variable"));
  EXPECT_EQ(value_of(call("tanh", {w})).node->inputs()[0], assigned);

  write(w, call("tanh", {w}));
  const Value again = graph->current(graph->find_variable(w));
  EXPECT_NE(again, assigned);
  EXPECT_TRUE(again.node->inputs()[0].node->is("variable"));
}

TEST_F(GraphEvaluatorTest, AWriteToATensorThatWasNotReadYet) {
  const Tensor w = values({1, 2}, {2});
  write(w, input("y", {2}));
  EXPECT_EQ(graph->variables().size(), 1u);
  EXPECT_THAT(message_of<ShapeError>([&] { write(w, input("x", {3})); }),
              HasSubstr("assign(variable: f32[2], value: f32[3]): the new value must have the "
                        "variable's shape and dtype"));
}

TEST_F(GraphEvaluatorTest, AWriteToAnIntermediateValueReplacesIt) {
  const Tensor x = input("x", {2});
  const Tensor y = call("tanh", {x});
  const Tensor same_object = y;
  const Value old = value_of(y);
  write(y, x);
  EXPECT_EQ(value_of(same_object), value_of(x));
  EXPECT_EQ(value_of(call("tanh", {same_object})).node->inputs()[0], value_of(x));
  // A gradient rule that saved the old value still has it.
  const Tensor saved = symbolic_tensor(graph, old);
  EXPECT_EQ(value_of(call("tanh", {saved})).node->inputs()[0], old);
  EXPECT_THROW(write(y, input("z", {3})), ShapeError);
}

TEST_F(GraphEvaluatorTest, ViewsShowLaterWrites) {
  const Tensor x = input("x", {2, 3}), w = values({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor view = call("transpose", {w}, TransposeAttrs{});
  const Tensor view_of_view = call("transpose", {view}, TransposeAttrs{});
  const Value old = value_of(view_of_view);
  EXPECT_EQ(value_of(call("tanh", {view_of_view})).node->inputs()[0], old);

  write(w, x);
  const Value assigned = graph->current(graph->find_variable(w));
  const Value read = value_of(call("tanh", {view_of_view})).node->inputs()[0];
  EXPECT_NE(read, old);
  EXPECT_EQ(read.node->inputs()[0].node->inputs()[0], assigned);
  EXPECT_EQ(to_string(read.type()), "f32[2, 3]");
  // Made once, and again only after the next write.
  EXPECT_EQ(value_of(call("tanh", {view_of_view})).node->inputs()[0], read);
  write(w, call("tanh", {w}));
  const Value third = value_of(call("tanh", {view_of_view})).node->inputs()[0];
  EXPECT_EQ(third.node->inputs()[0].node->inputs()[0], graph->current(graph->find_variable(w)));
}

TEST_F(GraphEvaluatorTest, AWriteThroughARowThatDoesNotSayHow) {
  const Tensor x = input("x", {3, 2}), w = values({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor view = call("transpose", {w}, TransposeAttrs{});
  EXPECT_THAT(message_of<GraphError>([&] { write(view, x); }),
              HasSubstr("a write in place to f32[3, 2], a view made by transpose, which cannot be "
                        "written through; compute the new value of the whole tensor (with where "
                        "or concat) and write that"));
}

TEST_F(GraphEvaluatorTest, WritesToMemoryThatIsSharedOutsideTheGraph) {
  const Tensor w = values({1, 2, 3, 4}, {4});
  const Tensor front = make_view(w, {2}, {1}, 0), back = make_view(w, {2}, {1}, 2);
  EXPECT_TRUE(share_memory(w, front));
  EXPECT_FALSE(share_memory(front, back));
  call("tanh", {back});
  write(front, back);
  EXPECT_THAT(
      message_of<GraphError>([&] { call("tanh", {w}); }),
      HasSubstr("the tensor of type f32[4] shares memory with the variable \"v1\", which the "
                "graph has written; make the view inside the graph, from the variable"));

  const Tensor a = values({1, 2}, {2});
  const Tensor part = make_view(a, {1}, {1}, 0);
  call("tanh", {part});
  EXPECT_THAT(message_of<GraphError>([&] { write(a, back); }),
              HasSubstr("is written, but shares memory with the variable"));
}

}  // namespace
}  // namespace dyad::testing
