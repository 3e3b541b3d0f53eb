// join_epilogues and fold_norms: a graph's text before and after.
#include "dyad/base/error.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/passes/cse.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/epilogue_ops.h"
#include "dyad/passes/fold_norms.h"
#include "dyad/passes/join_epilogues.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

Ref<GraphImpl> parse_with_epilogues(std::string_view text) {
  register_epilogue_ops();
  return parse(text);
}

/// That joining turns one text into another.
void expect_joined(std::string_view before, std::string_view after, bool fast_math) {
  const Ref<GraphImpl> joined = join_epilogues(*parse_with_epilogues(before), fast_math);
  EXPECT_TRUE(is_graph(joined, after));
}

constexpr const char* kResidualThenRelu = R"(graph {
  %x = placeholder : f32[n, 4, 8, 8]
  %w = variable : f32[4, 4, 3, 3]
  %r = exp(%x) : f32[n, 4, 8, 8]
  %y = conv(%x, %w, none) {low = [1, 1], high = [1, 1]} : f32[n, 4, 8, 8]
  %sum = add(%r, %y) : f32[n, 4, 8, 8]
  %z = relu(%sum) : f32[n, 4, 8, 8]
  return %z
})";

TEST(JoinEpilogues, AResidualAndAnActivationGoIntoTheConvolution) {
  expect_joined(kResidualThenRelu, R"(graph {
    %x = placeholder : f32[n, 4, 8, 8]
    %w = variable : f32[4, 4, 3, 3]
    %r = exp(%x) : f32[n, 4, 8, 8]
    %z = conv_epilogue(%x, %w, none, %r) {low = [1, 1], high = [1, 1], activation = "relu", exact = false} : f32[n, 4, 8, 8]
    return %z
  })",
                true);
}

TEST(JoinEpilogues, WithoutFastMathASumThatAKernelTakesInStaysThere) {
  expect_joined(kResidualThenRelu, kResidualThenRelu, false);
}

constexpr const char* kLinearBottleneck = R"(graph {
  %x = placeholder : f32[1, 4, 8, 8]
  %w = variable : f32[4, 4, 1, 1]
  %b = variable : f32[4]
  %r = conv(%x, %w, %b) : f32[1, 4, 8, 8]
  %y = conv(%r, %w, %b) : f32[1, 4, 8, 8]
  %sum = add(%y, %r) : f32[1, 4, 8, 8]
  %z = conv(%sum, %w, %b) : f32[1, 4, 8, 8]
  return %z
})";

TEST(JoinEpilogues, WithoutFastMathAResidualOfLastUseIsJoined) {
  expect_joined(kLinearBottleneck, R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %b = variable : f32[4]
    %r = conv(%x, %w, %b) : f32[1, 4, 8, 8]
    %sum = conv_epilogue(%r, %w, %b, %r) : f32[1, 4, 8, 8]
    %z = conv(%sum, %w, %b) : f32[1, 4, 8, 8]
    return %z
  })",
                false);
}

TEST(JoinEpilogues, WithoutFastMathAResidualThatIsNeededLaterIsNot) {
  const char* later = R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %r = conv(%x, %w, none) : f32[1, 4, 8, 8]
    %y = conv(%r, %w, none) : f32[1, 4, 8, 8]
    %sum = add(%y, %r) : f32[1, 4, 8, 8]
    %z = conv(%sum, %w, none) : f32[1, 4, 8, 8]
    %u = conv(%r, %w, none) : f32[1, 4, 8, 8]
    return %z, %u
  })";
  expect_joined(later, later, false);
  const char* fed = R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %y = conv(%x, %w, none) : f32[1, 4, 8, 8]
    %sum = add(%y, %x) : f32[1, 4, 8, 8]
    return %sum
  })";
  expect_joined(fed, fed, false);
}

TEST(JoinEpilogues, AResultThatSomethingElseReadsStays) {
  const char* twice = R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %y = conv(%x, %w, none) : f32[1, 4, 8, 8]
    %z = relu(%y) : f32[1, 4, 8, 8]
    %u = exp(%y) : f32[1, 4, 8, 8]
    return %z, %u
  })";
  expect_joined(twice, twice, true);
  const char* result = R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %y = conv(%x, %w, none) : f32[1, 4, 8, 8]
    %z = relu(%y) : f32[1, 4, 8, 8]
    return %z, %y
  })";
  expect_joined(result, result, true);
  const char* doubled = R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %y = conv(%x, %w, none) : f32[1, 4, 8, 8]
    %z = add(%y, %y) : f32[1, 4, 8, 8]
    return %z
  })";
  expect_joined(doubled, doubled, true);
}

