#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"

namespace dyad::testing {
namespace {

constexpr std::int64_t kDraws = 60000;

class Distributions : public Interpreted {};

double mean_of(const Tensor& x) { return mean(to(x, f64)).item(); }
double variance_of(const Tensor& x) { return var(to(x, f64)).item(); }

/// Mean and variance within 6 standard deviations of what the distribution says; the variance of
/// the squares is bounded by `fourth`, the fourth central moment.
void expect_moments(const Tensor& x, double mean, double variance, double fourth) {
  const auto n = static_cast<double>(x.numel().value());
  EXPECT_NEAR(mean_of(x), mean, 6 * std::sqrt(variance / n));
  EXPECT_NEAR(variance_of(x), variance, 6 * std::sqrt(fourth / n));
}

/// Pearson's statistic of draws in [0, 1) over equal bins.
double chi_square(const Tensor& u, int bins) {
  const auto n = static_cast<double>(u.numel().value());
  std::vector<double> counts(static_cast<std::size_t>(bins), 0.0);
  for (const double x : u.to_vector<double>()) {
    EXPECT_GE(x, 0);
    EXPECT_LE(x, 1);
    ++counts[std::min(static_cast<std::size_t>(x * bins), counts.size() - 1)];
  }
  double sum = 0;
  for (const double count : counts) sum += (count - n / bins) * (count - n / bins) / (n / bins);
  return sum;
}
/// The statistic is below mean + 6 standard deviations of its distribution.
void expect_uniform(const Tensor& u) {
  constexpr int kBins = 64;
  EXPECT_LT(chi_square(to(u, f64), kBins), kBins - 1 + 6 * std::sqrt(2.0 * (kBins - 1)));
}

TEST_F(Distributions, HaveTheirMomentsAndShapes) {
  manual_seed(11);
  expect_uniform(rand({kDraws}));
  expect_uniform(rand({kDraws}, f64));
  expect_moments(randn({kDraws}), 0, 1, 3);
  const Tensor normal_cdf = 0.5 * (1 + erf(randn({kDraws}, f64) / std::numbers::sqrt2));
  expect_uniform(normal_cdf);
  const Tensor waiting = exponential({kDraws}, 2);
  expect_moments(waiting, 0.5, 0.25, 9.0 / 16);
  expect_uniform(1 - exp(waiting * -2));
  expect_uniform(1 - exp(-exponential({kDraws}, 1, f64)));
  const Tensor extreme = gumbel({kDraws});
  expect_moments(extreme, std::numbers::egamma, std::numbers::pi * std::numbers::pi / 6, 14.7);
  expect_uniform(exp(neg(exp(-to(extreme, f64)))));
  EXPECT_TRUE(static_cast<bool>(all(isfinite(extreme))));
  expect_moments(bernoulli({kDraws}, 0.3), 0.3, 0.21, 0.06);
  expect_moments(bernoulli(full({kDraws}, 0.7, f64)), 0.7, 0.21, 0.06);
}

TEST_F(Distributions, PoissonHasItsMomentsAndProbabilities) {
  manual_seed(17);
  for (const double rate : {0.3, 5.0, 60.0, 900.0, 3e6}) {
    expect_moments(poisson(full({kDraws}, rate, f64)), rate, rate, rate + 3 * rate * rate);
  }
  const Tensor drawn = poisson(full({kDraws}, 2.5, f64));
  double p = std::exp(-2.5);
  for (int n = 0; n < 8; p *= 2.5 / ++n) {
    EXPECT_NEAR(mean_of(drawn == n), p, 6 * std::sqrt(p / kDraws)) << n;
  }
  EXPECT_THROW((void)poisson(full({2}, -1.0)), ValueError);
}

/// The distribution function at numbers of a known one is uniform.
TEST_F(Distributions, OfGammaNumbersHaveTheirMoments) {
  manual_seed(19);
  for (const double alpha : {0.3, 1.0, 4.5, 1e4}) {
    const double fourth = 3 * alpha * alpha + 6 * alpha;
    expect_moments(gamma(full({kDraws}, alpha, f64)), alpha, alpha, fourth);
    expect_moments(gamma(full({kDraws}, alpha, f64), 2), alpha / 2, alpha / 4, fourth / 16);
  }
  expect_uniform(1 - exp(-gamma(ones({kDraws}, f64))));
  expect_uniform(erf(sqrt(gamma(full({kDraws}, 0.5, f64)))));
  expect_moments(chi2(full({kDraws}, 3.0, f64)), 3, 6, 12 * 6 * 6);
  // With two degrees of freedom t / sqrt(2 + t^2) is even in (-1, 1), with one it is Cauchy's.
  const Tensor t = student_t(full({kDraws}, 2.0, f64));
  expect_uniform((t / sqrt(square(t) + 2) + 1) * 0.5);
  expect_uniform(atan(student_t(ones({kDraws}, f64))) / std::numbers::pi + 0.5);
  const Tensor b = beta(full({kDraws}, 2.0, f64), full({1}, 1.0, f64));
  expect_uniform(square(b));
  expect_moments(beta(full({kDraws}, 1e-5, f64), full({1}, 1e-5, f64)), 0.5, 0.25, 1.0 / 16);
  const Tensor parts = dirichlet(expand(tensor({1.0, 2.0, 5.0}), {kDraws, 3}));
  EXPECT_LT(max(abs(sum(parts, {1}) - 1)).item(), 1e-6);
  const double shares[] = {0.125, 0.25, 0.625};
  for (int i = 0; i < 3; ++i) {
    const double p = shares[i];
    expect_moments(select(parts, 1, i), p, p * (1 - p) / 9, 0.03);
  }
}

TEST_F(Distributions, BinomialHasItsMomentsAndProbabilities) {
  manual_seed(20);
  for (const auto& [n, p] :
       {std::pair(1.0, 0.3), {20.0, 0.5}, {1000.0, 0.9}, {1e6, 1e-6}, {1e9, 0.4}}) {
    const double variance = n * p * (1 - p);
    expect_moments(binomial(full({kDraws}, n, f64), full({1}, p, f64)), n * p, variance,
                   3 * variance * variance + variance);
  }
  const Tensor drawn = binomial(full({kDraws}, 8.0, f64), full({1}, 0.3, f64));
  double p = std::pow(0.7, 8);
  for (int k = 0; k <= 8; p *= (8.0 - k) / (k + 1) * 0.3 / 0.7, ++k) {
    EXPECT_NEAR(mean_of(drawn == k), p, 6 * std::sqrt(p / kDraws) + 1e-4) << k;
  }
  EXPECT_THROW((void)binomial(full({2}, 1.5), full({2}, 0.5)), ValueError);
  EXPECT_THROW((void)binomial(full({2}, 3.0), full({2}, 1.5)), ValueError);
  EXPECT_THROW((void)gamma(zeros({2})), ValueError);
}

TEST_F(Distributions, OfOneUniformNumberAreUniformThroughTheirFunctions) {
  manual_seed(22);
  const Tensor x = laplace({kDraws}, 1, 2, f64), far = exp(abs(x - 1) / -2) * 0.5;
  expect_uniform(where(x < 1, far, 1 - far));
  expect_uniform(atan((cauchy({kDraws}, -3, 0.5, f64) + 3) / 0.5) / std::numbers::pi + 0.5);
  const Tensor z = (log(log_normal({kDraws}, 0.5, 2, f64)) - 0.5) / 2;
  expect_uniform(0.5 * (1 + erf(z / std::numbers::sqrt2)));
  for (const auto& call :
       {+[] { return laplace({2}, 0, 0); }, +[] { return cauchy({2}, 0, -1); },
        +[] { return log_normal({2}, 0, 0); }, +[] { return gamma(ones({2}), 0); }}) {
    EXPECT_THROW((void)call(), ValueError);
  }
}

TEST_F(Distributions, TruncatedNormalStaysInside) {
  manual_seed(12);
  const auto cdf = [](const Tensor& z) { return 0.5 * erfc(z / -std::numbers::sqrt2); };
  for (const auto& [mean, low, high] :
       {std::array{0.0, -2.0, 2.0}, {1.0, 0.5, 9.0}, {0.0, 3.0, 5.0}, {0.0, -7.0, -4.0}}) {
    const Tensor x = truncated_normal({kDraws}, mean, 1.5, low, high, f64);
    EXPECT_GE(min(x).item(), low);
    EXPECT_LE(max(x).item(), high);
    const double mirror = low > mean ? -1 : 1;
    const auto p = [&](const Tensor& v) { return cdf((v - mean) / (1.5 * mirror)); };
    const Tensor from = p(full({1}, low, f64)), to_end = p(full({1}, high, f64));
    expect_uniform((p(x) - from) / (to_end - from));
  }
}

TEST_F(Distributions, NormalHasGradientsByMeanAndDeviation) {
  manual_seed(3);
  Tensor mean = full({2, 1}, 1.5, f64).requires_grad(), std = full({3}, 2.0, f64).requires_grad();
  const Tensor x = normal(mean, std);
  EXPECT_EQ(type_string(x), "f64[2, 3]");
  sum(x).backward();
  EXPECT_THAT(mean.grad().to_vector<double>(), ::testing::Each(3));
  const Tensor z = (detach(x) - 1.5) / 2;
  const auto got = std.grad().to_vector<double>(), want = sum(z, {0}).to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
  manual_seed(4);
  expect_moments(normal(full({kDraws}, 3.0), 0.5), 3, 0.25, 3.0 / 16);
}

TEST_F(Distributions, OfTheShapeAndDtypeOfAnother) {
  const Tensor x = zeros({2, 3}, f16);
  EXPECT_EQ(type_string(rand_like(x)), "f16[2, 3]");
  EXPECT_EQ(type_string(randn_like(x)), "f16[2, 3]");
  EXPECT_EQ(type_string(randint_like(x, 1, 4)), "f16[2, 3]");
  EXPECT_EQ(type_string(gumbel({0, 2}, bf16)), "bf16[0, 2]");
  EXPECT_EQ(type_string(truncated_normal({}, 0, 1, -1, 1, f16)), "f16[]");
}

TEST_F(Distributions, GumbelSoftmaxDrawsClasses) {
  manual_seed(8);
  const std::vector<double> weights{0.5, 0.3, 0.2};
  Tensor logits = log(tensor(weights)).requires_grad();
  const Tensor hard = gumbel_softmax(expand(logits, {kDraws, 3}), 0.7, true);
  const auto shares = mean(hard, {0}).to_vector<double>();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(shares[i], weights[i], 0.012);
  EXPECT_NEAR(mean_of(max(hard, {1})), 1, 1e-12);
  sum(select(hard, 1, 0)).backward();
  EXPECT_GT(logits.grad().to_vector<double>()[0], 0);
}

/// The same numbers in a graph as eagerly.
TEST_F(Distributions, AreTheSameInEveryMode) {
  const auto all_of_them = [] {
    const Tensor scale = full({2, 1}, 0.5);
    return std::vector<Tensor>{rand({5}),
                               randn({2, 3}, f64),
                               truncated_normal({7}),
                               exponential({4}, 3),
                               gumbel({4}, f16),
                               gumbel_softmax(zeros({2, 3}), 0.5, true),
                               bernoulli({6}, 0.5, boolean),
                               bernoulli(full({6}, 0.5)),
                               normal(scale, full({3}, 2.0)),
                               randint(0, 9, {5}),
                               randperm(9),
                               multinomial(full({2, 5}, 0.2), 3),
                               multinomial(full({2, 5}, 0.2), 7, true),
                               gamma(full({2, 3}, 0.7)),
                               beta(full({2, 1}, 0.7), full({3}, 2.0)),
                               binomial(full({5}, 9.0), full({1}, 0.3)),
                               laplace({4})};
  };
  manual_seed(21);
  const std::vector<Tensor> eager = all_of_them();
  Graph graph;
  std::vector<Tensor> recorded;
  graph.define([&] { recorded = all_of_them(); });
  Session session(graph);
  manual_seed(21);
  const std::vector<Tensor> run = session.run(recorded, {});
  for (std::size_t i = 0; i < run.size(); ++i) {
    EXPECT_EQ(run[i].to_vector<double>(), eager[i].to_vector<double>()) << i;
  }
}

TEST_F(Distributions, PermutationsHoldEachNumberOnce) {
  manual_seed(31);
  std::vector<int> first(6, 0);
  for (int i = 0; i < 600; ++i) {
    std::vector<std::int64_t> order = randperm(6).to_vector<std::int64_t>();
    ++first[static_cast<std::size_t>(order[0])];
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  }
  for (const int count : first) EXPECT_NEAR(count, 100, 55);
  EXPECT_EQ(type_string(randperm(0, f32)), "f32[0]");
}

/// The share of each of `classes` indices.
std::vector<double> shares(const Tensor& indices, std::size_t classes) {
  std::vector<double> counts(classes, 0.0);
  const auto values = indices.to_vector<std::int64_t>();
  for (const std::int64_t i : values) counts[static_cast<std::size_t>(i)] += 1.0;
  for (double& count : counts) count /= static_cast<double>(values.size());
  return counts;
}

TEST_F(Distributions, MultinomialDrawsInProportion) {
  manual_seed(32);
  const Tensor weights = tensor({{1.0f, 0.0f, 3.0f, 4.0f}, {0.0f, 0.0f, 5.0f, 0.0f}});
  const Tensor drawn = multinomial(weights, kDraws, true);
  EXPECT_EQ(type_string(drawn), "i64[2, 60000]");
  const auto some = shares(drawn[0], 4), same = shares(drawn[1], 4);
  const double want[] = {0.125, 0, 0.375, 0.5};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(some[i], want[i], want[i] == 0 ? 0 : 0.013);
  EXPECT_EQ(same[2], 1);
}

TEST_F(Distributions, MultinomialWithoutReplacementUsesIndicesUp) {
  manual_seed(33);
  const Tensor weights = expand(tensor({1.0f, 0.0f, 3.0f, 4.0f}), {kDraws, 4});
  const Tensor drawn = multinomial(weights, 4);
  const auto first = shares(select(drawn, 1, 0), 4), second = shares(select(drawn, 1, 1), 4);
  EXPECT_NEAR(first[0], 1 / 8.0, 0.01);
  EXPECT_NEAR(first[3], 4 / 8.0, 0.013);
  // After 2 (3/8) or 3 (4/8).
  EXPECT_NEAR(second[0], 3 / 8.0 * 1 / 5 + 4 / 8.0 * 1 / 4, 0.011);
  EXPECT_EQ(shares(select(drawn, 1, 3), 4)[1], 1);  // of weight 0: the last one
  EXPECT_EQ(type_string(multinomial(zeros({2, 3, 5}) + 1, 2)), "i64[2, 3, 2]");
}

const std::vector<BadCall> kDistributionCalls = {
    {Kind::value, "truncated_normal(std = 0.0): it must be above 0",
     CALL(truncated_normal({2}, 0, 0))},
    {Kind::value, "truncated_normal(low = 2.0, high = 1.0): low must be below high",
     CALL(truncated_normal({2}, 0, 1, 2, 1))},
    {Kind::value, "exponential(rate = -1.0): it must be above 0", CALL(exponential({2}, -1))},
    {Kind::value, "gumbel_softmax(temperature = 0.0): it must be above 0",
     CALL(gumbel_softmax(F(2), 0))},
    {Kind::value, "bernoulli(p = 2.0): p must be from 0 to 1", CALL(bernoulli({2}, 2.0))},
    {Kind::shape, "multinomial(weights: f32[], count = 1): an axis of weights is needed",
     CALL(multinomial(F(), 1))},
    {Kind::dtype,
     "multinomial(weights: i64[3], count = 1): weights must be floating; convert them with to()",
     CALL(multinomial(I(3), 1))},
    {Kind::value, "multinomial(weights: f32[3], count = 0): the count must be at least 1",
     CALL(multinomial(F(3), 0))},
    {Kind::value,
     "multinomial(weights: f32[3], count = 4): without replacement there are no more than 3 "
     "indices",
     CALL(multinomial(F(3), 4))},
    {Kind::dtype, "normal(mean: i64[2], std: i64[2]): one of them must be floating",
     CALL(normal(I(2), I(2)))},
};

TEST(Errors, OfDistributions) { expect_errors(kDistributionCalls, "distributions_test.cpp"); }

/// The regularised lower incomplete gamma function by its series.
double lower_gamma(double a, double x) {
  double term = 1 / a, sum = term;
  for (int n = 1; n < 2000; ++n) sum += term *= x / (a + n);
  return sum * std::exp(a * std::log(x) - x - std::lgamma(a));
}

TEST_F(Distributions, GammaDrawsHaveImplicitGradients) {
  manual_seed(11);
  for (const double a : {0.05, 0.4, 1.0, 2.5, 7.0, 12.0, 60.0}) {
    Tensor alpha = full({200}, a, f64);
    alpha.requires_grad();
    const Tensor drawn = gamma(alpha);
    sum(drawn).backward();
    const std::vector<double> x = drawn.to_vector<double>(),
                              found = alpha.grad().to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double cdf = lower_gamma(a, x[i]);
      if (!(cdf > 1e-3 && cdf < 1 - 1e-3)) continue;
      const double step = 1e-5 * a;
      const double by_alpha =
          (lower_gamma(a + step, x[i]) - lower_gamma(a - step, x[i])) / (2 * step);
      const double density = std::exp((a - 1) * std::log(x[i]) - x[i] - std::lgamma(a));
      const double wanted = -by_alpha / density;
      EXPECT_NEAR(found[i], wanted, 5e-3 * std::abs(wanted)) << a << " " << x[i];
    }
  }
}

// The mean of gamma(a) is a, that of beta(a, b) a / (a + b): so are the means of the gradients.
TEST_F(Distributions, GradientsOfWhatIsMadeOfGammaDraws) {
  manual_seed(12);
  Tensor a = full({20000}, 0.7, f64), b = full({20000}, 1.5, f64);
  a.requires_grad();
  b.requires_grad();
  mean(beta(a, b)).backward();
  EXPECT_NEAR(sum(a.grad()).item(), 1.5 / (2.2 * 2.2), 0.01);
  EXPECT_NEAR(sum(b.grad()).item(), -0.7 / (2.2 * 2.2), 0.01);
  Tensor c = expand(tensor({1.0, 2.0, 5.0}), {20000, 3}).clone();
  c.requires_grad();
  mean(dirichlet(c).select(1, 0)).backward();
  EXPECT_NEAR(sum(c.grad().select(1, 0)).item(), 7 / 64.0, 0.01);
  EXPECT_NEAR(sum(c.grad().select(1, 2)).item(), -1 / 64.0, 0.01);
  Tensor half = full({1000}, 1e-3, f16);
  half.requires_grad();
  sum(gamma(half)).backward();
  EXPECT_TRUE(static_cast<bool>(all(isfinite(half.grad()))));
}

}  // namespace
}  // namespace dyad::testing
