// block_channels: a graph's text before and after.
#include "dyad/passes/block_channels.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/passes/epilogue_ops.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

Ref<GraphImpl> parse_with_blocks(std::string_view text) {
  register_epilogue_ops();
  return parse(text);
}

void expect_blocks(std::string_view before, std::string_view after) {
  EXPECT_TRUE(is_graph(block_channels(*parse_with_blocks(before)), after));
}

TEST(BlockChannels, ConvolutionsStayInBlocksWithTheirResiduals) {
  expect_blocks(R"(graph {
    %x = placeholder : f32[n, 32, 20, 20]
    %w = variable : f32[32, 32, 3, 3]
    %b = variable : f32[32]
    %y = conv(%x, %w, %b) {low = [1, 1], high = [1, 1]}
    %z = conv_epilogue(%y, %w, none, %y) {low = [1, 1], high = [1, 1], activation = "relu"}
    return %z
  })",
                R"(graph {
    %x = placeholder : f32[n, 32, 20, 20]
    %w = variable : f32[32, 32, 3, 3]
    %b = variable : f32[32]
    %y = conv_blocks(%x, %w, %b, none) {low = [1, 1], high = [1, 1]} : f32[n, 4, 20, 20, 8]
    %z = conv_blocks(%y, %w, none, %y) {low = [1, 1], high = [1, 1], activation = "relu"} : f32[n, 4, 20, 20, 8]
    %rows = permute(%z) {axes = [0, 1, 4, 2, 3]}
    %left = reshape(%rows) {shape = [n, 32, 20, 20]}
    return %left
  })");
}

TEST(BlockChannels, AResidualFromOutsideIsTurned) {
  expect_blocks(R"(graph {
    %x = placeholder : f32[2, 32, h, 20]
    %w = variable : f32[32, 32, 3, 3]
    %r = exp(%x)
    %y = conv_epilogue(%x, %w, none, %r) {low = [1, 1], high = [1, 1]}
    %z = conv_epilogue(%y, %w, none, %r) {low = [1, 1], high = [1, 1]}
    %s = mean(%z) {axes = [2, 3]}
    return %s
  })",
                R"(graph {
    %x = placeholder : f32[2, 32, h, 20]
    %w = variable : f32[32, 32, 3, 3]
    %r = exp(%x)
    %split = reshape(%r) {shape = [2, 4, 8, h, 20]}
    %turned = permute(%split) {axes = [0, 1, 3, 4, 2]}
    %copied = reshape(%turned) {shape = [2, 4, 160*h]}
    %blocks = reshape(%copied) {shape = [2, 4, h, 20, 8]}
    %y = conv_blocks(%x, %w, none, %blocks) {low = [1, 1], high = [1, 1]} : f32[2, 4, h, 20, 8]
    %z = conv_blocks(%y, %w, none, %blocks) {low = [1, 1], high = [1, 1]} : f32[2, 4, h, 20, 8]
    %means = mean(%z) {axes = [2, 3]} : f32[2, 4, 8]
    %s = reshape(%means) {shape = [2, 32]}
    return %s
  })");
}

