#include "dyad/core/create.h"

#include <gtest/gtest.h>

#include <array>
#include <list>

#include "dyad/base/error.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::bare_message_of;

std::string shown(const Tensor& tensor) { return type_string(tensor) + " " + to_string(tensor); }

TEST(Create, ScalarsAndNestedLists) {
  EXPECT_EQ(shown(tensor(15.0f)), "f32[] 15.0");
  EXPECT_EQ(shown(tensor(3)), "i32[] 3");
  EXPECT_EQ(shown(tensor(true)), "bool[] True");
  EXPECT_EQ(shown(tensor({1, 2, 3})), "i32[3] [1 2 3]");
  EXPECT_EQ(shown(tensor({5})), "i32[1] [5]");
  EXPECT_EQ(shown(tensor({{1.f, 2.f}, {3.f, 4.f}})), "f32[2, 2] [[1. 2.]\n [3. 4.]]");
  EXPECT_EQ(shown(tensor({{1.0}, {2.0}})), "f64[2, 1] [[1.]\n [2.]]");
  EXPECT_EQ(shown(tensor({{1, 2}})), "i32[1, 2] [[1 2]]");
  EXPECT_EQ(shown(tensor({{{1}}})), "i32[1, 1, 1] [[[1]]]");
  EXPECT_EQ(shown(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}})),
            "i32[2, 2, 2] [[[1 2]\n  [3 4]]\n\n [[5 6]\n  [7 8]]]");
  EXPECT_EQ(shown(tensor({})), "f32[0] []");
  EXPECT_EQ(shown(tensor({to_half(1.5f)})), "f16[1] [1.5]");
}

TEST(Create, NumbersOfSeveralTypesArePromoted) {
  EXPECT_EQ(tensor({1, 2.5f}).dtype(), f32);
  EXPECT_EQ(tensor({1.f, 2.5}).dtype(), f64);
  EXPECT_EQ(tensor({true, 3}).dtype(), i32);
  EXPECT_EQ(shown(tensor({1, 2.5f})), "f32[2] [1.  2.5]");
}

TEST(Create, DtypeConverts) {
  EXPECT_EQ(shown(tensor({0, 2, 1}, i64)), "i64[3] [0 2 1]");
  EXPECT_EQ(shown(tensor({0.0, 2.9, -1.5}, i8)), "i8[3] [ 0  2 -1]");
  EXPECT_EQ(shown(tensor({{1}, {0}}, boolean)), "bool[2, 1] [[ True]\n [False]]");
  EXPECT_EQ(*tensor(0.1, f32).data<float>(), 0.1f);
  EXPECT_EQ(*tensor((std::int64_t{1} << 53) + 1).data<std::int64_t>(), (std::int64_t{1} << 53) + 1);
}

TEST(Create, RaggedListsNameThePosition) {
  EXPECT_EQ(
      bare_message_of<ShapeError>([] { (void)tensor({{1, 2}, {3}}); }),
      "tensor: the rows of a literal must be alike: element [1] is a list of 1 but element [0] "
      "is a list of 2");
  EXPECT_EQ(
      bare_message_of<ShapeError>([] { (void)tensor({{{1}, {2}}, {{3}, {4, 5}}}); }),
      "tensor: the rows of a literal must be alike: element [1][1] is a list of 2 but element "
      "[0][0] is a list of 1");
  EXPECT_EQ(
      bare_message_of<ShapeError>([] { (void)tensor({{1, 2}, 3}); }),
      "tensor: the rows of a literal must be alike: element [1] is a number but element [0] is "
      "a list of 2");
  EXPECT_EQ(
      bare_message_of<ShapeError>([] { (void)tensor({1, {2, 3}}); }),
      "tensor: the rows of a literal must be alike: element [1] is a list of 2 but element [0] "
      "is a number");
  try {
    (void)tensor({{1, 2}, {3}});
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_EQ(to_string(error.where()), "create_test.cpp:" + std::to_string(__LINE__ - 3));
  }
}

