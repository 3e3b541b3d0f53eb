#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <source_location>
#include <string>
#include <vector>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/session.h"
#include "dyad/ops/checked.h"
#include "dyad/ops/ops.h"

// What only a run can refuse: arguments whose elements are out of range. And arguments at the end
// of their range.

namespace dyad::testing {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
const double kNoNumber = std::nan("");

/// The text of the error of that type; `none` without one.
template <class E>
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.message();
  }
  return "none";
}

/// That a function of x refuses it with that text: eagerly, compiled, in a static graph.
template <class E>
void expect_refused(const Tensor& x, const std::function<Tensor(Tensor)>& f,
                    const std::string& text) {
  EXPECT_EQ(message_of<E>([&] { (void)f(x); }), text);
  const auto compiled = compile(f);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(message_of<E>([&] { (void)compiled(x); }), text);
  Graph graph;
  const Tensor made = graph.define([&] { return f(placeholder("x", x.dtype(), x.shape())); });
  Session session(graph);
  EXPECT_EQ(message_of<E>([&] { (void)session.run({made}, {{"x", x}}); }), text);
}

TEST(Checks, WeightsOfMultinomial) {
  for (const bool replacement : {false, true}) {
    const auto draw = [=](Tensor w) { return multinomial(w, 1, replacement); };
    expect_refused<ValueError>(tensor({1.0f, -1.0f}), draw,
                               "multinomial(weights: f32[2]): element [1] of weights is -1.0, but "
                               "must be finite and at least 0");
    expect_refused<ValueError>(tensor({{1.0, 2.0}, {kNoNumber, 1.0}}), draw,
                               "multinomial(weights: f64[2, 2]): element [1, 0] of weights is nan, "
                               "but must be finite and at least 0");
    expect_refused<ValueError>(tensor({kInfinite, 1.0}).to(f16), draw,
                               "multinomial(weights: f16[2]): element [0] of weights is inf, but "
                               "must be finite and at least 0");
    expect_refused<ValueError>(tensor({0.0f, 0.0f}), draw,
                               "multinomial(weights: f32[2]): weights are all 0, but one of them "
                               "at least must be above 0");
    expect_refused<ValueError>(tensor({{1.0f, 0.0f}, {0.0f, 0.0f}}), draw,
                               "multinomial(weights: f32[2, 2]): weights at [1] are all 0, but one "
                               "of them at least must be above 0");
  }
  // As in PyTorch, indices of weight 0 come when the others are used up, and never with
  // replacement.
  EXPECT_EQ(multinomial(tensor({1.0f, 0.0f}), 2).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(multinomial(tensor({1.0f, 0.0f}), 2, true).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 0}));
}

TEST(Checks, ProbabilitiesOfBernoulli) {
  const auto draw = [](Tensor p) { return bernoulli(p); };
  expect_refused<ValueError>(
      tensor({0.0f, 1.0f, 1.5f}), draw,
      "bernoulli(p: f32[3]): element [2] of p is 1.5, but must be from 0 to 1");
  expect_refused<ValueError>(
      tensor({{-0.5}}).to(bf16), draw,
      "bernoulli(p: bf16[1, 1]): element [0, 0] of p is -0.5, but must be from 0 to 1");
  expect_refused<ValueError>(full({}, kNoNumber), draw,
                             "bernoulli(p: f32[]): p is nan, but must be from 0 to 1");
  EXPECT_EQ(bernoulli(tensor({0.0f, 1.0f})).to_vector<float>(), (std::vector<float>{0, 1}));
}

