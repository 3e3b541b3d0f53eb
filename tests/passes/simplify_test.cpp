// canonical, simplify_views, simplify_algebra, fast_math: a graph's text before and after.
#include "dyad/passes/canonical.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/fast_math.h"
#include "dyad/passes/simplify_algebra.h"
#include "dyad/passes/simplify_views.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

using PassFunction = Ref<GraphImpl> (*)(const GraphImpl&);

/// `graph { %x = placeholder : TYPE, LINES, %end = sum of %y, return %end }`: the sum hides from
/// the caller how %y lies in memory.
std::string with_sum(const std::string& type, const std::string& lines) {
  return "graph {\n  %x = placeholder : " + type + "\n" + lines +
         "\n  %end = sum(%y) {axes = [0], keepdim = false}\n  return %end\n}";
}

::testing::AssertionResult becomes(PassFunction pass, const std::string& before,
                                   const std::string& after) {
  const Ref<GraphImpl> graph = pass(*parse(before));
  dce(*graph);
  return is_graph(graph, after);
}

/// That the pass makes %x of %y.
::testing::AssertionResult goes(PassFunction pass, const std::string& type,
                                const std::string& lines) {
  return becomes(pass, with_sum(type, lines),
                 "graph {\n  %x = placeholder : " + type +
                     "\n  %end = sum(%x) {axes = [0], keepdim = false}\n  return %end\n}");
}

::testing::AssertionResult stays(PassFunction pass, const std::string& text) {
  return becomes(pass, text, text);
}

TEST(Canonical, AxesCountFromTheFrontAndSizesAreNamed) {
  EXPECT_TRUE(becomes(canonical, R"(graph {
    %x = placeholder : f32[a, 2, 3]
    %s = sum(%x) {axes = [-1, 0], keepdim = false}
    %p = permute(%x) {axes = [-1, 0, 1]}
    %u = unsqueeze(%x) {axis = -1}
    %r = reshape(%x) {shape = [-1, 6]}
    %q = reshape(%p) {shape = [-1]}
    %k = placeholder : f32[2, 3]
    %l = reshape(%k) {shape = [-1]}
    return %s, %p, %u, %r, %q, %l
  })",
                      R"(graph {
    %x = placeholder : f32[a, 2, 3]
    %s = sum(%x) {axes = [0, 2], keepdim = false}
    %p = permute(%x) {axes = [2, 0, 1]}
    %u = unsqueeze(%x) {axis = 3}
    %r = reshape(%x) {shape = [-1, 6]}
    %q = reshape(%p) {shape = [-1]}
    %k = placeholder : f32[2, 3]
    %l = reshape(%k) {shape = [6]}
    return %s, %p, %u, %r, %q, %l
  })"));
}

TEST(Canonical, IntegersTakeTheOlderOneFirstAndFloatsStay) {
  EXPECT_TRUE(becomes(canonical, R"(graph {
    %a = placeholder : i64[4]
    %b = placeholder : i64[4]
    %f = placeholder : f32[4]
    %g = placeholder : f32[4]
    %i = add(%b, %a)
    %y = add(%g, %f)
    %d = sub(%b, %a)
    %si = sum(%i) {axes = [0], keepdim = false}
    %sy = sum(%y) {axes = [0], keepdim = false}
    %sd = sum(%d) {axes = [0], keepdim = false}
    return %si, %sy, %sd
  })",
                      R"(graph {
    %a = placeholder : i64[4]
    %b = placeholder : i64[4]
    %f = placeholder : f32[4]
    %g = placeholder : f32[4]
    %i = add(%a, %b)
    %y = add(%g, %f)
    %d = sub(%b, %a)
    %si = sum(%i) {axes = [0], keepdim = false}
    %sy = sum(%y) {axes = [0], keepdim = false}
    %sd = sum(%d) {axes = [0], keepdim = false}
    return %si, %sy, %sd
  })"));
}

TEST(SimplifyViews, WhatChangesNothingGoes) {
  for (const char* lines :
       {"%y = stop_gradient(%x)", "%y = permute(%x) {axes = [0, -1]}",
        "%y = reshape(%x) {shape = [n, 6]}", "%y = reshape(%x) {shape = [n, -1]}",
        "%y = expand(%x) {shape = [n, 6]}", "%y = slice(%x) {axis = 1, begin = 0, end = 6}",
        "%y = clone(%x)", "%y = concat(%x) {axis = 0}",
        "%a = permute(%x) {axes = [1, 0]}\n%y = permute(%a) {axes = [1, 0]}",
        "%a = unsqueeze(%x) {axis = 1}\n%y = squeeze(%a) {axis = 1}",
        "%a = reshape(%x) {shape = [6, n]}\n%y = reshape(%a) {shape = [n, 6]}"}) {
    EXPECT_TRUE(goes(simplify_views, "f32[n, 6]", lines)) << lines;
  }
}

