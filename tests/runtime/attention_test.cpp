#include "dyad/ops/attrs/attention.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>

#include "dyad/runtime/cpu/word_product.h"
#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

using ops::AttentionAttrs;

/// A copy of the elements of t in another dtype.
Tensor in_dtype(const Tensor& t, DType dtype) {
  const Tensor made = make_empty(dtype, t.impl()->shape);
  for_each_index(t.shape().numbers(),
                 [&](auto index) { set_value(made, index, value_at(t, index)); });
  return made;
}

/// Whether `half` has the elements of `wide`, each rounded once.
void expect_rounded(const Tensor& half, const Tensor& wide, const char* what) {
  int different = 0;
  for_each_index(half.shape().numbers(), [&](auto index) {
    different += value_at(half, index) != rounded(value_at(wide, index), half.dtype()) ? 1 : 0;
  });
  EXPECT_EQ(different, 0) << what;
}

struct AttentionSizes {
  std::int64_t heads, key_heads, length, keys, width, value_width;
};

/// Attention and its gradients of tensors made of waves.
struct Attention {
  AttentionSizes sizes;
  AttentionAttrs attrs;
  Tensor q, k, v, grad, mask;

  Attention(const AttentionSizes& s, const AttentionAttrs& with, DType dtype, Lie lie)
      : sizes(s),
        attrs(with),
        q(waves(dtype, {2, s.heads, s.length, s.width}, 1000000, lie)),
        k(waves(dtype, {2, s.key_heads, s.keys, s.width}, 2000000, lie)),
        v(waves(dtype, {2, s.key_heads, s.keys, s.value_width}, 3000000, lie)),
        grad(waves(dtype, {2, s.heads, s.length, s.value_width}, 4000000, lie)) {
    // Sums that nothing cancels out in have errors that can be told.
    for (const Tensor& t : {v, grad}) {
      for_each_index(t.shape().numbers(),
                     [&](auto index) { set_value(t, index, value_at(t, index) + 1.5); });
    }
  }

  /// The same with all elements in another dtype.
  [[nodiscard]] Attention in(DType dtype) const {
    Attention made = *this;
    for (Tensor* const t : {&made.q, &made.k, &made.v, &made.grad}) *t = in_dtype(*t, dtype);
    return made;
  }
  /// The result and the logarithms of the sums.
  [[nodiscard]] std::vector<Tensor> forward() const {
    return run_kernel("attention_forward", &attrs, {q, k, v, mask, {}, {}},
                      {make(q.dtype(), {2, sizes.heads, sizes.length, sizes.value_width}),
                       make(lse_dtype(), {2, sizes.heads, sizes.length})});
  }
  [[nodiscard]] std::vector<Tensor> backward(const Tensor& out, const Tensor& lse) const {
    return run_kernel("attention_backward", &attrs, {grad, {}, q, k, v, mask, {}, {}, out, lse},
                      {make(q.dtype(), {2, sizes.heads, sizes.length, sizes.width}),
                       make(q.dtype(), {2, sizes.key_heads, sizes.keys, sizes.width}),
                       make(q.dtype(), {2, sizes.key_heads, sizes.keys, sizes.value_width})});
  }
  [[nodiscard]] DType lse_dtype() const { return q.dtype() == f64 ? f64 : f32; }
};

bool multiplies_bf16() {
  return runtime::cpu::has_word_products(runtime::cpu::WordKind::bf16_pair);
}

constexpr std::array kGradients{"gradient of q", "gradient of k", "gradient of v"};
constexpr std::array kLies{Lie::dense, Lie::spread, Lie::channels_last};

// Rows of half precision are widened a tile at a time: as if all of it were f32, rounded at the
// end. So are those of bf16 where the CPU has no products of it, and those of an odd width.
TEST(AttentionKernels, HalfPrecisionIsF32RoundedAtTheEnd) {
  for (const AttentionSizes& s :
       {AttentionSizes{2, 1, 70, 600, 8, 4}, {2, 2, 130, 130, 40, 40}, {2, 1, 70, 600, 7, 4}}) {
    for (const DType dtype : {bf16, f16}) {
      if (dtype == bf16 && s.width % 2 == 0 && multiplies_bf16()) continue;
      for (const bool causal : {false, true}) {
        for (const Lie lie : kLies) {
          const Attention half(s, {.is_causal = causal}, dtype, lie), wide = half.in(f32);
          const auto result = half.forward(), expected = wide.forward();
          expect_rounded(result[0], expected[0], "result");
          EXPECT_TRUE(same_bits(result[1], expected[1]));
          const auto by_half = half.backward(result[0], result[1]),
                     by_wide = wide.backward(in_dtype(result[0], f32), result[1]);
          for (std::size_t i = 0; i < 3; ++i) expect_rounded(by_half[i], by_wide[i], kGradients[i]);
        }
      }
    }
  }
}

