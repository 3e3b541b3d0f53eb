#include "dyad/debug/line_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/debug/graph_diff.h"

namespace dyad::debug {
namespace {

using ::testing::ElementsAre;

int count_pairs(const std::vector<int>& partners) {
  return static_cast<int>(std::ranges::count_if(partners, [](int place) { return place >= 0; }));
}

/// The length of the longest common subsequence, by the table of all prefixes.
int longest_common(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<std::vector<int>> best(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      best[i + 1][j + 1] = a[i] == b[j] ? best[i][j] + 1 : std::max(best[i][j + 1], best[i + 1][j]);
    }
  }
  return best[a.size()][b.size()];
}

void expect_an_alignment(const std::vector<int>& a, const std::vector<int>& b,
                         const std::vector<int>& partners) {
  ASSERT_EQ(partners.size(), a.size());
  int latest = -1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (partners[i] < 0) continue;
    EXPECT_GT(partners[i], latest);
    latest = partners[i];
    ASSERT_LT(latest, static_cast<int>(b.size()));
    EXPECT_EQ(a[i], b[static_cast<std::size_t>(latest)]);
  }
}

TEST(Align, FindsTheLongestCommonSequence) {
  EXPECT_THAT(align({}, {}), ElementsAre());
  EXPECT_THAT(align(std::vector{1, 2, 3}, {}), ElementsAre(-1, -1, -1));
  EXPECT_THAT(align(std::vector{1, 2, 3, 4}, std::vector{1, 3, 5, 4}), ElementsAre(0, -1, 1, 3));
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const auto draw = [&] {
      std::vector<int> items(random() % 24);
      for (int& item : items) item = static_cast<int>(random() % (1 + round % 9));
      return items;
    };
    const std::vector<int> a = draw(), b = draw(), partners = align(a, b);
    expect_an_alignment(a, b, partners);
    EXPECT_EQ(count_pairs(partners), longest_common(a, b));
  }
}

TEST(Align, GoesThroughLongSequencesThatHaveNothingInCommon) {
  std::vector<int> a(40000), b(40000);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<int>(i);
    b[i] = i % 1000 == 0 ? a[i] : -static_cast<int>(i) - 1;
  }
  const std::vector<int> partners = align(a, b);
  expect_an_alignment(a, b, partners);
  EXPECT_EQ(partners[0], 0);
  EXPECT_EQ(count_pairs(align(a, a)), 40000);
}

/// One line each, with the signs of a patch.
std::string patch(std::string_view before, std::string_view after) {
  std::string text;
  for (const DiffLine& line : graph_difference(before, after)) {
    text += line.kind == DiffLine::Kind::same      ? " "
            : line.kind == DiffLine::Kind::removed ? "-"
                                                   : "+";
    text += line.text + "\n";
  }
  return text;
}

TEST(GraphDifference, TheNumbersOfValuesAreNone) {
  const std::string_view before = R"(graph {
  %x = placeholder : f32[4]
  %0 = exp(%x) : f32[4] @m.cpp:1
  %1 = exp(%x) : f32[4] @m.cpp:2
  %2 = sin(%0) : f32[4] @m.cpp:3
  %3 = cos(%1) : f32[4] @m.cpp:4
  %4 = relu(%2) : f32[4] @m.cpp:5
  return %3, %4
}
)";
  EXPECT_EQ(patch(before, R"(graph {
  %x = placeholder : f32[4]
  %0 = exp(%x) : f32[4] @m.cpp:1
  %1 = sin(%0) : f32[4] @m.cpp:3
  %2 = cos(%0) : f32[4] @m.cpp:4
  %3 = relu(%1) : f32[4] @m.cpp:5
  return %2, %3
}
)"),
            R"( graph {
   %x = placeholder : f32[4]
   %0 = exp(%x) : f32[4] @m.cpp:1
-  %was1 = exp(%x) : f32[4] @m.cpp:2
   %1 = sin(%0) : f32[4] @m.cpp:3
-  %2 = cos(%was1) : f32[4] @m.cpp:4
+  %2 = cos(%0) : f32[4] @m.cpp:4
   %3 = relu(%1) : f32[4] @m.cpp:5
   return %2, %3
 }
)");
  for (const DiffLine& line : graph_difference(before, before))
    EXPECT_EQ(line.kind, DiffLine::Kind::same);
}

TEST(GraphDifference, WhatTakesThePlaceOfAValueTakesItsName) {
  EXPECT_EQ(patch(R"(graph {
  %x = placeholder "a\"%9" : f32[n]
  %0 = constant 2 : f32[]
  %1 = mul(%x, %0) : f32[n]
  %2 = exp(%1) : f32[n]
  %3, %4 = topk(%2) : f32[n], i64[n]
  return %3, %4
}
)",
                  R"(graph {
  %x = placeholder "a\"%9" : f32[n]
  %0 = fused(%x) : f32[n]
    region {
      %x = placeholder : f32[n]
      %0 = constant 2 : f32[]
      %1 = mul(%x, %0) : f32[n]
      %2 = exp(%1) : f32[n]
      return %2
    }
  %1, %2 = topk(%0) : f32[n], i64[n]
  return %1, %2
}
)"),
            R"( graph {
   %x = placeholder "a\"%9" : f32[n]
-  %was0 = constant 2 : f32[]
-  %was1 = mul(%x, %was0) : f32[n]
-  %0 = exp(%was1) : f32[n]
+  %0 = fused(%x) : f32[n]
+    region {
+      %x = placeholder : f32[n]
+      %0 = constant 2 : f32[]
+      %1 = mul(%x, %0) : f32[n]
+      %2 = exp(%1) : f32[n]
+      return %2
+    }
   %1, %2 = topk(%0) : f32[n], i64[n]
   return %1, %2
 }
)");
}

TEST(GraphDifference, AGraphOfThousandsOfLines) {
  const auto graph = [](int lines, int without) {
    std::string text = "graph {\n  %x = placeholder : f32[4]\n";
    std::string latest = "%x";
    int number = 0;
    for (int i = 0; i < lines; ++i) {
      if (i == without) continue;
      const std::string value = "%" + std::to_string(number++);
      text += "  " + value + " = " + (i % 2 ? "sin(" : "exp(") + latest + ") : f32[4]\n";
      latest = value;
    }
    return text + "  return " + latest + "\n}\n";
  };
  const std::vector<DiffLine> lines = graph_difference(graph(8000, -1), graph(8000, 4001));
  const auto count = [&](DiffLine::Kind kind) {
    return std::ranges::count(lines, kind, &DiffLine::kind);
  };
  EXPECT_EQ(count(DiffLine::Kind::removed), 2) << "the operator, and what read it";
  EXPECT_EQ(count(DiffLine::Kind::added), 1);
  EXPECT_EQ(count(DiffLine::Kind::same), 8002);
}

}  // namespace
}  // namespace dyad::debug
