// join_attention: a graph's text before and after.
#include "dyad/passes/join_attention.h"

#include <string>

#include "dyad/passes/dce.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

/// q, k and v of two heads and 8 wide, with what `lines` make of them: the results of %y.
std::string with_heads(const std::string& lines) {
  return "graph {\n"
         "  %q = placeholder : f32[n, 2, l, 8]\n"
         "  %k = placeholder : f32[n, 2, s, 8]\n"
         "  %v = placeholder : f32[n, 2, s, 4]\n"
         "  %mask = placeholder : f32[l, s]\n"
         "  %seen = placeholder : bool[n, 1, 1, s]\n" +
         lines + "\n  return %y\n}";
}

const std::string kTurned = "%t = permute(%k) {axes = [0, 1, 3, 2]} : f32[n, 2, 8, s]\n";
const std::string kScores = kTurned + "%a = matmul(%q, %t) : f32[n, 2, l, s]\n";
const std::string kRest =
    "%p = softmax(%z) {axis = 3} : f32[n, 2, l, s]\n"
    "%y = matmul(%p, %v) : f32[n, 2, l, 4]";

Ref<GraphImpl> joined(const std::string& text) {
  Ref<GraphImpl> graph = join_attention(*parse(text));
  dce(*graph);
  return graph;
}

/// That `lines` become one call with `mask`, which `added` makes,
/// and `scale`.
::testing::AssertionResult becomes(const std::string& lines, const std::string& mask,
                                   const std::string& scale, const std::string& added = "") {
  return is_graph(
      joined(with_heads(lines)),
      with_heads(added + "%y, %lse = attention_forward(%q, %k, %v, " + mask +
                 ", none, none) {scale = " + scale + "} : f32[n, 2, l, 4], f32[n, 2, l]"));
}

::testing::AssertionResult stays(const std::string& lines) {
  const Ref<GraphImpl> wanted = parse(with_heads(lines));
  dce(*wanted);
  return is_graph(joined(with_heads(lines)), to_string(*wanted));
}

TEST(JoinAttention, ScaleStandsAnywhere) {
  EXPECT_TRUE(becomes(kScores +
                          "%c = constant 0.25 : f32[]\n"
                          "%z = mul(%a, %c) : f32[n, 2, l, s]\n" +
                          kRest,
                      "none", "0.25"));
  EXPECT_TRUE(becomes(kScores +
                          "%c = constant [4.0] : f32[1]\n"
                          "%z = div(%a, %c) : f32[n, 2, l, s]\n" +
                          kRest,
                      "none", "0.25"));
  EXPECT_TRUE(becomes(kTurned +
                          "%c = constant 0.5 : f32[]\n"
                          "%qs = mul(%c, %q) : f32[n, 2, l, 8]\n"
                          "%ts = mul(%t, %c) : f32[n, 2, 8, s]\n"
                          "%z = matmul(%qs, %ts) : f32[n, 2, l, s]\n" +
                          kRest,
                      "none", "0.25"));
  EXPECT_TRUE(becomes(kTurned + "%z = matmul(%q, %t) : f32[n, 2, l, s]\n" + kRest, "none", "1.0"));
}

TEST(JoinAttention, ANumberThatAddsAnAxisStaysAndCountsOnce) {
  const std::string begin = R"(graph {
    %q = placeholder : f32[l, 8]
    %k = placeholder : f32[1, s, 8]
    %v = placeholder : f32[1, s, 4]
    %c = constant [0.5] : f32[1, 1, 1]
    %scaled = mul(%q, %c) : f32[1, l, 8]
  )";
  EXPECT_TRUE(is_graph(joined(begin + R"(
    %z = matmul(%scaled, %k) {transpose_b = true} : f32[1, l, s]
    %p = softmax(%z) {axis = 2} : f32[1, l, s]
    %y = matmul(%p, %v) : f32[1, l, 4]
    return %y
  })"),
                       begin + R"(
    %keys = unsqueeze(%k) {axis = 0} : f32[1, 1, s, 8]
    %queries = unsqueeze(%scaled) {axis = 0} : f32[1, 1, l, 8]
    %values = unsqueeze(%v) {axis = 0} : f32[1, 1, s, 4]
    %o, %lse = attention_forward(%queries, %keys, %values, none, none, none) {scale = 1.0} : f32[1, 1, l, 4], f32[1, 1, l]
    %y = squeeze(%o) {axis = 0} : f32[1, l, 4]
    return %y
  })"));
}

TEST(JoinAttention, KeysMayBeTurnedByTheProduct) {
  EXPECT_TRUE(is_graph(
      joined(with_heads("%z = matmul(%q, %k) {transpose_b = true} : f32[n, 2, l, s]\n" + kRest)),
      with_heads("%y, %lse = attention_forward(%q, %k, %v, none, none, none) "
                 "{scale = 1.0} : f32[n, 2, l, 4], f32[n, 2, l]")));
}

