// Tables of which a step reads few rows: their gradients and updates.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"

namespace dyad::optim {
namespace {

using ::testing::HasSubstr;

struct WordNet {
  nn::Embedding table;
  nn::Linear out{3, 4};

  Tensor operator()(const Tensor& words) const { return out(tanh(mean(table(words), {1}))); }
};

WordNet make_word_net(bool sparse) {
  manual_seed(8);
  return {.table = nn::Embedding(10, 3, {.sparse = sparse})};
}

Tensor words(int step) {
  const std::vector<std::vector<std::int64_t>> rows{{1, 4, 4, 2}, {4, 7, 1, 1}, {2, 2, 2, 2}};
  return tensor(rows[static_cast<std::size_t>(step % 3)]).reshape({2, 2});
}
Tensor classes() { return tensor(std::vector<std::int64_t>{3, 0}); }

TEST(SparseGradient, IsOfTheRowsThatWereRead) {
  const WordNet sparse = make_word_net(true), dense = make_word_net(false);
  for (const WordNet* net : {&sparse, &dense}) {
    (cross_entropy((*net)(words(0)), classes()) + sum((*net).table(words(1)))).backward();
  }
  const SparseRows rows = sparse_grad(sparse.table.weight);
  ASSERT_TRUE(rows.defined());
  EXPECT_EQ(rows.rows.shape(), Shape({8, 3}));  // two uses of four words
  EXPECT_FALSE(autograd::dense_grad(sparse.table.weight).defined());
  EXPECT_FALSE(sparse_grad(dense.table.weight).defined());
  const auto a = sparse.table.weight.grad().to_vector<float>();
  const auto b = dense.table.weight.grad().to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << i;
  nn::zero_grad(sparse);
  EXPECT_FALSE(sparse_grad(sparse.table.weight).defined());
  EXPECT_FALSE(sparse.table.weight.grad().defined());
}

TEST(SparseGradient, ThatIsAskedForIsWhole) {
  const WordNet net = make_word_net(true);
  const Tensor loss = sum(square(net.table(words(0))));
  const Tensor whole = grad(loss, {net.table.weight})[0];
  EXPECT_EQ(whole.shape(), Shape({10, 3}));
  EXPECT_FALSE(sparse_grad(net.table.weight).defined());
}

TEST(SparseGradient, PaddingGetsNone) {
  Tensor table = ones({4, 2});
  table.requires_grad();
  sum(sparse_embedding(tensor(std::vector<std::int64_t>{0, 2, 2}), table, 2)).backward();
  EXPECT_EQ(table.grad().to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 0, 0, 0, 0}));
}

/// Parameters after steps eagerly, compiled, or in a static graph.
enum class Kind { eager, compiled, graph };
template <class O, class Options>
std::vector<float> trained(const Options& options, bool sparse, Kind kind, int steps = 6) {
  const WordNet net = make_word_net(sparse);
  O optimizer(nn::parameters(net), options);
  const auto step = [&](const Tensor& x) {
    optimizer.zero_grad();
    Tensor loss = cross_entropy(net(x), classes());
    loss.backward();
    optimizer.step();
    return loss;
  };
  if (kind == Kind::graph) {
    Graph graph;
    const Tensor done = graph.define([&] {
      const Tensor x = placeholder("x", i64, {2, "n"});
      return optimizer.minimize(cross_entropy(net(x), classes()));
    });
    Session session(graph);
    for (int i = 0; i < steps; ++i) (void)session.run({done}, {{"x", words(i)}});
  } else {
    const auto fast = compile(step);
    for (int i = 0; i < steps; ++i) {
      (void)(kind == Kind::compiled ? fast(words(i)) : step(words(i)));
    }
  }
  return net.table.weight.template to_vector<float>();
}

template <class O, class Options>
void expect_equal_in_every_mode(const Options& options) {
  const auto eager = trained<O>(options, true, Kind::eager);
  EXPECT_EQ(trained<O>(options, true, Kind::compiled), eager);
  EXPECT_EQ(trained<O>(options, true, Kind::graph), eager);
}

