#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cases.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/ops/ops.h"
#include "function_cases.h"

// Tensors made of others, functions of layers and label sequences: how their reference cases call
// them, and what is random about them.

namespace dyad::testing {
namespace {

const FunctionCases kJoined{
    {"block_diag fn", [](const json&, const Tensors& in) -> Tensors { return {block_diag(in)}; }},
    {"cartesian_prod fn",
     [](const json&, const Tensors& in) -> Tensors { return {cartesian_prod(in)}; }},
    {"combinations fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {combinations(in[0], integer(attrs, "count"), flag(attrs, "repeats"))};
     }},
    {"column_stack fn",
     [](const json&, const Tensors& in) -> Tensors { return {column_stack(in)}; }},
    {"hsplit fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return hsplit(in[0], integer(attrs, "count"));
     }},
    {"vsplit fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return vsplit(in[0], integer(attrs, "count"));
     }},
    {"dsplit fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return dsplit(in[0], integer(attrs, "count"));
     }},
    {"fliplr fn", [](const json&, const Tensors& in) -> Tensors { return {fliplr(in[0])}; }},
    {"flipud fn", [](const json&, const Tensors& in) -> Tensors { return {flipud(in[0])}; }},
    {"narrow fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {narrow(in[0], integer(attrs, "axis"), integer(attrs, "start"),
                      integer(attrs, "length"))};
     }},
    {"diagflat fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {diagflat(in[0], integer(attrs, "k"))};
     }},
    {"diagonal_scatter fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {diagonal_scatter(in[0], in[1], integer(attrs, "offset"), integer(attrs, "a"),
                                integer(attrs, "b"))};
     }},
    {"index_reduce fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {index_reduce(in[0], 0, in[1], in[2], attrs.at("reduction").get<std::string>(),
                            flag(attrs, "include"))};
     }},
    {"reshape_as fn",
     [](const json&, const Tensors& in) -> Tensors { return {reshape_as(in[0], in[1])}; }},
    {"expand_as fn",
     [](const json&, const Tensors& in) -> Tensors { return {expand_as(in[0], in[1])}; }},
};

const FunctionCases kSets{
    {"unique_consecutive fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const Runs runs = attrs.contains("axis") ? unique_consecutive(in[0], integer(attrs, "axis"))
                                                : unique_consecutive(in[0]);
       return {runs.values, runs.inverse, runs.counts};
     }},
    {"union1d fn",
     [](const json&, const Tensors& in) -> Tensors { return {union1d(in[0], in[1])}; }},
    {"intersect1d fn",
     [](const json&, const Tensors& in) -> Tensors { return {intersect1d(in[0], in[1])}; }},
    {"setdiff1d fn",
     [](const json&, const Tensors& in) -> Tensors { return {setdiff1d(in[0], in[1])}; }},
    {"msort fn", [](const json&, const Tensors& in) -> Tensors { return {msort(in[0])}; }},
    {"argwhere fn", [](const json&, const Tensors& in) -> Tensors { return {argwhere(in[0])}; }},
    {"unravel_index fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const auto sizes = attrs.at("shape").get<std::vector<std::int64_t>>();
       return unravel_index(in[0], Shape(std::span<const std::int64_t>(sizes)));
     }},
};

const FunctionCases kLayers{
    {"channel_shuffle fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {channel_shuffle(in[0], integer(attrs, "groups"))};
     }},
    {"bilinear fn",
     [](const json&, const Tensors& in) -> Tensors {
       return {bilinear(in[0], in[1], in[2], in[3])};
     }},
    {"softmin fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {softmin(in[0], integer(attrs, "axis"))};
     }},
    {"threshold fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {threshold(in[0], number(attrs, "threshold"), number(attrs, "value"))};
     }},
    {"rrelu fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {rrelu(in[0], number(attrs, "low"), number(attrs, "high"))};
     }},
    {"feature_dropout fn",
     [](const json&, const Tensors& in) -> Tensors {
       return {feature_dropout(in[0], 0.5, false)};
     }},
    {"alpha_dropout fn",
     [](const json&, const Tensors& in) -> Tensors { return {alpha_dropout(in[0], 0.5, false)}; }},
    {"feature_alpha_dropout fn",
     [](const json&, const Tensors& in) -> Tensors {
       return {feature_alpha_dropout(in[0], 0.5, false)};
     }},
    {"multilabel_margin_loss fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {multilabel_margin_loss(in[0], in[1], reduction_of(attrs))};
     }},
    {"multilabel_soft_margin_loss fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {multilabel_soft_margin_loss(in[0], in[1], in[2], reduction_of(attrs))};
     }},
    {"triplet_margin_with_distance_loss fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       Distance distance;
       if (attrs.at("distance").get<std::string>() == "largest") {
         distance = [](const Tensor& a, const Tensor& b) { return amax(abs(a - b), {-1}); };
       }
       return {triplet_margin_with_distance_loss(in[0], in[1], in[2], distance,
                                                 number(attrs, "margin"), flag(attrs, "swap"),
                                                 reduction_of(attrs))};
     }},
    {"ctc_greedy_decode fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const CtcDecoded made = ctc_greedy_decode(in[0], in[1], integer(attrs, "blank"));
       return {made.labels, made.lengths, made.log_probs};
     }},
};

