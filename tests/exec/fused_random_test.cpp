#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "exec_for_tests.h"

// Random numbers are made in the kernels that use them: the bits of eager.

namespace dyad::exec {
namespace {

class FusedRandom : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(3); }
  void TearDown() override { set_num_threads(1); }
};

/// Steps that a run of `fn` takes, without those that take keys from the generator.
int kernels_beside_keys(const Function& fn, const Tensors& inputs) {
  const Ref<GraphImpl> graph = record(fn, types_of(inputs));
  Executable executable(graph);
  static_cast<void>(executable.run(inputs));
  return executable.stats().kernels - count_of(*graph, "random_key");
}

void expect_same_numbers(const Function& fn, const Tensors& inputs) {
  Executable executable(record(fn, types_of(inputs)));
  manual_seed(8);
  const Tensors eager = fn(inputs);
  manual_seed(8);
  const Tensors fused = executable.run(inputs);
  for (std::size_t i = 0; i < eager.size(); ++i)
    EXPECT_TRUE(same_bits(eager[i], fused[i])) << "result " << i;
}

Tensors dropped_and_added(std::span<const Tensor> in) { return {dropout(in[0] * 2, 0.3) + in[0]}; }

Tensors with_noise(std::span<const Tensor> in) {
  return {in[0] + normal(in[0].shape()) * 0.1, uniform(in[0].shape(), -1, 1) > in[0]};
}

Tensors turned_and_dropped(std::span<const Tensor> in) {
  const Tensor x = transpose(in[0], 0, 1);
  return {dropout(x, 0.5) * x, x + uniform(x.shape())};
}

Tensors summed_draws(std::span<const Tensor> in) {
  const Tensor kept = dropout(in[0], 0.5);
  return {sum(kept), mean(dropout(in[0], 0.2), {0}), argmax(uniform(in[0].shape()), 1)};
}

/// Rows of a transformer's block.
Tensors block_of_rows(std::span<const Tensor> in) {
  const Tensor h = in[0] + dropout(in[1], 0.1);
  return {h, dropout(layer_norm(h, in[2], in[2]), 0.2), softmax(h + normal(h.shape()), -1)};
}

TEST_F(FusedRandom, OneKernelDrawsAndUses) {
  const Tensor x = normal({40, 50});
  EXPECT_EQ(kernels_beside_keys(dropped_and_added, {x}), 1);
  EXPECT_EQ(
      kernels_beside_keys(
          [](std::span<const Tensor> in) { return Tensors{normal(in[0].shape()) + in[0]}; }, {x}),
      2)
      << "with the place of the second number in the stream";
  EXPECT_EQ(kernels_beside_keys(
                [](std::span<const Tensor> in) { return Tensors{sum(dropout(in[0], 0.5))}; }, {x}),
            1);
}

TEST_F(FusedRandom, GivesTheBitsOfEagerAtEverySize) {
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    for (const Shape& shape : {Shape{40, 50}, {1, 1}, {1, 7}, {3, 1}, {700, 1301}, {0, 4}}) {
      SCOPED_TRACE(to_string(shape));
      const Tensor x = normal(shape);
      expect_same_numbers(dropped_and_added, {x});
      expect_same_numbers(with_noise, {x});
      expect_same_numbers(turned_and_dropped, {x});
      if (x.numel() > 0) expect_same_numbers(summed_draws, {x});
    }
    expect_same_numbers(dropped_and_added, {tensor(1.5f)});
    expect_same_numbers(with_noise, {normal({3, 5, 2, 7})});
  }
}

TEST_F(FusedRandom, OfEveryDtype) {
  for (const DType dtype : {f64, f16, bf16}) {
    SCOPED_TRACE(name_of(dtype));
    const auto drawn = [&](std::span<const Tensor> in) {
      return Tensors{uniform(in[0].shape(), 0, 1, dtype) * 0.5,
                     normal(in[0].shape(), 0, 1, dtype) + 1};
    };
    expect_same_numbers(drawn, {ones({37, 11})});
    expect_same_numbers(dropped_and_added, {normal({9, 33}).to(dtype)});
  }
}

TEST_F(FusedRandom, InRowsThatRunAFewAtATime) {
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    for (const Shape& shape : {Shape{300, 700}, {6, 50, 640}, {2049, 130}, {5, 3}, {1, 9000}}) {
      SCOPED_TRACE(to_string(shape));
      expect_same_numbers(block_of_rows,
                          {normal(shape), normal(shape), normal({shape[shape.size() - 1]})});
    }
  }
}

TEST_F(FusedRandom, MasksOfForwardAndBackwardAreTheSame) {
  const auto step = [](const Tensor& x, const Tensor& w) {
    const Tensor y = dropout(gelu(x * w), 0.4);
    const Tensor z = layer_norm(dropout(y + x, 0.2), w, w);
    return grad(sum(z * z) + sum(y), {w})[0];
  };
  const auto c = compile_now(step);
  for (const std::int64_t n : {40, 40, 700, 33, 40}) {
    const Tensor x = normal({n, 256}), w = normal({256}).requires_grad();
    manual_seed(static_cast<std::uint64_t>(n));
    const Tensor eager = step(x, w);
    manual_seed(static_cast<std::uint64_t>(n));
    EXPECT_TRUE(same_bits(c(x, w), eager)) << n;
  }
}

}  // namespace
}  // namespace dyad::exec