TEST(Create, FromRanges) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(shown(tensor(values)), "f32[6] [1. 2. 3. 4. 5. 6.]");
  EXPECT_EQ(shown(tensor(values, {2, 3})), "f32[2, 3] [[1. 2. 3.]\n [4. 5. 6.]]");
  EXPECT_EQ(type_string(tensor(values, {3, -1})), "f32[3, 2]");
  EXPECT_EQ(type_string(tensor(std::span(values), {1, 6})), "f32[1, 6]");
  const std::array<std::int8_t, 3> three{1, 2, 3};
  EXPECT_EQ(to_string(tensor(three)), "[1 2 3]");
  EXPECT_EQ(to_string(tensor(std::span(three))), "[1 2 3]");
  EXPECT_EQ(to_string(tensor(std::list<double>{1, 2}, {2, 1})), "[[1.]\n [2.]]");
  EXPECT_EQ(type_string(tensor({1, 2, 3, 4}, {2, 2})), "i32[2, 2]");
  const std::list<std::int64_t> linked = {7, 8};
  EXPECT_EQ(shown(tensor(linked.begin(), linked.end())), "i64[2] [7 8]");
  EXPECT_EQ(shown(tensor(std::vector<bool>{true, false})), "bool[2] [ True False]");
  EXPECT_EQ(type_string(tensor(std::vector<double>(), {0, 3})), "f64[0, 3]");
  EXPECT_EQ(type_string(tensor(std::vector<double>(), {-1, 3})), "f64[0, 3]");
  const std::array<int, 2> pair = {4, 5};
  EXPECT_EQ(shown(tensor(pair.begin(), pair.end(), {2, 1})), "i32[2, 1] [[4]\n [5]]");
  // The tensor is a copy.
  std::vector<float> changing = {1};
  const Tensor copy = tensor(changing);
  changing[0] = 2;
  EXPECT_EQ(copy.data<float>()[0], 1);
}

TEST(Create, WrongCounts) {
  const std::vector<float> values = {1, 2, 3};
  EXPECT_EQ(bare_message_of<ShapeError>([&] { (void)tensor(values, {2, 2}); }),
            "tensor: 3 elements do not fill f32[2, 2], which has 4");
  EXPECT_EQ(bare_message_of<ShapeError>([&] { (void)tensor(values, {2, -1}); }),
            "tensor: 3 elements do not fill f32[2, -1] with any size in place of -1");
  EXPECT_THROW((void)tensor(values, {-1, -1}), ShapeError);
  EXPECT_THROW((void)tensor(values, {0, -1}), ShapeError);
  EXPECT_THROW((void)tensor(values, {"batch"}), GraphError);
}

TEST(Create, FromBlobSharesMemory) {
  float values[] = {1, 2, 3, 4, 5, 6};
  int deleted = 0;
  {
    const Tensor x = from_blob(values, {2, 3}, f32, [&] { ++deleted; });
    EXPECT_EQ(x.data<float>(), values);
    x.data<float>()[0] = 10;
    EXPECT_EQ(values[0], 10);
    const Tensor copy = x;
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
  const Tensor transposed = from_blob(values, {3, 2}, f32, {}, Strides{1, 3});
  EXPECT_EQ(transposed.to_vector<int>(), (std::vector<int>{10, 4, 2, 5, 3, 6}));
  EXPECT_FALSE(transposed.is_contiguous());
  const Tensor reversed = from_blob(values + 5, {6}, f32, {}, Strides{-1});
  EXPECT_EQ(reversed.to_vector<int>(), (std::vector<int>{6, 5, 4, 3, 2, 10}));
  EXPECT_EQ(type_string(from_blob(nullptr, {0, 4})), "f32[0, 4]");
}

TEST(Create, FromBlobErrors) {
  alignas(8) char bytes[32] = {};
  EXPECT_EQ(bare_message_of<ValueError>([] { (void)from_blob(nullptr, {2}); }),
            "from_blob: the pointer is null but f32[2] has elements");
  EXPECT_EQ(
      bare_message_of<ValueError>([&] { (void)from_blob(bytes + 1, {2}); }),
      "from_blob: the pointer is no multiple of 4 bytes, the size of an element of f32[2]; copy "
      "the bytes into aligned memory first");
  EXPECT_EQ(bare_message_of<ShapeError>([&] { (void)from_blob(bytes, {2, "n"}); }),
            "from_blob: f32[2, n] has the size n: memory has sizes that are numbers, at least 0");
  EXPECT_EQ(
      bare_message_of<ShapeError>([&] { (void)from_blob(bytes, {2}, f32, {}, Strides{1, 2}); }),
      "from_blob: 2 strides for f32[2]: one for each of its 1 axes");
  EXPECT_THROW((void)from_blob(bytes, {2}, DType::string), DTypeError);
}

TEST(Create, EyeLinspaceEmpty) {
  EXPECT_EQ(shown(eye(2)), "f32[2, 2] [[1. 0.]\n [0. 1.]]");
  EXPECT_EQ(shown(eye(2, 3, i64)), "i64[2, 3] [[1 0 0]\n [0 1 0]]");
  EXPECT_EQ(shown(linspace(0, 1, 5)), "f32[5] [0.   0.25 0.5  0.75 1.  ]");
  EXPECT_EQ(shown(linspace(3, 4, 1, f64)), "f64[1] [3.]");
  EXPECT_EQ(shown(linspace(3, 4, 0)), "f32[0] []");
  EXPECT_EQ(type_string(empty({2, 3}, bf16)), "bf16[2, 3]");
  EXPECT_THROW((void)eye(-1), ShapeError);
  EXPECT_THROW((void)linspace(0, 1, -2), ValueError);
}

}  // namespace
}  // namespace dyad
