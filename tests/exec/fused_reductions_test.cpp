// Reductions that read the same tensor in one kernel.
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

Tensor wild(const Shape& shape, DType dtype) {
  manual_seed(11);
  return (normal(shape) * 3.0f).to(dtype);
}

/// Compiled, on several threads, and where `x` lies otherwise: eager's bits, in so many kernels.
void expect_same(const std::function<Tensors(const Tensor&)>& fn, const Tensor& x, int kernels) {
  for (const int threads : {1, 2}) {
    const ThreadScope scope(threads);
    const auto fast = compile([&](const Tensor& t) { return fn(t); },
                              CompileOptions{.background = Background::never});
    for (int call = 0; call < 3; ++call) {
      const Tensors made = fast(x), wanted = fn(x);
      ASSERT_EQ(made.size(), wanted.size());
      for (std::size_t i = 0; i < made.size(); ++i)
        EXPECT_TRUE(same_bits(made[i], wanted[i]))
            << "result " << i << " of " << to_string(x.shape());
    }
    EXPECT_EQ(fast.explain().recordings[0].kernels, kernels) << to_string(fast.explain());
  }
}

Tensors moments(const Tensor& x, const Ints& axes) {
  return {sum(x, axes), sum(x * x, axes, true), mean(abs(x), axes)};
}

TEST(FusedReductions, GiveTheBitsOfOneByOne) {
  for (const DType dtype : {f32, f64, bf16, i32}) {
    for (const Shape& shape :
         std::vector<Shape>{{300, 40}, {5000, 3}, {1, 7}, {9, 1}, {20000, 1}}) {
      const Tensor x = wild(shape, dtype);
      for (const Ints& axes : std::vector<Ints>{{0}, {0, 1}}) {
        if (dtype == i32) {
          expect_same([&](const Tensor& t) { return Tensors{sum(t, axes), max(t, axes)}; }, x, 1);
        } else {
          expect_same([&](const Tensor& t) { return moments(t, axes); }, x, 1);
        }
      }
    }
  }
}

TEST(FusedReductions, OfTensorsThatLieOtherwise) {
  const Tensor x = wild({60, 7, 50}, f32);
  const auto both = [](const Tensor& t) {
    return Tensors{sum(t, {0, 2}), max(-t, {0, 2}, true), min(t, {0, 2})};
  };
  expect_same(both, x.transpose(0, 2), 1);
  expect_same(both, x.flip({1}), 1);
  expect_same(both, x.slice(2, 3, 40), 1);
}

TEST(FusedReductions, PlacesAndValuesAtOnce) {
  for (const Shape& shape : std::vector<Shape>{{4000, 5}, {17, 300}}) {
    expect_same([](const Tensor& t) { return Tensors{argmax(t, 0), argmin(t, 0)}; },
                wild(shape, f32), 1);
  }
}

TEST(FusedReductions, SpecialNumbersAndNothing) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor x = tensor(std::vector<float>{1, -inf, nan, 0, -0.0f, inf}).reshape({3, 2});
  expect_same([](const Tensor& t) { return moments(t, {0}); }, x, 1);
  const auto sums = compile([](const Tensor& t) { return Tensors{sum(t, {0}), sum(t * t, {0})}; },
                            CompileOptions{.background = Background::never});
  for (const std::int64_t rows : {3, 5, 0, 1, 4}) {
    const Tensor t = wild({rows, 4}, f32);
    const Tensors made = sums(t);
    EXPECT_TRUE(same_bits(made[0], sum(t, {0})));
    EXPECT_TRUE(same_bits(made[1], sum(t * t, {0})));
  }
}

TEST(FusedReductions, GradientsOfAScaleAndAShiftAreOneKernel) {
  const Tensor x = wild({500, 12}, f32);
  const auto gradients = [&](const Tensor& dy) { return Tensors{sum(dy * x, {0}), sum(dy, {0})}; };
  expect_same(gradients, wild({500, 12}, f32) + 1.0f, 1);
}

}  // namespace
}  // namespace dyad::exec
