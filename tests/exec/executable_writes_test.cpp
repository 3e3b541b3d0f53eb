// Variables that a run writes.
#include "dyad/autograd/gradients.h"
#include "dyad/ir/graph_ops.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

class WritesTest : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(3); }
  void TearDown() override { set_num_threads(1); }
};

void assign(const Tensor& variable, const Tensor& value) {
  Evaluator::current().write(variable, value, std::source_location::current());
}

Tensors gradients_of(const Tensor& loss, const Tensors& inputs) {
  return autograd::graph_gradients({&loss, 1}, {}, inputs, std::source_location::current());
}

TEST_F(WritesTest, AnUpdateIsWrittenInPlace) {
  const Tensor w = normal({4, 3});
  const Tensor before = clone(w);
  const auto step = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor loss = sum(square(matmul(in[0], w)));
    const Tensor g = gradients_of(loss, {w})[0];
    assign(w, w - g * 0.1);
    return {loss};
  };
  const Tensors inputs{normal({5, 4})};
  Executable executable(record(step, types_of(inputs)));
  const std::byte* const data = w.impl()->data;
  const std::uint32_t version = w.impl()->storage->version();
  const Tensor loss = executable.run(inputs)[0];

  Tensor copy = clone(before).requires_grad();
  const Tensor expected_loss = sum(square(matmul(inputs[0], copy)));
  expected_loss.backward();
  EXPECT_TRUE(same_bits(loss, expected_loss));
  EXPECT_TRUE(same_bits(w, before - copy.grad() * 0.1));
  EXPECT_EQ(w.impl()->data, data);
  EXPECT_EQ(w.impl()->storage->version(), version + 1);
  EXPECT_EQ(executable.stats().kernels, 5) << to_string(executable.lowered());
}

TEST_F(WritesTest, ValuesReadTheOldContents) {
  const Tensor w = tensor({1.0f, 2.0f, 3.0f});
  const Ref<GraphImpl> graph = record(
      [&](std::span<const Tensor> in) -> Tensors {
        const Tensor before = w + in[0];
        assign(w, w * 2);
        return {before, w + in[0]};
      },
      Types{Type(f32, {})});
  const Tensors results = Executable(graph).run(Tensors{tensor(10.0f)});
  EXPECT_EQ(results[0].to_vector<float>(), (std::vector<float>{11, 12, 13}));
  EXPECT_EQ(results[1].to_vector<float>(), (std::vector<float>{12, 14, 16}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{2, 4, 6}));
}