TEST(BlockChannels, PoolsConstantsConcatenationsAndMeansBetweenThem) {
  expect_blocks(R"(graph {
    %x = placeholder : f32[n, 3, h, 40]
    %stem = variable : f32[32, 3, 3, 3]
    %a = variable : f32[32, 32, 3, 3]
    %scale = variable : f32[32, 1, 1]
    %half = constant 0.5 : f32[]
    %odd = variable : f32[12, 64, 1, 1]
    %s = conv(%x, %stem, none) {low = [1, 1], high = [1, 1]}
    %p = max_pool(%s) {kernel = [2, 2], stride = [2, 2]}
    %y = conv_epilogue(%p, %a, none, none) {low = [1, 1], high = [1, 1], activation = "relu"}
    %z = conv(%y, %a, none) {low = [1, 1], high = [1, 1]}
    %m = mul(%z, %scale)
    %k = mul(%m, %half)
    %c = concat(%k, %y) {axis = 1}
    %o = conv(%c, %odd, none)
    %mean = mean(%m) {axes = [-2, -1], keepdim = true}
    return %o, %mean
  })",
                R"(graph {
    %x = placeholder : f32[n, 3, h, 40]
    %stem = variable : f32[32, 3, 3, 3]
    %a = variable : f32[32, 32, 3, 3]
    %scale = variable : f32[32, 1, 1]
    %half = constant 0.5 : f32[]
    %odd = variable : f32[12, 64, 1, 1]
    %s = conv_blocks(%x, %stem, none, none) {low = [1, 1], high = [1, 1]} : f32[n, 4, h, 40, 8]
    %images = reshape(%s) {shape = [4*n, h, 40, 8]}
    %last = permute(%images) {axes = [0, 3, 1, 2]}
    %pooled = max_pool(%last) {kernel = [2, 2], stride = [2, 2]} : f32[4*n, 8, floordiv(h, 2), 20]
    %back = permute(%pooled) {axes = [0, 2, 3, 1]}
    %p = reshape(%back) {shape = [n, 4, floordiv(h, 2), 20, 8]}
    %y = conv_blocks(%p, %a, none, none) {low = [1, 1], high = [1, 1], activation = "relu"}
    %z = conv_blocks(%y, %a, none, none) {low = [1, 1], high = [1, 1]}
    %split = reshape(%scale) {shape = [4, 8, 1, 1]}
    %scales = permute(%split) {axes = [0, 2, 3, 1]}
    %m = mul(%z, %scales) : f32[n, 4, floordiv(h, 2), 20, 8]
    %k = mul(%m, %half)
    %c = concat(%k, %y) {axis = 1} : f32[n, 8, floordiv(h, 2), 20, 8]
    %aside = permute(%c) {axes = [0, 2, 3, 1, 4]}
    %copied = reshape(%aside) {shape = [n, floordiv(h, 2), 20, 64]}
    %left = permute(%copied) {axes = [0, 3, 1, 2]} : f32[n, 64, floordiv(h, 2), 20]
    %o = conv(%left, %odd, none) : f32[n, 12, floordiv(h, 2), 20]
    %means = mean(%m) {axes = [2, 3], keepdim = true} : f32[n, 4, 1, 1, 8]
    %mean = reshape(%means) {shape = [n, 32, 1, 1]}
    return %o, %mean
  })");
}

TEST(BlockChannels, WhatHasNoBlocksReadsTheImageAsItWas) {
  expect_blocks(R"(graph {
    %x = placeholder : f32[2, 32, 20, 20]
    %a = variable : f32[32, 32, 3, 3]
    %y = conv(%x, %a, none) {low = [1, 1], high = [1, 1]}
    %z = conv(%y, %a, none) {low = [1, 1], high = [1, 1]}
    %w = conv(%z, %a, none) {low = [1, 1], high = [1, 1]}
    %e = exp(%x)
    %c = concat(%w, %e) {axis = 1}
    %f = slice(%w) {axis = 3, begin = 0, end = 5}
    %sum = sum(%w) {axes = [1]}
    return %c, %f, %sum
  })",
                R"(graph {
    %x = placeholder : f32[2, 32, 20, 20]
    %a = variable : f32[32, 32, 3, 3]
    %y = conv_blocks(%x, %a, none, none) {low = [1, 1], high = [1, 1]}
    %z = conv_blocks(%y, %a, none, none) {low = [1, 1], high = [1, 1]}
    %w = conv_blocks(%z, %a, none, none) {low = [1, 1], high = [1, 1]}
    %e = exp(%x)
    %aside = permute(%w) {axes = [0, 2, 3, 1, 4]}
    %copied = reshape(%aside) {shape = [2, 20, 20, 32]}
    %left = permute(%copied) {axes = [0, 3, 1, 2]}
    %c = concat(%left, %e) {axis = 1}
    %f = slice(%left) {axis = 3, begin = 0, end = 5}
    %sum = sum(%left) {axes = [1]}
    return %c, %f, %sum
  })");
}

