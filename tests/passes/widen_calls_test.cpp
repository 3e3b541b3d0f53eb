// widen_calls: a graph's text before and after.
#include "dyad/passes/widen_calls.h"

#include <string>

#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

/// A CPU with convolutions and products in f32 and `also`.
LibraryDTypes only_f32_and(DType also) {
  const auto has = [also](DType dtype) { return dtype == DType::f32 || dtype == also; };
  return {has, has};
}

void expect_widened(std::string_view before, std::string_view after) {
  EXPECT_TRUE(is_graph(widen_calls(*parse(before), only_f32_and(DType::f64)), after));
}

void expect_kept(std::string_view text, DType also = DType::f64) {
  EXPECT_TRUE(is_graph(widen_calls(*parse(text), only_f32_and(also)), text));
}

constexpr std::string_view kConv = R"(graph {
    %x = placeholder : bf16[n, 3, 8, 8]
    %w = variable : bf16[4, 3, 3, 3]
    %b = variable : bf16[4]
    %y = conv(%x, %w, %b) {stride = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1}
    return %y
  })";

TEST(WidenCalls, CastsItsOperandsAndItsResult) {
  expect_widened(kConv, R"(graph {
    %x = placeholder : bf16[n, 3, 8, 8]
    %w = variable : bf16[4, 3, 3, 3]
    %b = variable : bf16[4]
    %xf = cast(%x) {dtype = f32, saturate = true}
    %wf = cast(%w) {dtype = f32, saturate = true}
    %bf = cast(%b) {dtype = f32, saturate = true}
    %y = conv(%xf, %wf, %bf) {stride = [1, 1], low = [1, 1], high = [1, 1], dilation = [1, 1], groups = 1}
    %h = cast(%y) {dtype = bf16, saturate = true}
    return %h
  })");
}

TEST(WidenCalls, StayWhereTheCpuHasThem) { expect_kept(kConv, DType::bf16); }

TEST(WidenCalls, OfF32StayEverywhere) {
  expect_kept(R"(graph {
    %x = placeholder : f32[n, 3, 8]
    %w = variable : f32[4, 3, 3]
    %y = conv(%x, %w, none) {stride = [1], low = [0], high = [0], dilation = [1], groups = 1}
    return %y
  })");
}

TEST(WidenCalls, GradientsHaveCopiesOfTheirOwn) {
  expect_widened(R"(graph {
    %g = placeholder : f16[n, 4, 6]
    %x = placeholder : f16[n, 6, 8]
    %w = variable : f16[4, 3, 3]
    %dx = conv_transpose(%g, %w) {stride = [1], low = [0], high = [0], dilation = [1], groups = 2, shape = [n, 6, 8]}
    %dw = conv_backward_weight(%g, %x) {stride = [1], low = [0], high = [0], dilation = [1], groups = 2, shape = [4, 3, 3]}
    return %dx, %dw
  })",
                 R"(graph {
    %g = placeholder : f16[n, 4, 6]
    %x = placeholder : f16[n, 6, 8]
    %w = variable : f16[4, 3, 3]
    %g1 = cast(%g) {dtype = f32, saturate = true}
    %w1 = cast(%w) {dtype = f32, saturate = true}
    %dx = conv_transpose(%g1, %w1) {stride = [1], low = [0], high = [0], dilation = [1], groups = 2, shape = [n, 6, 8]}
    %hx = cast(%dx) {dtype = f16, saturate = true}
    %g2 = cast(%g) {dtype = f32, saturate = true}
    %x2 = cast(%x) {dtype = f32, saturate = true}
    %dw = conv_backward_weight(%g2, %x2) {stride = [1], low = [0], high = [0], dilation = [1], groups = 2, shape = [4, 3, 3]}
    %hw = cast(%dw) {dtype = f16, saturate = true}
    return %hx, %hw
  })");
}

TEST(WidenCalls, WithOneChannelAGroupStay) {
  expect_kept(R"(graph {
    %x = placeholder : bf16[n, 4, 8]
    %w = variable : bf16[8, 1, 3]
    %y = conv(%x, %w, none) {stride = [1], low = [0], high = [0], dilation = [1], groups = 4}
    return %y
  })");
}

constexpr std::string_view kProducts = R"(graph {
    %x = placeholder : bf16[n, 8]
    %w = variable : bf16[4, 8]
    %b = variable : bf16[4]
    %y = linear(%x, %w, %b)
    %z = matmul(%y, %x) {transpose_a = true, transpose_b = false}
    return %z
  })";

TEST(WidenCalls, ProductsHaveCopiesOfTheirOwnToo) {
  expect_widened(kProducts, R"(graph {
    %x = placeholder : bf16[n, 8]
    %w = variable : bf16[4, 8]
    %b = variable : bf16[4]
    %x1 = cast(%x) {dtype = f32, saturate = true}
    %w1 = cast(%w) {dtype = f32, saturate = true}
    %b1 = cast(%b) {dtype = f32, saturate = true}
    %y1 = linear(%x1, %w1, %b1)
    %y = cast(%y1) {dtype = bf16, saturate = true}
    %y2 = cast(%y) {dtype = f32, saturate = true}
    %x2 = cast(%x) {dtype = f32, saturate = true}
    %z2 = matmul(%y2, %x2) {transpose_a = true, transpose_b = false}
    %z = cast(%z2) {dtype = bf16, saturate = true}
    return %z
  })");
}

TEST(WidenCalls, AValueThatIsReadTwiceIsCopiedOnce) {
  expect_widened(R"(graph {
    %x = placeholder : bf16[n, 8]
    %y = matmul(%x, %x) {transpose_a = false, transpose_b = true}
    return %y
  })",
                 R"(graph {
    %x = placeholder : bf16[n, 8]
    %wide = cast(%x) {dtype = f32, saturate = true}
    %y1 = matmul(%wide, %wide) {transpose_a = false, transpose_b = true}
    %y = cast(%y1) {dtype = bf16, saturate = true}
    return %y
  })");
}

TEST(WidenCalls, ProductsStayWhereTheCpuHasThem) { expect_kept(kProducts, DType::bf16); }

TEST(WidenCalls, AskForEachKind) {
  const auto all = [](DType) { return true; };
  const auto f32_only = [](DType dtype) { return dtype == DType::f32; };
  EXPECT_TRUE(is_graph(widen_calls(*parse(kProducts), {f32_only, all}), kProducts));
  EXPECT_TRUE(is_graph(widen_calls(*parse(kConv), {all, f32_only}), kConv));
  EXPECT_TRUE(is_graph(widen_calls(*parse(kConv), {}), kConv));
}

}  // namespace
}  // namespace dyad::passes
