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
  EXPECT_EQ(bare_message_of<ValueError>([] { MultiheadAttention(6, 2, {.dropout = 1.5}); }),
            "MultiheadAttention: dropout must be from 0 to 1, found 1.5");
  EXPECT_EQ(bare_message_of<ValueError>([] { LSTM(3, 4, {.layers = 0}); }),
            "lstm: layers must be at least 1, found 0");
  EXPECT_EQ(bare_message_of<ValueError>([] { GRU(3, 4, {.dropout = -0.5}); }),
            "gru: dropout must be from 0 to 1, found -0.5");
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

TEST(SequenceModules, RefuseStatesOfOtherLayers) {
  const LSTM net(4, 6, {.layers = 2});
  const auto refused = [&](const Tensor& x, const RnnState& state) {
    return bare_message_of<ShapeError>([&] { (void)net(x, state); });
  };
  EXPECT_EQ(refused(zeros({5, 3, 4}), {.h = zeros({4, 3, 6})}),
            "lstm: h must be [2, n, hidden], a state for each layer and direction, found "
            "f32[4, 3, 6]");
  EXPECT_EQ(refused(zeros({5, 3, 4}), {.h = zeros({2, 3, 6}), .c = zeros({3, 3, 6})}),
            "lstm: c must be [2, n, hidden], a state for each layer and direction, found "
            "f32[3, 3, 6]");
  EXPECT_EQ(refused(zeros({5, 4}), {.h = zeros({2, 1, 6})}),
            "lstm: h must be [2, hidden], a state for each layer and direction, found "
            "f32[2, 1, 6]");
}

TEST(SequenceModules, AttentionGivesTheWeightsOfEachHead) {
  const MultiheadAttention attention(8, 2);
  const Tensor q = normal({4, 3, 8}), k = normal({5, 3, 8});
  const Tensor each = attention(q, k, k, {.need_weights = true, .average_weights = false}).weights;
  EXPECT_EQ(to_string(each.shape()), "[3, 2, 4, 5]");
  EXPECT_EQ(mean(each, {1}).to_vector<float>(),
            attention(q, k, k, {.need_weights = true}).weights.to_vector<float>());
  const Tensor one = attention(q.select(1, 0), k.select(1, 0), k.select(1, 0),
                               {.need_weights = true, .average_weights = false})
                         .weights;
  EXPECT_EQ(to_string(one.shape()), "[2, 4, 5]");
}

TEST(SequenceModules, AttentionRefusesMasksThatDoNotFit) {
  const MultiheadAttention attention(8, 2);
  const Tensor q = zeros({4, 3, 8}), k = zeros({5, 3, 8});
  const auto refused = [&](const AttentionMasks& masks) {
    return bare_message_of<ShapeError>([&] { (void)attention(q, k, k, masks); });
  };
  for (const bool weights : {false, true}) {
    EXPECT_EQ(refused({.key_padding = zeros({5, 3}, boolean), .need_weights = weights}),
              "MultiheadAttention: key_padding must be bool or floating [3, 5], found bool[5, 3]");
    EXPECT_EQ(refused({.attention = zeros({6, 5, 4}), .need_weights = weights}),
              "MultiheadAttention: attention must be bool or floating [4, 5], or [6, 4, 5] for "
              "each head of each sample, found f32[6, 5, 4]");
  }
  EXPECT_EQ(refused({.key_padding = zeros({15}, boolean)}),
            "MultiheadAttention: key_padding must be bool or floating [3, 5], found bool[15]");
  EXPECT_EQ(refused({.attention = zeros({2, 12, 5})}),
            "MultiheadAttention: attention must be bool or floating [4, 5], or [6, 4, 5] for each "
            "head of each sample, found f32[2, 12, 5]");
  EXPECT_EQ(bare_message_of<DTypeError>(
                [&] { (void)attention(q, k, k, {.key_padding = zeros({3, 5}, i64)}); }),
            "MultiheadAttention: key_padding must be bool or floating [3, 5], found i64[3, 5]");
  // One row for all queries broadcasts; one sample has masks without n.
  EXPECT_NO_THROW((void)attention(q, k, k, {.attention = zeros({1, 5}, boolean)}));
  EXPECT_NO_THROW((void)attention(
      zeros({4, 8}), zeros({5, 8}), zeros({5, 8}),
      {.key_padding = zeros({5}, boolean), .attention = zeros({2, 4, 5}, boolean)}));
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

/// With the numbers of bags and of indices open.
TEST(SequenceModules, BagsInAGraph) {
  for (const bool last : {false, true}) {
    const EmbeddingBag bag(7, 3, {.include_last_offset = last, .padding_idx = 1});
    Graph graph;
    const Tensor y = graph.define([&] {
      return bag(placeholder("indices", i64, {"n"}), placeholder("offsets", i64, {"m"}));
    });
    Session session(graph);
    const Tensor indices = tensor({1, 2, 3, 1, 5}, i64);
    for (const Tensor& offsets : {tensor({0, 2, 2, 3}, i64), tensor({0, 5}, i64)}) {
      EXPECT_EQ(
          session.run({y}, {{"indices", indices}, {"offsets", offsets}})[0].to_vector<float>(),
          bag(indices, offsets).to_vector<float>());
    }
  }
}

}  // namespace
}  // namespace dyad::nn
