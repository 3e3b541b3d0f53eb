#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "bad_calls.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

TEST(Errors, OfProducts) {
  expect_errors(
      {
          {Kind::shape,
           "einsum(tensors[0]: f32[2, 3], tensors[1]: f32[4, 5], equation = \"ij,jk->ik\"): "
           "subscript 'j' has size 3 in operand 0 but 4 in operand 1",
           CALL(einsum("ij,jk->ik", {F(2, 3), F(4, 5)}))},
          {Kind::shape,
           "einsum(tensors[0]: f32[2, 3], equation = \"ijk\"): the term 'ijk' names 3 axes, but "
           "operand 0 has 2",
           CALL(einsum("ijk", {F(2, 3)}))},
          {Kind::shape,
           "einsum(tensors[0]: f32[2, 3], equation = \"ii\"): subscript 'i' names axes of sizes 2 "
           "and 3 of operand 0, which have no diagonal",
           CALL(einsum("ii", {F(2, 3)}))},
          {Kind::value,
           "einsum(tensors[0]: f32[2, 3], equation = \"ij,jk\"): the equation has 2 terms for 1 "
           "operand",
           CALL(einsum("ij,jk", {F(2, 3)}))},
          {Kind::value,
           "einsum(tensors[0]: f32[2, 3], equation = \"ij->ik\"): the result 'ik' names 'k', which "
           "no operand has",
           CALL(einsum("ij->ik", {F(2, 3)}))},
          {Kind::value,
           "einsum(tensors[0]: f32[2, 3], equation = \"ij->ii\"): the result 'ii' names 'i' twice",
           CALL(einsum("ij->ii", {F(2, 3)}))},
          {Kind::value,
           "einsum(tensors[0]: f32[2, 3], equation = \"i1\"): the term 'i1' has '1', where only "
           "letters and ... may stand",
           CALL(einsum("i1", {F(2, 3)}))},
          {Kind::value,
           "einsum(tensors[0]: f32[2, 3], equation = \"......\"): the term '......' has ... twice",
           CALL(einsum("......", {F(2, 3)}))},
          {Kind::value,
           "einsum(tensors[0]: f32[2, 3], equation = \"ij->...\"): the result '...' has ..., which "
           "no operand has",
           CALL(einsum("ij->...", {F(2, 3)}))},
          {Kind::dtype,
           "einsum(tensors[0]: f32[2], tensors[1]: i64[2], equation = \"i,i\"): one dtype is "
           "needed, but operand 0 is f32 and operand 1 is i64; convert one with to()",
           CALL(einsum("i,i", {F(2), I(2)}))},
          {Kind::dtype,
           "einsum(tensors[0]: c64[2], tensors[1]: f32[2], equation = \"i,i\"): one dtype is "
           "needed, but operand 0 is c64 and operand 1 is f32; convert one with to()",
           CALL(einsum("i,i", {make(c64, {2}), F(2)}))},
          {Kind::shape,
           "einsum(tensors[0]: c64[2], tensors[1]: c64[3], equation = \"i,i\"): subscript 'i' has "
           "size 2 in operand 0 but 3 in operand 1",
           CALL(einsum("i,i", {make(c64, {2}), make(c64, {3})}))},
          {Kind::shape,
           "bmm(a: f32[2, 3, 4], b: f32[3, 4, 5]): a has 2 matrices but b has 3; matmul() "
           "broadcasts a batch of one",
           CALL(bmm(F(2, 3, 4), F(3, 4, 5)))},
          {Kind::shape,
           "mm(a: f32[2, 3], b: f32[3]): both operands must be matrices, of 2 axes; matmul() takes "
           "any number of axes",
           CALL(mm(F(2, 3), F(3)))},
          {Kind::shape,
           "addmm: input is f32[3], which does not broadcast to the product, f32[2, 4]",
           CALL(addmm(F(3), F(2, 3), F(3, 4)))},
          {Kind::value,
           "tensordot(a: f32[2, 3], b: f32[3, 2]): axes_a has 2 axes and axes_b has 1; they go in "
           "pairs",
           CALL(tensordot(F(2, 3), F(3, 2), {0, 1}, {0}))},
          {Kind::value,
           "tensordot(a: f32[2, 3], b: f32[3, 2]): axes = 3 must be from 0 to the smaller number "
           "of axes, 2",
           CALL(tensordot(F(2, 3), F(3, 2), 3))},
          {Kind::value, "tensordot(a: f32[2, 2], b: f32[2, 2]): an axis is named twice",
           CALL(tensordot(F(2, 2), F(2, 2), {0, 0}, {0, 1}))},
          {Kind::value, "multi_dot: a chain of two or more matrices is needed, this one has 1",
           CALL(multi_dot({F(2, 3)}))},
          {Kind::shape, "multi_dot: operand 1 is f32[3], but a matrix is needed",
           CALL(multi_dot({F(2, 3), F(3), F(3, 2)}))},
          {Kind::shape,
           "matrix_power(x: f32[2, 3], n = 2): square matrices are needed, [..., n, n]",
           CALL(matrix_power(F(2, 3), 2))},
          {Kind::shape,
           "cross(a: f32[2, 3], b: f32[2, 4]): axis -1 of b has size 4, a vector product needs 3",
           CALL(cross(F(2, 3), F(2, 4)))},
          {Kind::shape,
           "cdist(a: f32[2, 3], b: f32[2, 4]): rows of one length are needed, [..., m, k] and "
           "[..., n, k]",
           CALL(cdist(F(2, 3), F(2, 4)))},
          {Kind::value, "cdist(a: f32[2, 3], b: f32[2, 3]): p = -1.000000 must not be negative",
           CALL(cdist(F(2, 3), F(2, 3), -1))},
      },
      "linalg_errors_test.cpp");
}