/// Gradients of q, k and v in double precision, but that weights and gradients of scores are
/// rounded to bf16 before they are multiplied.
std::vector<Tensor> rounded_gradients(const Attention& of, const Tensor& out, const Tensor& lse) {
  const AttentionSizes& s = of.sizes;
  const double scale = 1 / std::sqrt(static_cast<double>(s.width)), cap = of.attrs.softcap;
  const std::vector<double> q = values(of.q), k = values(of.k), v = values(of.v),
                            grad = values(of.grad), result = values(out), sums = values(lse);
  const Tensor made[] = {make(f64, {2, s.heads, s.length, s.width}),
                         make(f64, {2, s.key_heads, s.keys, s.width}),
                         make(f64, {2, s.key_heads, s.keys, s.value_width})};
  double* to[3];
  for (std::size_t i = 0; i < 3; ++i) {
    to[i] = static_cast<double*>(made[i].raw_data());
    std::fill_n(to[i], values(made[i]).size(), 0.0);
  }
  const auto dot = [](const double* a, const double* b, std::int64_t n) {
    return std::inner_product(a, a + n, b, 0.0);
  };
  for (std::int64_t head = 0; head < 2 * s.heads; ++head) {
    const std::int64_t key_head =
        head / s.heads * s.key_heads + head % s.heads / (s.heads / s.key_heads);
    for (std::int64_t i = 0; i < s.length; ++i) {
      const std::int64_t row = head * s.length + i, at = row * s.width, value = row * s.value_width;
      const double common = dot(&grad[static_cast<std::size_t>(value)],
                                &result[static_cast<std::size_t>(value)], s.value_width);
      for (std::int64_t j = 0; j < s.keys && (!of.attrs.is_causal || j <= i); ++j) {
        const std::int64_t key = (key_head * s.keys + j) * s.width,
                           key_value = (key_head * s.keys + j) * s.value_width;
        const double raw = scale * dot(&q[static_cast<std::size_t>(at)],
                                       &k[static_cast<std::size_t>(key)], s.width),
                     score = cap == 0 ? raw : cap * std::tanh(raw / cap),
                     p = std::exp(score - sums[static_cast<std::size_t>(row)]),
                     by_p = dot(&grad[static_cast<std::size_t>(value)],
                                &v[static_cast<std::size_t>(key_value)], s.value_width),
                     slope = cap == 0 ? 1 : 1 - score * score / (cap * cap),
                     by_score = rounded(p * (by_p - common) * scale * slope, bf16);
        for (std::int64_t c = 0; c < s.width; ++c) {
          to[0][at + c] += by_score * k[static_cast<std::size_t>(key + c)];
          to[1][key + c] += by_score * q[static_cast<std::size_t>(at + c)];
        }
        for (std::int64_t c = 0; c < s.value_width; ++c)
          to[2][key_value + c] += rounded(p, bf16) * grad[static_cast<std::size_t>(value + c)];
      }
    }
  }
  return {made[0], made[1], made[2]};
}

/// Differences are at most `part` of an element, and of the largest one `few`.
void expect_near(const Tensor& t, const Tensor& expected, double part, double few,
                 const char* what) {
  double largest = 0, excess = 0;
  for_each_index(t.shape().numbers(), [&](auto index) {
    largest = std::max(largest, std::abs(value_at(expected, index)));
  });
  for_each_index(t.shape().numbers(), [&](auto index) {
    const double here = value_at(expected, index), off = std::abs(value_at(t, index) - here);
    const double over = off - part * std::abs(here) - few * largest;
    excess = over <= 0 ? excess : std::isnan(over) ? over : std::max(over, excess);
  });
  EXPECT_EQ(excess, 0) << what << " up to " << largest;
}

