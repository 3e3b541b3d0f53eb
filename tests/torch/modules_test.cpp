// Layers that move, resample, pad, drop and compare, losses, and parametrized layers against what
// PyTorch computes (fixtures/modules.safetensors, made by make_fixtures.py).
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "dyad/io/safetensors.h"
#include "layer_check.h"

namespace dyad::nn {
namespace {

const TensorDict& module_fixtures() {
  static const TensorDict tensors =
      io::load_safetensors("tests/torch/fixtures/modules.safetensors");
  return tensors;
}

template <class... More>
void check_module(More&&... more) {
  testing::check(module_fixtures(), std::forward<More>(more)...);
}
template <class L>
void check_eval(const std::string& name, const L& layer) {
  eval(layer);
  check_module(name, layer);
}

TEST(TorchModules, Shuffles) {
  check_module("pixel_shuffle", PixelShuffle{2});
  check_module("pixel_unshuffle", PixelUnshuffle{3});
  check_module("channel_shuffle", ChannelShuffle{2});
}

TEST(TorchModules, Resampling) {
  check_module("upsample", Upsample{{.scale_factor = {2}, .mode = "bicubic"}});
  check_module("upsample_size", Upsample{{.size = {9}, .mode = "linear", .align_corners = true}});
  check_module("upsampling_nearest", UpsamplingNearest2d{{.size = {9, 4}}});
  check_module("upsampling_bilinear", UpsamplingBilinear2d{{.scale_factor = {2}}});
}

TEST(TorchModules, Windows) {
  check_module("unfold", Unfold{{3, 2}, {.dilation = {1, 2}, .padding = 1, .stride = 2}});
  check_module("fold", Fold{{5, 4}, 2, {.padding = 1, .stride = 2}});
  check_module("lp_pool1", LPPool1d(3, 2));
  check_module("lp_pool2", LPPool2d(3, 2));
  check_module("lp_pool3", LPPool3d(3, 2));
  check_module("max_unpool1", MaxUnpool1d(2));
  check_module("max_unpool2", MaxUnpool2d(2));
  check_module("max_unpool3", MaxUnpool3d(2));
}

TEST(TorchModules, Padding) {
  check_module("constant_pad1", ConstantPad1d({1, 0}, 0.5));
  check_module("constant_pad2", ConstantPad2d({1, 0, 2, 1}, 0.5));
  check_module("constant_pad3", ConstantPad3d({1, 0, 2, 1, 1, 2}, 0.5));
  check_module("zero_pad1", ZeroPad1d(1));
  check_module("zero_pad2", ZeroPad2d(1));
  check_module("zero_pad3", ZeroPad3d(1));
  check_module("reflection_pad1", ReflectionPad1d(1));
  check_module("reflection_pad2", ReflectionPad2d(1));
  check_module("reflection_pad3", ReflectionPad3d(1));
  check_module("replication_pad1", ReplicationPad1d({1, 0}));
  check_module("replication_pad2", ReplicationPad2d({1, 0, 2, 1}));
  check_module("replication_pad3", ReplicationPad3d({1, 0, 2, 1, 1, 2}));
  check_module("circular_pad1", CircularPad1d({1, 0}));
  check_module("circular_pad2", CircularPad2d({1, 0, 2, 1}));
  check_module("circular_pad3", CircularPad3d({1, 0, 2, 1, 1, 2}));
}

TEST(TorchModules, Convolutions) {
  const ConvOptions options{.stride = 2, .padding = 1, .groups = 2};
  check_module("conv1", Conv1d(4, 6, 2, options));
  check_module("conv2", Conv2d(4, 6, 2, options));
  check_module("conv3", Conv3d(4, 6, 2, options));
  const ConvTransposeOptions back{.stride = 2, .padding = 1, .output_padding = 1, .groups = 2};
  check_module("conv_transpose1", ConvTranspose1d(4, 6, 2, back));
  check_module("conv_transpose2", ConvTranspose2d(4, 6, 2, back));
  check_module("conv_transpose3", ConvTranspose3d(4, 6, 2, back));
  for (const char* mode : {"reflect", "replicate", "circular"}) {
    check_module(std::string("conv_") + mode,
                 Conv2d(4, 3, 3, {.padding = {1, 2}, .padding_mode = mode}));
  }
}

TEST(TorchModules, Functions) {
  check_module("softmax2d", Softmax2d());
  check_module("softmin", Softmin{1});
  check_module("threshold", Threshold{0.3, -2});
  check_eval("rrelu", RReLU{0.1, 0.4});
  check_module("unflatten", Unflatten{1, {2, 2}});
  check_eval("dropout2d", Dropout2d(0.4));
  check_eval("alpha_dropout", AlphaDropout(0.4));
}

TEST(TorchModules, Products) {
  check_module("bilinear", Bilinear(5, 4, 3));
  check_module("bilinear_no_bias", Bilinear(5, 4, 3, {.bias = false}));
  check_module("cosine_similarity", CosineSimilarity());
  check_module("pairwise_distance", PairwiseDistance{.p = 3, .keepdim = true});
}

TEST(TorchModules, EmbeddingScalesRowsDown) {
  check_module("embedding_max_norm", Embedding(6, 4, {.max_norm = 1.5}));
}

template <class L>
void check_loss(const std::string& name, L loss) {
  for (const auto& [suffix, reduction] : {std::pair{"/mean", Reduction::mean},
                                          {"/sum", Reduction::sum},
                                          {"/none", Reduction::none}}) {
    if constexpr (requires { loss.args; }) {
      loss.args.reduction = reduction;
    } else {
      loss.reduction = reduction;
    }
    const TensorDict rest = module_fixtures().below(name + suffix + "/rest/");
    check_module(name + suffix, loss, [&](const std::vector<Tensor>& in) {
      if constexpr (requires { loss(in[0], in[0]); }) {
        return std::vector<Tensor>{loss(in[0], rest.at("0"))};
      } else if constexpr (requires { loss(in[0], in[0], in[0]); }) {
        return std::vector<Tensor>{loss(in[0], rest.at("0"), rest.at("1"))};
      } else {
        return std::vector<Tensor>{loss(in[0], rest.at("0"), rest.at("1"), rest.at("2"))};
      }
    });
  }
}

TEST(TorchModules, LossesOfClasses) {
  const Tensor weight = ones({5});
  check_loss("cross_entropy",
             CrossEntropyLoss{.ignore_index = 2, .label_smoothing = 0.1, .weight = weight});
  check_loss("cross_entropy_soft", CrossEntropyLoss{.weight = weight});
  check_loss("nll", NLLLoss{.ignore_index = 0, .weight = weight});
  check_loss("bce", BCELoss{.weight = weight});
  check_loss("bce_logits", BCEWithLogitsLoss{.weight = weight, .pos_weight = clone(weight)});
  check_loss("multi_margin", MultiMarginLoss{.p = 2, .margin = 0.7, .weight = weight});
  check_loss("multilabel_margin", MultiLabelMarginLoss{});
  check_loss("multilabel_soft_margin", MultiLabelSoftMarginLoss{.weight = weight});
  check_loss("ctc", CTCLoss{{.blank = 1}});
}

TEST(TorchModules, LossesOfNumbers) {
  check_loss("mse", MSELoss{});
  check_loss("l1", L1Loss{});
  check_loss("smooth_l1", SmoothL1Loss{.beta = 0.7});
  check_loss("huber", HuberLoss{.delta = 0.7});
  check_loss("kl_div", KLDivLoss{});
  check_loss("poisson_nll", PoissonNLLLoss{.full = true});
  check_loss("gaussian_nll", GaussianNLLLoss{.full = true});
}

TEST(TorchModules, LossesOfDistances) {
  check_loss("hinge_embedding", HingeEmbeddingLoss{.margin = 0.8});
  check_loss("soft_margin", SoftMarginLoss{});
  check_loss("margin_ranking", MarginRankingLoss{.margin = 0.3});
  check_loss("triplet", TripletMarginLoss{.margin = 0.5, .p = 3, .swap = true});
  check_loss("triplet_distance", TripletMarginWithDistanceLoss{.margin = 0.5, .swap = true});
  check_loss("cosine_embedding", CosineEmbeddingLoss{.margin = 0.2});
}

TEST(TorchModules, Parametrized) {
  check_module("weight_norm", WeightNorm(Linear(5, 3)));
  check_module("weight_norm_conv", WeightNorm(Conv2d(4, 3, 2), 1));
  check_module("spectral_norm", SpectralNorm(Linear(5, 3)));
  check_module("spectral_norm_conv",
               SpectralNorm(ConvTranspose2d(4, 3, 2), {.iterations = 2, .axis = 1}));
  check_eval("spectral_norm_eval", SpectralNorm(Linear(5, 3)));
}

}  // namespace
}  // namespace dyad::nn
