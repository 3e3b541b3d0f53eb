// Parts of a concatenation that are written where they belong.
#include "dyad/ir/graph_ops.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

class PartsInPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(7); }
};

/// Runs `f` eagerly and twice as a graph, with the same bits; how many kernels the graph had.
template <class F>
int kernels_of(const F& f, const Tensors& inputs) {
  const Tensors expected = f(inputs);
  Executable executable(
      record([&](std::span<const Tensor> in) { return f(in); }, types_of(inputs)));
  for (int run = 0; run < 2; ++run) {
    const Tensors results = executable.run(inputs);
    EXPECT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(same_bits(results[i], expected[i])) << i;
  }
  return executable.stats().kernels;
}

TEST_F(PartsInPlaceTest, ProductsAreWrittenWhereTheyBelong) {
  const Tensors inputs{normal({4, 3}), normal({3, 5})};
  const auto stacked = [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = matmul(in[0], in[1]), b = matmul(in[0] * 2, in[1]);
    return {matmul(concat({a, b}, 0), transpose(in[1], 0, 1))};
  };
  EXPECT_EQ(kernels_of(stacked, inputs), 4);
  // The result of the graph itself, by an axis from behind, of parts that are seen as more axes.
  const auto result = [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = unsqueeze(matmul(in[0], in[1]), 0), b = unsqueeze(matmul(in[0] * 2, in[1]), 0);
    return {concat({a, b, zeros({0, 4, 5})}, -3)};
  };
  EXPECT_EQ(kernels_of(result, inputs), 3);
}

TEST_F(PartsInPlaceTest, OtherwiseThePartsAreCopied) {
  const Tensors inputs{normal({4, 3}), normal({3, 5})};
  const auto product = [](std::span<const Tensor> in) { return matmul(in[0], in[1]); };
  // Side by side they do not lie as alone.
  EXPECT_EQ(kernels_of(
                [&](std::span<const Tensor> in) -> Tensors {
                  return {concat({product(in), matmul(in[0] * 2, in[1])}, 1)};
                },
                inputs),
            4);
  // One part twice, a part that is a result, and one from outside.
  EXPECT_EQ(kernels_of(
                [&](std::span<const Tensor> in) -> Tensors {
                  const Tensor a = product(in);
                  return {concat({a, a}, 0)};
                },
                inputs),
            2);
  EXPECT_EQ(kernels_of(
                [&](std::span<const Tensor> in) -> Tensors {
                  const Tensor a = product(in), b = matmul(in[0] * 2, in[1]);
                  return {concat({a, b}, 0), a};
                },
                inputs),
            4);
  EXPECT_EQ(kernels_of(
                [&](std::span<const Tensor> in) -> Tensors {
                  return {concat({in[0], matmul(product(in), transpose(in[1], 0, 1))}, 0)};
                },
                inputs),
            3);
}

TEST_F(PartsInPlaceTest, PartsAreReadBeforeAndAfter) {
  const Tensors inputs{normal({4, 3}), normal({3, 5}), normal({4, 5})};
  kernels_of(
      [](std::span<const Tensor> in) -> Tensors {
        const Tensor a = matmul(in[0], in[1]);
        const Tensor changed = exp(a + in[2]);  // may not be written over the part
        const Tensor b = matmul(in[0] * 2, in[1]);
        const Tensor both = concat({a, b}, 0);
        const Tensor after = relu(both), again = matmul(transpose(a, 0, 1), changed);
        return {after, again, matmul(both, transpose(in[1], 0, 1)), sum(b, {0})};
      },
      inputs);
  // A part written over a value that ends there, as a smaller value than the whole is.
  kernels_of(
      [](std::span<const Tensor> in) -> Tensors {
        const Tensor a = tanh(matmul(in[0], in[1]) * in[2]),
                     b = tanh(matmul(in[0] * 2, in[1]) * in[2]);
        return {sum(matmul(concat({a, b}, 0), transpose(in[1], 0, 1)), {1})};
      },
      inputs);
}

TEST_F(PartsInPlaceTest, OfAVariableThatIsWritten) {
  const Tensor w = normal({8, 5}), half = normal({4, 5});
  const Tensors inputs{normal({4, 3}), normal({3, 5})};
  const Tensor a = matmul(inputs[0], inputs[1]), b = matmul(inputs[0] * 2, inputs[1]);
  const Tensor total = concat({a, b}, 0) + w;
  Executable executable(record(
      [&](std::span<const Tensor> in) -> Tensors {
        const Tensor part = matmul(in[0], in[1]);
        const Tensor whole = concat({part, matmul(in[0] * 2, in[1])}, 0);
        const Loc here = std::source_location::current();
        Evaluator::current().write(half, part, here);
        Evaluator::current().write(w, whole + w, here);
        return {sum(whole)};
      },
      types_of(inputs)));
  const Tensor got = executable.run(inputs)[0];
  EXPECT_TRUE(same_bits(got, sum(concat({a, b}, 0))));
  EXPECT_TRUE(same_bits(half, a));
  EXPECT_TRUE(same_bits(w, total));
}

}  // namespace
}  // namespace dyad::exec