TEST(JoinEpilogues, OtherDtypesAndBroadcastSumsStay) {
  const char* wide = R"(graph {
    %x = placeholder : f64[1, 4, 8, 8]
    %w = variable : f64[4, 4, 1, 1]
    %y = conv(%x, %w, none) : f64[1, 4, 8, 8]
    %z = relu(%y) : f64[1, 4, 8, 8]
    return %z
  })";
  expect_joined(wide, wide, true);
  const char* broadcast = R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %r = placeholder : f32[1, 4, 1, 1]
    %y = conv(%x, %w, none) : f32[1, 4, 8, 8]
    %z = add(%y, %r) : f32[1, 4, 8, 8]
    return %z
  })";
  expect_joined(broadcast, broadcast, true);
}

TEST(JoinEpilogues, BoundsSlopesAndGatesAreActivations) {
  expect_joined(R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %zero = constant 0.0 : f32[]
    %six = constant 6.0 : f32[]
    %a = conv(%x, %w, none) : f32[1, 4, 8, 8]
    %low = maximum(%a, %zero) : f32[1, 4, 8, 8]
    %b = minimum(%six, %low) : f32[1, 4, 8, 8]
    %c = conv(%b, %w, none) : f32[1, 4, 8, 8]
    %d = clamp(%c) {low = -1.0, high = 2.0} : f32[1, 4, 8, 8]
    %e = conv(%d, %w, none) : f32[1, 4, 8, 8]
    %f = leaky_relu(%e) {slope = 0.25} : f32[1, 4, 8, 8]
    %g = conv(%f, %w, none) : f32[1, 4, 8, 8]
    %gate = sigmoid(%g) : f32[1, 4, 8, 8]
    %h = mul(%gate, %g) : f32[1, 4, 8, 8]
    %i = conv(%h, %w, none) : f32[1, 4, 8, 8]
    %j = maximum(%i, %six) : f32[1, 4, 8, 8]
    return %j
  })",
                R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %zero = constant 0.0 : f32[]
    %six = constant 6.0 : f32[]
    %b = conv_epilogue(%x, %w, none, none) {activation = "clamp", alpha = 0.0, beta = 6.0}
    %d = conv_epilogue(%b, %w, none, none) {activation = "clamp", alpha = -1.0, beta = 2.0}
    %f = conv_epilogue(%d, %w, none, none) {activation = "leaky_relu", alpha = 0.25}
    %h = conv_epilogue(%f, %w, none, none) {activation = "silu"}
    %j = conv_epilogue(%h, %w, none, none) {activation = "clamp", alpha = 6.0, beta = inf}
    return %j
  })",
                true);
}

constexpr const char* kProducts = R"(graph {
  %x = placeholder : f32[n, 2]
  %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2]
  %b = constant [1.0, 2.0] : f32[2]
  %v = variable : f32[2, 2]
  %a = matmul(%x, %w) : f32[n, 2]
  %biased = add(%b, %a) : f32[n, 2]
  %h = relu(%biased) : f32[n, 2]
  %c = linear(%h, %w, %b) : f32[n, 2]
  %sum = add(%c, %x) : f32[n, 2]
  %d = matmul(%sum, %v) : f32[n, 2]
  %e = matmul(%d, %w) {transpose_b = true} : f32[n, 2]
  return %e
})";

TEST(JoinEpilogues, ProductsWithConstantsTakeBiasResidualAndActivation) {
  expect_joined(kProducts, R"(graph {
    %x = placeholder : f32[n, 2]
    %w = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2]
    %b = constant [1.0, 2.0] : f32[2]
    %v = variable : f32[2, 2]
    %h = product_epilogue(%x, %w, %b, none) {activation = "relu"} : f32[n, 2]
    %sum = product_epilogue(%h, %w, %b, %x) {transposed = true} : f32[n, 2]
    %d = matmul(%sum, %v) : f32[n, 2]
    %e = product_epilogue(%d, %w, none, none) {transposed = true} : f32[n, 2]
    return %e
  })",
                true);
  expect_joined(kProducts, kProducts, false);
}

