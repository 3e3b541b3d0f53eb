// Graphs whose batch is too large for caches, which run in parts.
#include "dyad/runtime/cancel.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

class SplitBatchTest : public RestoresThreads {
 protected:
  void SetUp() override {
    ops::register_builtin_ops();
    manual_seed(13);
    weight_ = normal({1, 1, 3, 3});
    head_ = normal({1, 3});
  }

  /// For ten images of 4 MB, which a convolution reads and writes; what is left of them is little.
  Function network() const {
    return [this](std::span<const Tensor> x) -> Tensors {
      const Tensor a = mean(relu(conv2d(x[0], literal(weight_), {}, 1, 1)), {2, 3});
      return {matmul(a, literal(head_)), sum(a + x[1], {0})};
    };
  }

 private:
  Tensor weight_, head_;
};

TEST_F(SplitBatchTest, GivesWhatTheWholeBatchGivesInLessMemory) {
  const Tensors inputs{normal({10, 1, 1024, 1024}), normal({10, 1})};
  const Ref<GraphImpl> graph = record(network(), types_of(inputs));
  Executable whole(graph, {.passes_off = {"split_batch"}, .fast_math = true});
  const Tensors expected = whole.run(inputs);
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    Executable parts(graph, {.fast_math = true});
    ASSERT_EQ(count_of(parts.lowered(), "parts"), 1) << to_string(parts.lowered());
    EXPECT_EQ(count_of(parts.lowered(), "conv"), 0);
    static_cast<void>(parts.prepare(inputs));
    EXPECT_EQ(parts.stats().plans, 2);
    for (int run = 0; run < 2; ++run) {
      const Tensors given = parts.run(inputs);
      ASSERT_EQ(given.size(), expected.size());
      for (std::size_t i = 0; i < given.size(); ++i) expect_near(given[i], expected[i], 1e-5);
    }
    EXPECT_EQ(parts.stats().plans, 2) << "the plans that prepare() made serve all parts";
    // An image of all ten is 42 MB, one of a part of two 8.
    EXPECT_GT(whole.memory(inputs)->intermediate, 40'000'000U);
    EXPECT_LT(parts.memory(inputs)->intermediate, 9'000'000U);
    EXPECT_GT(parts.memory(inputs)->intermediate, 8'000'000U);
    EXPECT_EQ(parts.memory(inputs)->results, whole.memory(inputs)->results);
    EXPECT_LT(parts.stats().arena_bytes, whole.stats().arena_bytes / 4);
    EXPECT_GE(parts.stats().kernels, whole.stats().kernels);
  }
}

TEST_F(SplitBatchTest, ReadsImagesThatDoNotLieInOrder) {
  const Tensor image = normal({10, 1024, 1024, 1}), z = normal({10, 1});
  const Tensors inputs{permute(image, {0, 3, 2, 1}), z};
  const Ref<GraphImpl> graph = record(network(), types_of(inputs));
  const Tensors expected = Executable(graph, {.passes_off = {"split_batch"}}).run(inputs);
  const Tensors given = Executable(graph, {.fast_math = true}).run(inputs);
  for (std::size_t i = 0; i < given.size(); ++i) expect_near(given[i], expected[i], 1e-5);
}

TEST_F(SplitBatchTest, ACancelledRunEndsBetweenParts) {
  const Tensors inputs{zeros({10, 1, 1024, 1024}), zeros({10, 1})};
  Executable parts(record(network(), types_of(inputs)), {.fast_math = true});
  CancelToken cancel;
  cancel.cancel();
  EXPECT_THROW(parts.run(inputs, &cancel), CancelledError);
}

}  // namespace
}  // namespace dyad::exec
