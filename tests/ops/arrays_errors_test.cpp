#include <gtest/gtest.h>

#include "bad_calls.h"
#include "cases.h"

namespace dyad::testing {
namespace {

const std::vector<BadCall> kArrayCalls = {
    {Kind::value, "slice(x: f32[3], step = 0): step = 0 leads nowhere; 1 takes every element",
     CALL(slice(F(3), 0, 0, kEnd, 0))},
    {Kind::value, "split(f32[4]): size = 0 must be 1 or more", CALL(split(F(4), 0))},
    {Kind::index, "index(f32[3, 4]): 3 indices for 2 axes", CALL(index(F(3, 4), {0, 1, 2}))},
    {Kind::dtype,
     "index(f32[3, 4]): indices must be i64, i32 or a bool mask, but one is "
     "f32[2]",
     CALL(index(F(3, 4), {F(2)}))},
    {Kind::shape, "index(f32[3, 4]): a mask has size 2 where axis 0 has 3",
     CALL(index(F(3, 4), {make(boolean, {2})}))},
    {Kind::value, "index(f32[3, 4]): an ellipsis may stand once, but there are 2",
     CALL(index(F(3, 4), {ellipsis, 0, ellipsis}))},
    {Kind::shape,
     "index: ravel_multi_index(indices[0]: i64[2], indices[1]: i64[3], shape = [3, 4]): indices[1] "
     "of "
     "shape [3] does not broadcast with [2]",
     CALL(index(F(3, 4), {I(2), I(3)}))},
    {Kind::dtype,
     "scatter(x: f32[3], index: i64[2], source: i64[2]): one dtype is needed, but x is f32 and "
     "source is i64",
     CALL(scatter(F(3), 0, I(2), I(2)))},
    {Kind::value,
     "scatter_reduce(f32[3], reduction = \"median\"): the reduction must be one of sum prod amax "
     "amin mean",
     CALL(scatter_reduce(F(3), 0, I(2), F(2), "median"))},
    {Kind::shape, "index must be a vector, but is i64[2, 2]",
     CALL(index_add(F(3, 4), 0, I(2, 2), F(2, 4)))},
    {Kind::shape,
     "gather_nd(x: f32[3, 4], index: i64[2, 3]): the last axis of index has size 3, but from 1 to "
     "2 axes of x can be named",
     CALL(gather_nd(F(3, 4), I(2, 3)))},
    {Kind::shape,
     "scatter_nd(x: f32[3, 4], index: i64[2, 1], source: f32[2]): source must be [2, 4], a part of "
     "x for each place, but is [2]",
     CALL(scatter_nd(F(3, 4), I(2, 1), F(2)))},
    {Kind::value,
     "scatter_nd(x: f32[3], index: i64[2, 1], source: f32[2], reduction = \"mean\"): reduction "
     "must be one of none add mul max min",
     CALL(scatter_nd(F(3), I(2, 1), F(2), "mean"))},
    {Kind::index, "cumsum(x: f32[3, 4], axis = 2): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(cumsum(F(3, 4), 2))},
    {Kind::shape,
     "linear_scan(a: f32[3], b: f32[4]): a is [3] but b is [4]; their shapes must be equal",
     CALL(linear_scan(F(3), F(4), 0))},
    {Kind::shape, "topk(x: f32[3, 4], k = 5): k = 5 must be from 0 to 4, the size of axis 1",
     CALL(topk(F(3, 4), 5))},
    {Kind::shape, "kthvalue(x: f32[3], k = 0): k = 0 must be from 1 to 3, the size of axis 0",
     CALL(kthvalue(F(3), 0))},
    {Kind::shape,
     "searchsorted(sorted: f32[2, 3], values: f32[4]): sorted must be a vector, or agree with "
     "values in all axes but the last",
     CALL(searchsorted(F(2, 3), F(4)))},
    {Kind::dtype,
     "searchsorted(sorted: f32[3], values: i64[4]): one dtype is needed, but sorted is f32 and "
     "values is i64; convert one with to()",
     CALL(searchsorted(F(3), I(4)))},
    {Kind::value, "quantile(f32[3], q = 1.500000): q must be from 0 to 1",
     CALL(quantile(F(3), 1.5, 0))},
    {Kind::value,
     "quantile(f32[3], q = 0.500000): interpolation \"cubic\" must be one of linear lower higher "
     "midpoint nearest",
     CALL(quantile(F(3), 0.5, 0, false, "cubic"))},
    {Kind::shape,
     "bincount(x: i64[2, 2], weights: none): x must be a vector; reshape(x, {-1}) makes one",
     CALL(bincount(I(2, 2)))},
    {Kind::value,
     "histc(f32[3], bins = 0): there must be 1 bin or more, and low must not be above high",
     CALL(histc(F(3), 0))},
    {Kind::value,
     "pad(f32[3], low = [1], high = [0], mode = \"mirror\"): the mode must be one of constant "
     "reflect edge replicate wrap circular",
     CALL(pad(F(3), Shape{1}, Shape{0}, "mirror"))},
    {Kind::shape,
     "pad(f32[0], low = [3], high = [0], mode = \"reflect\"): axis 0 of size 0 has no 3 elements "
     "to take",
     CALL(pad(F(0), Shape{3}, Shape{0}, "reflect"))},
    {Kind::value,
     "pad(f32[3], low = [-1], high = [0], mode = \"edge\"): only mode \"constant\" crops; slice() "
     "does it here",
     CALL(pad(F(3), Shape{-1}, Shape{0}, "edge"))},
    {Kind::shape, "unfold(x: f32[3], size = 4): axis 0 has size 3, which holds no window of 4",
     CALL(unfold(F(3), 0, 4, 1))},
    {Kind::shape, "as_strided(f32[3], shape = [2, 2]): it reaches from element 0 to 3, but x has 3",
     CALL(as_strided(F(3), {2, 2}, {2, 1}))},
    {Kind::shape, "depth_to_space(x: f32[1, 6, 2, 2], block = 2): c = 6 must be a multiple of 4",
     CALL(depth_to_space(F(1, 6, 2, 2), 2))},
    {Kind::shape,
     "space_to_depth(x: f32[4, 4], block = 2): x must be an image [n, c, h, w], but has 2 axes",
     CALL(space_to_depth(F(4, 4), 2))},
    {Kind::shape,
     "reverse_sequence(x: f32[4, 3], lengths: i64[2]): lengths must "
     "be [3], one for each sequence of axis 1",
     CALL(reverse_sequence(F(4, 3), I(2)))},
    {Kind::value, "flip(f32[3, 4]): axis 1 is named twice", CALL(flip(F(3, 4), {1, -1}))},
    {Kind::value, "roll(f32[3, 4]): 2 shifts for 1 axes; each axis needs its shift",
     CALL(roll(F(3, 4), {1, 2}, {0}))},
    {Kind::value, "movedim(f32[3, 4]): an axis is named twice",
     CALL(movedim(F(3, 4), {0, 0}, {0, 1}))},
    {Kind::shape,
     "norm(x: f32[0], p = -inf): axis 0 has size 0, and no elements have no largest or smallest "
     "one",
     CALL(norm(F(0), -std::numeric_limits<double>::infinity()))},
};

TEST(ArraysErrors, NameTheRule) {
  interpret_kernels();
  expect_errors(kArrayCalls, "arrays_errors_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
