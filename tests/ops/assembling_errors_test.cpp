#include <gtest/gtest.h>

#include "bad_calls.h"

namespace dyad::testing {
namespace {

const std::vector<BadCall> kAssemblingCalls = {
    {Kind::value, "block_diag(): there must be at least one tensor",
     CALL(block_diag(std::span<const Tensor>()))},
    {Kind::shape, "block_diag(f32[2, 2, 2]): a block has at most 2 axes",
     CALL(block_diag(std::vector{F(2, 2, 2)}))},
    {Kind::shape, "cartesian_prod(f32[2, 2]): each tensor is a vector",
     CALL(cartesian_prod(std::vector{F(2, 2)}))},
    {Kind::value, "combinations(f32[2], count = -1): the count must be at least 0",
     CALL(combinations(F(2), -1))},
    {Kind::shape, "combinations(f32[2, 2], count = 2): x must be a vector",
     CALL(combinations(F(2, 2)))},
    {Kind::shape,
     "index_reduce(x: f32[2, 2], index: i64[2, 2], source: f32[2, 2]): index must be a vector, and "
     "source has a slice for each element",
     CALL(index_reduce(F(2, 2), 0, I(2, 2), F(2, 2), "prod"))},
    {Kind::shape,
     "channel_shuffle(f32[2, 4], groups = 3): groups must be at least 1 and divide the channels",
     CALL(channel_shuffle(F(2, 4), 3))},
    {Kind::value, "rrelu(f32[2], low = 0.5, high = 0.25): low must not be above high",
     CALL(rrelu(F(2), 0.5, 0.25))},
    {Kind::value, "alpha_dropout(f32[2], p = 1.5): p must be from 0 to 1",
     CALL(alpha_dropout(F(2), 1.5))},
    {Kind::shape,
     "feature_dropout(f32[2]): x must be [samples, channels, ...]; unsqueeze(x, 0) adds an axis",
     CALL(feature_dropout(F(2)))},
    {Kind::shape,
     "multilabel_margin_loss(x: f32[2, 3], target: i64[2]): both must be [samples, classes], or "
     "[classes]",
     CALL(multilabel_margin_loss(F(2, 3), I(2)))},
    {Kind::shape,
     "ctc_beam_search(log_probs: f32[2, 3], input_lengths: i64[0]): log_probs must be [steps, "
     "samples, classes] but has 2 axes",
     CALL(ctc_beam_search(F(2, 3)))},
    {Kind::shape,
     "ctc_beam_search(log_probs: f32[4, 2, 3], input_lengths: i64[3]): input_lengths must be [2], "
     "one for each sample",
     CALL(ctc_beam_search(F(4, 2, 3), I(3)))},
    {Kind::value,
     "ctc_beam_search(log_probs: f32[4, 2, 3], input_lengths: i64[2], width = 2, paths = 3): width "
     "and paths must be at least 1, and paths at most width",
     CALL(ctc_beam_search(F(4, 2, 3), I(2), {.width = 2, .paths = 3}))},
    {Kind::index,
     "ctc_beam_search(log_probs: f32[4, 2, 3], input_lengths: i64[2], blank = 3): blank = 3 is out "
     "of range for 3 classes",
     CALL(ctc_beam_search(F(4, 2, 3), I(2), {.blank = 3}))},
    {Kind::index,
     "ctc_greedy_decode(log_probs: f32[4, 2, 3]): blank = 3 is out of range for 3 classes",
     CALL(ctc_greedy_decode(F(4, 2, 3), {}, 3))},
};

TEST(Errors, OfAssembledTensors) { expect_errors(kAssemblingCalls, "assembling_errors_test.cpp"); }

}  // namespace
}  // namespace dyad::testing
