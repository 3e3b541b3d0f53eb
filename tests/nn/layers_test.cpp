// Layers that are functions with parameters or settings: they call them with what they hold.
#include <gmock/gmock.h>

#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"

namespace dyad::nn {
namespace {

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

TEST_F(LayerCalls, Pooling) {
  same(MaxPool1d(3, 2, 1)(line), max_pool1d(line, 3, 2, 1));
  same(MaxPool3d(2)(volume), max_pool3d(volume, 2));
  same(AvgPool1d(3, 1)(line), avg_pool1d(line, 3, 1));
  same(AvgPool3d(2)(volume), avg_pool3d(volume, 2));
  same(AdaptiveAvgPool2d({3, 2})(image), adaptive_avg_pool(image, {3, 2}));
  same(AdaptiveMaxPool1d({2})(line), adaptive_max_pool(line, {2}));
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

TEST_F(LayerCalls, Losses) {
  const Tensor p = uniform({3, 4}, 0.1, 0.9), q = uniform({3, 4}, 0.1, 0.9);
  const Tensor a = normal({3, 4}), b = normal({3, 4}), c = normal({3, 4});
  const Tensor sign = where(a > 0, ones({3, 4}), -1), row = sign.select(1, 0);
  const Tensor classes = randint(0, 4, {3});
  constexpr Reduction kSum = Reduction::sum;
  same(CrossEntropyLoss{.label_smoothing = 0.1}(a, classes),
       cross_entropy(a, classes, Reduction::mean, -100, {}, 0.1));
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

TEST_F(LayerCalls, SequentialTakesThem) {
  const Sequential model(Conv1d(4, 6, 3), GroupNorm(3, 6), MaxPool1d(2), Flatten());
  EXPECT_EQ(model(line).shape(), Shape({2, 18}));
}

template <class F>
std::string error_of(F&& action) {
  try {
    action();
  } catch (const ValueError& error) {
    return error.what();
  }
  ADD_FAILURE() << "expected a ValueError";
  return "";
}

TEST_F(LayerCalls, BadArgumentsAreErrors) {
  EXPECT_THAT(
      error_of([] { Conv1d(4, 6, 3, {.groups = 4}); }),
      HasSubstr("Conv1d: groups must divide in and out, found in = 4, out = 6, groups = 4"));
  EXPECT_THAT(error_of([] { Conv3d(1, 1, {2, 2}); }),
              HasSubstr("Conv3d: kernel must be one number or 3, found 2"));
  EXPECT_THAT(error_of([] { ConvTranspose2d(1, 1, 0); }),
              HasSubstr("ConvTranspose2d: kernel must be at least 1, found 0"));
  EXPECT_THAT(error_of([] { GroupNorm(3, 4); }),
              HasSubstr("GroupNorm: groups must divide channels, found groups = 3, channels = 4"));
}

}  // namespace
}  // namespace dyad::nn
