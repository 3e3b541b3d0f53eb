#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kAttentionCases{
    {"fn attention",
     [](const json&, const Tensors& in) -> Tensors {
       return {scaled_dot_product_attention(in[0], in[1], in[2], {.mask = in[3]})};
     }},
};

double largest_difference(const Tensor& a, const Tensor& b) {
  return dyad::max(dyad::abs(a - b)).item();
}

/// More queries and keys than a tile holds, against the whole score matrix.
TEST(Attention, OfManyTilesIsThatOfOne) {
  const Tensor q = normal({1, 2, 300, 8}, 0, 1, f64), k = normal({1, 1, 1100, 8}, 0, 1, f64),
               v = normal({1, 1, 1100, 4}, 0, 1, f64), weight = normal({1, 2, 300, 4}, 0, 1, f64);
  for (const bool causal : {false, true}) {
    Tensor a[] = {clone(q), clone(k), clone(v)}, b[] = {clone(q), clone(k), clone(v)};
    for (Tensor& x : a) x.requires_grad();
    for (Tensor& x : b) x.requires_grad();
    const Tensor tiled = scaled_dot_product_attention(a[0], a[1], a[2], {.is_causal = causal});
    Tensor scores = matmul(b[0], transpose(b[1], -1, -2)) / std::sqrt(8.0);
    if (causal) {
      scores = where(unsqueeze(arange(300), 1) >= arange(1100), scores,
                     -std::numeric_limits<double>::infinity());
    }
    const Tensor whole = matmul(softmax(scores), b[2]);
    EXPECT_LT(largest_difference(tiled, whole), 1e-13);
    sum(tiled * weight).backward();
    sum(whole * weight).backward();
    for (int i = 0; i < 3; ++i) EXPECT_LT(largest_difference(a[i].grad(), b[i].grad()), 1e-12);
  }
}

TEST(Attention, HasTheSameBitsOnOneThreadAndOnTwo) {
  const Tensor q = normal({2, 4, 200, 16}), k = normal({2, 2, 600, 16}), v = normal({2, 2, 600, 8});
  const auto run = [&](int threads) {
    set_num_threads(threads);
    Tensor in[] = {clone(q), clone(k), clone(v)};
    for (Tensor& x : in) x.requires_grad();
    const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.softcap = 3});
    sum(y * y).backward();
    std::vector<double> all = elements(y);
    for (const Tensor& x : in) {
      const std::vector<double> more = elements(x.grad());
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  const int before = get_num_threads();
  const auto one = run(1), two = run(2);
  set_num_threads(before);
  EXPECT_EQ(one, two);
}

TEST(Errors, OfAttentionNameTheArgument) {
  expect_errors(
      {
          {Kind::shape,
           "scaled_dot_product_attention(q: f32[1, 3, 2, 4], k: f32[1, 2, 2, 4], v: f32[1, 2, 2, "
           "4], mask: none, seed: none, offset: none): the 3 heads of q (axis 1) must be a "
           "multiple "
           "of the 2 of k and v",
           CALL(scaled_dot_product_attention(F(1, 3, 2, 4), F(1, 2, 2, 4), F(1, 2, 2, 4)))},
          {Kind::shape,
           "scaled_dot_product_attention(q: f32[1, 1, 2, 4], k: f32[1, 1, 3, 5], v: f32[1, 1, 3, "
           "4], mask: none, seed: none, offset: none): the width (axis 3) of q is 4 but of k 5",
           CALL(scaled_dot_product_attention(F(1, 1, 2, 4), F(1, 1, 3, 5), F(1, 1, 3, 4)))},
          {Kind::shape,
           "scaled_dot_product_attention(q: f32[1, 1, 2, 4], k: f32[1, 1, 3, 4], v: f32[1, 1, 3, "
           "4], mask: f32[3, 2], seed: none, offset: none): mask [3, 2] does not broadcast to [1, "
           "1, 2, 3]: batch, heads, length of q, length of k",
           CALL(scaled_dot_product_attention(F(1, 1, 2, 4), F(1, 1, 3, 4), F(1, 1, 3, 4),
                                             {.mask = F(3, 2)}))},
          {Kind::dtype,
           "scaled_dot_product_attention(q: f32[1, 1, 2, 4], k: f32[1, 1, 3, 4], v: f32[1, 1, 3, "
           "4], mask: f64[2, 3], seed: none, offset: none): mask must be bool, or f32 as q is, but "
           "is f64",
           CALL(scaled_dot_product_attention(F(1, 1, 2, 4), F(1, 1, 3, 4), F(1, 1, 3, 4),
                                             {.mask = make(f64, {2, 3})}))},
          {Kind::value, "scaled_dot_product_attention: scale must not be 0",
           CALL(scaled_dot_product_attention(F(1, 1, 2, 4), F(1, 1, 3, 4), F(1, 1, 3, 4),
                                             {.scale = 0}))},
      },
      "attention_functions_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
