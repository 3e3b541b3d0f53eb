#include "dyad/ops/attrs/attention.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/runtime/support.h"

namespace dyad::testing {
namespace {

using ops::AttentionAttrs;

/// A copy in f32 of the elements of t.
Tensor in_f32(const Tensor& t) {
  const Tensor made = make_empty(f32, t.impl()->shape);
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

// Rows of half precision are widened a tile at a time: as if all of it were f32, rounded at the
// end.
TEST(AttentionKernels, HalfPrecisionIsF32RoundedAtTheEnd) {
  for (const AttentionSizes s : {AttentionSizes{2, 1, 70, 600, 8, 4}, {2, 2, 130, 130, 40, 40}}) {
    for (const DType dtype : {bf16, f16}) {
      for (const bool causal : {false, true}) {
        for (const Lie lie : {Lie::dense, Lie::spread, Lie::channels_last}) {
          const AttentionAttrs attrs{.is_causal = causal};
          const Tensor q = waves(dtype, {2, s.heads, s.length, s.width}, 1000000, lie),
                       k = waves(dtype, {2, s.key_heads, s.keys, s.width}, 2000000, lie),
                       v = waves(dtype, {2, s.key_heads, s.keys, s.value_width}, 3000000, lie),
                       grad = waves(dtype, {2, s.heads, s.length, s.value_width}, 4000000, lie);
          const auto run = [&](const Tensor& q1, const Tensor& k1, const Tensor& v1) {
            return run_kernel("attention_forward", &attrs, {q1, k1, v1, {}, {}, {}},
                              {make(q1.dtype(), {2, s.heads, s.length, s.value_width}),
                               make(f32, {2, s.heads, s.length})});
          };
          const auto half = run(q, k, v), wide = run(in_f32(q), in_f32(k), in_f32(v));
          expect_rounded(half[0], wide[0], "result");
          EXPECT_TRUE(same_bits(half[1], wide[1]));
          const auto run_back = [&](const Tensor& g, const Tensor& q1, const Tensor& k1,
                                    const Tensor& v1, const Tensor& out) {
            return run_kernel("attention_backward", &attrs,
                              {g, {}, q1, k1, v1, {}, {}, {}, out, half[1]},
                              {make(q1.dtype(), {2, s.heads, s.length, s.width}),
                               make(q1.dtype(), {2, s.key_heads, s.keys, s.width}),
                               make(q1.dtype(), {2, s.key_heads, s.keys, s.value_width})});
          };
          const auto by_half = run_back(grad, q, k, v, half[0]),
                     by_wide =
                         run_back(in_f32(grad), in_f32(q), in_f32(k), in_f32(v), in_f32(half[0]));
          const std::array names{"gradient of q", "gradient of k", "gradient of v"};
          for (std::size_t i = 0; i < 3; ++i) expect_rounded(by_half[i], by_wide[i], names[i]);
        }
      }
    }
  }
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
