// Layers of sequences against what PyTorch computes (fixtures/sequences.safetensors, made by
// make_fixtures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "dyad/io/safetensors.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "layer_check.h"

namespace dyad::nn {
namespace {

using testing::expect_near;
using Named = std::map<std::string, Tensor>;

const TensorDict& sequence_fixtures() {
  static const TensorDict tensors =
      io::load_safetensors("tests/torch/fixtures/sequences.safetensors");
  return tensors;
}

/// Recurrent layers add up rounding over their steps.
constexpr double kTolerance = 5e-6;

/// Loads the state, calls with the named inputs (undefined where there is none), and compares
/// outputs and derivatives.
template <class L, class Call>
void check_sequence(const std::string& name, const L& layer, Call&& call) {
  const TensorDict& all = sequence_fixtures();
  load_state_dict(layer, all.below(name + "/state/"));
  Named inputs;
  for (const auto& [key, x] : all.below(name + "/in/")) {
    inputs[key] = clone(x);
    if (is_floating(x.dtype())) inputs[key].requires_grad();
  }
  const Named outputs = call(inputs);
  Tensor loss = zeros({});
  for (const auto& [key, expected] : all.below(name + "/out/")) {
    const Tensor& out = outputs.at(key);
    expect_near(out, expected, name + " output " + key, kTolerance);
    loss = loss + sum(out * all.at(name + "/weights/" + key));
  }
  loss.backward();
  for (const auto& [key, expected] : all.below(name + "/grad/")) {
    const Tensor& of =
        key.starts_with("in.") ? inputs.at(key.substr(3)) : named_parameters(layer).at(key);
    expect_near(of.grad(), expected, name + " gradient of " + key, kTolerance);
  }
}

template <class L>
void check_recurrent(const std::string& name, const L& layer) {
  check_sequence(name, layer, [&](Named& in) -> Named {
    const RnnResult made = layer(in["x"], {.h = in["h"], .c = in["c"], .lengths = in["lengths"]});
    return {{"y", made.y}, {"h", made.h}, {"c", made.c}};
  });
}

TEST(TorchSequences, RecurrentLayers) {
  const RnnOptions deep{.layers = 2, .batch_first = true, .bidirectional = true};
  check_recurrent("rnn", RNN(6, 5));
  check_recurrent("rnn_deep", RNN(6, 5, deep));
  check_recurrent("rnn_one", RNN(6, 5, {.bias = false}));
  check_recurrent("rnn_relu", RNN(6, 5, {.activations = "relu"}));
  check_recurrent("lstm", LSTM(6, 5));
  check_recurrent("lstm_deep", LSTM(6, 5, deep));
  check_recurrent("lstm_one", LSTM(6, 5, {.bias = false}));
  check_recurrent("gru", GRU(6, 5));
  check_recurrent("gru_deep", GRU(6, 5, deep));
  check_recurrent("gru_one", GRU(6, 5, {.bias = false}));
}

TEST(TorchSequences, EmbeddingBag) {
  const EmbeddingBag bag(7, 3, {.mode = BagMode::sum, .padding_idx = 2});
  check_sequence("embedding_bag", bag,
                 [&](Named& in) -> Named { return {{"y", bag(in["i"], in["offsets"], in["w"])}}; });
}

void check_attention(const std::string& name, const MultiheadAttention& layer) {
  const auto call = [&](Named& in, bool weights) {
    const Tensor &q = in["q"], &k = in["k"].defined() ? in["k"] : q,
                 &v = in["v"].defined() ? in["v"] : k;
    return layer(q, k, v,
                 {.key_padding = in["padding"], .attention = in["mask"], .need_weights = weights});
  };
  check_sequence(name, layer, [&](Named& in) -> Named {
    const AttentionResult whole = call(in, true);
    // Without the weights the scores are never whole.
    expect_near(call(in, false).out, whole.out.detach(), name + " by tiles", kTolerance);
    return {{"out", whole.out}, {"weights", whole.weights}};
  });
}

TEST(TorchSequences, MultiheadAttention) {
  check_attention("attention", MultiheadAttention(8, 2));
  check_attention("attention_masked", MultiheadAttention(8, 2, {.batch_first = true}));
  check_attention("attention_biased", MultiheadAttention(8, 4, {.bias = false}));
  check_attention("attention_widths", MultiheadAttention(8, 2, {.key_width = 5, .value_width = 3}));
  check_attention("attention_one", MultiheadAttention(8, 2));
}

TEST(TorchSequences, Transformers) {
  const TransformerOptions plain{.feedforward = 16, .dropout = 0};
  TransformerOptions first = plain;
  first.norm_first = true;
  TransformerOptions gelu_first = first;
  gelu_first.batch_first = true;
  gelu_first.activation = [](const Tensor& x) { return gelu(x); };
  const TransformerEncoderLayer layer(8, 2, plain), layer_first(8, 2, gelu_first);
  check_sequence("encoder_layer", layer,
                 [&](Named& in) -> Named { return {{"y", layer(in["x"])}}; });
  check_sequence("encoder_layer_first", layer_first, [&](Named& in) -> Named {
    return {{"y", layer_first(in["x"], {.key_padding = in["padding"]})}};
  });
  const TransformerDecoderLayer decoder_layer(8, 2, plain);
  check_sequence("decoder_layer", decoder_layer, [&](Named& in) -> Named {
    return {{"y", decoder_layer(in["x"], in["memory"], {.is_causal = true})}};
  });
  const TransformerEncoder encoder(8, 2, 2, plain, /*final_norm=*/true);
  check_sequence("encoder", encoder, [&](Named& in) -> Named {
    return {{"y", encoder(in["x"], {.is_causal = true})}};
  });
  const TransformerDecoder decoder(8, 2, 2, first);
  check_sequence("decoder", decoder, [&](Named& in) -> Named {
    return {{"y", decoder(in["x"], in["memory"], {.is_causal = true})}};
  });
}

TEST(TorchSequences, EncoderAndDecoder) {
  const TransformerOptions plain{.feedforward = 16, .dropout = 0};
  TransformerOptions first = plain;
  first.norm_first = true;
  first.batch_first = true;
  first.bias = false;
  first.activation = [](const Tensor& x) { return gelu(x); };
  const auto checked = [](const std::string& name, const Transformer& model) {
    check_sequence(name, model, [&](Named& in) -> Named {
      return {{"y", model(in["x"], in["y"],
                          {.source = {.key_padding = in["padding"], .attention = in["mask"]},
                           .target = {.is_causal = true},
                           .memory = {.key_padding = in["padding"]}})}};
    });
  };
  checked("transformer", Transformer(8, 2, 2, 1, plain));
  checked("transformer_first", Transformer(8, 4, 1, 2, first));
  checked("transformer_one", Transformer(8, 2, 1, 1, plain));
}

/// A rotation keeps lengths, and products of two depend on the distance of their positions alone.
TEST(Sequences, RotaryEmbeddingKnowsDistances) {
  for (const bool interleaved : {false, true}) {
    const RotaryEmbedding rotary(8, 32, {.interleaved = interleaved, .dtype = f64});
    const Tensor q = normal({1, 1, 1, 8}, 0, 1, f64), k = normal({1, 1, 1, 8}, 0, 1, f64);
    const auto at = [&](std::int64_t i, std::int64_t j) {
      return sum(rotary(q, full({1, 1}, static_cast<double>(i), i64)) *
                 rotary(k, full({1, 1}, static_cast<double>(j), i64)))
          .item();
    };
    EXPECT_NEAR(at(3, 10), at(20, 27), 1e-12);
    EXPECT_GT(std::abs(at(3, 10) - at(3, 11)), 1e-6);
    EXPECT_NEAR(sum(square(rotary(q))).item(), sum(square(q)).item(), 1e-12);
  }
}

/// Dropout acts between layers in training only.
TEST(Sequences, DropoutBelongsToTraining) {
  const GRU net(4, 3, {.layers = 2, .dropout = 0.5});
  const Tensor x = normal({5, 2, 4});
  EXPECT_GT(dyad::max(dyad::abs(net(x).y - net(x).y)).item(), 0);
  eval(net);
  EXPECT_EQ(dyad::max(dyad::abs(net(x).y - net(x).y)).item(), 0);
}

}  // namespace
}  // namespace dyad::nn
