#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

namespace dyad::nn {
namespace {

using dyad::testing::bare_message_of;
using ::testing::ElementsAre;

TEST(SequenceModules, RefuseWhatTheyCannotBe) {
  EXPECT_EQ(bare_message_of<ValueError>([] { MultiheadAttention(6, 4); }),
            "MultiheadAttention: 4 heads do not divide the width 6");
  EXPECT_EQ(bare_message_of<ValueError>([] { MultiheadAttention(6, 2, {.dropout = 1}); }),
            "MultiheadAttention: dropout must be at least 0 and below 1, found 1");
  EXPECT_EQ(bare_message_of<ValueError>([] { LSTM(3, 4, {.layers = 0}); }),
            "lstm: layers must be at least 1, found 0");
  EXPECT_EQ(bare_message_of<ValueError>([] { GRU(3, 4, {.dropout = -0.5}); }),
            "gru: dropout must be at least 0 and below 1, found -0.5");
  EXPECT_EQ(bare_message_of<ValueError>([] { RotaryEmbedding(3, 8); }),
            "RotaryEmbedding: width must be even, found 3");
  EXPECT_EQ(bare_message_of<ValueError>([] { TransformerEncoder(4, 2, 0); }),
            "TransformerEncoder: layers must be at least 1, found 0");
  EXPECT_EQ(bare_message_of<IndexError>([] { Embedding(5, 2, {.padding_idx = 5}); }),
            "Embedding: padding_idx = 5 is out of range for a table of 5 rows");
}

TEST(SequenceModules, NameTheirParametersAsPyTorchDoes) {
  const GRU net(3, 4, {.layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_parameters(net)) names.push_back(name);
  EXPECT_THAT(names,
              ElementsAre("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
                          "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse",
                          "bias_hh_l0_reverse", "weight_ih_l1", "weight_hh_l1", "bias_ih_l1",
                          "bias_hh_l1", "weight_ih_l1_reverse", "weight_hh_l1_reverse",
                          "bias_ih_l1_reverse", "bias_hh_l1_reverse"));
  EXPECT_EQ(to_string(named_parameters(net).at("weight_ih_l1").shape()), "[12, 8]");
}

TEST(SequenceModules, AnEmbeddingsPaddingStaysZero) {
  const Embedding table(4, 3, {.padding_idx = -1});
  EXPECT_EQ(table.padding_idx, 3);
  EXPECT_THAT(table.weight[3].to_vector<float>(), ElementsAre(0, 0, 0));
  sum(table(tensor({3, 1, 3}, i64))).backward();
  EXPECT_THAT(table.weight.grad().sum({1}).to_vector<float>(), ElementsAre(0, 3, 0, 0));
}

/// Training steps give the same numbers compiled as they do eagerly.
TEST(SequenceModules, AreTheSameCompiled) {
  const Embedding table(10, 8);
  const LSTM lstm(8, 6, {.layers = 2, .bidirectional = true});
  const TransformerEncoderLayer encoder(12, 3, {.feedforward = 16, .dropout = 0.25});
  const Tensor words = tensor({1, 5, 9, 0, 2, 7}, i64).reshape({3, 2});
  const auto loss = [&](const Tensor& indices) {
    const Tensor y = encoder(lstm(table(indices)).y, {.is_causal = true});
    return sum(y * y);
  };
  const auto step = [&](const Tensor& indices) {
    zero_grad(table);
    zero_grad(lstm);
    zero_grad(encoder);
    const Tensor made = loss(indices);
    made.backward();
    return made;
  };
  const auto all = [&](const Tensor& made) {
    std::vector<float> values = made.to_vector<float>();
    const auto add = [&](const auto& model) {
      for (const Tensor& p : parameters(model)) {
        for (const float v : p.grad().to_vector<float>()) values.push_back(v);
      }
    };
    add(table);
    add(lstm);
    add(encoder);
    return values;
  };
  auto compiled = compile(step);
  for (int i = 0; i < 3; ++i) {
    manual_seed(7);
    const std::vector<float> eager = all(step(words));
    manual_seed(7);
    EXPECT_EQ(all(compiled(words)), eager) << "call " << i;
  }
}

}  // namespace
}  // namespace dyad::nn