TEST(SparseUpdate, IsTheSameInEveryMode) {
  expect_equal_in_every_mode<SGD>(SGDOptions{.lr = 0.5});
  expect_equal_in_every_mode<SGD>(SGDOptions{.lr = 0.5, .momentum = 0.9});
  expect_equal_in_every_mode<Adagrad>(AdagradOptions{.lr = 0.5});
  expect_equal_in_every_mode<Adam>(AdamOptions{.lr = 0.1});
}

TEST(SparseUpdate, IsTheDenseOneWhereOtherRowsStandStill) {
  for (const auto& [a, b] :
       {std::pair{trained<SGD>(SGDOptions{.lr = 0.5}, true, Kind::eager),
                  trained<SGD>(SGDOptions{.lr = 0.5}, false, Kind::eager)},
        std::pair{trained<Adagrad>(AdagradOptions{.lr = 0.5}, true, Kind::eager),
                  trained<Adagrad>(AdagradOptions{.lr = 0.5}, false, Kind::eager)}}) {
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
  }
}

/// As PyTorch's SparseAdam: moments of rows that were not read stay.
TEST(SparseUpdate, MomentsOfOtherRowsStay) {
  Tensor table = zeros({3, 1}, f64);
  table.requires_grad();
  Adam optimizer({table}, {.lr = 0.1});
  for (const std::int64_t row : {0, 2, 0}) {
    optimizer.zero_grad();
    sum(sparse_embedding(tensor(std::vector<std::int64_t>{row, row}), table)).backward();
    optimizer.step();
  }
  const TensorDict state = optimizer.state_dict();
  // The gradient is 2 at each step: m = 0.2, then 0.9 * 0.2 + 0.1 * 2.
  const auto mean = state.at("mean.0").to_vector<double>();
  EXPECT_NEAR(mean[0], 0.38, 1e-12);
  EXPECT_EQ(mean[1], 0);
  EXPECT_NEAR(mean[2], 0.2, 1e-12);
  EXPECT_EQ(table.to_vector<double>()[1], 0);
}

TEST(SparseUpdate, AnOptimizerThatNeedsTheWholeSaysSo) {
  Tensor table = ones({4, 2});
  table.requires_grad();
  Adafactor optimizer(TensorDict{{"words", table}});
  sum(sparse_embedding(tensor(std::vector<std::int64_t>{1}), table)).backward();
  try {
    optimizer.step();
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Adafactor needs the whole gradient of parameter words, "
                                        "f32[4, 2], which has that of some rows alone"));
  }
}

TEST(SparseClip, ScalesRowsByTheNormOfTheirSums) {
  Tensor table = zeros({4, 1}), whole = zeros({4, 1});
  table.requires_grad();
  whole.requires_grad();
  const Tensor rows = tensor(std::vector<std::int64_t>{1, 1, 3});
  const Tensor weights = tensor(std::vector<float>{1, 2, 4}).reshape({3, 1});
  sum(sparse_embedding(rows, table) * weights).backward();
  sum(embedding(rows, whole) * weights).backward();
  EXPECT_FLOAT_EQ(clip_grad_norm(std::vector{table}, 2.5).item<float>(), 5);
  (void)clip_grad_norm(std::vector{whole}, 2.5);
  EXPECT_EQ(sparse_grad(table).rows.shape(), Shape({3, 1}));
  EXPECT_FALSE(autograd::dense_grad(table).defined());
  EXPECT_EQ(table.grad().to_vector<float>(), whole.grad().to_vector<float>());
}

// --- bags ---

struct BagCase {
  const char* name;
  Tensor indices, offsets;
  EmbeddingBagArgs args;
};

