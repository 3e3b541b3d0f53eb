#include <gtest/gtest.h>

#include "bad_calls.h"

// A refused call of each operator that other tests have none of.

namespace dyad::testing {
namespace {

const std::vector<BadCall> kRowCalls = {
    {Kind::index, "all(x: f32[3, 4], axes = [2]): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(all(F(3, 4), {2}))},
    {Kind::value, "any(x: f32[3, 4], axes = [1, 1]): axis 1 is named twice",
     CALL(any(F(3, 4), {1, 1}))},
    {Kind::shape,
     "min(x: f32[3, 0], axes = [1]): axis 1 has size 0, and no elements have no largest or "
     "smallest one",
     CALL(min(F(3, 0), {1}))},
    {Kind::index, "argmin(x: f32[3, 4], axis = 2): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(argmin(F(3, 4), 2))},
    {Kind::index, "prod(x: f32[3, 4], axes = [-3]): axis -3 is out of range for 2 axes (-2 to 1)",
     CALL(prod(F(3, 4), {-3}))},
    {Kind::dtype,
     "logsumexp(x: i64[3, 4]): x must be one of f64 f32 f16 bf16 but is i64; cast it with "
     "x.to(f32)",
     CALL(logsumexp(I(3, 4)))},
    {Kind::dtype,
     "std(x: i64[3]): x must be one of f64 f32 f16 bf16 but is i64; cast it with x.to(f32)",
     CALL(std(I(3), {}))},
    {Kind::index, "var(x: f32[3, 4], axes = [2]): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(var(F(3, 4), {2}))},
    {Kind::index, "cummax(x: f32[3, 4], axis = 2): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(cummax(F(3, 4), 2))},
    {Kind::index, "cummin(x: f32[3, 4], axis = -3): axis -3 is out of range for 2 axes (-2 to 1)",
     CALL(cummin(F(3, 4), -3))},
    {Kind::index, "cumprod(x: f32[3], axis = 1): axis 1 is out of range for 1 axes (-1 to 0)",
     CALL(cumprod(F(3), 1))},
    {Kind::dtype,
     "logcumsumexp(x: i64[3]): x must be one of f64 f32 f16 bf16 but is i64; cast it with "
     "x.to(f32)",
     CALL(logcumsumexp(I(3), 0))},
    {Kind::index, "sort(x: f32[3, 4], axis = 2): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(sort(F(3, 4), 2))},
    {Kind::dtype,
     "softmax(x: i64[3, 4], axis = 1): x must be one of f64 f32 f16 bf16 but is i64; cast it with "
     "x.to(f32)",
     CALL(softmax(I(3, 4)))},
    {Kind::index,
     "log_softmax(x: f32[3, 4], axis = 2): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(log_softmax(F(3, 4), 2))},
    {Kind::value, "normalize(x: f32[3, 4], p = 0.0): p must be above 0",
     CALL(normalize(F(3, 4), 0))},
    {Kind::index, "unsqueeze(x: f32[3, 4], axis = 4): axis 4 is out of range for 3 axes (-3 to 2)",
     CALL(unsqueeze(F(3, 4), 4))},
    {Kind::dtype,
     "uniform(seed: i64[], offset: i64[], shape = [2], dtype = i64): dtype must be floating, not "
     "i64; randint() gives whole numbers",
     CALL(rand({2}, i64))},
    {Kind::dtype,
     "normal(seed: i64[], offset: i64[], shape = [2], dtype = i64): dtype must be floating, not "
     "i64; randint() gives whole numbers",
     CALL(randn({2}, i64))},
    {Kind::shape,
     "batch_norm(x: f32[2, 3], weight: f32[3], bias: f32[3], mean: f32[3], var: f32[2]): var must "
     "be [3], the channels of x (axis 1), but is [2]",
     CALL(batch_norm(F(2, 3), F(3), F(3), F(3), F(2)))},
    {Kind::shape,
     "group_norm(x: f32[2, 3], weight: none, bias: none, groups = 2): the 3 channels of x (axis 1) "
     "do not divide into groups = 2",
     CALL(group_norm(F(2, 3), 2))},
    {Kind::shape,
     "layer_norm(x: f32[2, 3], weight: f32[2], bias: none): weight must have the last sizes of x, "
     "but axis 1 of x is 3 where weight has 2",
     CALL(layer_norm(F(2, 3), F(2)))},
    {Kind::shape,
     "rms_norm(x: f32[2, 3], weight: f32[2, 3, 1]): weight must have from 1 to 2 axes, but has 3",
     CALL(rms_norm(F(2, 3), F(2, 3, 1)))},
    {Kind::shape,
     "local_response_norm(x: f32[2, 3], size = 3): x must be [n, c, ...] with spatial axes",
     CALL(local_response_norm(F(2, 3), 3))},
    {Kind::index,
     "mean_variance_normalization(x: f32[2, 3], axes = [2]): axis 2 is out of range for 2 axes (-2 "
     "to 1)",
     CALL(mean_variance_normalization(F(2, 3), {2}))},
    {Kind::value, "global_lp_pool(x: f32[2, 3, 4], p = 0.0): p must be above 0",
     CALL(global_lp_pool(F(2, 3, 4), 0))},
    {Kind::value,
     "max_pool(x: f32[2, 3, 4], kernel = [2], stride = [1], low = [2], high = [2], dilation = "
     "[1]): padding = 2 must be less than the kernel's reach, 2; pad() takes any",
     CALL(max_pool_with_indices(F(2, 3, 4), 2, 1, 2))},
    {Kind::shape,
     "rnn(x: f32[5, 2, 3], weight_ih: f32[4, 2], weight_hh: f32[4, 4], bias_ih: none, bias_hh: "
     "none, lengths: none, h0: none, cell = \"rnn\"): weight_ih must be [gates * hidden, width of "
     "x] = [4, 3] but is [4, 2]",
     CALL(rnn(F(5, 2, 3), F(4, 2), F(4, 4)))},
    {Kind::shape,
     "lstm(x: f32[5, 2, 3], weight_ih: f32[16, 3], weight_hh: f32[4, 4], bias_ih: none, bias_hh: "
     "none, lengths: none, h0: none, c0: none, peephole: none): weight_hh must be [gates * hidden, "
     "hidden] = [16, 4] but is [4, 4]",
     CALL(lstm(F(5, 2, 3), F(16, 3), F(4, 4)))},
    {Kind::value,
     "gru(x: f32[5, 2, 3], weight_ih: f32[12, 3], weight_hh: f32[12, 4], bias_ih: none, bias_hh: "
     "none, lengths: none, h0: none, cell = \"gru\", clip = -1.0): clip must not be negative; 0 is "
     "none",
     CALL(gru(F(5, 2, 3), F(12, 3), F(12, 4), {}, {}, {.clip = -1}))},
    {Kind::shape,
     "scaled_dot_product_attention(q: f32[2, 4, 5, 8], k: f32[2, 3, 6, 8], v: f32[2, 3, 6, 8], "
     "mask: none, seed: none, offset: none): the 4 heads of q (axis 1) must be a multiple of the 3 "
     "of k and v",
     CALL(scaled_dot_product_attention(F(2, 4, 5, 8), F(2, 3, 6, 8), F(2, 3, 6, 8)))},
    {Kind::shape,
     "scaled_dot_product_attention(q: f32[2, 4, 5, 8], k: f32[2, 4, 6, 7], v: f32[2, 4, 6, 8], "
     "mask: none, seed: none, offset: none): the width (axis 3) of q is 8 but of k 7",
     CALL(scaled_dot_product_attention(F(2, 4, 5, 8), F(2, 4, 6, 7), F(2, 4, 6, 8)))},
    {Kind::shape,
     "nll_loss(log_probabilities: f32[2, 3], target: i64[3]): target must be [2], "
     "log_probabilities without its axis of classes (1), but is [3]",
     CALL(nll_loss(F(2, 3), I(3)))},
    {Kind::index,
     "index_select(x: f32[2, 3], index: i64[4], axis = 2): axis 2 is out of range for 2 axes (-2 "
     "to 1)",
     CALL(index_select(F(2, 3), 2, I(4)))},
    {Kind::shape, "lu(x: f32[3]): x has 1 axis, but matrices are needed: [..., rows, columns]",
     CALL(lu(F(3)))},
    {Kind::shape, "pinv(x: f32[3]): x has 1 axis, but matrices are needed: [..., rows, columns]",
     CALL(pinv(F(3)))},
    {Kind::shape, "qr(x: f32[3]): x has 1 axis, but matrices are needed: [..., rows, columns]",
     CALL(qr(F(3)))},
    {Kind::shape,
     "slogdet(x: f32[2, 3]): x must hold square matrices, but has 2 rows and 3 columns",
     CALL(slogdet(F(2, 3)))},
    {Kind::shape, "svdvals(x: f32[3]): x has 1 axis, but matrices are needed: [..., rows, columns]",
     CALL(svdvals(F(3)))},
    {Kind::shape, "diagonal(x: f32[3]): a matrix is needed, which has 2 axes",
     CALL(diagonal(F(3), 0))},
    {Kind::value, "diagonal(x: f32[3, 4], axis1 = 1): axis 1 is named twice",
     CALL(diagonal(F(3, 4), 0, 1, 1))},
    {Kind::index,
     "unique(x: f32[3, 4], flat = false, axis = 2): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(unique(F(3, 4), true, 2))},
    {Kind::dtype,
     "scatter_max(x: f32[3, 4], index: i64[3, 4], source: i64[3, 4]): one dtype is needed, but x "
     "is f32 and source is i64",
     CALL(scatter_reduce(F(3, 4), 0, I(3, 4), I(3, 4), "amax"))},
    {Kind::shape,
     "scatter_min(x: f32[3, 4], index: i64[3], source: f32[3]): x has 2 axes but index has 1; they "
     "must be equal (index_select takes whole slices)",
     CALL(scatter_reduce(F(3, 4), 0, I(3), F(3), "amin"))},
    {Kind::shape,
     "scatter_mul(x: f32[3, 4], index: i64[4, 5], source: f32[4, 5]): axis 1 of x has size 4, of "
     "index 5, which must not be larger",
     CALL(scatter_reduce(F(3, 4), 0, I(4, 5), F(4, 5), "prod"))},
    {Kind::shape,
     "affine_grid(theta: f32[2, 3, 3], size = [2, 1, 4, 4]): theta must be [2, 2, 3] but is [2, 3, "
     "3]",
     CALL(affine_grid(F(2, 3, 3), {2, 1, 4, 4}))},
    {Kind::shape,
     "cache_update(cache: f32[2, 4, 3], value: f32[2, 5, 3], position: i64[], axis = 1): value has "
     "5 elements along axis 1, cache only 4",
     CALL(cache_update(F(2, 4, 3), F(2, 5, 3), I(), 1))},
    {Kind::shape,
     "deform_conv2d(x: f32[1, 2, 5, 5], offset: f32[1, 18, 3, 3], weight: f32[3, 4, 3, 3], bias: "
     "none, mask: none): x has 2 channels but weight takes 4 in each of 1 groups, which must "
     "divide its 3 outputs",
     CALL(deform_conv2d(F(1, 2, 5, 5), F(1, 18, 3, 3), F(3, 4, 3, 3)))},
    {Kind::shape,
     "grid_sample(x: f32[1, 2, 5, 5], grid: f32[2, 3, 3, 2]): x has 1 samples but grid 2",
     CALL(grid_sample(F(1, 2, 5, 5), F(2, 3, 3, 2)))},
    {Kind::shape,
     "max_roi_pool(x: f32[1, 2, 5, 5], rois: f32[3, 4], height = 2, width = 2): rois must be [k, "
     "5] but is [3, 4]",
     CALL(max_roi_pool(F(1, 2, 5, 5), F(3, 4), 2, 2))},
    {Kind::shape,
     "non_max_suppression(boxes: f32[1, 5, 4], scores: f32[1, 2, 6]): scores must be [1, classes, "
     "5] but is [1, 2, 6]",
     CALL(non_max_suppression(F(1, 5, 4), F(1, 2, 6), {}))},
    {Kind::value,
     "resize(x: f32[2, 3], axes = [0, 1], sizes = [4]): sizes or scales must have one number for "
     "each of the 2 axes",
     CALL(resize(F(2, 3), {4}, {}))},
    {Kind::shape,
     "roi_align(x: f32[1, 2, 5, 5], rois: f32[3, 4], batch_indices: i64[2], height = 2, width = "
     "2): batch_indices must be [3], one for each of rois, but is [2]",
     CALL(roi_align(F(1, 2, 5, 5), F(3, 4), I(2), 2, 2))},
    {Kind::value,
     "rotary_embedding(x: f32[1, 2, 3, 5], cos: f32[3, 2], sin: f32[3, 2], position_ids: i64[1, "
     "3]): the turned width, 5, must be even; see rotary_dim",
     CALL(rotary_embedding(F(1, 2, 3, 5), F(3, 2), F(3, 2)))},
    {Kind::shape, "tril: trilu(x: f32[3], upper = false): a matrix is needed, which has 2 axes",
     CALL(tril(F(3)))},
    {Kind::shape,
     "im2col(x: f32[1, 2, 5], kernel = [6], stride = [1], low = [0], high = [0], dilation = [1]): "
     "the length with padding is 5, less than the kernel's 6",
     CALL(im2col(F(1, 2, 5), 6))},
    {Kind::shape,
     "col2im(columns: f32[1, 6, 3], size = [5], kernel = [4], stride = [1], low = [0], high = [0], "
     "dilation = [1]): the 6 rows do not divide into kernels of 4 elements",
     CALL(col2im(F(1, 6, 3), {5}, 4))},
    {Kind::shape,
     "put_rows(x: f32[3, 2], index: i64[2], rows: f32[3, 2]): rows must have a row for each index, "
     "but rows is [3, 2] and index [2]",
     CALL(put_rows(F(3, 2), I(2), F(3, 2)))},
    {Kind::shape,
     "row_sums(rows: f32[3, 2], index: i64[2]): rows must have a row for each index, but rows is "
     "[3, 2] and index [2]",
     CALL(row_sums(F(3, 2), I(2)))},
    {Kind::shape, "repeat_places(counts: i64[3, 1]): counts must be a vector",
     CALL(repeat_interleave(F(3), I(3, 1), 0))},
    {Kind::shape,
     "ctc_nll(log_probs: f32[5, 2, 4], targets: i64[3, 2], input_lengths: i64[2], target_lengths: "
     "i64[2]): targets has 3 rows but log_probs 2 samples (axis 1)",
     CALL(ctc_loss(F(5, 2, 4), I(3, 2), I(2), I(2)))},
    {Kind::dtype,
     "poisson(rate: i64[2], seed: i64[], offset: i64[]): rate must be one of f64 f32 f16 bf16 but "
     "is i64; cast it with rate.to(f32)",
     CALL(poisson(I(2)))},
    {Kind::dtype,
     "standard_gamma(concentration: i64[2], seed: i64[], offset: i64[]): concentration must be one "
     "of f64 f32 f16 bf16 but is i64; cast it with concentration.to(f32)",
     CALL(gamma(I(2)))},
    {Kind::dtype,
     "binomial(count: i64[2], p: i64[2], seed: i64[], offset: i64[]): count must be one of f64 f32 "
     "f16 bf16 but is i64; cast it with count.to(f32)",
     CALL(binomial(I(2), I(2)))},
};

TEST(Errors, OfRows) { expect_errors(kRowCalls, "rows_errors_test.cpp"); }

}  // namespace
}  // namespace dyad::testing