TEST(SimplifyViews, WhatChangesSomethingStays) {
  for (const char* lines :
       {"%y = permute(%x) {axes = [1, 0]}", "%y = reshape(%x) {shape = [6, n]}",
        "%y = slice(%x) {axis = 1, begin = 1, end = 6}",
        "%y = slice(%x) {axis = 1, begin = 5, end = -7, step = -1}",
        "%y = concat(%x, %x) {axis = 0}", "%y = expand(%x) {shape = [2, n, 6]}"}) {
    EXPECT_TRUE(stays(simplify_views, with_sum("f32[n, 6]", lines))) << lines;
  }
}

TEST(SimplifyViews, TwoBecomeOne) {
  EXPECT_TRUE(becomes(simplify_views, with_sum("f32[2, 3, 4]", R"(
    %a = permute(%x) {axes = [1, 2, 0]}
    %y = permute(%a) {axes = [1, 2, 0]})"),
                      with_sum("f32[2, 3, 4]", "%y = permute(%x) {axes = [2, 0, 1]}")));
  EXPECT_TRUE(becomes(simplify_views, with_sum("f32[2, 3, 4]", R"(
    %a = reshape(%x) {shape = [6, 4]}
    %b = unsqueeze(%a) {axis = 0}
    %y = reshape(%b) {shape = [24]})"),
                      with_sum("f32[2, 3, 4]", "%y = reshape(%x) {shape = [24]}")));
}

TEST(SimplifyViews, HowAValueLiesInMemoryStaysWhereSomebodyCanTell) {
  // %x may lie column-major; the copy does not, and the product's library call looks.
  EXPECT_TRUE(stays(simplify_views, R"(graph {
    %x = placeholder : f32[4, 4]
    %y = clone(%x)
    %t = permute(%y) {axes = [1, 0]}
    %z = tanh(%t)
    %m = matmul(%z, %x)
    return %m
  })"));
  EXPECT_TRUE(stays(simplify_views, R"(graph {
    %x = placeholder : f32[4, 4]
    %y = clone(%x)
    return %y
  })"));
  // What a reduction makes is row-major, and so is its copy.
  EXPECT_TRUE(becomes(simplify_views, R"(graph {
    %x = placeholder : f32[4, 4, 4]
    %s = sum(%x) {axes = [0], keepdim = false}
    %e = exp(%s)
    %y = clone(%e)
    %m = matmul(%y, %y)
    return %m
  })",
                      R"(graph {
    %x = placeholder : f32[4, 4, 4]
    %s = sum(%x) {axes = [0], keepdim = false}
    %e = exp(%s)
    %m = matmul(%e, %e)
    return %m
  })"));
}

TEST(SimplifyAlgebra, WhatChangesNoBitGoes) {
  const std::string one = "%one = constant 1.0 : f32[]\n", zero = "%zero = constant 0.0 : f32[]\n";
  for (const std::string& lines :
       {one + "%y = mul(%x, %one)", one + "%y = mul(%one, %x)", one + "%y = div(%x, %one)",
        zero + "%y = sub(%x, %zero)",
        std::string("%zero = constant -0.0 : f32[]\n%y = add(%x, %zero)"),
        std::string("%ones = full() {shape = [n, 6], value = 1.0, dtype = f32}\n"
                    "%y = mul(%x, %ones)"),
        std::string("%a = neg(%x)\n%y = neg(%a)"),
        std::string("%t = constant true : bool[]\n%a = exp(%x)\n%y = where(%t, %x, %a)"),
        std::string("%t = constant false : bool[]\n%a = exp(%x)\n%y = where(%t, %a, %x)"),
        std::string("%y = cast(%x) {dtype = f32}"),
        std::string("%a = cast(%x) {dtype = f64}\n%y = cast(%a) {dtype = f32}")}) {
    EXPECT_TRUE(goes(simplify_algebra, "f32[n, 6]", lines)) << lines;
  }
  EXPECT_TRUE(goes(simplify_algebra, "i32[n, 6]", "%z = constant 0 : i32[]\n%y = add(%z, %x)"));
  EXPECT_TRUE(goes(simplify_algebra, "i32[n, 6]", "%a = bitwise_not(%x)\n%y = bitwise_not(%a)"));
}