TEST_F(WritesTest, TwoVariablesChangePlaces) {
  const Tensor a = tensor({1.0f, 2.0f}), b = tensor({3.0f, 4.0f});
  const Ref<GraphImpl> graph = record(
      [&](std::span<const Tensor>) -> Tensors {
        GraphEvaluator& evaluator = dynamic_cast<GraphEvaluator&>(Evaluator::current());
        const Ref<GraphImpl>& g = evaluator.graph();
        const Value va = g->add_variable("a", a, Loc()), vb = g->add_variable("b", b, Loc());
        const NoAttrs none;
        for (const auto& [to, from] : {std::pair(va, vb), std::pair(vb, va)}) {
          g->append_checked(kAssignOp, Attrs::copy_of(attrs_info<NoAttrs>, &none), {to, from},
                            Loc());
        }
        return {};
      },
      Types{});
  Executable executable(graph);
  static_cast<void>(executable.run({}));
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(b.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST_F(WritesTest, AWriteThatReadsItselfTransposedIsNotDoneInPlace) {
  const Tensor w = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  const Ref<GraphImpl> graph = record(
      [&](std::span<const Tensor>) -> Tensors {
        assign(w, w + w.t());
        return {};
      },
      Types{});
  static_cast<void>(Executable(graph).run({}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{2, 5, 5, 8}));
}

TEST_F(WritesTest, AVariableThatALaterUpdateReadsIsWrittenAfterIt) {
  // The average takes the old parameter although its update comes second.
  const Tensor w = tensor({1.0f, 2.0f}), average = tensor({0.0f, 0.0f});
  const Ref<GraphImpl> graph = record(
      [&](std::span<const Tensor>) -> Tensors {
        const Tensor old = w * 1;
        assign(w, w * 10);
        assign(average, average * 0.5 + old);
        return {};
      },
      Types{});
  Executable executable(graph);
  static_cast<void>(executable.run({}));
  static_cast<void>(executable.run({}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{100, 200}));
  EXPECT_EQ(average.to_vector<float>(), (std::vector<float>{10.5, 21}));
}

TEST_F(WritesTest, TheOldValueMayBeAResultOfTheKernelThatWrites) {
  const Tensor w = normal({1000}), total = zeros({1000});
  const Tensor before = clone(w);
  const Ref<GraphImpl> graph = record(
      [&](std::span<const Tensor>) -> Tensors {
        const Tensor old = clone(w);
        assign(w, w * 2);
        assign(total, old);
        return {};
      },
      Types{});
  static_cast<void>(Executable(graph).run({}));
  EXPECT_TRUE(same_bits(w, before * 2));
  EXPECT_TRUE(same_bits(total, before));
}

TEST_F(WritesTest, AFailedRunChangesNothing) {
  const Tensor w = normal({4, 2});
  const Tensor before = clone(w);
  const Ref<GraphImpl> graph = record(
      [&](std::span<const Tensor> in) -> Tensors {
        assign(w, w * 2);
        return {embedding(in[0], w)};
      },
      Types{Type(i64, {2})});
  Executable executable(graph);
  EXPECT_THROW(static_cast<void>(executable.run(Tensors{tensor({0, 9}, i64)})), IndexError);
  EXPECT_TRUE(same_bits(w, before));
  const CancelToken token;
  token.cancel();
  EXPECT_THROW(static_cast<void>(executable.run(Tensors{tensor({0, 1}, i64)}, &token)),
               CancelledError);
  EXPECT_TRUE(same_bits(w, before));
  static_cast<void>(executable.run(Tensors{tensor({0, 1}, i64)}));
  EXPECT_TRUE(same_bits(w, before * 2));
}

TEST_F(WritesTest, AVariableMayBeFedToItself) {
  const Tensor w = tensor({1.0f, 2.0f});
  const Ref<GraphImpl> graph = record(
      [&](std::span<const Tensor> in) -> Tensors {
        assign(w, w + 1);
        return {in[0] * 10};
      },
      Types{Type(f32, {2})});
  const Tensors results = Executable(graph).run(Tensors{w});
  EXPECT_EQ(results[0].to_vector<float>(), (std::vector<float>{10, 20}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{2, 3}));
}

TEST_F(WritesTest, ManyStepsOfTrainingAreThoseOfEager) {
  const Tensors inputs{normal({32, 20}), randint(0, 5, {32})};
  const Tensor w1 = normal({20, 16}) * 0.1, b1 = zeros({16}), w2 = normal({16, 5}) * 0.1;
  const Tensors start{clone(w1), clone(b1), clone(w2)};
  const auto loss_of = [](const Tensors& in, const Tensors& p) {
    return cross_entropy(matmul(relu(matmul(in[0], p[0]) + p[1]), p[2]), in[1]);
  };
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    const Tensors parameters{clone(start[0]), clone(start[1]), clone(start[2])};
    const Ref<GraphImpl> graph = record(
        [&](std::span<const Tensor> in) -> Tensors {
          const Tensor loss = loss_of(Tensors(in.begin(), in.end()), parameters);
          const Tensors grads = gradients_of(loss, parameters);
          for (std::size_t i = 0; i < grads.size(); ++i) {
            assign(parameters[i], parameters[i] - grads[i] * 0.05);
          }
          return {loss};
        },
        types_of(inputs));
    Executable executable(graph);
    Tensors eager{clone(start[0]), clone(start[1]), clone(start[2])};
    for (int step = 0; step < 10; ++step) {
      const Tensor loss = executable.run(inputs)[0];
      for (Tensor& p : eager) p = p.detach().requires_grad();
      const Tensor expected = loss_of(inputs, eager);
      const Tensors grads = grad(expected, {eager[0], eager[1], eager[2]});
      for (std::size_t i = 0; i < eager.size(); ++i) eager[i] = eager[i].detach() - grads[i] * 0.05;
      ASSERT_TRUE(same_bits(loss, expected)) << "step " << step << ", threads " << threads;
      for (std::size_t i = 0; i < eager.size(); ++i) {
        ASSERT_TRUE(same_bits(parameters[i], eager[i])) << "step " << step << ", parameter " << i;
      }
    }
  }
}

}  // namespace
}  // namespace dyad::exec
