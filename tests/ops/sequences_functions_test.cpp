#include <gtest/gtest.h>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

const FunctionCases kSequenceCases{
    {"fn rotary_embedding",
     [](const json&, const Tensors& in) -> Tensors {
       return {rotary_embedding(in[0], in[1], in[2])};
     }},
    {"fn causal_mask",
     [](const json& attrs, const Tensors&) -> Tensors {
       return {
           causal_mask(integer(attrs, "length"), integer(attrs, "keys"), integer(attrs, "offset"))};
     }},
    {"fn length_mask",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {length_mask(in[0], integer(attrs, "length"))};
     }},
    {"fn alibi_bias",
     [](const json& attrs, const Tensors&) -> Tensors {
       return {alibi_bias(integer(attrs, "heads"), integer(attrs, "length"), integer(attrs, "keys"),
                          f64)};
     }},
    {"fn ctc_loss",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {ctc_loss(in[0], in[1], in[2], in[3],
                        {.blank = integer(attrs, "blank"),
                         .reduction = reduction_of(attrs),
                         .zero_infinity = attrs["zero_infinity"].get<bool>()})};
     }},
};

TEST(Sequences, OutOfRangeIsAnErrorWhenTheyRun) {
  const Tensor x = zeros({3, 1, 2}), one = full({1}, 1, i64);
  EXPECT_THROW((void)ctc_loss(x, full({1, 1}, 5, i64), full({1}, 3, i64), one), IndexError);
  EXPECT_THROW((void)ctc_loss(x, full({1, 1}, 1, i64), full({1}, 4, i64), one), ValueError);
  const Tensor cache = zeros({2, 4, 3}), value = zeros({2, 2, 3});
  EXPECT_THROW((void)cache_update(cache, value, full({}, 3, i64)), IndexError);
  EXPECT_THROW((void)cache_update(cache, value, full({}, -1, i64)), IndexError);
}

TEST(Errors, OfSequencesNameTheArgument) {
  expect_errors(
      {
          {Kind::value,
           "rotary_embedding(x: f32[1, 2, 3, 5], cos: f32[1, 3, 2], sin: f32[1, 3, 2], "
           "position_ids: none): the turned width, 5, must be even; see rotary_dim",
           CALL(rotary_embedding(F(1, 2, 3, 5), F(1, 3, 2), F(1, 3, 2)))},
          {Kind::shape,
           "rotary_embedding(x: f32[1, 2, 3, 4], cos: f32[1, 3, 3], sin: f32[1, 3, 3], "
           "position_ids: none): cos and sin must be [batch, length, 2], but are [1, 3, 3] and [1, "
           "3, 3]",
           CALL(rotary_embedding(F(1, 2, 3, 4), F(1, 3, 3), F(1, 3, 3)))},
          {Kind::shape,
           "cache_update(cache: f32[2, 4, 3], value: f32[2, 5, 3], position: i64[], axis = 1): "
           "value has 5 elements along axis 1, cache only 4",
           CALL(cache_update(F(2, 4, 3), F(2, 5, 3), I()))},
          {Kind::shape,
           "ctc_nll(log_probs: f32[4, 2, 3], targets: i64[3, 2], input_lengths: i64[2], "
           "target_lengths: i64[2]): targets has 3 rows but log_probs 2 samples (axis 1)",
           CALL(ctc_loss(F(4, 2, 3), I(3, 2), I(2), I(2)))},
          {Kind::index,
           "ctc_nll(log_probs: f32[4, 2, 3], targets: i64[2, 2], input_lengths: i64[2], "
           "target_lengths: i64[2], blank = 3): blank = 3 is out of range for 3 classes",
           CALL(ctc_loss(F(4, 2, 3), I(2, 2), I(2), I(2), {.blank = 3}))},
      },
      "sequences_functions_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