TEST(Errors, OfMatrices) {
  expect_errors(
      {
          {Kind::shape,
           "inverse(x: f32[2, 3]): x must hold square matrices, but has 2 rows and 3 columns",
           CALL(inverse(F(2, 3)))},
          {Kind::shape,
           "det(x: f32[3]): x has 1 axis, but matrices are needed: [..., rows, columns]",
           CALL(det(F(3)))},
          {Kind::shape, "solve(a: f32[3, 3], b: f32[2, 1]): a has 3 rows but b has 2",
           CALL(solve(F(3, 3), F(2, 1)))},
          {Kind::shape,
           "solve(a: f32[2, 3, 3], b: f32[4, 3, 1]): the axes before the last two, [2] and [4], do "
           "not broadcast",
           CALL(solve(F(2, 3, 3), F(4, 3, 1)))},
          {Kind::dtype,
           "solve(a: f32[3, 3], b: f64[3, 1]): one dtype is needed, but a is f32 and b is f64; "
           "convert one with to()",
           CALL(solve(F(3, 3), make(f64, {3, 1})))},
          {Kind::shape,
           "cholesky(x: f32[2, 3]): x must hold square matrices, but has 2 rows and 3 columns",
           CALL(cholesky(F(2, 3)))},
          {Kind::shape,
           "svd(x: f32[]): x has 0 axes, but matrices are needed: [..., rows, columns]",
           CALL(svd(F()))},
          {Kind::shape,
           "eigh(x: f32[2, 3]): x must hold square matrices, but has 2 rows and 3 columns",
           CALL(eigh(F(2, 3)))},
          {Kind::shape,
           "matrix_exp(x: f32[2, 3]): x must hold square matrices, but has 2 rows and 3 columns",
           CALL(matrix_exp(F(2, 3)))},
      },
      "linalg_errors_test.cpp");
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(MatrixErrors, NameTheMatrixThatIsSingular) {
  const Tensor good = eye(2), bad = tensor({{1.f, 2.f}, {2.f, 4.f}});
  EXPECT_EQ(bare_message_of<ValueError>([&] { (void)inverse(bad); }),
            "inverse(x: f32[2, 2]): the matrix is singular: pivot 2 of its LU factors is 0; pinv() "
            "and lstsq() take singular matrices");
  // The first one, whichever thread meets another one before it.
  std::vector<Tensor> many(300, good);
  many[150] = many[151] = many[299] = bad;
  const Tensor batch = reshape(stack(many), {2, 150, 2, 2});
  EXPECT_EQ(bare_message_of<ValueError>([&] { (void)solve(batch, good); }),
            "solve(a: f32[2, 150, 2, 2], b: f32[2, 2]): matrix [1, 0] of the batch is singular: "
            "pivot 2 of its LU factors is 0; pinv() and lstsq() take singular matrices");
  EXPECT_EQ(bare_message_of<ValueError>([&] {
              (void)triangular_solve(stack({good, tensor({{1.f, 0.f}, {5.f, 0.f}}), good}), good,
                                     false);
            }),
            "triangular_solve(a: f32[3, 2, 2], b: f32[2, 2]): matrix [1] of the batch is singular: "
            "element 1 of its diagonal is 0");
}

TEST(MatrixErrors, TellWhatIsNotPositiveDefinite) {
  EXPECT_EQ(bare_message_of<ValueError>([] { (void)cholesky(tensor({{1.f, 2.f}, {2.f, 1.f}})); }),
            "cholesky(x: f32[2, 2]): the matrix is not positive definite: its leading minor of "
            "order 2 is not positive");
  EXPECT_EQ(
      bare_message_of<ValueError>([] { (void)cholesky(tensor({{1.0, 0.0}, {0.0, kNan}}), true); }),
      "cholesky(x: f64[2, 2], upper = true): the matrix is not positive definite: its "
      "leading minor of order 2 is NaN");
}

TEST(MatrixErrors, TellWhereANanStands) {
  const Tensor x = tensor({{{1.0, 0.0}, {0.0, 1.0}}, {{1.0, kNan}, {0.0, 1.0}}});
  EXPECT_EQ(
      bare_message_of<ValueError>([&] { (void)svd(x, false); }),
      "svd(x: f64[2, 2, 2], full_matrices = false): matrix [1] of the batch holds NaN at [0, 1]");
  const Tensor infinite = tensor({{1.0, 0.0}, {0.0, std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(bare_message_of<ValueError>([&] { (void)eigvalsh(infinite); }),
            "eigvalsh(x: f64[2, 2]): the matrix holds an infinity at [1, 1]");
}

TEST(MatrixErrors, NanGoesThroughWhatIsDefinedForIt) {
  const Tensor x = tensor({{1.0, kNan}, {0.0, 1.0}});
  EXPECT_TRUE(std::isnan(inverse(x)[0][0].item<double>()) ||
              std::isnan(inverse(x)[0][1].item<double>()));
  EXPECT_TRUE(std::isnan(slogdet(tensor({{kNan, 1.0}, {1.0, 1.0}})).logabsdet.item<double>()));
}

TEST(MatrixErrors, FactorsWithoutAGradientSaySo) {
  Tensor x = tensor({{1.0, 2.0}, {3.0, 5.0}, {2.0, 2.0}});
  x.requires_grad();
  EXPECT_EQ(bare_message_of<GradError>([&] { (void)gradients(sum(qr(x, true).q), {x}); }),
            "the gradient of qr(f64[3, 3] @ f64[3, 2]): the complete factors of a matrix with more "
            "rows than columns have none; use the reduced ones");
  EXPECT_EQ(bare_message_of<GradError>([&] { (void)gradients(sum(svd(x).u), {x}); }),
            "the gradient of svd: u of a matrix that is not square has columns that the matrix "
            "does not determine; use full_matrices = false");
  EXPECT_TRUE(gradients(sum(svd(x).s), {x})[0].defined());
}

}  // namespace
}  // namespace dyad::testing