TEST(Checks, LengthsOfReverseSequence) {
  const Tensor x = reshape(arange(0, 12, 1, f32), {3, 4});
  const auto reversed = [=](Tensor lengths) { return reverse_sequence(x, lengths); };
  expect_refused<ValueError>(tensor({2, 3, 9, 0}, i64), reversed,
                             "reverse_sequence(lengths: i64[4]): element [2] of lengths is 9, but "
                             "must be from 0 to 3");
  expect_refused<ValueError>(tensor({2, -1, 0, 0}, i32), reversed,
                             "reverse_sequence(lengths: i32[4]): element [1] of lengths is -1, but "
                             "must be from 0 to 3");
  EXPECT_EQ(reversed(tensor({0, 1, 2, 3}, i64)).to_vector<float>(),
            (std::vector<float>{0, 1, 6, 11, 4, 5, 2, 7, 8, 9, 10, 3}));
}

TEST(Checks, SourceOfMaskedScatter) {
  const Tensor x = zeros({3}), mask = tensor({true, false, true});
  expect_refused<IndexError>(
      full({1}, 7.0), [=](Tensor source) { return masked_scatter(x, mask, source); },
      "masked_scatter: source has 1 elements, but mask is true at more places");
}

TEST(Checks, OfLinesWithoutElements) {
  const Tensor none = ops::checked(zeros({0, 3}), {.of = "f", .argument = "x", .sum = true}, {});
  EXPECT_EQ(type_string(none), "f32[0, 3]");
  expect_refused<ValueError>(
      zeros({2, 0}),
      [](Tensor x) { return ops::checked(x, {.of = "f", .argument = "x", .sum = true}, {}); },
      "f(x: f32[2, 0]): x at [0] are all 0, but one of them at least must be above 0");
}

/// The result and the gradient of its sum weighted by 1, 2, ..., which are the same compiled.
std::vector<std::vector<double>> with_gradient(const std::function<Tensor(Tensor)>& f,
                                               const Tensor& x) {
  const auto both = [&](Tensor given) {
    const Tensor leaf = given.detach().requires_grad();
    const Tensor y = f(leaf);
    const Tensor weights = reshape(arange(y.numel(), y.dtype()), y.shape()) + 1;
    return std::vector<Tensor>{y, grad(sum(y * weights), {leaf})[0]};
  };
  const std::vector<Tensor> eager = both(x);
  const auto compiled = compile(both);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> again = compiled(x);
    for (std::size_t k : {0, 1}) {
      EXPECT_EQ(again[k].to_vector<double>(), eager[k].to_vector<double>());
    }
  }
  return {eager[0].to_vector<double>(), eager[1].to_vector<double>()};
}

TEST(Checks, PoolsOfInfinitePowerTakeTheLargest) {
  const Tensor x = tensor({-3.0, 2.0, 3.0, 1.0, 0.0, -0.5, 0.0, 0.0}, {1, 1, 8});
  using Lines = std::vector<std::vector<double>>;
  EXPECT_EQ(with_gradient([](Tensor t) { return lp_pool(t, kInfinite, 2); }, x),
            (Lines{{3, 3, 0.5, 0}, {-1, 0, 2, 0, 0, -3, 0, 0}}));
  EXPECT_EQ(with_gradient([](Tensor t) { return lp_pool(t, kInfinite, 3, 2, 1, true); }, x),
            (Lines{{3, 3, 1, 0.5, 0}, {-1, 0, 2, 3, 0, -4, 0, 0}}));
  EXPECT_EQ(with_gradient([](Tensor t) { return global_lp_pool(t, kInfinite); }, x),
            (Lines{{3}, {-0.5, 0, 0.5, 0, 0, 0, 0, 0}}));
  EXPECT_EQ(lp_pool(tensor({{{{1.0f, -9.0f}, {2.0f, 3.0f}}}}), kInfinite, 2).to_vector<float>(),
            (std::vector<float>{9}));
}

TEST(Checks, DropoutOfEverything) {
  const Tensor x = tensor({{1.0, kInfinite}, {3.0, 4.0}});
  const std::vector<double> none(4, 0.0);
  using Lines = std::vector<std::vector<double>>;
  EXPECT_EQ(with_gradient([](Tensor t) { return dropout(t, 1); }, x), (Lines{none, none}));
  const Tensor finite = tensor({{1.0, 2.0}, {3.0, 4.0}});
  for (const auto f : {feature_dropout, alpha_dropout, feature_alpha_dropout}) {
    EXPECT_EQ(with_gradient([=](Tensor t) { return f(t, 1, true, {}); }, finite),
              (Lines{none, none}));
  }
}

