#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "cases.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"

// f16 and bf16 accumulate in f32: numbers that they do not hold, counts beyond the 65504 of f16,
// and results whose parts lie beyond it. completeness_test.cpp has every operator's cases in them.

namespace dyad::testing {
namespace {

using ::testing::ElementsAre;

class Narrow : public Interpreted {};

std::vector<double> list(const Tensor& x) { return to(x, f64).to_vector<double>(); }

/// What f16 and bf16 make of a number.
double rounded(double x, DType dtype) { return list(full({1}, x, f64).to(f32).to(dtype))[0]; }

// The values are PyTorch's on the CPU: 1.4305e-05, 1.0014e-05, inf, and 0.1 times 0.3.
TEST_F(Narrow, NumbersThatTheDtypeDoesNotHoldAreNotRoundedToIt) {
  const Tensor one = ones({1}, f16), large = full({1}, 1000, f16);
  EXPECT_THAT(list(one / 70000), ElementsAre(0x1.ep-17));
  EXPECT_THAT(list(large * 1e-8), ElementsAre(0x1.5p-17));
  EXPECT_THAT(list(large / 1e8), ElementsAre(0x1.5p-17));
  EXPECT_THAT(list(one * 100000 / 100000), ElementsAre(INFINITY));
  EXPECT_THAT(list(full({1}, -60000, f16) + 80000), ElementsAre(20000));
  EXPECT_THAT(list(70000 - full({1}, 60000, f16)), ElementsAre(10000));
  EXPECT_THAT(list(1e6 / large), ElementsAre(1000));
  EXPECT_THAT(list(pow(full({1}, 60000, f16), 0.1)), ElementsAre(rounded(3.00481, f16)));
  for (const DType dtype : {f16, bf16}) {
    const double x = rounded(0.3, dtype);
    EXPECT_THAT(list(full({1}, 0.3, dtype) * 0.1), ElementsAre(rounded(x * 0.1, dtype)));
    EXPECT_THAT(list(full({1}, 0.3, dtype) + 0.1), ElementsAre(rounded(x + 0.1, dtype)));
    EXPECT_EQ((full({1}, 0.3, dtype) * 0.1).dtype(), dtype);
    // Comparisons ask whether x is what 0.1 is rounded to, as PyTorch's do.
    EXPECT_TRUE(static_cast<bool>(all(full({1}, 0.1, dtype) == 0.1)));
  }
}

TEST_F(Narrow, NumbersInPlaceToo) {
  Tensor x = full({2}, 1000, f16);
  x *= 1e-8;
  EXPECT_EQ(x.dtype(), f16);
  EXPECT_THAT(list(x), ElementsAre(0x1.5p-17, 0x1.5p-17));
  x.fill_(-60000).add_(80000);
  EXPECT_THAT(list(x), ElementsAre(20000, 20000));
}

TEST_F(Narrow, NumbersGiveTheSameBitsInEveryMode) {
  const auto f = [](const Tensor& x) { return (x * 0.1 + 1e-4) / 70000 - pow(x, 0.3); };
  for (const DType dtype : {f16, bf16}) {
    const Tensor x = to(arange(300, f32) * 7 + 1, dtype);
    const std::vector<double> eager = list(f(x));
    auto compiled = compile(f, {.recheck = false});
    (void)compiled(x);
    EXPECT_EQ(list(compiled(x)), eager);
    EXPECT_EQ(compiled.explain().replays, 1);
    Graph graph;
    const Tensor y = graph.define([&] { return f(placeholder("x", dtype, {"n"})); });
    EXPECT_EQ(list(Session(graph).run({y}, {{"x", x}})[0]), eager);
  }
}

using Function = std::function<Tensor(const Tensor&)>;

/// f of a narrow tensor, and its gradient, beside those in f32 of the same elements. What flows
/// back into the result of f is `pull` everywhere.
void expect_as_wide(const std::string& name, const Tensor& x, double pull, const Function& f) {
  SCOPED_TRACE(name);
  std::vector<Tensor> found[2];
  for (const bool wide : {false, true}) {
    Tensor leaf = wide ? x.to(f32) : x.detach();
    leaf.requires_grad();
    const Tensor y = f(leaf);
    found[wide] = {y.detach(), grad(sum(to(y, f32) * pull), {leaf})[0]};
    EXPECT_EQ(y.dtype(), leaf.dtype());
    EXPECT_EQ(found[wide][1].dtype(), leaf.dtype());
  }
  const double eps = x.dtype() == f16 ? 0x1p-10 : 0x1p-7;
  for (const int what : {0, 1}) {
    const auto narrow = list(found[0][what]), wide = list(found[1][what]);
    double largest = 0;
    for (const double v : wide) largest = std::max(largest, std::abs(v));
    EXPECT_GT(largest, 0);
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const double bound = 2 * eps * std::abs(wide[i]) + 1e-4 * largest + 0x1p-24;
      if (std::abs(narrow[i] - wide[i]) <= bound) continue;
      if (wrong++ == 0) first = i;
    }
    EXPECT_EQ(wrong, 0u) << (what == 0 ? "value " : "gradient ") << first << " is " << narrow[first]
                         << ", in f32 " << wide[first];
  }
}

TEST_F(Narrow, CountsBeyondTheLargestHalf) {
  constexpr std::int64_t kMany = 70000;
  const Tensor numbers = sin(arange(kMany, f32) * 0.7) * 3 + 1;
  const Tensor index = remainder(arange(kMany / 2), 2);
  const std::vector<std::pair<std::string, Function>> functions{
      {"mean", [](const Tensor& x) { return mean(x); }},
      {"var", [](const Tensor& x) { return var(x); }},
      {"std", [](const Tensor& x) { return std(x); }},
      {"nanmean", [](const Tensor& x) { return nanmean(x); }},
      {"nanvar", [](const Tensor& x) { return nanvar(x); }},
      {"average", [](const Tensor& x) { return average(x, ones_like(x)); }},
      {"cov", [](const Tensor& x) { return cov(x); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x); }},
      {"mse_loss", [](const Tensor& x) { return mse_loss(x, zeros_like(x)); }},
      {"l1_loss", [](const Tensor& x) { return l1_loss(x, zeros_like(x)); }},
      {"huber_loss", [](const Tensor& x) { return huber_loss(x, zeros_like(x)); }},
      {"global_avg_pool", [](const Tensor& x) { return global_avg_pool(reshape(x, {1, 1, -1})); }},
      {"cross_entropy",
       [&](const Tensor& x) {
         return cross_entropy(concat({reshape(x, {-1, 2}), reshape(x, {-1, 2})}, 0),
                              concat({index, index}, 0));
       }},
      {"smoothed cross_entropy",
       [&](const Tensor& x) {
         return cross_entropy(concat({reshape(x, {-1, 2}), reshape(x, {-1, 2})}, 0),
                              concat({index, index}, 0), {}, Reduction::mean, -100, 0.1);
       }},
      {"nll_loss",
       [&](const Tensor& x) {
         return nll_loss(concat({reshape(x, {-1, 2}), reshape(x, {-1, 2})}, 0),
                         concat({index, index}, 0));
       }},
      {"scatter_reduce",
       [](const Tensor& x) {
         return scatter_reduce(zeros({1}, x.dtype()), 0, zeros({kMany}, i64), x, "mean", false);
       }},
  };
  for (const DType dtype : {f16, bf16}) {
    for (const auto& [name, f] : functions) expect_as_wide(name, numbers.to(dtype), 30000, f);
  }
  // A weight for each element, without which the sum over all would have no gradient.
  const Tensor weights = remainder(arange(kMany, f32), 5) - 2;
  const std::vector<std::pair<std::string, Function>> rows{
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, ones_like(x)); }},
      {"rms_norm", [](const Tensor& x) { return rms_norm(x, ones_like(x)); }},
      {"group_norm",
       [](const Tensor& x) { return reshape(group_norm(reshape(x, {1, 2, -1}), 1), {-1}); }},
      {"mean_variance_normalization",
       [](const Tensor& x) { return mean_variance_normalization(reshape(x, {-1, 1}), {0}); }},
      {"batch_norm_train",
       [](const Tensor& x) {
         const Tensor one = ones({1}, x.dtype());
         return batch_norm_train(reshape(x, {-1, 1}), one, one)[0];
       }},
  };
  for (const auto& [name, f] : rows) {
    expect_as_wide(name, numbers.to(f16), 100,
                   [&](const Tensor& x) { return reshape(f(x), {-1}) * weights.to(x.dtype()); });
  }
}

