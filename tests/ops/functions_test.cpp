#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/ops/ops.h"

namespace dyad {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Operators : public testing::Interpreted {};
class InPlace : public testing::Interpreted {};
class Views : public testing::Interpreted {};
class Functions : public testing::Interpreted {};
class Random : public testing::Interpreted {};
class Indices : public testing::Interpreted {};

std::vector<double> list(const Tensor& x) { return x.to_vector<double>(); }

Tensor counted(Shape shape, DType dtype = f32) {
  const std::int64_t count = shape.numel().value();
  return reshape(arange(count, dtype), std::move(shape));
}

TEST_F(Operators, MeetNumbersInTheDtypeOfTheTensor) {
  const Tensor x = tensor({1.0f, 2.0f, 4.0f}), n = tensor({1, 2, 4}, i32);
  EXPECT_THAT(list(x + 1), ElementsAre(2, 3, 5));
  EXPECT_THAT(list(1 - x), ElementsAre(0, -1, -3));
  EXPECT_THAT(list(2 * x), ElementsAre(2, 4, 8));
  EXPECT_THAT(list(8 / x), ElementsAre(8, 4, 2));
  EXPECT_THAT(list(-x), ElementsAre(-1, -2, -4));
  EXPECT_EQ((x * 2.5).dtype(), f32);
  EXPECT_EQ((n * 2).dtype(), i32);
  EXPECT_EQ((n * 2.5).dtype(), f32);
  EXPECT_EQ((to(x, f16) + 0.5).dtype(), f16);
  EXPECT_EQ((to(x, bf16) + 1).dtype(), bf16);
  EXPECT_EQ((n / 2).dtype(), f32);
  EXPECT_EQ((tensor({true, false}) + 1).dtype(), i64);
}

TEST_F(Operators, Compare) {
  const Tensor x = tensor({1.0f, 2.0f, 4.0f});
  EXPECT_THAT(list(x < 2), ElementsAre(1, 0, 0));
  EXPECT_THAT(list(x <= 2), ElementsAre(1, 1, 0));
  EXPECT_THAT(list(2 > x), ElementsAre(1, 0, 0));
  EXPECT_THAT(list(x >= 2), ElementsAre(0, 1, 1));
  EXPECT_THAT(list(x == 2), ElementsAre(0, 1, 0));
  EXPECT_THAT(list(x != 2), ElementsAre(1, 0, 1));
  EXPECT_EQ((x == 2).dtype(), boolean);
  EXPECT_TRUE(static_cast<bool>(all(x > 0)));
}

TEST_F(InPlace, KeepsTheTensorAndItsDtype) {
  Tensor x = tensor({1.0f, 2.0f, 4.0f});
  const Tensor same = x;
  x += 1;
  x *= tensor({2.0f, 2.0f, 0.5f});
  x -= tensor(1.0f);
  x /= 3;
  EXPECT_THAT(list(same), ElementsAre(1, ::testing::DoubleNear(5 / 3.0, 1e-6), 0.5));
  EXPECT_TRUE(x.is_same(same));
  x.copy_(tensor(7.0f, f64));
  EXPECT_THAT(list(same), ElementsAre(7, 7, 7));
  x.fill_(-1);
  EXPECT_THAT(list(same), ElementsAre(-1, -1, -1));
  Tensor half = to(x, f16);
  half.add_(tensor({0.5f, 0.25f, 0.0f}));
  EXPECT_EQ(half.dtype(), f16);
  EXPECT_THAT(list(half), ElementsAre(-0.5, -0.75, -1));
}

// The first call of a kind writes a result that it has computed, later ones work in the memory
// itself.
TEST_F(InPlace, OperandsInTheSameMemoryAreReadBeforeTheyAreWritten) {
  for (int call = 0; call < 3; ++call) {
    Tensor x = tensor({1.0f, 2.0f, 3.0f, 4.0f});
    const float* memory = x.data<float>();
    x.add_(x);
    EXPECT_THAT(list(x), ElementsAre(2, 4, 6, 8));
    x.mul_(x[1]);
    EXPECT_THAT(list(x), ElementsAre(8, 16, 24, 32));
    x.slice(0, 1, 4).sub_(x.slice(0, 0, 3));
    EXPECT_THAT(list(x), ElementsAre(8, 8, 8, 8));
    x.slice(0, 0, 2).div_(x.slice(0, 2, 4) * 2);
    EXPECT_THAT(list(x), ElementsAre(0.5, 0.5, 8, 8));
    EXPECT_EQ(x.data<float>(), memory);
  }
}

TEST_F(InPlace, KeepsShapeAndDtypeAtEveryCall) {
  Tensor row = ones({1, 2}), column = ones({2, 1}), whole = ones({2}, i32);
  for (int call = 0; call < 3; ++call) {
    EXPECT_THROW(row.add_(column), ShapeError);
    EXPECT_THROW(row.add_(ones({2, 2})), ShapeError);
    EXPECT_THROW(whole.mul_(1.5), DTypeError);
    Tensor narrow = to(ones({2}), f16);
    narrow.add_(ones({2}));
    EXPECT_EQ(narrow.dtype(), f16);
    EXPECT_THAT(list(narrow), Each(2));
  }
}

TEST_F(InPlace, WritesThroughViews) {
  Tensor x = zeros({2, 3});
  x[1].fill_(5);
  x.slice(1, 0, 1).copy_(tensor(2.0f));
  EXPECT_THAT(list(x), ElementsAre(2, 0, 0, 2, 5, 5));
}

TEST_F(Views, ShareTheElements) {
  Tensor x = counted({2, 6});
  EXPECT_EQ(reshape(x, {3, 4}).raw_data(), x.raw_data());
  EXPECT_EQ(x.t().raw_data(), x.raw_data());
  EXPECT_EQ(x.t().flatten().raw_data() == x.raw_data(), false);
  EXPECT_EQ(contiguous(x).raw_data(), x.raw_data());
  EXPECT_TRUE(contiguous(x.t()).is_contiguous());
  EXPECT_NE(clone(x).raw_data(), x.raw_data());
  EXPECT_THAT(list(x.t().reshape({3, 4})), ElementsAre(0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11));
  // A column of a matrix and a run of its rows need no copy either.
  EXPECT_EQ(x.slice(1, 2, 4).unsqueeze(1).reshape({2, 2}).raw_data(), x.slice(1, 2, 4).raw_data());
  EXPECT_EQ(expand(x.select(1, 0), {4, 2}).strides()[0], 0);
}

TEST_F(Views, SplitAndChunk) {
  const Tensor x = counted({7, 2});
  const auto parts = split(x, {1, 4, 2});
  EXPECT_EQ(type_string(parts[1]), "f32[4, 2]");
  EXPECT_THAT(list(parts[2]), ElementsAre(10, 11, 12, 13));
  const auto thirds = chunk(x, 3);
  ASSERT_EQ(thirds.size(), 3u);
  EXPECT_EQ(type_string(thirds[2]), "f32[1, 2]");
  EXPECT_EQ(chunk(x, 5).size(), 4u);  // of 2, 2, 2 and 1
  EXPECT_EQ(chunk(x, 2, 1).size(), 2u);
}

TEST_F(Functions, WrittenInOtherOperators) {
  const Tensor x = tensor({{1.0, 2.0, 6.0}, {0.0, 0.0, 3.0}});
  EXPECT_THAT(list(var(x, {1})), ElementsAre(7, 3));
  EXPECT_THAT(list(var(x, {-1}, 0, true)), ElementsAre(::testing::DoubleEq(14 / 3.0), 2));
  EXPECT_NEAR(var(x).item(), 5.2, 1e-12);
  EXPECT_THAT(list(square(x[0])), ElementsAre(1, 4, 36));
  EXPECT_EQ(square(x[0] > 1).dtype(), i64);
  EXPECT_THAT(list(square(x[0] > 1)), ElementsAre(0, 1, 1));
  EXPECT_THAT(list(pow(x[0], 2)), ElementsAre(1, 4, 36));
  EXPECT_EQ(pow(tensor({3}, i64), 2.0).dtype(), f32);
  EXPECT_THAT(list(one_hot(tensor({2, 0, 5}, i64), 3)), ElementsAre(0, 0, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(list(embedding(tensor({1, 1}, i64), x)), ElementsAre(0, 0, 3, 0, 0, 3));
  EXPECT_EQ(type_string(stack({x, x}, -1)), "f64[2, 3, 2]");
  EXPECT_EQ(concat({tensor({1}, i32), tensor({2.5f})}).dtype(), f32);
  EXPECT_THAT(list(arange(1, 8, 3)), ElementsAre(1, 4, 7));
  EXPECT_THAT(list(arange(3, 0, -1, f32)), ElementsAre(3, 2, 1));
  EXPECT_THAT(list(arange(2, 2)), ElementsAre());
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(), kMost = ~kLeast;
  EXPECT_EQ(arange(kLeast, kMost, kMost).to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{kLeast, -1, kMost - 1}));
  EXPECT_THROW((void)arange(kLeast, kMost), ShapeError);
  EXPECT_THAT(list(zeros_like(x[0])), ElementsAre(0, 0, 0));
  EXPECT_EQ(ones_like(x).dtype(), f64);
  EXPECT_TRUE(to(x, f64).is_same(x));
  EXPECT_TRUE(dropout(x, 0.5, false).is_same(x));
}

TEST_F(Functions, ProductsWithVectors) {
  const Tensor m = counted({2, 3}), v = tensor({1.0f, 0.0f, 2.0f}), w = tensor({1.0f, -1.0f});
  EXPECT_THAT(list(matmul(m, v)), ElementsAre(4, 13));
  EXPECT_THAT(list(matmul(w, m)), ElementsAre(-3, -3, -3));
  EXPECT_EQ(matmul(v, v).item(), 5);
  EXPECT_EQ(matmul(v, v).rank(), 0);
  EXPECT_EQ(type_string(matmul(expand(m, {4, 2, 3}), v)), "f32[4, 2]");
}

TEST_F(Random, IsAFunctionOfTheSeed) {
  manual_seed(7);
  const auto first = list(normal({5})), second = list(normal({5}));
  manual_seed(7);
  EXPECT_EQ(list(normal({5})), first);
  EXPECT_EQ(list(normal({5})), second);
  EXPECT_NE(first, second);
  manual_seed(8);
  EXPECT_NE(list(normal({5})), first);
}

TEST_F(Random, NumbersDoNotRunIntoOneAnother) {
  manual_seed(3);
  const auto long_run = list(uniform({10}));
  manual_seed(3);
  const auto a = list(uniform({4})), b = list(uniform({6}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(a[i], long_run[i]);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(b[i], long_run[4 + i]);
}

/// Within 6 standard deviations of what the distribution says.
void expect_mean(const Tensor& x, double mean, double std) {
  const double count = static_cast<double>(x.numel().value());
  EXPECT_NEAR(dyad::mean(to(x, f64)).item(), mean, 6 * std / std::sqrt(count));
}

TEST_F(Random, FollowsItsDistribution) {
  manual_seed(1);
  const Tensor u = uniform({100000}, -1, 3), z = normal({100000}, 2, 0.5);
  expect_mean(u, 1, 4 / std::sqrt(12.0));
  EXPECT_GE(min(u).item(), -1);
  EXPECT_LT(max(u).item(), 3);
  expect_mean(z, 2, 0.5);
  EXPECT_NEAR(var(z).item(), 0.25, 0.01);
  expect_mean(square((z - 2) / 0.5) * square((z - 2) / 0.5), 3, std::sqrt(96.0));
  const Tensor heads = bernoulli(full({100000}, 0.3));
  expect_mean(heads, 0.3, std::sqrt(0.21));
  EXPECT_THAT(list(heads * (1 - heads)), Each(0));
  const Tensor dice = randint(1, 7, {60000});
  EXPECT_EQ(dice.dtype(), i64);
  for (int face = 1; face <= 6; ++face) {
    expect_mean(to(dice == face, f64), 1 / 6.0, std::sqrt(5.0) / 6);
  }
  const Tensor wide = randint(-(std::int64_t{1} << 52), std::int64_t{1} << 52, {1000});
  EXPECT_LT(min(wide).item<std::int64_t>(), 0);
  EXPECT_GT(max(wide).item<std::int64_t>(), 0);
}

TEST_F(Random, DropoutScalesWhatStays) {
  manual_seed(5);
  const Tensor x = ones({10000}), y = dropout(x, 0.2);
  expect_mean(y, 1, 0.5);
  EXPECT_THAT(list(y * (y - 1.25)), Each(::testing::DoubleNear(0, 1e-6)));
}

template <class E>
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    EXPECT_EQ(to_string(e.where()).substr(0, 19), "functions_test.cpp:") << e.what();
    return e.message();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST_F(Indices, OutOfRangeAreErrorsWhenTheOperatorRuns) {
  const Tensor x = counted({3, 2});
  EXPECT_THAT(message<IndexError>([&] { (void)gather(x, 0, tensor({{3, 0}}, i64)); }),
              HasSubstr("3"));
  EXPECT_THAT(message<IndexError>([&] { (void)index_select(x, 0, tensor({0, -4}, i64)); }),
              HasSubstr("-4"));
  EXPECT_THAT(message<IndexError>([&] { (void)embedding(tensor({9}, i64), x); }), HasSubstr("9"));
  EXPECT_THAT(
      message<IndexError>([&] { (void)scatter_add(x, 1, tensor({{2}}, i64), tensor({{1.0f}})); }),
      HasSubstr("2"));
  // A class that does not exist is found in the expansion, and told at the user's line.
  EXPECT_THAT(message<IndexError>([&] { (void)cross_entropy(x, tensor({0, 1, 2}, i64)); }),
              HasSubstr("2"));
}

}  // namespace
}  // namespace dyad