TEST(JoinEpilogues, RowsRefuseWhatTheirKernelsCannotDo) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      static_cast<void>(parse_with_epilogues(text));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(R"(graph {
    %x = placeholder : f32[1, 4, 8, 8]
    %w = variable : f32[4, 4, 1, 1]
    %y = conv_epilogue(%x, %w, none, none) {activation = "softmax"}
    return %y
  })")
                .find("activation = \"softmax\" is none that an epilogue may have"),
            std::string::npos);
  EXPECT_NE(message(R"(graph {
    %x = placeholder : f32[3, 4]
    %w = variable : f32[4, 5]
    %r = variable : f32[3, 4]
    %y = product_epilogue(%x, %w, none, %r)
    return %y
  })")
                .find("residual must be [3, 5], like the result, but is [3, 4]"),
            std::string::npos);
  EXPECT_NE(message(R"(graph {
    %x = placeholder : f32[3, 4]
    %w = variable : f32[5, 4]
    %y = product_epilogue(%x, %w, none, none)
    return %y
  })")
                .find("the last axis of x has size 4 but weight takes 5"),
            std::string::npos);
  EXPECT_NE(message(R"(graph {
    %x = placeholder : f32[3, 4]
    %w = variable : f32[4, 5]
    %b = variable : f32[4]
    %y = product_epilogue(%x, %w, %b, none)
    return %y
  })")
                .find("bias must be [5], the channels of the result, but is [4]"),
            std::string::npos);
}

TEST(FoldNorms, ANormBehindAConvolutionGoesIntoItsConstants) {
  const Ref<GraphImpl> graph = fold_norms(*parse(R"(graph {
    %x = placeholder : f32[n, 1, 8, 8]
    %w = constant [1.0, 2.0] : f32[2, 1, 1, 1]
    %scale = constant [1.0, 3.0] : f32[2]
    %shift = constant [0.5, 0.25] : f32[2]
    %mean = constant [4.0, 5.0] : f32[2]
    %var = constant [6.0, 7.0] : f32[2]
    %y = conv(%x, %w, none) {stride = [2, 2]} : f32[n, 2, 4, 4]
    %z = batch_norm(%y, %scale, %shift, %mean, %var) {eps = 0.001} : f32[n, 2, 4, 4]
    return %z
  })"));
  EXPECT_TRUE(is_graph(graph, R"(graph {
    %x = placeholder : f32[n, 1, 8, 8]
    %w = constant [1.0, 2.0] : f32[2, 1, 1, 1]
    %scale = constant [1.0, 3.0] : f32[2]
    %shift = constant [0.5, 0.25] : f32[2]
    %mean = constant [4.0, 5.0] : f32[2]
    %var = constant [6.0, 7.0] : f32[2]
    %eps = constant 0.001 : f32[]
    %a = add(%var, %eps) : f32[2]
    %root = rsqrt(%a) : f32[2]
    %s = mul(%scale, %root) : f32[2]
    %minus = neg(%mean) : f32[2]
    %moved = mul(%minus, %s) : f32[2]
    %bias = add(%moved, %shift) : f32[2]
    %each = reshape(%s) {shape = [-1, 1, 1, 1]} : f32[2, 1, 1, 1]
    %weight = mul(%w, %each) : f32[2, 1, 1, 1]
    %z = conv(%x, %weight, %bias) {stride = [2, 2]} : f32[n, 2, 4, 4]
    return %z
  })"));
}

TEST(FoldNorms, StatisticsThatChangeAndResultsThatAreReadTwiceStay) {
  const char* changing = R"(graph {
    %x = placeholder : f32[n, 1, 8, 8]
    %w = constant [1.0, 2.0] : f32[2, 1, 1, 1]
    %c = constant [1.0, 3.0] : f32[2]
    %mean = variable : f32[2]
    %y = conv(%x, %w, none) : f32[n, 2, 8, 8]
    %z = batch_norm(%y, %c, %c, %mean, %c) {eps = 0.001} : f32[n, 2, 8, 8]
    return %z
  })";
  EXPECT_TRUE(is_graph(fold_norms(*parse(changing)), changing));
  const char* twice = R"(graph {
    %x = placeholder : f32[n, 1, 8, 8]
    %w = constant [1.0, 2.0] : f32[2, 1, 1, 1]
    %c = constant [1.0, 3.0] : f32[2]
    %y = conv(%x, %w, none) : f32[n, 2, 8, 8]
    %z = batch_norm(%y, %c, %c, %c, %c) {eps = 0.001} : f32[n, 2, 8, 8]
    return %z, %y
  })";
  EXPECT_TRUE(is_graph(fold_norms(*parse(twice)), twice));
}

