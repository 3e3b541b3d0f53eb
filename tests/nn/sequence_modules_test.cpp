#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/session.h"
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
  EXPECT_EQ(bare_message_of<ValueError>([] { Transformer(4, 2, 1, 0); }),
            "TransformerDecoder: layers must be at least 1, found 0");
  EXPECT_EQ(bare_message_of<ValueError>([] { Transformer(6, 4); }),
            "MultiheadAttention: 4 heads do not divide the width 6");
  EXPECT_EQ(bare_message_of<ValueError>([] { RNNCell(0, 4); }),
            "RNNCell: in must be at least 1, found 0");
  EXPECT_EQ(bare_message_of<ValueError>([] { RNNCell(3, 4, {.activation = "gelu"}); }),
            "RNNCell: activation must be \"tanh\" or \"relu\", found \"gelu\"");
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

TEST(SequenceModules, TransformersRefuseWhatDoesNotFit) {
  const Transformer model(4, 2, 1, 1, {.feedforward = 8});
  const auto refused = [&](Shape source, Shape target) {
    return bare_message_of<ShapeError>([&] { (void)model(zeros(source), zeros(target)); });
  };
  EXPECT_EQ(
      refused({3, 2, 4}, {5, 4}),
      "Transformer(source: f32[3, 2, 4], target: f32[5, 4]): both must be [length, n, width], "
      "or both [length, width]");
  EXPECT_EQ(
      refused({3, 2, 4}, {5, 2, 6}),
      "Transformer(source: f32[3, 2, 4], target: f32[5, 2, 6]): the last axis of both must be "
      "the width, 4");
  EXPECT_EQ(refused({3, 2, 4}, {3, 1, 4}),
            "Transformer(source: f32[3, 2, 4], target: f32[3, 1, 4]): the numbers of samples "
            "differ, 2 and 1");
}

/// Matrices evenly in +-sqrt(6 / (in + out)), vectors as their layers have them.
TEST(SequenceModules, TransformersBeginByGlorotsRule) {
  const Transformer model(8, 2, 1, 1, {.feedforward = 40});
  const TensorDict all = named_parameters(model);
  const auto largest = [&](const char* name) { return dyad::max(dyad::abs(all.at(name))).item(); };
  for (const char* part : {"encoder.layers.0.linear1.weight", "decoder.layers.0.linear2.weight"}) {
    EXPECT_LT(largest(part), std::sqrt(6.0 / 48)) << part;
    EXPECT_GT(largest(part), 0.9 * std::sqrt(6.0 / 48)) << part;
  }
  EXPECT_EQ(largest("decoder.layers.0.multihead_attn.in_proj_bias"), 0);
  EXPECT_EQ(largest("encoder.norm.weight"), 1);
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

struct Translator {
  RNNCell rnn{4, 8};
  GRUCell gru{8, 8};
  LSTMCell lstm{8, 8};
  Transformer transformer{8, 2, 1, 1, {.feedforward = 12, .dropout = 0.25}};
};

/// Cells in a loop and an encoder with its decoder, trained eagerly and compiled.
TEST(SequenceModules, CellsAndTransformersAreTheSameCompiled) {
  const Translator model;
  const Tensor x = normal({3, 2, 4}), target = normal({5, 2, 8});
  const auto step = [&](const Tensor& steps, const Tensor& goal) {
    zero_grad(model);
    std::vector<Tensor> seen;
    Tensor h, g, l, c;
    for (std::int64_t t = 0; t < 3; ++t) {
      h = model.rnn(steps[t], h);
      g = model.gru(h, g);
      std::tie(l, c) = model.lstm(g, l, c);
      seen.push_back(l);
    }
    const Tensor y = model.transformer(stack(seen, 0), goal, {.target = {.is_causal = true}});
    const Tensor loss = sum(y * y * y);
    loss.backward();
    return loss;
  };
  const auto all = [&](const Tensor& loss) {
    std::vector<float> values = loss.to_vector<float>();
    for (const Tensor& p : parameters(model)) {
      for (const float v : p.grad().to_vector<float>()) values.push_back(v);
    }
    return values;
  };
  auto compiled = compile(step);
  for (int i = 0; i < 3; ++i) {
    manual_seed(7);
    const std::vector<float> eager = all(step(x, target));
    manual_seed(7);
    EXPECT_EQ(all(compiled(x, target)), eager) << "call " << i;
  }
}

/// In a static graph, with the number of samples open.
TEST(SequenceModules, CellsAndTransformersInAGraph) {
  const RNNCell cell(4, 8);
  Transformer transformer(8, 2, 1, 1, {.feedforward = 12});
  eval(transformer);
  const auto run = [&](const Tensor& x, const Tensor& target) {
    return transformer(unsqueeze(cell(x), 0), target);
  };
  Graph graph;
  const Tensor y = graph.define([&] {
    return run(placeholder("x", f32, {"n", 4}), placeholder("target", f32, {3, "n", 8}));
  });
  Session session(graph);
  for (const std::int64_t n : {2, 5}) {
    const Tensor x = normal({n, 4}), target = normal({3, n, 8});
    EXPECT_EQ(session.run({y}, {{"x", x}, {"target", target}})[0].to_vector<float>(),
              run(x, target).to_vector<float>());
  }
}

}  // namespace
}  // namespace dyad::nn
