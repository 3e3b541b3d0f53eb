#include "dyad/core/shape.h"

#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "tests/core/fake_evaluator.h"

namespace dyad {
namespace {

TEST(Shape, TextAndNumel) {
  EXPECT_EQ(to_string(Shape{3, "batch", 4}), "[3, batch, 4]");
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(Shape{"batch", "time"}), "[batch, time]");
  EXPECT_EQ((Shape{2, 3, 4}).numel().number(), 24);
  EXPECT_EQ(Shape().numel().number(), 1);
  EXPECT_EQ(to_string((Shape{2, "batch", 4}).numel()), "8*batch");
  EXPECT_TRUE((Shape{2, 3}).is_concrete());
  EXPECT_FALSE((Shape{2, "batch"}).is_concrete());
}

TEST(Shape, SizesAreAlsoOneNumber) {
  const auto text = [](const Sizes& sizes) { return to_string(sizes); };
  EXPECT_EQ(text(3), "[3]");
  EXPECT_EQ(text(Dim("batch")), "[batch]");
  EXPECT_EQ(text({}), "[]");
  EXPECT_EQ(text({2, "batch"}), "[2, batch]");
  EXPECT_EQ(text(Shape{2, 3}), "[2, 3]");
}

TEST(Shape, HugeShapes) {
  const std::int64_t big = std::int64_t{1} << 40;
  EXPECT_THROW((void)(Shape{big, big}).numel(), ShapeError);
  EXPECT_EQ((Shape{big, big, 0}).numel().number(), 0);
  EXPECT_EQ(contiguous_strides(Shape{0, big, big, big}).size(), 4u);
}

TEST(Shape, Broadcasting) {
  Shape result;
  ASSERT_TRUE(broadcast({3, 1}, {4}, result));
  EXPECT_EQ(to_string(result), "[3, 4]");
  ASSERT_TRUE(broadcast({}, {2, 3}, result));
  EXPECT_EQ(to_string(result), "[2, 3]");
  ASSERT_TRUE(broadcast({"batch", 1}, {1, "time"}, result));
  EXPECT_EQ(to_string(result), "[batch, time]");
  ASSERT_TRUE(broadcast({0}, {1}, result));
  EXPECT_EQ(to_string(result), "[0]");
  ASSERT_TRUE(broadcast(result, {5, 1}, result));
  EXPECT_EQ(to_string(result), "[5, 0]");
  EXPECT_FALSE(broadcast({3}, {4}, result));
}

TEST(Shape, BroadcastingAsksAboutSymbols) {
  FakeEvaluator evaluator;  // says that all sizes are equal
  const Evaluator::Scope scope(evaluator);
  Shape result;
  ASSERT_TRUE(broadcast({"batch", 3}, {"time", 3}, result));
  EXPECT_EQ(to_string(result), "[batch, 3]");
  ASSERT_TRUE(broadcast({"batch"}, {8}, result));
  EXPECT_EQ(to_string(result), "[8]");
  EXPECT_EQ(evaluator.guards, 2);
  // Never equal, but one of them may be 1.
  evaluator.equal = false;
  EXPECT_FALSE(broadcast({"batch"}, {Dim("batch") + 1}, result));
  EXPECT_EQ(evaluator.guards, 4);
}

TEST(Shape, ContiguousStrides) {
  EXPECT_EQ(contiguous_strides(Shape{2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(contiguous_strides(Shape{}), Strides{});
}

TEST(Shape, NormalizeAxis) {
  EXPECT_EQ(normalize_axis(-1, 3, "sum", {}), 2);
  EXPECT_EQ(normalize_axis(2, 3, "sum", {}), 2);
  try {
    (void)normalize_axis(3, 3, "sum", Loc::intern("train.cpp", 9));
    FAIL();
  } catch (const IndexError& error) {
    EXPECT_STREQ(error.what(),
                 "sum: axis 3 is out of range for a tensor of rank 3: it must be from -3 to 2\n"
                 "  at train.cpp:9");
  }
  try {
    (void)normalize_axis(0, 0, "size", {});
    FAIL();
  } catch (const IndexError& error) {
    EXPECT_EQ(error.message(),
              "size: axis 0 is out of range for a tensor of rank 0: a scalar has no axes");
  }
}

}  // namespace
}  // namespace dyad
