// Convolutions of 3 x 3 of many channels, which run by Winograd's way where that is fastest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "dyad/ops/attrs/nn.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

struct ImagesOf {
  std::int64_t n, c, o, h, w, pad;

  [[nodiscard]] std::int64_t oh() const { return h + 2 * pad - 2; }
  [[nodiscard]] std::int64_t ow() const { return w + 2 * pad - 2; }
};

constexpr ImagesOf kImages[] = {
    {2, 32, 32, 12, 12, 1},                            // whole tiles
    {1, 40, 48, 17, 19, 0},  {5, 64, 32, 7, 9, 1},     // half tiles at the edges
    {3, 136, 32, 10, 11, 2}, {2, 32, 160, 16, 15, 3},  // many channels; more padding than taps
    {300, 32, 32, 1, 1, 1},  {90, 48, 64, 3, 2, 1},    // images smaller than a tile
    {1, 32, 64, 70, 75, 1},  {5, 64, 48, 7, 9, 1},     // more tiles than one chunk has; odd panels
    {1, 80, 48, 17, 19, 0},  {300, 64, 64, 1, 1, 1},   // the same with whole vectors of 64 bytes
};

/// The three passes: results, gradient of the images, gradient of the weights.
std::vector<Tensor> passes(const ImagesOf& s, const Tensor& x, const Tensor& w, const Tensor& bias,
                           const Tensor& grad) {
  const Shape pad{s.pad, s.pad};
  const ops::ConvAttrs attrs{.low = pad, .high = pad};
  const ops::ConvBackwardAttrs to_x{.low = pad, .high = pad, .shape = x.shape()},
      to_w{.low = pad, .high = pad, .shape = w.shape()};
  const DType dtype = x.dtype();
  return {run_kernel("conv", &attrs, {x, w, bias}, dtype, {s.n, s.o, s.oh(), s.ow()}),
          run_kernel("conv_transpose", &to_x, {grad, w}, dtype, {s.n, s.c, s.h, s.w}),
          run_kernel("conv_backward_weight", &to_w, {grad, x}, dtype, {s.o, s.c, 3, 3})};
}

Tensor in_f64(const Tensor& t) {
  const Tensor wide = make_empty(f64, t.shape());
  for_each_index(t.shape().numbers(), [&](auto i) { set_value(wide, i, value_at(t, i)); });
  return wide;
}

/// Operands of the passes of which f32 holds all sums.
struct Operands {
  Tensor x, w, bias, grad;

  explicit Operands(const ImagesOf& s, Lie lie = Lie::dense)
      : x(random(f32, {s.n, s.c, s.h, s.w}, 1, lie)),
        w(random(f32, {s.o, s.c, 3, 3}, 2, lie)),
        bias(random(f32, {s.o}, 3)),
        grad(random(f32, {s.n, s.o, s.oh(), s.ow()}, 4, lie)) {}
};

std::vector<Tensor> passes(const ImagesOf& s, const Operands& o) {
  return passes(s, o.x, o.w, o.bias, o.grad);
}
std::vector<Tensor> exact_passes(const ImagesOf& s) {
  const Operands o(s);
  return passes(s, in_f64(o.x), in_f64(o.w), in_f64(o.bias), in_f64(o.grad));
}

/// The largest difference from `expected`, relative to its largest element.
double error(const Tensor& t, const Tensor& expected) {
  double most = 0, largest = 0;
  const auto got = values(t), want = values(expected);
  for (std::size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, std::abs(got[i] - want[i]));
    largest = std::max(largest, std::abs(want[i]));
  }
  return most / largest;
}

TEST(Winograd, SumsThatF32HoldsAreExactInAllPasses) {
  for (const ImagesOf& s : kImages) {
    SCOPED_TRACE(std::to_string(s.c) + " channels of " + std::to_string(s.h));
    const auto expected = exact_passes(s);
    for (const Lie lie : {Lie::dense, Lie::channels_last, Lie::spread}) {
      const Operands operands(s, lie);
      for (const int threads : {1, 2}) {
        const Threads scope(threads);
        const auto given = passes(s, operands);
        for (std::size_t i = 0; i < given.size(); ++i) {
          EXPECT_EQ(values(given[i]), values(expected[i])) << "pass " << i;
        }
      }
    }
  }
}

TEST(Winograd, ErrorsAreOfTheSizeOfRounding) {
  constexpr ImagesOf s{4, 64, 96, 14, 14, 1};
  const Tensor x = make(f32, {s.n, s.c, s.h, s.w}), w = make(f32, {s.o, s.c, 3, 3}),
               grad = make(f32, {s.n, s.o, s.oh(), s.ow()});
  double i = 0;
  for (const Tensor& t : {x, w, grad}) {
    for_each_index(t.shape().numbers(), [&](auto index) {
      i += 1;
      set_value(t, index, std::sin(i * i));
    });
  }
  const auto expected = passes(s, in_f64(x), in_f64(w), Tensor(), in_f64(grad));
  std::vector<Tensor> before;
  for (const int threads : {1, 2, 2}) {
    const Threads scope(threads);
    const auto given = passes(s, x, w, Tensor(), grad);
    for (std::size_t k = 0; k < given.size(); ++k) {
      EXPECT_LT(error(given[k], expected[k]), 1.5e-6) << "pass " << k;
      if (before.empty()) continue;
      EXPECT_TRUE(same_bits(given[k], before[k])) << "pass " << k << ", " << threads << " threads";
    }
    before = given;
  }
}

/// Whether all three passes give sums that f32 holds exactly.
bool sums_are_exact(const ImagesOf& s) {
  return std::ranges::equal(
      passes(s, Operands(s)), exact_passes(s),
      [](const Tensor& a, const Tensor& b) { return values(a) == values(b); });
}

/// CPUs without the widest vectors go by narrower ones, and for more sizes. A process of its own is
/// told to do without.
TEST(WinogradDeathTest, SumsInNarrowVectorsAreExact) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // NOLINTBEGIN(concurrency-mt-unsafe): the process has one thread.
  const auto there = [] {
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    std::exit(std::ranges::all_of(kImages, sums_are_exact) ? 0 : 1);
  };
  // NOLINTEND(concurrency-mt-unsafe)
  EXPECT_EXIT(there(), ::testing::ExitedWithCode(0), "");
}

TEST(Winograd, F16IsRoundedOnce) {
  constexpr ImagesOf s{2, 32, 48, 13, 12, 1};
  const Tensor x = random(f16, {s.n, s.c, s.h, s.w}, 1), w = random(f16, {s.o, s.c, 3, 3}, 2),
               grad = random(f16, {s.n, s.o, s.oh(), s.ow()}, 4);
  const auto given = passes(s, x, w, Tensor(), grad);
  const auto expected = passes(s, in_f64(x), in_f64(w), Tensor(), in_f64(grad));
  for (std::size_t k = 0; k < given.size(); ++k) {
    auto want = values(expected[k]);
    for (double& value : want) value = rounded(value, f16);
    EXPECT_EQ(values(given[k]), want) << "pass " << k;
  }
}

}  // namespace
}  // namespace dyad::testing
