// Normalisations that are written out, which fast_math makes one call each: near what eager
// execution gives.
#include <limits>

#include "dyad/core/generator.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

/// A function of x, a weight and a bias (of x's last axis), and the operator that it is.
struct SpelledNorm {
  std::string_view op;
  std::function<Tensor(const Tensor& x, const Tensor& w, const Tensor& b)> fn;
};

std::vector<SpelledNorm> spelled_norms() {
  const auto centered = [](const Tensor& x) { return x - mean(x, {-1}, true); };
  return {
      {"softmax",
       [](const Tensor& x, const Tensor&, const Tensor&) {
         const Tensor e = exp(x - max(x, {-1}, true));
         return e / sum(e, {-1}, true);
       }},
      {"softmax",
       [](const Tensor& x, const Tensor&, const Tensor&) {
         const Tensor e = exp(x - max(x, {0}));
         return e * reciprocal(sum(e, {0}));
       }},
      {"log_softmax",
       [](const Tensor& x, const Tensor&, const Tensor&) {
         const Tensor s = x - max(x, {-1}, true);
         return s - log(sum(exp(s), {-1}, true));
       }},
      {"log_softmax",
       [](const Tensor& x, const Tensor&, const Tensor&) { return x - logsumexp(x, {-1}, true); }},
      {"log_softmax", [](const Tensor& x, const Tensor&,
                         const Tensor&) { return x - unsqueeze(logsumexp(x, {-1}), -1); }},
      {"log_softmax",
       [](const Tensor& x, const Tensor&, const Tensor&) { return log(softmax(x, -1)); }},
      {"layer_norm",
       [=](const Tensor& x, const Tensor& w, const Tensor& b) {
         const Tensor d = centered(x);
         return d / sqrt(mean(square(d), {-1}, true) + 1e-5) * w + b;
       }},
      {"layer_norm",
       [=](const Tensor& x, const Tensor& w, const Tensor&) {
         return centered(x) * rsqrt(var(x, {-1}, 0, true) + 1e-3) * w;
       }},
      {"layer_norm",
       [](const Tensor& x, const Tensor& w, const Tensor& b) {
         const Tensor m = mean(x, {-1}, true);
         const Tensor f = rsqrt(mean(square(x - m), {-1}, true) + 1e-3) * w;
         return x * f + (b - m * f);
       }},
      {"rms_norm", [](const Tensor& x, const Tensor& w,
                      const Tensor&) { return x * rsqrt(mean(x * x, {-1}, true) + 1e-6) * w; }},
      {"rms_norm", [](const Tensor& x, const Tensor&,
                      const Tensor&) { return x / sqrt(mean(pow(x, 2), {-1}, true) + 1e-6); }},
  };
}

class JoinedNormsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ops::register_builtin_ops();
    manual_seed(3);
  }
};

/// That `given` and `want` are near, two NaN are equal, infinities are the same.
void expect_near_or_same(const Tensor& given, const Tensor& want, double tolerance) {
  ASSERT_EQ(type_string(given), type_string(want));
  const auto a = given.to(f64).to_vector<double>(), b = want.to(f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i])) {
      EXPECT_TRUE(std::isnan(a[i])) << i << ": " << a[i];
    } else if (a[i] != b[i]) {
      EXPECT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << i;
    }
  }
}

TEST_F(JoinedNormsTest, CompiledFunctionsGiveEagersValues) {
  const std::vector<Shape> shapes{{700, 700}, {700, 700}, {4, 33}, {1, 7}, {7, 1},    {1, 1},
                                  {0, 5},     {2, 5000},  {33, 4}, {6, 6}, {64, 1024}};
  for (const DType dtype : {f32, f64}) {
    const double tolerance = dtype == f64 ? 1e-12 : 2e-5;
    for (const SpelledNorm& norm : spelled_norms()) {
      const auto compiled = compile(norm.fn, {.background = Background::never, .fast_math = true});
      for (const Shape& shape : shapes) {
        // A maximum over no elements is refused in every mode.
        if (norm.op == "softmax" && shape[0].same_as(0)) continue;
        SCOPED_TRACE(std::string(norm.op) + " of " + type_string(dtype, shape));
        const Tensor x = to(normal(shape, 1, 3), dtype), w = to(uniform({shape[1]}), dtype),
                     b = to(normal({shape[1]}), dtype);
        expect_near_or_same(compiled(x, w, b), norm.fn(x, w, b), tolerance);
      }
      int calls = 0, others = 0;
      for (const CompiledGraph& graph : compiled.graphs()) {
        calls += count_of(*graph.compiled, norm.op);
        others += count_of(*graph.compiled, "fused");
      }
      EXPECT_GT(calls, 0) << norm.op;
      EXPECT_EQ(others, 0) << norm.op;
      EXPECT_GT(compiled.explain().replays, 0) << norm.op;
    }
  }
}