/// Two convolutions of an image by one weight, one after the other.
std::string two_convolutions(const std::string& image, const std::string& weight,
                             const std::string& results,
                             const std::string& attrs = "low = [1, 1], high = [1, 1]") {
  return "graph {\n  %x = placeholder : " + image + "\n  %w = variable : " + weight +
         "\n  %y = conv(%x, %w, none) {" + attrs + "}\n  %z = conv(%y, %w, none) {" + attrs +
         "}\n  return " + results + "\n}";
}

TEST(BlockChannels, ChainsThatGainNothingStay) {
  const std::string graphs[] = {
      // One convolution between other operators.
      R"(graph {
        %x = placeholder : f32[n, 32, 20, 20]
        %w = variable : f32[32, 32, 3, 3]
        %y = conv(%x, %w, none) {low = [1, 1], high = [1, 1]}
        return %y
      })",
      // Few channels, and each image is needed outside too.
      two_convolutions("f32[n, 8, 20, 20]", "f32[8, 8, 3, 3]", "%y, %z"),
      // Channels that do not divide by eight; one axis; another dtype.
      two_convolutions("f32[n, 12, 20, 20]", "f32[12, 12, 3, 3]", "%z"),
      two_convolutions("f32[n, 32, 400]", "f32[32, 32, 3]", "%z",
                       "stride = [1], low = [1], high = [1], dilation = [1]"),
      two_convolutions("bf16[n, 32, 20, 20]", "bf16[32, 32, 3, 3]", "%z"),
      // Single taps and channels of their own.
      R"(graph {
        %x = placeholder : f32[n, 32, 20, 20]
        %w = variable : f32[32, 32, 1, 1]
        %d = variable : f32[32, 1, 3, 3]
        %y = conv(%x, %w, none)
        %z = conv(%y, %d, none) {low = [1, 1], high = [1, 1], groups = 32}
        %s = conv(%z, %w, none)
        return %s
      })"};
  for (const std::string& text : graphs) expect_blocks(text, text);
}

TEST(BlockChannels, ByWinogradsWayOneConvolutionIsEnough) {
  ops::register_builtin_ops();
  const auto graph = make_ref<GraphImpl>();
  const Value x = graph->add_placeholder("x", Type(DType::f32, {"n", 64, 20, 20}), Loc());
  const Value w = graph->add_constant(make_empty(DType::f32, {64, 64, 3, 3}), Loc());
  const ops::ConvAttrs attrs{.low = {1, 1}, .high = {1, 1}};
  Node* const conv = graph->append_checked(
      *find_op("conv"), Attrs::copy_of(attrs_info<ops::ConvAttrs>, &attrs), {x, w, {}}, Loc());
  graph->outputs().push_back(conv->output());
  const Ref<GraphImpl> made = block_channels(*graph);
  EXPECT_TRUE(std::ranges::any_of(made->nodes(), [](const auto& node) {
    return node->is("conv_blocks");
  })) << to_string(*made, {.data_limit = 0});
}

/// The error of a graph that is read from a text.
std::string error_of(std::string_view text) {
  try {
    static_cast<void>(parse_with_blocks(text));
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(BlockChannels, CallsAreChecked) {
  using ::testing::HasSubstr;
  const auto call = [](std::string_view x, std::string_view weight, std::string_view attrs) {
    return "graph {\n  %x = placeholder : f32[" + std::string(x) + "]\n  %w = variable : f32[" +
           std::string(weight) + "]\n  %y = conv_blocks(%x, %w, none, none) {" +
           std::string(attrs) + "}\n  return %y\n}";
  };
  EXPECT_EQ(error_of(call("1, 2, 6, 6, 8", "8, 16, 3, 3", "")), "no error");
  EXPECT_THAT(error_of(call("1, 2, 6, 6, 4", "8, 16, 3, 3", "")),
              HasSubstr("the last axis of x must be a block of 8 channels but has size 4"));
  EXPECT_THAT(error_of(call("1, 2, 6, 6, 8", "12, 16, 3, 3", "")),
              HasSubstr("the result's 12 channels do not divide into blocks of 8"));
  EXPECT_THAT(
      error_of(call("1, 16, 6", "8, 16, 3", "stride = [1], low = [0], high = [0], dilation = [1]")),
      HasSubstr("images must have two axes beside their channels"));
}

}  // namespace
}  // namespace dyad::passes
