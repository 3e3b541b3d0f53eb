#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/exec/session.h"
#include "dyad/ops/einsum_plan.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"

namespace dyad {
namespace {

using ops::ContractionOrder;
using ops::Subscripts;

std::vector<Subscripts> terms(std::initializer_list<std::string> texts) {
  std::vector<Subscripts> lists;
  for (const std::string& text : texts) lists.emplace_back(text.begin(), text.end());
  return lists;
}

/// Multiplications that an order takes.
double cost_of(std::vector<Subscripts> operands, const Subscripts& result,
               const ContractionOrder& order, const std::function<double(int)>& size) {
  double total = 0;
  for (const auto& [first, second] : order) {
    const Subscripts a = operands.at(static_cast<std::size_t>(first));
    const Subscripts b = operands.at(static_cast<std::size_t>(second));
    operands.erase(operands.begin() + second);
    operands.erase(operands.begin() + first);
    Subscripts all = a, kept;
    for (const int s : b) {
      if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
    }
    double work = 1;
    for (const int s : all) work *= size(s);
    total += work;
    for (const int s : all) {
      bool needed = std::find(result.begin(), result.end(), s) != result.end();
      for (const Subscripts& x : operands) {
        needed = needed || std::find(x.begin(), x.end(), s) != x.end();
      }
      if (needed) kept.push_back(s);
    }
    operands.push_back(kept);
  }
  EXPECT_EQ(operands.size(), 1u);
  return total;
}

TEST(EinsumOrder, IsTheCheapestOfAChain) {
  // The example of the textbooks: matrices of 30x35, 35x15, 15x5, 5x10, 10x20, 20x25 take 15125.
  const std::vector<double> sizes{30, 35, 15, 5, 10, 20, 25};
  const auto size = [&](int s) { return sizes[static_cast<std::size_t>(s - 'a')]; };
  const auto operands = terms({"ab", "bc", "cd", "de", "ef", "fg"});
  const Subscripts result{'a', 'g'};
  EXPECT_EQ(cost_of(operands, result, ops::contraction_order(operands, result, size), size), 15125);
}

TEST(EinsumOrder, OfManyOperandsAvoidsTheWorst) {
  const auto size = [](int) { return 4.0; };
  std::vector<Subscripts> operands;
  for (int i = 0; i < 20; ++i) operands.push_back({'a' + i, 'a' + i + 1});
  const Subscripts result{'a', 'a' + 20};
  EXPECT_EQ(cost_of(operands, result, ops::contraction_order(operands, result, size), size),
            19 * 64);
}

TEST(EinsumOrder, OfTwoOrOneOperand) {
  const auto size = [](int) { return 2.0; };
  EXPECT_EQ(ops::contraction_order(terms({"ab"}), {'a'}, size), ContractionOrder{});
  EXPECT_EQ(ops::contraction_order(terms({"ab", "bc"}), {'a'}, size), (ContractionOrder{{0, 1}}));
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(a - b)).item<double>();
}

class Matrices : public ::testing::Test {
 protected:
  Matrices() { manual_seed(3); }
  ~Matrices() override { set_num_threads(threads_); }