/// Shares are powers of two, so that products are exact and sums in the same order are equal.
std::vector<BagCase> bag_cases() {
  const Tensor table = tensor({1, 4, 4, 2, 0, 1, 1, 3}, i64).reshape({2, 4});
  const Tensor line = tensor({1, 4, 4, 2, 0, 1, 1}, i32), starts = tensor({0, 4, 4, 6}, i64);
  const Tensor shares = tensor({0.5f, 2.0f, 1.0f, -4.0f, 1.0f, 0.25f, 1.0f});
  const Tensor weights = tensor({0.5f, 2.0f, 1.0f, -4.0f, 1.0f, 0.25f, 1.0f, 2.0f}).reshape({2, 4});
  return {
      {"sum", table, {}, {.mode = BagMode::sum}},
      {"mean", table, {}, {.mode = BagMode::mean}},
      {"max", table, {}, {.mode = BagMode::max}},
      {"weighted", table, {}, {.mode = BagMode::sum, .per_sample_weights = weights}},
      {"padded sum", table, {}, {.mode = BagMode::sum, .padding_idx = 4}},
      {"padded mean", table, {}, {.mode = BagMode::mean, .padding_idx = 4}},
      {"padded max", table, {}, {.mode = BagMode::max, .padding_idx = 1}},
      {"offsets", line, starts, {.mode = BagMode::sum}},
      {"weighted offsets",
       line,
       starts,
       {.mode = BagMode::sum, .per_sample_weights = shares, .padding_idx = 2}},
      {"max of offsets", line, starts, {.mode = BagMode::max, .padding_idx = 0}},
      {"last offset", line, starts, {.mode = BagMode::sum, .include_last_offset = true}},
      {"nothing", tensor(std::vector<std::int64_t>{}), tensor({0, 0}, i64), {}},
  };
}

struct BagGradients {
  Tensor table, weights;
  SparseRows rows;
};

BagGradients gradients_of(const BagCase& c, bool sparse) {
  manual_seed(4);
  Tensor table = normal({6, 3});
  table.requires_grad();
  EmbeddingBagArgs args = c.args;
  args.sparse = sparse;
  if (args.per_sample_weights.defined()) {
    args.per_sample_weights = args.per_sample_weights.clone();
    args.per_sample_weights.requires_grad();
  }
  const Tensor bags = embedding_bag(c.indices, table, c.offsets, args);
  sum(bags * normal(bags.shape())).backward();
  return {table.grad(),
          args.per_sample_weights.defined() ? args.per_sample_weights.grad() : Tensor(),
          sparse_grad(table)};
}

TEST(SparseBag, GradientsAreTheDenseOnes) {
  for (const BagCase& c : bag_cases()) {
    const BagGradients sparse = gradients_of(c, true), dense = gradients_of(c, false);
    ASSERT_TRUE(sparse.rows.defined()) << c.name;
    EXPECT_EQ(sparse.rows.rows.shape(), Shape({c.indices.numel(), 3})) << c.name;
    EXPECT_FALSE(dense.rows.defined()) << c.name;
    EXPECT_EQ(sparse.table.to_vector<float>(), dense.table.to_vector<float>()) << c.name;
    ASSERT_EQ(sparse.weights.defined(), dense.weights.defined()) << c.name;
    if (!dense.weights.defined()) continue;
    EXPECT_EQ(sparse.weights.to_vector<float>(), dense.weights.to_vector<float>()) << c.name;
  }
}

TEST(SparseBag, GradientThatIsAskedForIsWhole) {
  for (const BagCase& c : bag_cases()) {
    manual_seed(4);
    Tensor table = normal({6, 3});
    table.requires_grad();
    EmbeddingBagArgs args = c.args;
    args.sparse = true;
    const Tensor bags = embedding_bag(c.indices, table, c.offsets, args);
    const Tensor whole = grad(sum(bags * normal(bags.shape())), {table})[0];
    EXPECT_FALSE(sparse_grad(table).defined()) << c.name;
    EXPECT_EQ(whole.to_vector<float>(), gradients_of(c, false).table.to_vector<float>()) << c.name;
  }
}