TEST(FoldNorms, AFactorBehindAConvolutionOrProductGoesIntoItsConstants) {
  const Ref<GraphImpl> graph = fold_norms(*parse(R"(graph {
    %x = placeholder : f32[n, 1, 8, 8]
    %v = placeholder : f32[n, 2]
    %w = constant [1.0, 2.0] : f32[2, 1, 1, 1]
    %b = constant [0.5, 0.25] : f32[2]
    %half = constant 0.5 : f32[]
    %each = constant [3.0, 4.0] : f32[2, 1, 1]
    %last = constant [5.0, 6.0] : f32[1, 2]
    %m = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2]
    %y = conv(%x, %w, %b) : f32[n, 2, 8, 8]
    %z = mul(%y, %each) : f32[n, 2, 8, 8]
    %l = linear(%v, %m, %b) : f32[n, 2]
    %s = mul(%half, %l) : f32[n, 2]
    %p = matmul(%v, %m) : f32[n, 2]
    %q = mul(%p, %last) : f32[n, 2]
    return %z, %s, %q
  })"));
  EXPECT_TRUE(is_graph(graph, R"(graph {
    %x = placeholder : f32[n, 1, 8, 8]
    %v = placeholder : f32[n, 2]
    %w = constant [1.0, 2.0] : f32[2, 1, 1, 1]
    %b = constant [0.5, 0.25] : f32[2]
    %half = constant 0.5 : f32[]
    %each = constant [3.0, 4.0] : f32[2, 1, 1]
    %last = constant [5.0, 6.0] : f32[1, 2]
    %m = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2]
    %e = reshape(%each) {shape = [-1]} : f32[2]
    %be = mul(%b, %e) : f32[2]
    %e4 = reshape(%e) {shape = [-1, 1, 1, 1]} : f32[2, 1, 1, 1]
    %we = mul(%w, %e4) : f32[2, 1, 1, 1]
    %z = conv(%x, %we, %be) : f32[n, 2, 8, 8]
    %h = reshape(%half) {shape = [-1]} : f32[1]
    %bh = mul(%b, %h) : f32[2]
    %h2 = reshape(%h) {shape = [-1, 1]} : f32[1, 1]
    %mh = mul(%m, %h2) : f32[2, 2]
    %s = linear(%v, %mh, %bh) : f32[n, 2]
    %f = reshape(%last) {shape = [-1]} : f32[2]
    %f2 = reshape(%f) {shape = [1, -1]} : f32[1, 2]
    %mf = mul(%m, %f2) : f32[2, 2]
    %q = matmul(%v, %mf) : f32[n, 2]
    return %z, %s, %q
  })"));
}

TEST(FoldNorms, FactorsOfRowsAndOfChangingWeightsStay) {
  const char* text = R"(graph {
    %v = placeholder : f32[2, 2]
    %m = constant [1.0, 2.0, 3.0, 4.0] : f32[2, 2]
    %changing = variable : f32[2, 2]
    %rows = constant [3.0, 4.0] : f32[2, 1]
    %two = constant 2.0 : f32[]
    %wider = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] : f32[3, 1, 2]
    %p = matmul(%v, %m) : f32[2, 2]
    %a = mul(%p, %rows) : f32[2, 2]
    %q = matmul(%v, %changing) : f32[2, 2]
    %b = mul(%q, %two) : f32[2, 2]
    %r = matmul(%v, %m) : f32[2, 2]
    %c = mul(%r, %wider) : f32[3, 2, 2]
    %s = matmul(%v, %m) : f32[2, 2]
    %d = mul(%s, %v) : f32[2, 2]
    return %a, %b, %c, %d
  })";
  EXPECT_TRUE(is_graph(fold_norms(*parse(text)), text));
}

}  // namespace
}  // namespace dyad::passes
