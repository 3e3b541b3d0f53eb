#include <gtest/gtest.h>

#include <cctype>

#include "dyad/base/error.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/ops.h"

namespace dyad {
namespace {

/// Functions on symbolic tensors of a graph: types only.
class Symbolic : public ::testing::Test {
 protected:
  Symbolic() : graph_(make_ref<GraphImpl>()), evaluator_(graph_), scope_(evaluator_) {}

  Tensor input(DType dtype, Shape shape) {
    const std::string name = "x" + std::to_string(count_++);
    return symbolic_tensor(graph_, graph_->add_placeholder(name, Type(dtype, std::move(shape)),
                                                           std::source_location::current()));
  }
  Tensor f(Shape shape) { return input(f32, std::move(shape)); }

  Ref<GraphImpl> graph_;
  GraphEvaluator evaluator_;
  Evaluator::Scope scope_;
  int count_ = 0;
};

TEST_F(Symbolic, ElementByElement) {
  const Tensor x = f({"n", 4});
  EXPECT_EQ(type_string(x + 1), "f32[n, 4]");
  EXPECT_EQ(type_string(x * f({4})), "f32[n, 4]");
  EXPECT_EQ(type_string(x - f({"n", 1})), "f32[n, 4]");
  EXPECT_EQ(type_string(x > 0), "bool[n, 4]");
  EXPECT_EQ(type_string(exp(input(i64, {"n"}))), "f32[n]");
  EXPECT_EQ(type_string(where(x > 0, x, 0)), "f32[n, 4]");
  EXPECT_EQ(type_string(to(x, i8)), "i8[n, 4]");
}

TEST_F(Symbolic, ReductionsAndShapes) {
  const Tensor x = f({"n", 3, "t"});
  EXPECT_EQ(type_string(sum(x, {1})), "f32[n, t]");
  EXPECT_EQ(type_string(mean(x, {0, -1}, true)), "f32[1, 3, 1]");
  EXPECT_EQ(type_string(argmax(x, -1)), "i64[n, 3]");
  EXPECT_EQ(type_string(var(x)), "f32[]");
  EXPECT_EQ(type_string(reshape(x, {x.size(0), -1})), "f32[n, 3*t]");
  EXPECT_EQ(type_string(reshape(x, {-1, 3})), "f32[n*t, 3]");
  EXPECT_EQ(type_string(flatten(x, 1)), "f32[n, 3*t]");
  EXPECT_EQ(type_string(transpose(x, 0, 2)), "f32[t, 3, n]");
  EXPECT_EQ(type_string(expand(f({"n", 1}), {-1, "t"})), "f32[n, t]");
  EXPECT_EQ(type_string(unsqueeze(x, -1)), "f32[n, 3, t, 1]");
  EXPECT_EQ(type_string(squeeze(f({1, "n"}), 0)), "f32[n]");
  EXPECT_EQ(type_string(zeros({x.size(0), 2})), "f32[n, 2]");
  EXPECT_EQ(type_string(full_like(x, 2)), "f32[n, 3, t]");
}

TEST_F(Symbolic, SizesThatAreSaidToBeEqual) {
  const Tensor x = f({"n", 4}), y = f({"m", 4});
  EXPECT_EQ(type_string(x + assume_shape(y, {"n", 4})), "f32[n, 4]");
  EXPECT_EQ(type_string(assume_shape(y, {5, 4})), "f32[5, 4]");
  EXPECT_THROW(static_cast<void>(assume_shape(y, {Dim("m") + 1, 4})), ShapeError);
}

TEST_F(Symbolic, SlicesThatBelongTogetherFitTogether) {
  const Tensor x = f({"t", 2});
  EXPECT_EQ(type_string(slice(x, 0, 1) - slice(x, 0, 0, -1)), "f32[max(t - 1, 0), 2]");
  EXPECT_EQ(type_string(slice(x, 0, 0, kEnd)), "f32[t, 2]");
  EXPECT_EQ(type_string(select(x, 0, -1)), "f32[2]");
  const Dim half = x.size(0) / 2;
  EXPECT_EQ(type_string(concat({slice(x, 0, 0, half), x})).substr(0, 4), "f32[");
  EXPECT_EQ(type_string(concat({x, x, f({3, 2})})), "f32[2*t + 3, 2]");
  EXPECT_EQ(type_string(stack({x, x}, 1)), "f32[t, 2, 2]");
  EXPECT_EQ(type_string(pad(x, {1, 0}, {x.size(0), 0})), "f32[2*t + 1, 2]");
}

TEST_F(Symbolic, ProductsAndImages) {
  EXPECT_EQ(type_string(matmul(f({"n", 4}), f({4, 5}))), "f32[n, 5]");
  EXPECT_EQ(type_string(matmul(f({"n", 3, 4}), f({4}))), "f32[n, 3]");
  EXPECT_EQ(type_string(matmul(f({4}), f({"n", 4, 2}))), "f32[n, 2]");
  EXPECT_EQ(type_string(matmul(f({4}), f({4}))), "f32[]");
  EXPECT_EQ(type_string(linear(f({"n", "t", 4}), f({5, 4}), f({5}))), "f32[n, t, 5]");
  EXPECT_EQ(type_string(conv2d(f({"n", 1, 28, 28}), f({8, 1, 3, 3}), {}, 2, 1)),
            "f32[n, 8, 14, 14]");
  EXPECT_EQ(type_string(max_pool2d(f({"n", 8, "h", 7}), 2)), "f32[n, 8, floordiv(h, 2), 3]");
  EXPECT_EQ(type_string(batch_norm_train(f({"n", 3}), f({3}), f({3}))[1]), "f32[3]");
  EXPECT_EQ(type_string(embedding(input(i64, {"n", "t"}), f({100, 16}))), "f32[n, t, 16]");
  EXPECT_EQ(type_string(cross_entropy(f({"n", 10}), input(i64, {"n"}))), "f32[]");
  EXPECT_EQ(type_string(dropout(f({"n", 10}))), "f32[n, 10]");
  EXPECT_EQ(type_string(normal({"n", 10})), "f32[n, 10]");
  EXPECT_EQ(type_string(one_hot(input(i64, {"n"}), 10)), "f32[n, 10]");
}

TEST_F(Symbolic, CompositesStayOneNode) {
  (void)softmax(f({"n", 10}));
  ASSERT_EQ(graph_->nodes().size(), 2u);
  EXPECT_TRUE(graph_->nodes().back()->is("softmax"));
}

TEST_F(Symbolic, SizesThatMayDifferAreNotTakenToBeEqual) {
  EXPECT_THROW((void)(f({"n"}) + f({"m"})), GraphError);
}

}  // namespace
}  // namespace dyad