/// The table after steps, of which some rows are read by none.
std::vector<float> trained_bags(BagMode mode, bool sparse, Kind kind) {
  manual_seed(9);
  const nn::EmbeddingBag bags(10, 3, {.mode = mode, .padding_idx = 4, .sparse = sparse});
  const nn::Linear out(3, 4);
  std::vector<Tensor> parameters = nn::parameters(out);
  parameters.push_back(bags.weight);
  SGD optimizer(parameters, {.lr = 0.5, .momentum = 0.9});
  const auto loss_of = [&](const Tensor& x) {
    return cross_entropy(out(tanh(bags(x))), classes());
  };
  const auto step = [&](const Tensor& x) {
    optimizer.zero_grad();
    Tensor loss = loss_of(x);
    loss.backward();
    optimizer.step();
    return loss;
  };
  if (kind == Kind::graph) {
    Graph graph;
    const Tensor done =
        graph.define([&] { return optimizer.minimize(loss_of(placeholder("x", i64, {2, "n"}))); });
    Session session(graph);
    for (int i = 0; i < 6; ++i) (void)session.run({done}, {{"x", words(i)}});
  } else {
    const auto fast = compile(step);
    for (int i = 0; i < 6; ++i) (void)(kind == Kind::compiled ? fast(words(i)) : step(words(i)));
  }
  return Tensor(bags.weight).to_vector<float>();
}

TEST(SparseBag, UpdatesTheRowsThatWereReadInEveryMode) {
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    const auto eager = trained_bags(mode, true, Kind::eager);
    EXPECT_EQ(trained_bags(mode, true, Kind::compiled), eager);
    EXPECT_EQ(trained_bags(mode, true, Kind::graph), eager);
    manual_seed(9);
    const auto start =
        Tensor(nn::EmbeddingBag(10, 3, {.padding_idx = 4}).weight).to_vector<float>();
    for (std::size_t row = 0; row < 10; ++row) {
      const bool read = row == 1 || row == 2 || row == 7;  // words() has 4, the padding, besides
      for (std::size_t i = 3 * row; i < 3 * row + 3; ++i)
        EXPECT_EQ(eager[i] != start[i], read) << i;
    }
    EXPECT_NE(trained_bags(mode, false, Kind::eager), eager) << "the momentum of all rows goes on";
  }
}

/// The most memory that the process has had, in bytes.
std::int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{1024} * usage.ru_maxrss;
}

/// Neither a gradient nor a copy of the table is made.
TEST(SparseUpdate, TakesMemoryForTheRowsAlone) {
  const std::int64_t bytes = std::int64_t{1} << 26;
  Tensor table = zeros({bytes / 64, 16});
  table.requires_grad();
  SGD optimizer({table}, {.lr = 1});
  const std::int64_t before = peak_memory();
  const Tensor rows = tensor(std::vector<std::int64_t>{5, 5, 7, 9});
  sum(sparse_embedding(rows, table)).backward();
  optimizer.step();
  EXPECT_EQ(table.select(0, 5).to_vector<float>()[0], -2);

  Graph graph;
  const Tensor done = graph.define(
      [&] { return optimizer.minimize(sum(sparse_embedding(placeholder("x", i64, {4}), table))); });
  Session session(graph);
  (void)session.run({done}, {{"x", rows}});
  EXPECT_EQ(table.select(0, 5).to_vector<float>()[0], -4);

  sum(embedding_bag(rows.reshape({2, 2}), table, {}, {.mode = BagMode::sum, .sparse = true}))
      .backward();
  optimizer.step();
  EXPECT_EQ(table.select(0, 7).to_vector<float>()[0], -4);
  EXPECT_LT(peak_memory() - before, bytes / 2);
  const Explanation told = session.explain();
  EXPECT_LT(told.recordings.at(0).memory, 100000) << to_string(told);
}

}  // namespace
}  // namespace dyad::optim