TEST_F(JoinedNormsTest, InputsMayLieInAnyOrder) {
  for (const SpelledNorm& norm : spelled_norms()) {
    const auto compiled = compile(norm.fn, {.background = Background::never, .fast_math = true});
    const Tensor w = uniform({6}), b = normal({6});
    for (int call = 0; call < 3; ++call) {
      SCOPED_TRACE(norm.op);
      const Tensor turned = transpose(normal({6, 9}), 0, 1),
                   parts = slice(normal({9, 12}), 1, 0, 12, 2);
      expect_near_or_same(compiled(turned, w, b), norm.fn(turned, w, b), 1e-5);
      expect_near_or_same(compiled(parts, w, b), norm.fn(parts, w, b), 1e-5);
      const Tensor repeated = expand(normal({1, 6}), {9, 6});
      expect_near_or_same(compiled(repeated, w, b), norm.fn(repeated, w, b), 1e-5);
    }
  }
}

TEST_F(JoinedNormsTest, RowsOfNothingAndNaNMeanTheSame) {
  const double none = -std::numeric_limits<double>::infinity();
  const Tensor nan_somewhere = where(arange(4) == 2, std::nan(""), normal({4}));
  const Tensor x = stack({full({4}, none), where(arange(4) < 2, none, normal({4})), nan_somewhere,
                          normal({4}), full({4}, 1e30)});
  for (const SpelledNorm& norm : spelled_norms()) {
    SCOPED_TRACE(norm.op);
    const auto compiled = compile(norm.fn, {.background = Background::never, .fast_math = true});
    const Tensor w = uniform({4}), b = normal({4});
    for (int call = 0; call < 2; ++call) {
      expect_near_or_same(compiled(x, w, b), norm.fn(x, w, b), 1e-5);
    }
  }
}

TEST_F(JoinedNormsTest, TrainingStepsKeepWhatGradientsRead) {
  for (const SpelledNorm& norm : spelled_norms()) {
    SCOPED_TRACE(norm.op);
    const auto step = [&](const Tensor& given, const Tensor& weight,
                          const Tensor& bias) -> Tensors {
      Tensor x = given.detach().requires_grad(), w = weight.detach().requires_grad();
      const Tensor y = norm.fn(x, w, bias);
      sum(tanh(y) * w).backward();
      return {y, x.grad(), w.grad()};
    };
    const auto compiled = compile(step, {.background = Background::never, .fast_math = true});
    const Tensor w = uniform({6}), b = normal({6});
    for (int call = 0; call < 3; ++call) {
      const Tensor x = normal({4, 6});
      const Tensors given = compiled(x, w, b), want = step(x, w, b);
      for (std::size_t i = 0; i < want.size(); ++i) expect_near_or_same(given[i], want[i], 1e-5);
    }
    EXPECT_GT(compiled.explain().replays, 0);
  }
}

TEST_F(JoinedNormsTest, OverSeveralAxesWithAndWithoutParameters) {
  const auto norm = [](const Tensor& x, const Tensor& w) -> Tensors {
    const Tensor d = x - mean(x, {1, 2}, true);
    const Tensor y = d / sqrt(var(x, {1, 2}, 0, true) + 1e-5);
    return {y * w, x / sqrt(mean(x * x, {0, 1, 2}) + 0.5)};
  };
  const auto compiled = compile(norm, {.background = Background::never, .fast_math = true});
  for (const std::int64_t n : {3, 4, 5, 1}) {
    const Tensor x = normal({2, n, 300}), w = normal({1, n, 1});
    const Tensors given = compiled(x, w), want = norm(x, w);
    for (std::size_t i = 0; i < want.size(); ++i) expect_near_or_same(given[i], want[i], 1e-5);
  }
  EXPECT_EQ(count_of(*compiled.graphs()[0].compiled, "layer_norm"), 1);
  EXPECT_EQ(count_of(*compiled.graphs()[0].compiled, "rms_norm"), 1);
}

TEST_F(JoinedNormsTest, WithoutFastMathBitsAreEagers) {
  for (const SpelledNorm& norm : spelled_norms()) {
    const auto compiled = compile_now(norm.fn);
    const Tensor w = uniform({6}), b = normal({6});
    for (int call = 0; call < 3; ++call) {
      const Tensor x = normal({4, 6});
      EXPECT_TRUE(same_bits(compiled(x, w, b), norm.fn(x, w, b))) << norm.op;
    }
  }
}

}  // namespace
}  // namespace dyad::exec