TEST_F(Narrow, PartsBeyondTheLargestHalf) {
  const Tensor x = (sin(arange(24, f32)) * 1000).to(f16);
  const std::vector<std::pair<std::string, Function>> functions{
      {"normalize", [](const Tensor& x) { return normalize(reshape(x, {2, 12}), 2, 1); }},
      {"cosine_similarity",
       [](const Tensor& x) {
         return cosine_similarity(reshape(x, {2, 12}), reshape(flip(x), {2, 12}), 1);
       }},
      {"pairwise_distance",
       [](const Tensor& x) { return pairwise_distance(reshape(x, {2, 12}), x.slice(0, 6, 18)); }},
      {"cdist",
       [](const Tensor& x) { return cdist(reshape(x, {2, 12}), reshape(x, {2, 12}) * 0.5); }},
      {"lp_pool", [](const Tensor& x) { return lp_pool(reshape(x, {1, 1, 4, 6}), 2, 2); }},
      {"global_lp_pool", [](const Tensor& x) { return global_lp_pool(reshape(x, {1, 1, 4, 6})); }},
      {"local_response_norm",
       [](const Tensor& x) { return local_response_norm(reshape(x, {1, 4, 6}), 3); }},
      {"mean_variance_normalization",
       [](const Tensor& x) { return mean_variance_normalization(reshape(x, {2, 3, 4}), {0, 2}); }},
      {"corrcoef", [](const Tensor& x) { return corrcoef(reshape(x, {3, 8})); }},
      {"nanstd", [](const Tensor& x) { return nanstd(x); }},
      {"norm", [](const Tensor& x) { return norm(x); }},
      {"cumprod", [](const Tensor& x) { return cumprod(reshape(x / 1000, {6, 4}) + 2, 0); }},
  };
  for (const auto& [name, f] : functions) {
    expect_as_wide(name, x, 1, [&](const Tensor& given) {
      const Tensor y = f(given);
      return y * reshape(arange(y.numel().number(), y.dtype()) + 1, y.shape()) / 64;
    });
  }
  const Tensor a = full({1, 1}, 300, f16), b = full({1, 1}, 256, f16);
  const Tensor start = full({1, 1}, -60000, f16);
  EXPECT_THAT(list(addmm(start, a, b)), ElementsAre(16800));
  EXPECT_THAT(list(baddbmm(unsqueeze(start, 0), unsqueeze(a, 0), unsqueeze(b, 0))),
              ElementsAre(16800));
  // The sum of 8192 losses is more than f16 holds.
  const Tensor logs = full({8192, 2}, -10.796875, f16);
  EXPECT_THAT(list(nll_loss(logs, zeros({8192}, i64))), ElementsAre(10.796875));
}

TEST_F(Narrow, BatchStatisticsAreKeptInF32) {
  const Tensor x = reshape(arange(4, f32) * 1024, {4, 1});
  for (const DType dtype : {f16, bf16}) {
    const Tensor one = ones({1}, dtype), zero = zeros({1}, dtype);
    const auto [y, mean_of, var_of] = batch_norm_train(x.to(dtype), one, zero);
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(mean_of.dtype(), f32);
    EXPECT_EQ(var_of.dtype(), f32);
    EXPECT_THAT(list(mean_of), ElementsAre(1536));
    EXPECT_THAT(list(var_of), ElementsAre(1310720));
    EXPECT_THAT(list(y), ElementsAre(rounded(-1.3416407, dtype), rounded(-0.4472136, dtype),
                                     rounded(0.4472136, dtype), rounded(1.3416407, dtype)));
  }
}

}  // namespace
}  // namespace dyad::testing