TEST(SimplifyAlgebra, WhatChangesABitStays) {
  const std::string zero = "%zero = constant 0.0 : f32[]\n";
  for (const std::string& lines :
       {zero + "%y = add(%x, %zero)", zero + "%y = sub(%zero, %x)", zero + "%y = mul(%x, %zero)",
        std::string("%zero = constant -0.0 : f32[]\n%y = sub(%x, %zero)"),
        std::string("%one = constant 1.0 : f32[]\n%y = div(%one, %x)"),
        std::string("%a = cast(%x) {dtype = f16}\n%y = cast(%a) {dtype = f32}"),
        std::string("%a = cast(%x) {dtype = i64}\n%y = cast(%a) {dtype = f32}"),
        std::string("%row = constant [1.0] : f32[1]\n%u = unsqueeze(%x) {axis = 0}\n"
                    "%one = full() {shape = [2, n, 6], value = 1.0, dtype = f32}\n"
                    "%y = mul(%x, %one)")}) {
    const Ref<GraphImpl> before = parse(with_sum("f32[n, 6]", lines));
    dce(*before);
    EXPECT_TRUE(becomes(simplify_algebra, to_string(*before), to_string(*before))) << lines;
  }
  // -1 of i8 as u8 is 255; as f32 and then u8 it is 0.
  EXPECT_TRUE(stays(simplify_algebra, with_sum("i8[n, 6]",
                                               "%a = cast(%x) {dtype = f32}\n"
                                               "%y = cast(%a) {dtype = u8}")));
}

TEST(SimplifyAlgebra, ACastThatLosesNothingIsSkippedByTheNext) {
  EXPECT_TRUE(becomes(simplify_algebra,
                      with_sum("f16[n, 6]",
                               "%a = cast(%x) {dtype = f32}\n"
                               "%y = cast(%a) {dtype = f64}"),
                      with_sum("f16[n, 6]", "%y = cast(%x) {dtype = f64}")));
  EXPECT_TRUE(becomes(simplify_algebra,
                      with_sum("i8[n, 6]",
                               "%a = cast(%x) {dtype = i32}\n"
                               "%y = cast(%a) {dtype = u8}"),
                      with_sum("i8[n, 6]", "%y = cast(%x) {dtype = u8}")));
}

TEST(FastMath, DoesWhatItsListSays) {
  EXPECT_TRUE(becomes(fast_math, R"(graph {
    %x = placeholder : f32[n]
    %zero = constant 0.0 : f32[]
    %two = constant 2.0 : f32[]
    %four = constant 4.0 : f32[]
    %a = add(%x, %zero)
    %b = div(%a, %four)
    %c = mul(%two, %b)
    %d = add(%c, %two)
    %e = add(%d, %four)
    return %e
  })",
                      R"(graph {
    %x = placeholder : f32[n]
    %half = constant 0.5 : f32[]
    %c = mul(%x, %half)
    %six = constant 6.0 : f32[]
    %e = add(%c, %six)
    return %e
  })"));
  EXPECT_TRUE(stays(fast_math, R"(graph {
    %x = placeholder : f32[n]
    %i = placeholder : i32[n]
    %zero = constant 0.0 : f32[]
    %three = constant 3 : i32[]
    %a = div(%x, %zero)
    %b = mul(%x, %zero)
    %c = mul(%i, %three)
    %d = mul(%c, %three)
    return %a, %b, %d
  })"));
}

TEST(SimplifyViews, ChainsMayBeAsLongAsTheGraph) {
  std::string text = "graph {\n  %x0 = placeholder : f32[4]\n";
  constexpr int kLong = 200000;
  for (int i = 0; i < kLong; ++i) {
    text += "  %x" + std::to_string(i + 1) + " = neg(%x" + std::to_string(i) + ")\n";
  }
  const std::string last = "%x" + std::to_string(kLong);
  text += "  %y = reshape(" + last + ") {shape = [4]}\n  return %y\n}";
  const Ref<GraphImpl> graph = simplify_views(*parse(text));
  EXPECT_EQ(graph->nodes().size(), kLong + 2u);  // the caller sees how %y lies in memory
}

}  // namespace
}  // namespace dyad::passes
