#include "dyad/base/inline_vector.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace dyad {
namespace {

using Small = InlineVector<int, 3>;

Small counting(int count) {
  Small v;
  for (int i = 0; i < count; ++i) v.push_back(i);
  return v;
}

TEST(InlineVector, GrowsPastItsInlineElements) {
  const Small v = counting(100);
  ASSERT_EQ(v.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(v[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(v.front(), 0);
  EXPECT_EQ(v.back(), 99);
}

TEST(InlineVector, CopiesAreIndependent) {
  for (const int count : {0, 2, 3, 4, 50}) {
    Small a = counting(count);
    Small b = a;
    b.push_back(-1);
    EXPECT_EQ(a, counting(count));
    EXPECT_EQ(b.size(), static_cast<std::size_t>(count) + 1);
    a = b;
    EXPECT_EQ(a, b);
    a = *&a;
    EXPECT_EQ(a, b);
  }
}

TEST(InlineVector, MovesBetweenInlineAndHeap) {
  for (const int from : {0, 2, 50}) {
    for (const int to : {0, 3, 70}) {
      Small source = counting(from), target = counting(to);
      target = std::move(source);
      EXPECT_EQ(target, counting(from));
      source = counting(to);  // what was moved from can be used again
      source.push_back(7);
      EXPECT_EQ(source.back(), 7);
      target.push_back(8);
      EXPECT_EQ(target.back(), 8);
      Small made = std::move(target);
      EXPECT_EQ(made.size(), static_cast<std::size_t>(from) + 1);
    }
  }
}

TEST(InlineVector, InsertsAndPushesItsOwnElements) {
  Small v = counting(3);  // full: growing moves the element that is passed
  v.push_back(v[1]);
  EXPECT_EQ(v, (Small{0, 1, 2, 1}));
  v = counting(3);
  v.insert(0, v[2]);
  EXPECT_EQ(v, (Small{2, 0, 1, 2}));
  v.insert(4, v.front());
  v.insert(2, 9);
  EXPECT_EQ(v, (Small{2, 0, 9, 1, 2, 2}));
}

TEST(InlineVector, ErasesAndResizes) {
  Small v = counting(5);
  v.erase(0);
  v.erase(3);
  EXPECT_EQ(v, (Small{1, 2, 3}));
  v.resize(6, 4);
  EXPECT_EQ(v, (Small{1, 2, 3, 4, 4, 4}));
  v.resize(1);
  EXPECT_EQ(v, (Small{1}));
  v.pop_back();
  EXPECT_TRUE(v.empty());
  v.clear();
  EXPECT_EQ(v, Small());
}

TEST(InlineVector, IsMadeFromRangesSpansAndCounts) {
  const std::vector<int> values = {4, 5, 6, 7};
  EXPECT_EQ(Small(values.begin(), values.end()), (Small{4, 5, 6, 7}));
  EXPECT_EQ(Small(std::span<const int>(values)), (Small{4, 5, 6, 7}));
  EXPECT_EQ(Small(std::size_t{2}, 9), (Small{9, 9}));
  const Small two = {1, 2};
  const std::span<const int> view = two;
  EXPECT_EQ(view.size(), 2u);
}

TEST(InlineVector, OfIntegersIsMadeFromOne) {
  const Ints axes = -1;
  EXPECT_EQ(axes, (Ints{-1}));
  EXPECT_EQ(Ints(std::uint8_t{7}), (Ints{7}));
}

TEST(InlineVector, EqualityComparesSizes) {
  EXPECT_FALSE((Small{1, 2} == Small{1, 2, 3}));
  EXPECT_FALSE((Small{1, 2, 4} == Small{1, 2, 3}));
}

}  // namespace
}  // namespace dyad