 private:
  int threads_ = get_num_threads();
};

/// Large enough that LAPACK works in blocks and with threads.
TEST_F(Matrices, LargeOnesAreFactoredRight) {
  for (const DType dtype : {f64, f32}) {
    const double tolerance = dtype == f64 ? 1e-10 : 2e-2;
    const Tensor x = to(normal({300, 300}), dtype), b = to(normal({300, 70}), dtype);
    const Tensor one = eye(300, {}, dtype);
    const Tensor positive = matmul(x, transpose(x, 0, 1)) + one * 300;
    EXPECT_LT(largest_difference(matmul(x, solve(x, b)), b), tolerance);
    EXPECT_LT(largest_difference(matmul(x, inverse(x)), one), tolerance);
    const Tensor l = cholesky(positive);
    EXPECT_LT(largest_difference(matmul(l, transpose(l, 0, 1)), positive), tolerance);
    EXPECT_LT(largest_difference(matmul(positive, cholesky_solve(b, l)), b), tolerance);
    const Qr f = qr(x);
    EXPECT_LT(largest_difference(matmul(f.q, f.r), x), tolerance);
    EXPECT_LT(largest_difference(matmul(transpose(f.q, 0, 1), f.q), one), tolerance);
    const Svd d = svd(x);
    EXPECT_LT(largest_difference(matmul(d.u * d.s, d.vh), x), tolerance);
    EXPECT_LT(largest_difference(svdvals(x), d.s), tolerance);
    const Eigh e = eigh(positive);
    EXPECT_LT(largest_difference(matmul(e.v * e.w, transpose(e.v, 0, 1)), positive), tolerance);
    EXPECT_LT(largest_difference(eigvalsh(positive), e.w), tolerance);
    const SignAndLog s = slogdet(positive);
    EXPECT_EQ(s.sign.item<double>(), 1);
    EXPECT_NEAR(s.logabsdet.item<double>(), sum(log(e.w)).item<double>(), 300 * tolerance);
  }
}

/// How far the rows are from being orthonormal.
double skewness(const Tensor& x) {
  return largest_difference(matmul(x, transpose(x, 0, 1)), eye(x.size(0).value(), {}, x.dtype()));
}

/// Tall, wide, and of sizes that the drivers of LAPACK scale first.
TEST_F(Matrices, OfAllShapesAndScalesAreFactoredRight) {
  for (const auto& [m, n] : {std::pair(130, 100), {100, 130}, {150, 40}, {40, 150}, {33, 33}}) {
    for (const double scale : {1.0, 1e-20, 1e20}) {
      for (const DType dtype : {f64, f32}) {
        const double tolerance = dtype == f64 ? 1e-12 : 1e-4;
        const Tensor x = to(normal({m, n}), dtype) * scale;
        const Qr f = qr(x), whole = qr(x, true);
        EXPECT_LT(largest_difference(matmul(f.q, f.r) / scale, x / scale), tolerance);
        EXPECT_LT(largest_difference(matmul(whole.q, whole.r) / scale, x / scale), tolerance);
        EXPECT_LT(skewness(whole.q), tolerance);
        for (const bool full : {false, true}) {
          const Svd d = svd(x, full);
          const Tensor left = slice(d.u, 1, 0, std::min(m, n)),
                       right = slice(d.vh, 0, 0, std::min(m, n));
          EXPECT_LT(largest_difference(matmul(left * (d.s / scale), right), x / scale), tolerance);
          EXPECT_LT(skewness(transpose(d.u, 0, 1)), tolerance);
          EXPECT_LT(skewness(d.vh), tolerance);
        }
        if (m != n) continue;
        const Tensor symmetric = x + transpose(x, 0, 1);
        const Eigh e = eigh(symmetric);
        EXPECT_LT(largest_difference(matmul(e.v * (e.w / scale), transpose(e.v, 0, 1)),
                                     symmetric / scale),
                  tolerance);
      }
    }
  }
}

/// Columns of the orthogonal factors are shared out in pieces of one size.
TEST_F(Matrices, HaveOrthogonalFactorsOfTheSameBitsWithAnyNumberOfThreads) {
  const Tensor x = normal({300, 300});
  std::vector<std::vector<float>> results[2];
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    const Svd d = svd(x);
    for (const Tensor& y : {qr(x).q, qr(x).r, d.u, d.s, d.vh, eigh(x).v}) {
      results[threads - 1].push_back(y.to_vector<float>());
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

/// Where a gradient is recorded, what it needs is kept from the forward pass.
TEST_F(Matrices, WithAGradientHaveTheSameValues) {
  const Tensor x = normal({8, 8}, 0, 1, f64), b = normal({8, 2}, 0, 1, f64);
  Tensor leaf = x.clone().requires_grad();
  EXPECT_LT(largest_difference(solve(leaf, b), solve(x, b)), 1e-12);
  EXPECT_LT(largest_difference(svdvals(leaf), svdvals(x)), 1e-12);
  EXPECT_LT(largest_difference(eigvalsh(leaf), eigvalsh(x)), 1e-12);
}

/// A batch is shared out by matrices, each of which one thread computes.
TEST_F(Matrices, OfABatchHaveTheSameBitsWithAnyNumberOfThreads) {
  const Tensor x = normal({64, 20, 20}), b = normal({64, 20, 3});
  std::vector<std::vector<float>> results[2];
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    for (const Tensor& y : {solve(x, b), inverse(x), qr(x).q, svd(x).u, eigh(x).v, pinv(x), det(x),
                            cholesky(matmul(x, transpose(x, 1, 2)) + eye(20) * 30)}) {
      results[threads - 1].push_back(y.to_vector<float>());
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(Matrices, AreInvertedInBlocksOfTheSameBitsWithAnyNumberOfThreads) {
  for (const std::int64_t n : {31, 32, 33, 100, 131}) {
    SCOPED_TRACE(n);
    const Tensor a = normal({n, n}, 0, 1, f64) + eye(n, n, 0, f64) * 2.0;
    std::vector<double> first;
    for (const int threads : {1, 2}) {
      set_num_threads(threads);
      const Tensor x = inverse(a);
      EXPECT_LT(max(abs(matmul(a, x) - eye(n, n, 0, f64))).item<double>(), 1e-9);
      if (threads == 1) first = x.to_vector<double>();
      EXPECT_EQ(x.to_vector<double>(), first);
    }
  }
}

TEST_F(Matrices, SignsAreThoseThatTheHeadersPromise) {
  const Tensor x = normal({50, 6, 4}, 0, 1, f64);
  const Qr f = qr(x);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(all(f.r.select(-1, i).select(-1, i) >= 0).item<bool>());
  for (const Tensor& vectors :
       {svd(x, false).u, svd(x, true).u, eigh(matmul(transpose(x, 1, 2), x)).v}) {
    const Tensor size = abs(vectors);
    const Tensor large = to(size * 2 >= max(size, {-2}, true), i64);
    const Tensor first = argmax(large, -2, true);
    EXPECT_TRUE(all(gather(vectors, -2, first) > 0).item<bool>());
  }
}

/// As torch.einsum('ij,kj->ik', x, y) with the loss (z.abs() ** 2).sum() gives them.
TEST(Einsum, OfComplexNumbersHasPyTorchsGradient) {
  Tensor x = complex(tensor({{1.0, -0.5}, {2.0, 0.0}}), tensor({{2.0, 1.0}, {-1.0, 3.0}}));
  Tensor y = complex(tensor({{0.5, 2.0}, {1.0, -1.0}}), tensor({{-1.0, 0.0}, {1.0, 2.0}}));
  x.requires_grad();
  y.requires_grad();
  const Tensor z = einsum("ij,kj->ik", {x, y});
  sum(square(abs(z))).backward();
  const auto expect_parts = [](const Tensor& made, const std::vector<double>& re,
                               const std::vector<double>& im) {
    const auto made_re = real(made).to_vector<double>(), made_im = imag(made).to_vector<double>();
    for (std::size_t i = 0; i < re.size(); ++i) {
      EXPECT_NEAR(made_re[i], re[i], 1e-13) << i;
      EXPECT_NEAR(made_im[i], im[i], 1e-13) << i;
    }
  };
  expect_parts(z, {1.5, -2.5, 0, -3}, {2, 1, 3.5, -2});
  expect_parts(x.grad(), {-5.5, 15, -17, -2}, {12, 16, 5.5, 30});
  expect_parts(y.grad(), {4, 23.5, -9, -7.5}, {12, -5, -2, 22});
}

/// Also where a graph does not know the sizes.
TEST(Einsum, OfComplexNumbersInAGraph) {
  const auto f = [](const Tensor& pairs, const Tensor& more) {
    const Tensor a = view_as_complex(pairs), b = view_as_complex(more);
    return view_as_real(einsum("ijj,jk->ki", {a, b}));
  };
  Graph graph;
  const Tensor out = graph.define([&] {
    return f(placeholder("a", f64, {"m", "n", "n", 2}), placeholder("b", f64, {"n", 4, 2}));
  });
  Session session(graph);
  for (const std::int64_t n : {1, 3}) {
    const Tensor a = normal({2, n, n, 2}, 0, 1, f64), b = normal({n, 4, 2}, 0, 1, f64);
    EXPECT_EQ(session.run({out}, {{"a", a}, {"b", b}})[0].to_vector<double>(),
              f(a, b).to_vector<double>());
  }
}

}  // namespace
}  // namespace dyad
