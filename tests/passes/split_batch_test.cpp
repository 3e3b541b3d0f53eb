// split_batch: a graph's text before and after.
#include "dyad/passes/split_batch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

constexpr BatchLimits kSmall{.much = 2000, .part = 600};

void expect_split(std::string_view before, std::string_view after) {
  EXPECT_TRUE(is_graph(split_batch(*parse(before), kSmall), after));
}
void expect_whole(std::string_view text, const BatchLimits& limits = kSmall) {
  EXPECT_TRUE(is_graph(split_batch(*parse(text), limits), text));
}

TEST(SplitBatch, WhatWorksOnEachSampleRunsInParts) {
  expect_split(R"(graph {
    %x = placeholder : f32[8, 2, 4, 4]
    %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2, 1, 1]
    %b = constant [1.0, 2.0] : f32[2]
    %m = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] : f32[2, 3]
    %scale = constant [1.0, 2.0] : f32[1, 2, 1, 1]
    %y = conv(%x, %w, %b)
    %r = relu(%y)
    %s = mul(%r, %scale)
    %t = add(%s, %x)
    %p = max_pool(%t) {kernel = [2, 2], stride = [2, 2]}
    %turned = permute(%p) {axes = [0, 2, 3, 1]}
    %a = mean(%turned) {axes = [1, 2]}
    %q = matmul(%a, %m)
    %rows = reshape(%a) {shape = [8, 2, 1]}
    return %q, %rows
  })",
               R"(graph {
    %x = placeholder : f32[8, 2, 4, 4]
    %q, %rows = parts(%x) {samples = 2} : f32[8, 3], f32[8, 2, 1]
      region {
        %in0 = placeholder : f32[2, 2, 4, 4]
        %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2, 1, 1]
        %b = constant [1.0, 2.0] : f32[2]
        %y = conv(%in0, %w, %b)
        %r = relu(%y)
        %scale = constant [1.0, 2.0] : f32[1, 2, 1, 1]
        %s = mul(%r, %scale)
        %t = add(%s, %in0)
        %p = max_pool(%t) {kernel = [2, 2], stride = [2, 2]}
        %turned = permute(%p) {axes = [0, 2, 3, 1]}
        %a = mean(%turned) {axes = [1, 2]}
        %m = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] : f32[2, 3]
        %q = matmul(%a, %m)
        %rows = reshape(%a) {shape = [2, 2, 1]}
        return %q, %rows
      }
    return %q, %rows
  })");
}

TEST(SplitBatch, WhereSamplesMeetTheyAreWholeAgain) {
  expect_split(R"(graph {
    %k = placeholder : f32[]
    %x = placeholder : f32[8, 2, 4, 4]
    %z = placeholder : f32[8, 2]
    %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2, 1, 1]
    %y = conv(%x, %w, none)
    %a = mean(%y) {axes = [2, 3]}
    %b = mul(%a, %z)
    %c = sum(%b) {axes = [0]}
    %d = mul(%c, %k)
    %e = sum(%w) {axes = [0]}
    return %d, %e
  })",
               R"(graph {
    %k = placeholder : f32[]
    %x = placeholder : f32[8, 2, 4, 4]
    %z = placeholder : f32[8, 2]
    %b = parts(%x, %z) {samples = 2} : f32[8, 2]
      region {
        %in0 = placeholder : f32[2, 2, 4, 4]
        %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2, 1, 1]
        %y = conv(%in0, %w, none)
        %a = mean(%y) {axes = [2, 3]}
        %in1 = placeholder : f32[2, 2]
        %b = mul(%a, %in1)
        return %b
      }
    %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2, 1, 1]
    %c = sum(%b) {axes = [0]}
    %d = mul(%c, %k)
    %e = sum(%w) {axes = [0]}
    return %d, %e
  })");
}

constexpr std::string_view kConvolved = R"(graph {
    %x = placeholder : f32[8, 2, 4, 4]
    %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2, 1, 1]
    %y = conv(%x, %w, none)
    %a = mean(%y) {axes = [2, 3]}
    return %a
  })";

/// kConvolved with `instead` in the place of each `what`.
std::string convolved_with(std::string_view what, std::string_view instead) {
  std::string text(kConvolved);
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += instead.size()) {
    text.replace(at, what.size(), instead);
  }
  return text;
}

TEST(SplitBatch, ABatchThatFitsStaysWhole) {
  expect_whole(kConvolved, {.much = 2048, .part = 600});
  EXPECT_FALSE(is_graph(split_batch(*parse(kConvolved), {.much = 2047, .part = 600}), kConvolved));
}

TEST(SplitBatch, ABatchWithoutAFittingDivisorStaysWhole) {
  const std::string prime = convolved_with("f32[8, ", "f32[17, ");
  expect_whole(prime, {.much = 2000, .part = 1100});
  EXPECT_FALSE(is_graph(split_batch(*parse(prime), {.much = 2000, .part = 300}), prime));
}

TEST(SplitBatch, SizesWithoutNumbersAndWeightsThatMayChangeStayWhole) {
  expect_whole(convolved_with("f32[8, ", "f32[n, "));
  expect_whole(convolved_with("constant [1.0, 2.0, 3.0, 4.0]", "variable"));
  expect_whole(convolved_with("return %a", "return %y"));  // as much comes out as goes in
}

TEST(SplitBatch, OperatorsAcrossSamplesStayWhole) {
  for (const std::string_view across :
       {"%y = matmul(%x, %w) {transpose_a = true}", "%y = matmul(%w, %x)",
        "%t = mul(%x, %w)\n %y = matmul(%t, %w)",
        "%t = permute(%x) {axes = [1, 0]}\n %y = matmul(%t, %w)"}) {
    expect_whole(fmt::format(R"(graph {{
    %x = placeholder : f32[2, 2]
    %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2]
    {}
    %a = sum(%y) {{axes = [1]}}
    return %a
  }})",
                             across),
                 {.much = 1, .part = 1});
  }
}

}  // namespace
}  // namespace dyad::passes
