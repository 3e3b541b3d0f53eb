#include <gtest/gtest.h>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "function_cases.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

Tensor input(const Tensors& in, std::size_t i) { return i < in.size() ? in[i] : Tensor(); }

const FunctionCases kLossCases{
    {"cross_entropy fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {cross_entropy(in[0], in[1], input(in, 2), reduction_of(attrs), -100,
                             number(attrs, "label_smoothing"))};
     }},
    {"l1_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {l1_loss(in[0], in[1], reduction_of(attrs))};
     }},
    {"smooth_l1_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {smooth_l1_loss(in[0], in[1], number(attrs, "beta"), reduction_of(attrs))};
     }},
    {"huber_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {huber_loss(in[0], in[1], number(attrs, "delta"), reduction_of(attrs))};
     }},
    {"bce_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {binary_cross_entropy(in[0], in[1], in[2], reduction_of(attrs))};
     }},
    {"bce_with_logits_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {binary_cross_entropy_with_logits(in[0], in[1], in[2], in[3], reduction_of(attrs))};
     }},
    {"kl_div",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {kl_div(in[0], in[1], flag(attrs, "log_target"), reduction_of(attrs))};
     }},
    {"poisson_nll_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {poisson_nll_loss(in[0], in[1], flag(attrs, "log_input"), flag(attrs, "full"), 1e-8,
                                reduction_of(attrs))};
     }},
    {"gaussian_nll_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {
           gaussian_nll_loss(in[0], in[1], in[2], flag(attrs, "full"), 1e-6, reduction_of(attrs))};
     }},
    {"hinge_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {hinge_loss(in[0], in[1], number(attrs, "margin"), reduction_of(attrs))};
     }},
    {"hinge_embedding_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {hinge_embedding_loss(in[0], in[1], number(attrs, "margin"), reduction_of(attrs))};
     }},
    {"soft_margin_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {soft_margin_loss(in[0], in[1], reduction_of(attrs))};
     }},
    {"margin_ranking_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {
           margin_ranking_loss(in[0], in[1], in[2], number(attrs, "margin"), reduction_of(attrs))};
     }},
    {"multi_margin_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {multi_margin_loss(in[0], in[1], attrs["p"].get<int>(), number(attrs, "margin"),
                                 input(in, 2), reduction_of(attrs))};
     }},
    {"triplet_margin_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {triplet_margin_loss(in[0], in[1], in[2], 1, number(attrs, "p"), 1e-6,
                                   flag(attrs, "swap"), reduction_of(attrs))};
     }},
    {"pairwise_distance",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {pairwise_distance(in[0], in[1], number(attrs, "p"), 1e-6, flag(attrs, "keepdim"))};
     }},
    {"cosine_similarity",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {cosine_similarity(in[0], in[1], attrs["axis"].get<int>())};
     }},
    {"cosine_embedding_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {cosine_embedding_loss(in[0], in[1], in[2], 0.1, reduction_of(attrs))};
     }},
};

const std::vector<BadCall> kLossCalls = {
    {Kind::shape,
     "l1_loss(prediction: f32[3], target: f32[1]): prediction is [3] but target is [1]; reshape() "
     "one, or expand() it if the broadcast is meant",
     CALL(l1_loss(F(3), F(1)))},
    {Kind::dtype,
     "l1_loss(prediction: i64[3], target: i64[3]): prediction must be floating; convert it with "
     "to()",
     CALL(l1_loss(I(3), I(3)))},
    {Kind::value, "smooth_l1_loss(beta = -1.0): beta must be at least 0",
     CALL(smooth_l1_loss(F(3), F(3), -1))},
    {Kind::value, "huber_loss(delta = 0.0): delta must be above 0",
     CALL(huber_loss(F(3), F(3), 0))},
    {Kind::value, "hinge_loss: target is undefined", CALL(hinge_loss(F(3), Tensor()))},
    {Kind::value, "multi_margin_loss(p = 3.0): p must be 1 or 2",
     CALL(multi_margin_loss(F(2, 3), I(2), 3))},
    {Kind::shape,
     "multi_margin_loss(x: f32[2, 3], target: i64[2, 3]): x must be [n, c] with target [n], or [c] "
     "with []",
     CALL(multi_margin_loss(F(2, 3), I(2, 3)))},
    {Kind::value, "pairwise_distance(p = 0.0): p must be above 0",
     CALL(pairwise_distance(F(3), F(3), 0))},
    {Kind::value, "cosine_similarity(eps = 0.0): eps must be above 0",
     CALL(cosine_similarity(F(2, 3), F(2, 3), 1, 0))},
    {Kind::shape,
     "cross_entropy(logits: f32[4, 3], target: i64[4], weight: f32[4]): weight must be [3], a "
     "number for each class, but is [4]",
     CALL(cross_entropy(F(4, 3), I(4), F(4)))},
    {Kind::value,
     "cross_entropy(logits: f32[4, 3], target: i64[4]): "
     "label_smoothing must be from 0 to 1",
     CALL(cross_entropy(F(4, 3), I(4), {}, Reduction::mean, -100, 2))},
    {Kind::shape,
     "cross_entropy(logits: f32[4, 3], target: f32[4]): probabilities have the shape of the "
     "logits; class indices are i64 or i32",
     CALL(cross_entropy(F(4, 3), F(4)))},
};

TEST(Errors, OfLosses) { expect_errors(kLossCalls, "losses_functions_test.cpp"); }

TEST(Errors, AClassOutOfRangeIsOneOfTheLoss) {
  const auto message = [](const auto& call) { return bare_message_of<IndexError>(call); };
  const Tensor x = rand({2, 3}), pixels = rand({2, 3, 4, 5});
  const Tensor bad = tensor({1, 3}, i64), weight = ones({3});
  const std::string text = ": class 3 at [1] is out of range for 3 classes; allowed are 0 to 2";
  EXPECT_EQ(message([&] { (void)cross_entropy(x, bad); }), "cross_entropy" + text);
  EXPECT_EQ(message([&] { (void)cross_entropy(x, bad, weight, Reduction::sum); }),
            "cross_entropy" + text);
  EXPECT_EQ(message([&] { (void)nll_loss(x, bad); }), "nll_loss" + text);
  EXPECT_EQ(message([&] { (void)multi_margin_loss(x, bad); }), "multi_margin_loss" + text);
  EXPECT_EQ(message([&] { (void)cross_entropy(x[0], tensor(-1, i64)); }),
            "cross_entropy: class -1 at [] is out of range for 3 classes; allowed are 0 to 2");
  Tensor places = zeros({2, 4, 5}, i64);
  places[1][2][3].fill_(7);
  for (const Tensor& of : {Tensor(), weight}) {
    EXPECT_EQ(
        message([&] { (void)cross_entropy(pixels, places, of); }),
        "cross_entropy: class 7 at [1, 2, 3] is out of range for 3 classes; allowed are 0 to 2");
  }

  const auto fast = compile([](const Tensor& a, const Tensor& b) { return cross_entropy(a, b); });
  for (int i = 0; i < 3; ++i) (void)fast(x, tensor({1, 2}, i64));
  EXPECT_EQ(message([&] { (void)fast(x, bad); }), "cross_entropy" + text);
}

}  // namespace
}  // namespace dyad::testing
