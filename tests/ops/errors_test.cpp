#include <gtest/gtest.h>

#include <limits>

#include "bad_calls.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/registry.h"

namespace dyad::testing {
namespace {

const std::vector<BadCall>& bad_calls() {
  static const std::vector<BadCall> calls = {
      {Kind::shape,
       "add(a: f32[3, 4], b: f32[5]): shapes [3, 4] and [5] do not broadcast: axis 1 is 4 in a and "
       "5 in b; sizes must be equal or one of them 1",
       CALL(F(3, 4) + F(5))},
      {Kind::dtype,
       "sub(a: bool[2], b: bool[2]): bool tensors have no difference; compare them with != or cast "
       "one with to()",
       CALL(make(boolean, {2}) - make(boolean, {2}))},
      {Kind::dtype,
       "where(condition: f32[2], a: f32[2], b: f32[2]): condition must be bool but is f32; cast it "
       "with condition.to(bool)",
       CALL(where(F(2), F(2), F(2)))},
      {Kind::value,
       "clamp(x: f32[2], low = 1.0, high = 0.0): low = 1.0 must not be above high = 0.0",
       CALL(clamp(F(2), 1, 0))},
      {Kind::index, "sum(x: f32[3, 4], axes = [2]): axis 2 is out of range for 2 axes (-2 to 1)",
       CALL(sum(F(3, 4), {2}))},
      {Kind::value, "mean(x: f32[3, 4], axes = [1, -1]): axis 1 is named twice",
       CALL(mean(F(3, 4), {1, -1}))},
      {Kind::shape,
       "max(x: f32[3, 0], axes = [1]): axis 1 has size 0, and no elements have no largest or "
       "smallest one",
       CALL(max(F(3, 0), {1}))},
      {Kind::index,
       "argmax(x: f32[], axis = 1): axis 1 is out of range for a scalar, which has no axes",
       CALL(argmax(F(), 1))},
      {Kind::shape,
       "reshape(x: f32[3, 4], shape = [5, 2]): [3, 4] has 12 elements, which [5, 2] does not hold "
       "(it takes 10)",
       CALL(reshape(F(3, 4), {5, 2}))},
      {Kind::shape,
       "reshape(x: f32[3, 4], shape = [5, -1]): [3, 4] has 12 elements, which [5, -1] does not "
       "hold",
       CALL(reshape(F(3, 4), {5, -1}))},
      {Kind::value, "reshape(x: f32[3, 4], shape = [-1, -1]): only one size may be -1",
       CALL(reshape(F(3, 4), {-1, -1}))},
      {Kind::shape,
       "permute(x: f32[3, 4], axes = [1]): axes must name each of the 2 axes once, but has 1",
       CALL(permute(F(3, 4), {1}))},
      {Kind::shape,
       "squeeze(x: f32[3, 4], axis = 1): axis 1 has size 4, only a size of 1 can go; take one part "
       "with select()",
       CALL(squeeze(F(3, 4), 1))},
      {Kind::shape,
       "expand(x: f32[3, 4], shape = [3, 5]): axis 1 of x has size 4, which does not broadcast to "
       "5; only a size of 1 does",
       CALL(expand(F(3, 4), {3, 5}))},
      {Kind::shape,
       "assume_shape(x: f32[3, 4], shape = [3, 5]): axis 1 of x has size 4, but must have 5",
       CALL(assume_shape(F(3, 4), {3, 5}))},
      {Kind::shape, "assume_shape(x: f32[3, 4], shape = [3]): the shape has 1 axes, x has 2",
       CALL(assume_shape(F(3, 4), {3}))},
      {Kind::index, "select(x: f32[3, 4], index = 3): index 3 is out of range for axis 0 of size 3",
       CALL(select(F(3, 4), 0, 3))},
      {Kind::shape, "split(f32[4], sizes = [1, 2]): the sizes add up to 3 but axis 0 has size 4",
       CALL(split(F(4), {1, 2}))},
      {Kind::shape,
       "concat(tensors[0]: f32[2, 3], tensors[1]: f32[3, 3], axis = 1): axis 0 of tensors[0] has "
       "size 2, of tensors[1] 3; only axis 1 may differ",
       CALL(concat({F(2, 3), F(3, 3)}, 1))},
      {Kind::shape,
       "pad(x: f32[2], low = [-3], high = [0]): axis 0 of size 2 cannot be cropped to -1",
       CALL(pad(F(2), {-3}, {0}))},
      {Kind::shape,
       "slice_scatter(x: f32[3, 4], source: f32[3, 4], end = 2): the part of x to replace is "
       "f32[2, 4], but source is f32[3, 4]; their shapes must be equal",
       CALL(slice_scatter(F(3, 4), F(3, 4), 0, 0, 2))},
      {Kind::dtype,
       "select_scatter(x: f32[3, 4], source: i64[4], index = 1): one dtype is needed, but x is f32 "
       "and source is i64",
       CALL(select_scatter(F(3, 4), I(4), 0, 1))},
      {Kind::index,
       "select_scatter(x: f32[3, 4], source: f32[4], index = 3): index 3 is out of range for axis "
       "0 of size 3",
       CALL(select_scatter(F(3, 4), F(4), 0, 3))},
      {Kind::shape,
       "gather(x: f32[3, 4], index: i64[3], axis = 1): x has 2 axes but index has 1; they must be "
       "equal (index_select takes whole slices)",
       CALL(gather(F(3, 4), 1, I(3)))},
      {Kind::dtype,
       "gather(x: f32[3, 4], index: f32[3, 4], axis = 1): index must be one of i64 i32 but is f32; "
       "cast it with index.to(i64)",
       CALL(gather(F(3, 4), 1, F(3, 4)))},
      {Kind::shape,
       "scatter_add(x: f32[3], index: i64[2], source: f32[1]): axis 0 of index has size 2, of "
       "source 1; their shapes must be equal",
       CALL(scatter_add(F(3), 0, I(2), F(1)))},
      {Kind::shape, "matmul(a: f32[3, 4], b: f32[5, 2]): columns of a = 4 but rows of b = 5",
       CALL(matmul(F(3, 4), F(5, 2)))},
      {Kind::shape, "matmul(a: f32[3, 4], b: f32[3]): columns of a = 4 but elements of b = 3",
       CALL(matmul(F(3, 4), F(3)))},
      {Kind::dtype,
       "matmul(a: f32[3, 4], b: i64[4, 2]): one dtype is needed, but a is f32 and b is i64; "
       "convert one with to()",
       CALL(matmul(F(3, 4), I(4, 2)))},
      {Kind::shape,
       "linear(x: f32[2, 3], weight: f32[5, 4], bias: none): the last axis of x has size 3 but "
       "weight takes 4",
       CALL(linear(F(2, 3), F(5, 4)))},
      {Kind::shape,
       "cross_entropy(logits: f32[4, 3], target: i64[4, 3]): target must be [4], logits without "
       "its axis of classes (1), but is [4, 3]; class indices are wanted, argmax() gives them from "
       "one-hot rows",
       CALL(cross_entropy(F(4, 3), I(4, 3)))},
      {Kind::shape,
       "mse_loss(prediction: f32[4, 1], target: f32[4]): prediction is [4, 1] but target is [4]; "
       "reshape() one, or expand() it if the broadcast is meant",
       CALL(mse_loss(F(4, 1), F(4)))},
      {Kind::shape,
       "batch_norm_train(x: f32[2, 3], weight: f32[3], bias: f32[2]): bias must be [3], the "
       "channels of x (axis 1), but is [2]",
       CALL(batch_norm_train(F(2, 3), F(3), F(2)))},
      {Kind::value,
       "dropout(x: f32[2], seed: i64[], offset: i64[], p = 1.5): p must be from 0 to 1",
       CALL(dropout(F(2), 1.5))},
      {Kind::value, "randint(low = 3, high = 3): high must be above low, by at most 2^53",
       CALL(randint(3, 3, {2}))},
      {Kind::shape,
       "t(f32[2, 3, 4]): a matrix is needed, which has 2 axes; transpose() takes any two",
       CALL(F(2, 3, 4).t())},
      // Functions that are made of operators are named before the one that refuses.
      {Kind::dtype,
       "take: index_select(x: f32[6], index: f32[2]): index must be one of i64 i32 but is f32; "
       "cast it "
       "with index.to(i64)",
       CALL(take(F(2, 3), F(2)))},
      {Kind::dtype,
       "index_copy: scatter(x: f32[2, 3], index: f32[2, 3], source: f32[2, 3]): index must be one "
       "of "
       "i64 i32 but is f32; cast it with index.to(i64)",
       CALL(index_copy(F(2, 3), 0, F(2), F(2, 3)))},
      {Kind::shape, "dot: matmul(a: f32[2], b: f32[3]): elements of a = 2 but elements of b = 3",
       CALL(dot(F(2), F(3)))},
      {Kind::shape,
       "cosine_similarity: mul(a: f32[2, 3], b: f32[2, 4]): shapes [2, 3] and [2, 4] do not "
       "broadcast: axis 1 is 3 in a and 4 in b; sizes must be equal or one of them 1",
       CALL(cosine_similarity(F(2, 3), F(2, 4)))},
      {Kind::shape, "add_ on f32[3]: the result would be [2, 3], but in place the shape [3] stays",
       [](const Make& make) {
         Tensor x = F(3);
         x.add_(F(2, 3));
       }},
      {Kind::dtype,
       "mul_ on i64[3]: the result would be f32, but in place the dtype i64 stays; convert the "
       "operand with to()",
       [](const Make& make) {
         Tensor x = I(3);
         x.mul_(0.5);
       }},
  };
  return calls;
}

TEST(Errors, ANodesProductTakesMatrices) {
  ops::register_builtin_ops();
  const Types types{Type(f32, {3, 4}), Type(f32, {4})};
  const ops::MatmulAttrs attrs;
  try {
    static_cast<void>(infer_types(*find_op("matmul"), types, &attrs, Loc()));
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_EQ(error.message(),
              "matmul(a: f32[3, 4], b: f32[4]): b has 1 axis, a matrix product needs 2 or more");
  }
}

TEST(Errors, NameTheRule) { expect_errors(bad_calls(), "errors_test.cpp"); }

}  // namespace
}  // namespace dyad::testing
