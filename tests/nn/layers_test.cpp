// Layers that are functions with parameters or settings: they call them with what they hold.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

namespace dyad::nn {
namespace {

using dyad::testing::message_of;
using ::testing::HasSubstr;

class LayerCalls : public ::testing::Test {
 protected:
  LayerCalls() { manual_seed(6); }
  static void same(const Tensor& a, const Tensor& b) {
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_EQ(a.to_vector<float>(), b.to_vector<float>());
  }
  const Tensor line = normal({2, 4, 9}), image = normal({2, 4, 7, 6}),
               volume = normal({1, 4, 4, 5, 3});
};

TEST_F(LayerCalls, Convolutions) {
  const Conv1d one(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2});
  EXPECT_EQ(one.weight.shape(), Shape({6, 2, 3}));
  same(one(line), conv1d(line, one.weight, one.bias, 2, 1, 2, 2));
  const Conv3d three(4, 2, {1, 2, 3}, {.bias = false});
  EXPECT_EQ(three.weight.shape(), Shape({2, 4, 1, 2, 3}));
  EXPECT_FALSE(three.bias.defined());
  same(three(volume), conv3d(volume, three.weight));
  const ConvTranspose1d back(4, 6, 3, {.stride = 2, .output_padding = 1, .groups = 2});
  EXPECT_EQ(back.weight.shape(), Shape({4, 3, 3}));
  same(back(line), conv_transpose1d(line, back.weight, back.bias, 2, 0, 1, 2));
  const ConvTranspose2d wide(4, 3, {3, 2}, {.padding = 1});
  same(wide(image), conv_transpose2d(image, wide.weight, wide.bias, 1, 1));
  const ConvTranspose3d deep(4, 1, 2);
  same(deep(volume), conv_transpose3d(volume, deep.weight, deep.bias));
}

TEST_F(LayerCalls, ATokenOutOfRangeIsOneOfTheEmbedding) {
  const std::string text =
      ": index 9 at [1, 0] is out of range for a table of 5 rows; allowed are "
      "0 to 4";
  const Tensor tokens = tensor({{1, 0}, {9, 4}}, i64);
  const auto message = [&](const auto& layer) {
    return dyad::testing::bare_message_of<IndexError>([&] { (void)layer(tokens); });
  };
  const Embedding plain(5, 3), padded(5, 3, {.padding_idx = 1}), sparse(5, 3, {.sparse = true});
  EXPECT_EQ(message(plain), "embedding" + text);
  EXPECT_EQ(message(padded), "embedding" + text);
  EXPECT_EQ(message(sparse), "embedding" + text);
  const auto fast = compile([&](const Tensor& x) { return plain(x) * 2; });
  for (int i = 0; i < 3; ++i) (void)fast(zeros({2, 2}, i64));
  EXPECT_EQ(message(fast), "embedding" + text);
}

TEST_F(LayerCalls, Pooling) {
  same(MaxPool1d(3, 2, 1)(line), max_pool1d(line, 3, 2, 1));
  same(MaxPool3d(2)(volume), max_pool3d(volume, 2));
  same(AvgPool1d(3, 1)(line), avg_pool1d(line, 3, 1));
  same(AvgPool3d(2)(volume), avg_pool3d(volume, 2));
  same(AdaptiveAvgPool2d({3, 2})(image), adaptive_avg_pool(image, {3, 2}));
  same(AdaptiveAvgPool2d(2)(image), adaptive_avg_pool(image, {2, 2}));
  same(AdaptiveAvgPool2d({1})(image), adaptive_avg_pool(image, {1, 1}));
  same(AdaptiveMaxPool1d({2})(line), adaptive_max_pool(line, {2}));
  EXPECT_EQ(dyad::testing::bare_message_of<ShapeError>([] { AdaptiveAvgPool3d({2, 1}); }),
            "an adaptive pooling over 3 axes takes one size or 3, found 2");
}

TEST_F(LayerCalls, Normalisations) {
  GroupNorm group(2, 4);
  init::normal_(group.weight);
  same(group(image), group_norm(image, 2, group.weight, group.bias));
  same(InstanceNorm2d(4)(image), instance_norm(image));
  const InstanceNorm learned(4, {.affine = true});
  same(learned(image), instance_norm(image, learned.weight, learned.bias));
  const RMSNorm length(6);
  same(length(image), rms_norm(image, length.weight));
  same(LocalResponseNorm{3, 0.1}(image), local_response_norm(image, 3, 0.1));
}

TEST_F(LayerCalls, NormalisationsThatLearnNothing) {
  const Tensor one = ones({4}), zero = zeros({4});
  const LayerNorm plain(6, {.affine = false});
  EXPECT_TRUE(state_dict(plain).empty());
  same(plain(image), layer_norm(image, ones({6})));
  const BatchNorm unscaled(4, {.affine = false});
  EXPECT_TRUE(named_parameters(unscaled).empty());
  EXPECT_EQ(state_dict(unscaled).size(), 3u);
  same(unscaled(image), batch_norm_train(image, one, zero)[0]);
  eval(unscaled);
  same(unscaled(image), batch_norm(image, one, zero, unscaled.running_mean, unscaled.running_var));
  const BatchNorm of_batch(4, {.track_running_stats = false});
  EXPECT_TRUE(named_buffers(of_batch).empty());
  for (const bool training : {true, false}) {
    train(of_batch, training);
    same(of_batch(image), batch_norm_train(image, one, zero)[0]);
  }
}

TEST_F(LayerCalls, BatchNormOfHalvesTakesTheStatisticsOfTheBatchInF32) {
  const BatchNorm1d layer(1, {.momentum = 0.01, .dtype = f16});
  const Tensor y = layer(tensor({{0.0f}, {1000.0f}, {2000.0f}, {3000.0f}}).to(f16));
  EXPECT_EQ(type_string(y), "f16[4, 1]");
  EXPECT_NEAR(y[3].item<double>(), 1.3416407, 1e-3);
  // A hundredth of the unbiased variance, 1666667, and the rest of the 1 before.
  const Tensor mean = layer.running_mean, var = layer.running_var;
  EXPECT_EQ(type_string(var), "f16[1]");
  EXPECT_NEAR(var.item<double>(), 16667.66, 16);
  EXPECT_NEAR(mean.item<double>(), 15, 0.01);
}

TEST_F(LayerCalls, Losses) {
  const Tensor p = uniform({3, 4}, 0.1, 0.9), q = uniform({3, 4}, 0.1, 0.9);
  const Tensor a = normal({3, 4}), b = normal({3, 4}), c = normal({3, 4});
  const Tensor sign = where(a > 0, ones({3, 4}), -1), row = sign.select(1, 0);
  const Tensor classes = randint(0, 4, {3});
  constexpr Reduction kSum = Reduction::sum;
  same(CrossEntropyLoss{.label_smoothing = 0.1}(a, classes),
       cross_entropy(a, classes, {}, Reduction::mean, -100, 0.1));
  same(L1Loss{kSum}(a, b), l1_loss(a, b, kSum));
  same(SmoothL1Loss{0.5}(a, b), smooth_l1_loss(a, b, 0.5));
  same(HuberLoss{0.5}(a, b), huber_loss(a, b, 0.5));
  same(BCELoss{kSum}(p, q), binary_cross_entropy(p, q, {}, kSum));
  same(BCEWithLogitsLoss{}(a, q), binary_cross_entropy_with_logits(a, q));
  same(KLDivLoss{true, kSum}(a, b), kl_div(a, b, true, kSum));
  same(PoissonNLLLoss{.log_input = false}(p, q), poisson_nll_loss(p, q, false));
  same(GaussianNLLLoss{.full = true}(a, b, p), gaussian_nll_loss(a, b, p, true));
  same(HingeEmbeddingLoss{2}(a, sign), hinge_embedding_loss(a, sign, 2));
  same(SoftMarginLoss{}(a, sign), soft_margin_loss(a, sign));
  same(MarginRankingLoss{0.5}(a, b, sign), margin_ranking_loss(a, b, sign, 0.5));
  same(MultiMarginLoss{2, 0.5}(a, classes), multi_margin_loss(a, classes, 2, 0.5));
  same(TripletMarginLoss{.swap = true}(a, b, c), triplet_margin_loss(a, b, c, 1, 2, 1e-6, true));
  same(CosineEmbeddingLoss{0.2}(a, b, row), cosine_embedding_loss(a, b, row, 0.2));
}

TEST_F(LayerCalls, RandomInTrainingAndNotInEvaluation) {
  const RReLU slopes{0.1, 0.4};
  const Tensor below = full({50}, -1);
  const auto drawn = slopes(below).to_vector<float>();
  EXPECT_GT(std::set<float>(drawn.begin(), drawn.end()).size(), 20U);
  eval(slopes);
  same(slopes(below), full({50}, -0.25));
  const Dropout2d whole(0.5);
  const auto kept = amax(whole(ones({4, 9, 2, 2})), {2, 3}).to_vector<float>();
  EXPECT_NE(std::count(kept.begin(), kept.end(), 0.0f), 0);
  EXPECT_NE(std::count(kept.begin(), kept.end(), 2.0f), 0);
  eval(whole);
  same(whole(image), image);
}

TEST_F(LayerCalls, ParametrizedLayersAreFoundAndTrained) {
  const Sequential model(WeightNorm(Linear(4, 3)), ReLU(), SpectralNorm(Linear(3, 2)));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_parameters(model)) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("0.bias", "0.parametrizations.weight.original0",
                                            "0.parametrizations.weight.original1", "2.bias",
                                            "2.parametrizations.weight.original"));
  const Tensor x = normal({5, 4});
  sum(model(x)).backward();
  for (const Tensor& parameter : parameters(model)) EXPECT_TRUE(parameter.grad().defined());
  // The largest singular value becomes 1.
  const SpectralNorm layer(Linear(6, 5));
  for (int i = 0; i < 200; ++i) static_cast<void>(layer.weight());
  EXPECT_NEAR(max(svdvals(layer.weight())).item(), 1, 1e-4);
  // A step changes lengths and directions, not what the layer had.
  const WeightNorm same_as(Linear(4, 3));
  const Tensor lengths = norm(same_as.weight(), 2, {1}, true);
  same(reshape(lengths, {3, 1}), same_as.parameters.g);
}