class RandomLayers : public Interpreted {
 protected:
  RandomLayers() { manual_seed(5); }
};

TEST(Assembling, TensorsMayBeWrittenInBraces) {
  const Tensor a = tensor({1.0f, 2.0f}), b = tensor({3.0f, 4.0f});
  const std::vector<Tensor> both{a, b};
  const auto same = [](const Tensor& x, const Tensor& y) {
    EXPECT_EQ(x.shape(), y.shape());
    EXPECT_EQ(elements(x), elements(y));
  };
  same(block_diag({a, b}), block_diag(both));
  same(cartesian_prod({a, b}), cartesian_prod(both));
  same(column_stack({a, b}), column_stack(both));
  same(hstack({a, b}), hstack(both));
  same(vstack({a, b}), vstack(both));
  same(dstack({a, b}), dstack(both));
  same(broadcast_tensors({a, unsqueeze(b, 1)})[1], broadcast_to(unsqueeze(b, 1), {2, 2}));
  const Tensor i = tensor({0, 1}, i64), j = tensor({2, 0}, i64);
  EXPECT_EQ(ravel_multi_index({i, j}, {2, 3}).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 3}));
}

TEST(Assembling, ASliceGoesToTheEndUnlessSaid) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(elements(x.slice(1, 1)), (std::vector<double>{2, 3, 5, 6}));
  EXPECT_EQ(elements(x.slice(1, -1)), (std::vector<double>{3, 6}));
}

TEST_F(RandomLayers, SlopesLieBetweenTheirBounds) {
  const Tensor x = full({4000}, -2);
  const Tensor slopes = rrelu(x, 0.1, 0.3, true) / x;
  EXPECT_GE(min(slopes).item(), 0.1);
  EXPECT_LT(max(slopes).item(), 0.3);
  EXPECT_NEAR(mean(slopes).item(), 0.2, 0.01);
  EXPECT_EQ(sum(rrelu(neg(x), 0.1, 0.3, true)).item(), 8000);
}

TEST_F(RandomLayers, ChannelsAreDroppedWhole) {
  const Tensor y = feature_dropout(ones({40, 50, 2, 3}), 0.25, true);
  const Tensor least = amin(y, {2, 3}), most = amax(y, {2, 3});
  EXPECT_TRUE(static_cast<bool>(all(least == most)));
  EXPECT_NEAR(mean(to(most > 0, f32)).item(), 0.75, 0.05);
  EXPECT_NEAR(mean(y).item(), 1, 0.06);
}

TEST_F(RandomLayers, AlphaDropoutKeepsMeanAndVariance) {
  const Tensor x = selu(randn({60000}));
  const double mean_before = mean(x).item(), var_before = var(x).item();
  const Tensor y = alpha_dropout(x, 0.3, true);
  EXPECT_NEAR(mean(y).item(), mean_before, 0.03);
  EXPECT_NEAR(var(y).item(), var_before, 0.05);
  const Tensor z = feature_alpha_dropout(reshape(x, {600, 10, 10}), 0.3, true);
  const Tensor lowest = full_like(z, amin(z).item());
  const Tensor dropped = all(isclose(z, lowest), {2});
  EXPECT_NEAR(mean(to(dropped, f32)).item(), 0.3, 0.05);
}

TEST_F(RandomLayers, NarrowBeamsFindTheBestOfWhatTheyFollow) {
  // After the blank of step 0, "1" then "1" is two labels only with a blank between them.
  const Tensor p = tensor(
      {{{0.9f, 0.05f, 0.05f}}, {{0.1f, 0.8f, 0.1f}}, {{0.6f, 0.3f, 0.1f}}, {{0.1f, 0.8f, 0.1f}}});
  const CtcDecoded one = ctc_beam_search(log(p), {}, {.width = 1});
  EXPECT_THAT(one.labels.to_vector<std::int64_t>(), ::testing::ElementsAre(1, 1, -1, -1));
  EXPECT_EQ(one.lengths.item<int>(), 2);
  const CtcDecoded wide = ctc_beam_search(log(p), {}, {.width = 8, .paths = 2});
  EXPECT_THAT(wide.lengths.to_vector<std::int64_t>(), ::testing::ElementsAre(2, 1));
  EXPECT_GE(wide.log_probs.to_vector<double>()[0], one.log_probs.item());
}

TEST_F(RandomLayers, TheLossOfWhatIsFoundIsItsProbability) {
  const Tensor x = log_softmax(randn({6, 2, 4}, f64), 2);
  const CtcDecoded found = ctc_beam_search(x, {}, {.width = 2000});
  const Tensor losses = ctc_loss(x, maximum(select(found.labels, 1, 0), 0), full({2}, 6, i64),
                                 select(found.lengths, 1, 0), {.reduction = Reduction::none});
  const auto a = losses.to_vector<double>(), b = found.log_probs.to_vector<double>();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(a[i], -b[i], 1e-12);
}

}  // namespace
}  // namespace dyad::testing