// Weights and gradients of scores are rounded to bf16, 2^-9 of them, and so are the results.
TEST(AttentionKernels, ProductsOfBf16AreAsExactAsItsElements) {
  if (!multiplies_bf16()) GTEST_SKIP() << "no products of bf16 on this CPU";
  for (const AttentionSizes& s : {AttentionSizes{2, 1, 70, 71, 8, 4},
                                  {1, 1, 130, 90, 20, 70},
                                  {2, 1, 5, 1035, 18, 16},
                                  {1, 1, 1, 1, 2, 2},
                                  {1, 1, 3, 7, 130, 18}}) {
    for (const bool causal : {false, true}) {
      for (const double softcap : {0.0, 1.5}) {
        const AttentionAttrs attrs{.is_causal = causal, .softcap = softcap};
        const Attention half(s, attrs, bf16, Lie::dense), wide = half.in(f64);
        const auto result = half.forward(), expected = wide.forward();
        expect_near(result[0], expected[0], 0x1p-8, 0x1p-8, "result");
        expect_near(result[1], expected[1], 1e-6, 1e-6, "sums");
        const auto by_half = half.backward(result[0], result[1]),
                   by_rounded = rounded_gradients(half, result[0], result[1]);
        for (std::size_t i = 0; i < 3; ++i)
          expect_near(by_half[i], by_rounded[i], 0x1p-8, 0x1p-8, kGradients[i]);
        for (const Lie lie : kLies) {
          Threads threads(2);
          const Attention other(s, attrs, bf16, lie);
          const auto same = other.forward();
          EXPECT_TRUE(same_bits(same[0], result[0]) && same_bits(same[1], result[1]));
          const auto by_same = other.backward(same[0], same[1]);
          for (std::size_t i = 0; i < 3; ++i)
            EXPECT_TRUE(same_bits(by_same[i], by_half[i])) << kGradients[i];
        }
      }
    }
  }
}

TEST(AttentionKernels, MaskedKeysOfBf16CountForNothing) {
  const AttentionSizes sizes{2, 2, 9, 40, 16, 16}, fewer{2, 2, 9, 25, 16, 16};
  Attention all(sizes, {}, bf16, Lie::dense), some(fewer, {}, bf16, Lie::dense);
  const auto copy = [](const Tensor& from, const Tensor& to) {
    for_each_index(to.shape().numbers(),
                   [&](auto index) { set_value(to, index, value_at(from, index)); });
  };
  copy(all.k, some.k);
  copy(all.v, some.v);
  all.mask = make(boolean, {1, 1, 9, 40});
  for_each_index(all.mask.shape().numbers(), [&](auto index) {
    // Query 3 sees none at all.
    set_value(all.mask, index, index[3] < 25 && index[2] != 3 ? 1 : 0);
  });
  const auto masked = all.forward(), expected = some.forward();
  const auto by_masked = all.backward(masked[0], masked[1]);
  for_each_index(masked[0].shape().numbers(), [&](auto index) {
    EXPECT_EQ(value_at(masked[0], index), index[2] == 3 ? 0 : value_at(expected[0], index));
    EXPECT_TRUE(index[2] != 3 || value_at(by_masked[0], index) == 0);
  });
  for_each_index(by_masked[1].shape().numbers(), [&](auto index) {
    if (index[2] < 25) return;
    EXPECT_EQ(value_at(by_masked[1], index), 0);
    EXPECT_EQ(value_at(by_masked[2], index), 0);
  });
}

TEST(AttentionKernels, WithoutKeysGradientsAreZero) {
  const AttentionAttrs attrs;
  const Tensor q = waves(bf16, {1, 2, 3, 8}, 0), none = make(bf16, {1, 2, 0, 8}),
               lse = make(f32, {1, 2, 3});
  const auto made = run_kernel(
      "attention_backward", &attrs, {q, {}, q, none, none, {}, {}, {}, q, lse},
      {waves(bf16, {1, 2, 3, 8}, 48), make(bf16, {1, 2, 0, 8}), make(bf16, {1, 2, 0, 8})});
  EXPECT_EQ(values(made[0]), std::vector<double>(48, 0.0));
}

}  // namespace
}  // namespace dyad::testing
