#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "dyad/codegen/kernel_provider.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

// One compilation serves training steps on texts of any length.

namespace dyad {
namespace {

constexpr std::int64_t kWords = 20, kWidth = 8;

/// One layer of causal attention and a recurrent one, each behind a normalisation.
struct LengthsModel {
  nn::Embedding words{kWords, kWidth};
  nn::LayerNorm norm1{kWidth}, norm2{kWidth};
  nn::Linear q{kWidth, kWidth}, k{kWidth, kWidth}, v{kWidth, kWidth}, head{kWidth, kWords};
  nn::LSTM lstm{kWidth, kWidth};

  Tensor operator()(const Tensor& text) const {
    Tensor x = words(text);
    const Tensor h = norm1(x);
    const auto heads = [](const Tensor& of) {
      return transpose(reshape(of, {of.size(0), of.size(1), 2, kWidth / 2}), 1, 2);
    };
    const Tensor seen =
        scaled_dot_product_attention(heads(q(h)), heads(k(h)), heads(v(h)), {.is_causal = true});
    x = x + reshape(transpose(seen, 1, 2), x.shape());
    x = x + transpose(lstm(transpose(norm2(x), 0, 1)).y, 0, 1);
    return reshape(head(gelu(x)), {-1, kWords});
  }
};

struct LengthsTrainer {
  LengthsModel model;
  optim::AdamW optimizer{nn::parameters(model), {.lr = 1e-3}};

  Tensor operator()(const Tensor& text, const Tensor& next) {
    const Tensor loss = cross_entropy(model(text), reshape(next, {-1}));
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  }
};

std::uint32_t loss_bits(const Tensor& loss) {
  return std::bit_cast<std::uint32_t>(loss.item<float>());
}

TEST(Lengths, AHundredOfThemTakeOneRecordingAndItsKernels) {
  manual_seed(5);
  LengthsTrainer by_eager;
  manual_seed(5);
  LengthsTrainer by_compiled;
  const auto fast =
      compile([&](const Tensor& text, const Tensor& next) { return by_compiled(text, next); },
              {.varying = {{0, 1}, {1, 1}}, .recheck = false, .background = Background::never});
  const auto kernels = [] {
    const auto made = codegen::KernelProvider::instance().statistics();
    return made.built_in + made.disk + made.compiled + made.interpreted;
  };
  std::size_t after_two = 0;
  for (std::int64_t call = 0; call < 100; ++call) {
    SCOPED_TRACE(call);
    const std::int64_t length = 2 + call * 37 % 100;
    const Tensor text = randint(0, kWords, {3, length}), next = randint(0, kWords, {3, length});
    const Tensor wanted = by_eager(text, next);
    if (call == 2) after_two = kernels();
    EXPECT_EQ(loss_bits(fast(text, next)), loss_bits(wanted));
  }
  const Explanation told = fast.explain();
  EXPECT_EQ(told.recordings.size(), 1u);
  EXPECT_EQ(told.replays, 99);
  EXPECT_EQ(told.eager, 0);
  EXPECT_GT(after_two, 0u);
  // Eager calls make kernels of their own, for rows that are alike at any length.
  EXPECT_EQ(kernels(), after_two);
}

}  // namespace
}  // namespace dyad
