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