TEST_F(LayerCalls, ParametrizedLayersCompile) {
  const SpectralNorm layer(Linear(4, 3));
  const SpectralNorm other = clone(layer);
  auto compiled = compile([&](const Tensor& x) { return other(x); });
  const Tensor x = normal({5, 4});
  for (int i = 0; i < 3; ++i) same(compiled(x), layer(x));
  same(other.parameters.left, layer.parameters.left);
}

TEST_F(LayerCalls, EmbeddingScalesDownOnlyWhatIsRead) {
  const Embedding table(5, 3, {.max_norm = 0.5});
  const Tensor before = table.weight.clone();
  static_cast<void>(table(tensor({1, 3}, i64)));
  const auto lengths = norm(table.weight, 2, {1}).to_vector<float>();
  for (const std::size_t row : {1, 3}) EXPECT_LE(lengths[row], 0.5001F);
  for (const std::int64_t row : {0, 2, 4}) same(table.weight[row], before[row]);
}

TEST_F(LayerCalls, SequentialTakesThem) {
  const Sequential model(Conv1d(4, 6, 3), GroupNorm(3, 6), MaxPool1d(2), Flatten());
  EXPECT_EQ(model(line).shape(), Shape({2, 18}));
}

TEST_F(LayerCalls, BadArgumentsAreErrors) {
  EXPECT_THAT(
      message_of<ValueError>([] { Conv1d(4, 6, 3, {.groups = 4}); }),
      HasSubstr("Conv1d: groups must divide in and out, found in = 4, out = 6, groups = 4"));
  EXPECT_THAT(message_of<ValueError>([] { Conv3d(1, 1, {2, 2}); }),
              HasSubstr("Conv3d: kernel must be one number or 3, found 2"));
  EXPECT_THAT(message_of<ValueError>([] { ConvTranspose2d(1, 1, 0); }),
              HasSubstr("ConvTranspose2d: kernel must be at least 1, found 0"));
  EXPECT_THAT(message_of<ValueError>([] { ReflectionPad2d({1, 2}); }),
              HasSubstr("ReflectionPad2d: sides must be one number or 4, found 2"));
  EXPECT_THAT(
      message_of<ValueError>([&] {
        static_cast<void>(Conv2d(4, 1, 3, {.padding = "same", .padding_mode = "reflect"})(image));
      }),
      HasSubstr("Conv2d: with padding_mode \"reflect\" the padding is one number, 2 or 4"));
  EXPECT_THAT(message_of<ValueError>([] { SpectralNorm(Linear(2, 2), {.iterations = 0}); }),
              HasSubstr("SpectralNorm: iterations must be at least 1, found 0"));
  EXPECT_THAT(message_of<ValueError>([] { Bilinear(0, 2, 2); }),
              HasSubstr("Bilinear: in1 must be at least 1, found 0"));
  EXPECT_THAT(message_of<ValueError>([] { AlphaDropout(-1.0); }),
              HasSubstr("AlphaDropout: p must be from 0 to 1, found -1"));
  EXPECT_THAT(message_of<ValueError>([] { GroupNorm(3, 4); }),
              HasSubstr("GroupNorm: groups must divide channels, found groups = 3, channels = 4"));
}