TEST(JoinAttention, MasksAreAddedOrChoose) {
  EXPECT_TRUE(becomes(kScores +
                          "%c = constant 0.25 : f32[]\n"
                          "%s = mul(%a, %c) : f32[n, 2, l, s]\n"
                          "%z = add(%mask, %s) : f32[n, 2, l, s]\n" +
                          kRest,
                      "%mask", "0.25"));
  const std::string none = "%none = constant -inf : f32[]\n";
  EXPECT_TRUE(becomes(kScores + none + "%z = where(%seen, %a, %none) : f32[n, 2, l, s]\n" + kRest,
                      "%seen", "1.0"));
  EXPECT_TRUE(is_graph(
      joined(
          with_heads(kScores + none + "%z = where(%seen, %none, %a) : f32[n, 2, l, s]\n" + kRest)),
      with_heads("%not = logical_not(%seen) : bool[n, 1, 1, s]\n"
                 "%y, %lse = attention_forward(%q, %k, %v, %not, none, none) "
                 "{scale = 1.0} : f32[n, 2, l, 4], f32[n, 2, l]")));
}

TEST(JoinAttention, ANumberBelowAllScoresIsAdded) {
  EXPECT_TRUE(becomes(kScores +
                          "%low = constant -3e38 : f32[]\n"
                          "%z = where(%seen, %a, %low) : f32[n, 2, l, s]\n" +
                          kRest,
                      "%added", "1.0",
                      "%nought = constant 0.0 : f32[]\n"
                      "%low = constant -3e38 : f32[]\n"
                      "%added = where(%seen, %nought, %low) : f32[n, 1, 1, s]\n"));
}

TEST(JoinAttention, RowsOfNothingMayBeMadeZero) {
  const std::string masked = kScores +
                             "%none = constant -inf : f32[]\n"
                             "%zero = constant 0.0 : f32[]\n"
                             "%z = where(%seen, %a, %none) : f32[n, 2, l, s]\n"
                             "%p = softmax(%z) {axis = 3} : f32[n, 2, l, s]\n";
  const std::string last = "%y = matmul(%o, %v) : f32[n, 2, l, 4]";
  EXPECT_TRUE(becomes(masked +
                          "%nan = isnan(%p) : bool[n, 2, l, s]\n"
                          "%o = where(%nan, %zero, %p) : f32[n, 2, l, s]\n" +
                          last,
                      "%seen", "1.0"));
  EXPECT_TRUE(
      becomes(masked + "%o = where(%seen, %p, %zero) : f32[n, 2, l, s]\n" + last, "%seen", "1.0"));
}

TEST(JoinAttention, WithoutHeadsGetsOne) {
  EXPECT_TRUE(is_graph(joined(R"(graph {
    %q = placeholder : f32[n, l, 8]
    %k = placeholder : f32[n, 8, s]
    %v = placeholder : f32[n, s, 4]
    %mask = placeholder : f32[n, 1, s]
    %a = matmul(%q, %k) : f32[n, l, s]
    %z = add(%a, %mask) : f32[n, l, s]
    %p = softmax(%z) {axis = 2} : f32[n, l, s]
    %y = matmul(%p, %v) : f32[n, l, 4]
    return %y
  })"),
                       R"(graph {
    %q = placeholder : f32[n, l, 8]
    %k = placeholder : f32[n, 8, s]
    %v = placeholder : f32[n, s, 4]
    %mask = placeholder : f32[n, 1, s]
    %keys = unsqueeze(%k) {axis = 0} : f32[1, n, 8, s]
    %back = permute(%keys) {axes = [0, 1, 3, 2]} : f32[1, n, s, 8]
    %queries = unsqueeze(%q) {axis = 0} : f32[1, n, l, 8]
    %values = unsqueeze(%v) {axis = 0} : f32[1, n, s, 4]
    %added = unsqueeze(%mask) {axis = 0} : f32[1, n, 1, s]
    %o, %lse = attention_forward(%queries, %back, %values, %added, none, none) {scale = 1.0} : f32[1, n, l, 4], f32[1, n, l]
    %y = squeeze(%o) {axis = 0} : f32[n, l, 4]
    return %y
  })"));
}

TEST(JoinAttention, StaysWhereOthersReadOrSomethingElseIsMeant) {
  const std::string none = "%none = constant -1.0 : f32[]\n%zero = constant 0.0 : f32[]\n";
  // A number that is not -inf leaves something of what it hides.
  EXPECT_TRUE(stays(kScores + none + "%z = where(%seen, %a, %none) : f32[n, 2, l, s]\n" + kRest));
  // The gradient reads probabilities.
  EXPECT_TRUE(stays(kTurned + "%z = matmul(%q, %t) : f32[n, 2, l, s]\n"
                              "%p = softmax(%z) {axis = 3} : f32[n, 2, l, s]\n"
                              "%o = matmul(%p, %v) : f32[n, 2, l, 4]\n"
                              "%all = sum(%p) {axes = [0, 1, 2, 3], keepdim = false} : f32[]\n"
                              "%y = mul(%o, %all) : f32[n, 2, l, 4]"));
  // Another axis; a mask that widens; a factor of 0; a choice that no mask made.
  EXPECT_TRUE(stays(kTurned + "%z = matmul(%q, %t) : f32[n, 2, l, s]\n"
                              "%p = softmax(%z) {axis = 2} : f32[n, 2, l, s]\n"
                              "%y = matmul(%p, %v) : f32[n, 2, l, 4]"));
  EXPECT_TRUE(stays(kScores + none + "%z = mul(%a, %zero) : f32[n, 2, l, s]\n" + kRest));
  EXPECT_TRUE(stays(kScores + none +
                    "%p = softmax(%a) {axis = 3} : f32[n, 2, l, s]\n"
                    "%o = where(%seen, %p, %zero) : f32[n, 2, l, s]\n"
                    "%y = matmul(%o, %v) : f32[n, 2, l, 4]"));
}

}  // namespace
}  // namespace dyad::passes