TEST(Checks, AveragesTakeTheirFlagsInPyTorchsOrder) {
  const Tensor x = tensor({1.0, 2.0, 6.0}, {1, 1, 3});
  // ceil_mode: a window more, which reaches beyond the image.
  EXPECT_EQ(avg_pool1d(x, 2, 2, 0, true).to_vector<double>(), (std::vector<double>{1.5, 6}));
  // count_include_pad
  EXPECT_EQ(avg_pool1d(x, 2, 2, 1, false, false).to_vector<double>(), (std::vector<double>{1, 4}));
  EXPECT_EQ(avg_pool2d(reshape(x, {1, 1, 1, 3}), {1, 2}, {1, 2}, 0, true).to_vector<double>(),
            (std::vector<double>{1.5, 6}));
  EXPECT_EQ(avg_pool3d(reshape(x, {1, 1, 1, 1, 3}), {1, 1, 2}, {1, 1, 2}, 0, true, true, 4)
                .to_vector<double>(),
            (std::vector<double>{0.75, 1.5}));
}

const std::vector<BadCall> kCheckedCalls = {
    {Kind::dtype, "bernoulli(p: i64[2]): p must be floating; convert it with to()",
     CALL(bernoulli(I(2)))},
    {Kind::shape,
     "checked(x: f32[], of = \"f\", argument = \"x\", sum = true): x must have an axis to add up",
     CALL(ops::checked(F(), {.of = "f", .argument = "x", .sum = true},
                       std::source_location::current()))},
    {Kind::value, "linspace(count = -1): the count must be at least 0", CALL(linspace(0, 1, -1))},
    {Kind::value, "logspace(count = -2): the count must be at least 0", CALL(logspace(0, 1, -2))},
    {Kind::dtype,
     "masked_select(f32[3], mask: f32[3]): mask must be bool; compare it, as in mask != 0",
     CALL(masked_select(F(3), F(3)))},
    {Kind::dtype,
     "one_hot(indices: f32[3]): indices must be integers; convert them, as in to(indices, i64)",
     CALL(one_hot(F(3), 4))},
    {Kind::dtype,
     "masked_scatter(f32[3], mask: f32[3], source: f32[3]): mask must be bool; compare it, as in "
     "mask != 0",
     CALL(masked_scatter(F(3), F(3), F(3)))},
    {Kind::shape,
     "compress(condition: bool[4], f32[3, 2]): condition has 4 elements, but axis 0 of x has size "
     "3",
     CALL(compress(make(boolean, {4}), F(3, 2), 0))},
    {Kind::shape, "compress(condition: bool[7], f32[3, 2]): condition has 7 elements, but x has 6",
     CALL(compress(make(boolean, {7}), F(3, 2)))},
    {Kind::shape,
     "histogram(f32[4], edges: f32[1]): two edges or more are needed, one part lies between two",
     CALL(histogram(F(4), F(1)))},
    {Kind::shape,
     "stft(f32[4], n_fft = 9): x has 4 samples; centered frames are reflected at both ends, which "
     "takes more than n_fft / 2 = 4",
     CALL(stft(F(4), 9))},
    {Kind::shape,
     "quantile(f32[0], q = 0.500000): x has no elements along axis 0, and none have no quantile",
     CALL(quantile(F(0), 0.5))},
    {Kind::shape,
     "nanquantile(f32[2, 0]): x has no elements along axis 1, and none have no quantile",
     CALL(nanquantile(F(2, 0), 0.5, 1))},
};
TEST(Errors, OfChecks) { expect_errors(kCheckedCalls, "checks_errors_test.cpp"); }

}  // namespace
}  // namespace dyad::testing