TEST(Modes, SwitchedInsideACompiledFunctionAreAsEagerly) {
  nn::Dropout drop(0.5);
  const auto leaves_it = compile([&](Tensor x) {
    Tensor y = drop(x);
    nn::eval(drop);
    return y;
  });
  for (int i = 0; i < 5; ++i) {
    nn::train(drop);
    static_cast<void>(leaves_it(ones({3})));
    EXPECT_FALSE(drop.mode.training()) << i;
  }
  nn::train(drop);
  const auto puts_it_back = compile([&](Tensor x) {
    nn::eval(drop);
    Tensor y = drop(x);
    nn::train(drop);
    return y;
  });
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(puts_it_back(ones({3})).to_vector<float>(), std::vector<float>(3, 1.0f));
    EXPECT_TRUE(drop.mode.training());
  }
  EXPECT_EQ(puts_it_back.explain().recordings.size(), 1u);
  EXPECT_GT(puts_it_back.explain().replays, 0);
}

TEST(BatchNormLayer, OneValueIsAnErrorWhereACompiledFunctionServedMore) {
  const BatchNorm norm(2);
  const auto fast = compile([&](const Tensor& x) { return norm(x); }, {.recheck = false});
  for (const std::int64_t rows : {4, 6, 5}) (void)fast(ones({rows, 2}));
  EXPECT_THAT(message_of<ValueError>([&] { (void)fast(ones({1, 2})); }),
              HasSubstr("found 1; use a larger batch or eval(model)"));
}

}  // namespace
}  // namespace dyad::nn
