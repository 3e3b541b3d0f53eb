// join_norms: a graph's text before and after.
#include "dyad/passes/join_norms.h"

#include <string>

#include "dyad/passes/dce.h"
#include "dyad/passes/join_attention.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

/// What `lines` make of x, of a weight w and of a bias b: the results of %y.
std::string of_rows(const std::string& lines, const std::string& dtype = "f32") {
  return "graph {\n"
         "  %x = placeholder : " +
         dtype +
         "[m, n]\n"
         "  %w = placeholder : " +
         dtype +
         "[n]\n"
         "  %b = placeholder : " +
         dtype + "[n]\n" + lines + "\n  return %y\n}";
}

Ref<GraphImpl> with_norms_joined(const std::string& text) {
  Ref<GraphImpl> graph = join_norms(*parse(text), /*short_rows=*/true);
  dce(*graph);
  return graph;
}

::testing::AssertionResult is_joined(const std::string& lines, const std::string& call,
                                     const std::string& dtype = "f32") {
  return is_graph(with_norms_joined(of_rows(lines, dtype)), of_rows(call, dtype));
}

::testing::AssertionResult is_left(const std::string& lines, const std::string& dtype = "f32") {
  const Ref<GraphImpl> wanted = parse(of_rows(lines, dtype));
  dce(*wanted);
  return is_graph(with_norms_joined(of_rows(lines, dtype)), to_string(*wanted));
}

// --- softmax -------------------------------------------------------------------------------------

const std::string kShifted =
    "%m = max(%x) {axes = [1], keepdim = true}\n"
    "%s = sub(%x, %m)\n";
const std::string kPowers = kShifted +
                            "%e = exp(%s)\n"
                            "%t = sum(%e) {axes = [1], keepdim = true}\n";
const std::string kSoftmax = "%y = softmax(%x) {axis = 1}";
const std::string kLogSoftmax = "%y = log_softmax(%x) {axis = 1}";

TEST(JoinNorms, SoftmaxIsPowersByTheirSum) {
  EXPECT_TRUE(is_joined(kPowers + "%y = div(%e, %t)", kSoftmax));
  EXPECT_TRUE(is_joined(kPowers + "%y = div(%e, %t)", kSoftmax, "f64"));
  const std::string inverse = "%one = constant 1.0 : f32[]\n%i = div(%one, %t)\n";
  EXPECT_TRUE(is_joined(kPowers + inverse + "%y = mul(%e, %i)", kSoftmax));
  EXPECT_TRUE(is_joined(kPowers + inverse + "%y = mul(%i, %e)", kSoftmax));
}

TEST(JoinNorms, SoftmaxMayBeComputedTwiceOnTheWay) {
  EXPECT_TRUE(is_joined(kPowers + "%m2 = max(%x) {axes = [-1], keepdim = true}\n"
                                  "%s2 = sub(%x, %m2)\n"
                                  "%e2 = exp(%s2)\n"
                                  "%y = div(%e2, %t)",
                        kSoftmax));
}

TEST(JoinNorms, SoftmaxMayGoAlongAnyAxis) {
  const std::string begin = "graph {\n  %x = placeholder : f32[a, b, c]\n";
  EXPECT_TRUE(is_graph(with_norms_joined(begin + R"(
    %m = max(%x) {axes = [1], keepdim = true}
    %s = sub(%x, %m)
    %e = exp(%s)
    %t = sum(%e) {axes = [1], keepdim = true}
    %y = div(%e, %t)
    return %y
  })"),
                       begin + "%y = softmax(%x) {axis = 1}\n return %y\n}"));
  // The result of the first axis broadcasts without it, too.
  EXPECT_TRUE(is_graph(with_norms_joined(begin + R"(
    %m = max(%x) {axes = [0], keepdim = false}
    %s = sub(%x, %m)
    %e = exp(%s)
    %t = sum(%e) {axes = [0], keepdim = false}
    %y = div(%e, %t)
    return %y
  })"),
                       begin + "%y = softmax(%x) {axis = 0}\n return %y\n}"));
}

TEST(JoinNorms, AxesMayGoAndComeBack) {
  EXPECT_TRUE(is_joined(R"(
    %m0 = max(%x) {axes = [1], keepdim = false}
    %m = unsqueeze(%m0) {axis = 1}
    %s = sub(%x, %m)
    %e = exp(%s)
    %t0 = sum(%e) {axes = [1], keepdim = false}
    %t = reshape(%t0) {shape = [m, 1]}
    %y = div(%e, %t))",
                        kSoftmax));
}

TEST(JoinNorms, SoftmaxStaysWhereSomethingElseIsMeant) {
  const std::string exps = "%e = exp(%s)\n";
  // Without the largest it overflows; another axis, another one for the sum, both axes.
  EXPECT_TRUE(is_left("%e = exp(%x)\n%t = sum(%e) {axes = [1], keepdim = true}\n%y = div(%e, %t)"));
  EXPECT_TRUE(is_left("%m = min(%x) {axes = [1], keepdim = true}\n%s = sub(%x, %m)\n" + exps +
                      "%t = sum(%e) {axes = [1], keepdim = true}\n%y = div(%e, %t)"));
  EXPECT_TRUE(
      is_left(kShifted + exps + "%t = sum(%e) {axes = [0], keepdim = true}\n%y = div(%e, %t)"));
  EXPECT_TRUE(is_left("%m = max(%x) {axes = [0, 1], keepdim = true}\n%s = sub(%x, %m)\n" + exps +
                      "%t = sum(%e) {axes = [1], keepdim = true}\n%y = div(%e, %t)"));
  EXPECT_TRUE(is_left("%m = max(%x) {axes = [0, 1], keepdim = true}\n%s = sub(%x, %m)\n" + exps +
                      "%t = sum(%e) {axes = [0, 1], keepdim = true}\n%y = div(%e, %t)"));
  // The sum by the powers; the largest of another tensor; powers of another.
  EXPECT_TRUE(is_left(kPowers + "%y = div(%t, %e)"));
  EXPECT_TRUE(
      is_left("%z = tanh(%x)\n%m = max(%z) {axes = [1], keepdim = true}\n"
              "%s = sub(%x, %m)\n" +
              exps + "%t = sum(%e) {axes = [1], keepdim = true}\n%y = div(%e, %t)"));
  EXPECT_TRUE(is_left(kPowers + "%e2 = exp(%x)\n%y = div(%e2, %t)"));
}

TEST(JoinNorms, StaysWhereAxesMeetOthers) {
  // Of a square the results of rows broadcast over columns.
  const std::string square = "graph {\n  %x = placeholder : f32[n, n]\n";
  const std::string text = square + R"(
    %m = max(%x) {axes = [1], keepdim = false}
    %s = sub(%x, %m)
    %e = exp(%s)
    %t = sum(%e) {axes = [1], keepdim = false}
    %y = div(%e, %t)
    return %y
  })";
  EXPECT_TRUE(is_graph(with_norms_joined(text), text));
  // A sum that gives its result another axis.
  const std::string widened = square + R"(
    %m = max(%x) {axes = [1], keepdim = true}
    %s = sub(%x, %m)
    %e = exp(%s)
    %t0 = sum(%e) {axes = [1], keepdim = true}
    %t = reshape(%t0) {shape = [1, n, 1]}
    %y = div(%e, %t)
    return %y
  })";
  EXPECT_TRUE(is_graph(with_norms_joined(widened), widened));
}

TEST(JoinNorms, StaysWhereOthersRead) {
  // A gradient reads the powers; so may a result.
  EXPECT_TRUE(is_left(kPowers + "%p = div(%e, %t)\n%y = mul(%p, %e)"));
  EXPECT_TRUE(is_left(kPowers + "%p = div(%e, %t)\n%y = add(%p, %t)"));
  const std::string both = "graph {\n  %x = placeholder : f32[m, n]\n" + kPowers +
                           "%y = div(%e, %t)\n  return %y, %m\n}";
  EXPECT_TRUE(is_graph(with_norms_joined(both), both));
}

TEST(JoinNorms, IntegersStay) {
  EXPECT_TRUE(is_left(kPowers + "%y = div(%e, %t)", "i32"));
  EXPECT_TRUE(is_left(R"(
    %m = mean(%x) {axes = [1], keepdim = true}
    %d = sub(%x, %m)
    %q = mul(%d, %d)
    %v = mean(%q) {axes = [1], keepdim = true}
    %eps = constant 0.5 : f32[]
    %a = add(%v, %eps)
    %r = rsqrt(%a)
    %y = mul(%d, %r))",
                      "i32"));
}

TEST(JoinNorms, ASoftmaxThatIsWrittenOutMayBePartOfAttention) {
  const std::string begin = R"(graph {
    %q = placeholder : f32[n, 2, l, 8]
    %k = placeholder : f32[n, 2, s, 8]
    %v = placeholder : f32[n, 2, s, 4]
  )";
  const Ref<GraphImpl> joined = join_attention(*join_norms(*parse(begin + R"(
    %x = matmul(%q, %k) {transpose_b = true}
    %m = max(%x) {axes = [3], keepdim = true}
    %d = sub(%x, %m)
    %e = exp(%d)
    %t = sum(%e) {axes = [3], keepdim = true}
    %p = div(%e, %t)
    %y = matmul(%p, %v)
    return %y
  })")));
  dce(*joined);
  EXPECT_TRUE(is_graph(joined, begin + "%y, %lse = attention_forward(%q, %k, %v, none, none, none) "
                                       "{scale = 1.0}\n return %y\n}"));
}

TEST(JoinNorms, RowsThatAreKnownToBeShortStay) {
  const auto softmax_of = [](const std::string& size) {
    return R"(graph {
    %x = placeholder : f32[n, )" +
           size + R"(]
    %m = max(%x) {axes = [1], keepdim = true}
    %s = sub(%x, %m)
    %e = exp(%s)
    %t = sum(%e) {axes = [1], keepdim = true}
    %y = div(%e, %t)
    return %y
  })";
  };
  EXPECT_TRUE(is_graph(join_norms(*parse(softmax_of("127"))), softmax_of("127")));
  for (const char* size : {"128", "m"}) {
    EXPECT_TRUE(is_graph(join_norms(*parse(softmax_of(size))),
                         std::string("graph {\n%x = placeholder : f32[n, ") + size +
                             "]\n%y = softmax(%x) {axis = 1}\nreturn %y\n}"));
  }
}

// --- log_softmax ---------------------------------------------------------------------------------

TEST(JoinNorms, LogSoftmaxIsWhatIsBelowTheLogOfTheSum) {
  EXPECT_TRUE(is_joined(kPowers + "%l = log(%t)\n%y = sub(%s, %l)", kLogSoftmax));
  EXPECT_TRUE(is_joined(kPowers + "%m2 = max(%x) {axes = [1], keepdim = true}\n"
                                  "%s2 = sub(%x, %m2)\n"
                                  "%l = log(%t)\n%y = sub(%s2, %l)",
                        kLogSoftmax));
  EXPECT_TRUE(is_joined(kShifted + R"(
    %e = exp(%s)
    %t = sum(%e) {axes = [1], keepdim = false}
    %l0 = log(%t)
    %l = unsqueeze(%l0) {axis = 1}
    %y = sub(%s, %l))",
                        kLogSoftmax));
}

TEST(JoinNorms, LogSoftmaxIsXLessItsLogSumExp) {
  EXPECT_TRUE(is_joined(kPowers + "%l = log(%t)\n%z = add(%l, %m)\n%y = sub(%x, %z)", kLogSoftmax));
  EXPECT_TRUE(is_joined(kPowers + "%l = log(%t)\n%z = add(%m, %l)\n%y = sub(%x, %z)", kLogSoftmax));
  // As logsumexp() is made.
  const std::string guarded = R"(
    %m = max(%x) {axes = [1], keepdim = true}
    %f = isfinite(%m)
    %zero = constant 0.0 : f32[]
    %c = where(%f, %m, %zero)
    %s = sub(%x, %c)
    %e = exp(%s)
    %t = sum(%e) {axes = [1], keepdim = true}
    %l = log(%t)
  )";
  EXPECT_TRUE(is_joined(guarded + "%z = add(%l, %c)\n%y = sub(%x, %z)", kLogSoftmax));
  EXPECT_TRUE(is_left(guarded + "%z = add(%l, %m)\n%y = sub(%x, %z)"));
}

TEST(JoinNorms, LogSoftmaxIsTheLogOfASoftmax) {
  EXPECT_TRUE(is_joined("%p = softmax(%x) {axis = 1}\n%y = log(%p)", kLogSoftmax));
  EXPECT_TRUE(is_joined(kPowers + "%p = div(%e, %t)\n%y = log(%p)", kLogSoftmax));
  // Whoever else wants the softmax gets it.
  EXPECT_TRUE(is_left("%p = softmax(%x) {axis = 1}\n%l = log(%p)\n%y = mul(%p, %l)"));
  EXPECT_TRUE(is_joined(kPowers + "%p = div(%e, %t)\n%l = log(%p)\n%y = mul(%p, %l)",
                        "%p = softmax(%x) {axis = 1}\n%l = log(%p)\n%y = mul(%p, %l)"));
}

TEST(JoinNorms, CrossEntropyThatIsWrittenOutGathersFromALogSoftmax) {
  const std::string begin =
      "graph {\n  %x = placeholder : f32[m, n]\n"
      "  %target = placeholder : i64[m, 1]\n";
  const std::string loss = R"(
    %own = gather(%y, %target) {axis = 1}
    %mean = mean(%own) {axes = [0, 1], keepdim = false}
    %loss = neg(%mean)
    return %loss
  })";
  EXPECT_TRUE(is_graph(with_norms_joined(begin + kPowers + "%l = log(%t)\n%y = sub(%s, %l)" + loss),
                       begin + kLogSoftmax + loss));
}

TEST(JoinNorms, LogSoftmaxStaysWhereSomethingElseIsMeant) {
  EXPECT_TRUE(is_left(
      "%e = exp(%x)\n%t = sum(%e) {axes = [1], keepdim = true}\n%l = log(%t)\n%y = sub(%x, %l)"));
  EXPECT_TRUE(is_left(kPowers + "%l = log(%t)\n%y = sub(%x, %l)"));
  EXPECT_TRUE(is_left(kPowers + "%l = log(%t)\n%z = add(%l, %m)\n%y = sub(%s, %z)"));
  EXPECT_TRUE(is_left(kPowers + "%l = log(%t)\n%y = sub(%l, %s)"));
  EXPECT_TRUE(is_left(kPowers + "%l = log(%t)\n%z = sub(%s, %l)\n%y = mul(%z, %e)"));
  EXPECT_TRUE(is_left(kPowers + "%l = log2(%t)\n%y = sub(%s, %l)"));
}

// --- norms ---------------------------------------------------------------------------------------

const std::string kEps = "%eps = constant 0.5 : f32[]\n";
const std::string kCentered = kEps +
                              "%mean = mean(%x) {axes = [1], keepdim = true}\n"
                              "%d = sub(%x, %mean)\n";
const std::string kVariance = kCentered +
                              "%q = mul(%d, %d)\n"
                              "%v = mean(%q) {axes = [1], keepdim = true}\n"
                              "%a = add(%v, %eps)\n";
const std::string kInverse = kVariance + "%r = rsqrt(%a)\n";
const std::string kOnes = "%ones = full() {shape = [n], value = 1.0, dtype = f32}\n";
const std::string kLayerNorm = kOnes + "%y = layer_norm(%x, %ones, none) {eps = 0.5}";
const std::string kSquares =
    "%q = mul(%x, %x)\n"
    "%v = mean(%q) {axes = [1], keepdim = true}\n";
const std::string kRms = kEps + kSquares + "%a = add(%v, %eps)\n%r = rsqrt(%a)\n";
const std::string kRmsNorm = kOnes + "%y = rms_norm(%x, %ones) {eps = 0.5}";

TEST(JoinNorms, LayerNormIsSpelledInManyWays) {
  EXPECT_TRUE(is_joined(kVariance + "%r = sqrt(%a)\n%y = div(%d, %r)", kLayerNorm));
  EXPECT_TRUE(is_joined(kInverse + "%y = mul(%d, %r)", kLayerNorm));
  EXPECT_TRUE(is_joined(kInverse + "%y = mul(%r, %d)", kLayerNorm));
  const std::string one = "%one = constant [1.0] : f32[1]\n";
  EXPECT_TRUE(is_joined(kVariance + one + "%s = sqrt(%a)\n%r = div(%one, %s)\n%y = mul(%d, %r)",
                        kLayerNorm));
  const std::string half = "%half = constant 0.5 : f32[]\n%less = constant -0.5 : f32[]\n";
  EXPECT_TRUE(is_joined(kVariance + half + "%r = pow(%a, %half)\n%y = div(%d, %r)", kLayerNorm));
  EXPECT_TRUE(is_joined(kVariance + half + "%r = pow(%a, %less)\n%y = mul(%d, %r)", kLayerNorm));
}

TEST(JoinNorms, VariancesAreSpelledInManyWays) {
  const std::string mean = "%v = mean(%q) {axes = [1], keepdim = true}\n";
  const std::string rest = "%a = add(%eps, %v)\n%r = rsqrt(%a)\n%y = mul(%d, %r)";
  EXPECT_TRUE(is_joined(kCentered + "%q = mul(%d, %d)\n" + mean + rest, kLayerNorm));
  EXPECT_TRUE(is_joined(
      kCentered + "%two = constant 2.0 : f32[]\n%q = pow(%d, %two)\n" + mean + rest, kLayerNorm));
  EXPECT_TRUE(
      is_joined(kCentered + "%v = var(%x) {axes = [1], correction = 0, keepdim = true}\n" + rest,
                kLayerNorm));
  // The distances may be computed twice, a mean may drop its axis.
  EXPECT_TRUE(is_joined(kCentered + R"(
    %mean2 = mean(%x) {axes = [1], keepdim = false}
    %mean3 = unsqueeze(%mean2) {axis = 1}
    %d2 = sub(%x, %mean3)
    %q = mul(%d2, %d2)
  )" + mean + rest,
                        kLayerNorm));
}

TEST(JoinNorms, WeightAndBiasBecomePart) {
  const std::string norm = kInverse + "%z = mul(%d, %r)\n";
  const std::string call = "%y = layer_norm(%x, %w, %b) {eps = 0.5}";
  EXPECT_TRUE(is_joined(norm + "%s = mul(%z, %w)\n%y = add(%s, %b)", call));
  EXPECT_TRUE(is_joined(norm + "%s = mul(%w, %z)\n%y = add(%b, %s)", call));
  EXPECT_TRUE(is_joined(norm + "%y = mul(%z, %w)", "%y = layer_norm(%x, %w, none) {eps = 0.5}"));
  EXPECT_TRUE(
      is_joined(norm + "%y = add(%z, %b)", kOnes + "%y = layer_norm(%x, %ones, %b) {eps = 0.5}"));
  EXPECT_TRUE(is_joined(kInverse + "%f = mul(%r, %w)\n%s = mul(%d, %f)\n%y = add(%s, %b)", call));
  // x * f + (bias - mean * f)
  EXPECT_TRUE(is_joined(kInverse + R"(
    %f = mul(%r, %w)
    %s = mul(%x, %f)
    %c = mul(%mean, %f)
    %o = sub(%b, %c)
    %y = add(%s, %o))",
                        call));
}

TEST(JoinNorms, ParametersGetTheShapeOfTheLastAxes) {
  EXPECT_TRUE(is_joined(kInverse + R"(
    %half = constant 0.5 : f32[]
    %w2 = reshape(%w) {shape = [1, n]}
    %z = mul(%d, %r)
    %s = mul(%z, %w2)
    %y = add(%s, %half))",
                        R"(
    %half = constant 0.5 : f32[]
    %w2 = reshape(%w) {shape = [1, n]}
    %weight = reshape(%w2) {shape = [n]}
    %bias = expand(%half) {shape = [n]}
    %y = layer_norm(%x, %weight, %bias) {eps = 0.5})"));
}

TEST(JoinNorms, OverSeveralLastAxes) {
  const std::string begin =
      "graph {\n  %x = placeholder : f32[m, h, n]\n"
      "  %w = placeholder : f32[h, n]\n  %b = placeholder : f32[n]\n";
  EXPECT_TRUE(is_graph(with_norms_joined(begin + kEps + R"(
    %mean = mean(%x) {axes = [1, 2], keepdim = true}
    %d = sub(%x, %mean)
    %v = var(%x) {axes = [-1, -2], correction = 0, keepdim = true}
    %a = add(%v, %eps)
    %r = rsqrt(%a)
    %z = mul(%d, %r)
    %s = mul(%z, %w)
    %y = add(%s, %b)
    return %y
  })"),
                       begin + R"(
    %bias = expand(%b) {shape = [h, n]}
    %y = layer_norm(%x, %w, %bias) {eps = 0.5}
    return %y
  })"));
}

TEST(JoinNorms, RmsNormHasNoMean) {
  EXPECT_TRUE(is_joined(kRms + "%y = mul(%x, %r)", kRmsNorm));
  EXPECT_TRUE(
      is_joined(kEps + kSquares + "%a = add(%v, %eps)\n%r = sqrt(%a)\n%y = div(%x, %r)", kRmsNorm));
  const std::string call = "%y = rms_norm(%x, %w) {eps = 0.5}";
  EXPECT_TRUE(is_joined(kRms + "%z = mul(%x, %r)\n%y = mul(%w, %z)", call));
  EXPECT_TRUE(is_joined(kRms + "%f = mul(%r, %w)\n%y = mul(%x, %f)", call));
  // It has no bias either.
  EXPECT_TRUE(is_joined(kRms + "%z = mul(%x, %r)\n%s = mul(%w, %z)\n%y = add(%s, %b)",
                        "%s = rms_norm(%x, %w) {eps = 0.5}\n%y = add(%s, %b)"));
}

TEST(JoinNorms, ANormOfWhatAnotherMeanWasTakenFromIsAnRmsNorm) {
  EXPECT_TRUE(is_joined(kEps + R"(
    %mean = mean(%x) {axes = [0], keepdim = true}
    %d = sub(%x, %mean)
    %q = mul(%d, %d)
    %v = mean(%q) {axes = [1], keepdim = true}
    %a = add(%v, %eps)
    %r = rsqrt(%a)
    %y = mul(%d, %r))",
                        R"(
    %mean = mean(%x) {axes = [0], keepdim = true}
    %d = sub(%x, %mean)
    )" + kOnes + "%y = rms_norm(%d, %ones) {eps = 0.5}"));
}

TEST(JoinNorms, NormsStayWhereSomethingElseIsMeant) {
  // eps that is negative, none, not constant or one for each row.
  EXPECT_TRUE(is_left("%eps = constant -0.5 : f32[]\n" + kSquares +
                      "%a = add(%v, %eps)\n%r = rsqrt(%a)\n%y = mul(%x, %r)"));
  EXPECT_TRUE(is_left("%eps = constant 0.0 : f32[]\n" + kSquares +
                      "%a = add(%v, %eps)\n%r = rsqrt(%a)\n%y = mul(%x, %r)"));
  EXPECT_TRUE(is_left(kSquares + "%r = rsqrt(%v)\n%y = mul(%x, %r)"));
  EXPECT_TRUE(is_left("%eps = placeholder : f32[]\n" + kSquares +
                      "%a = add(%v, %eps)\n%r = rsqrt(%a)\n%y = mul(%x, %r)"));
  EXPECT_TRUE(is_left("%eps = constant [0.5, 1.0] : f32[2]\n%all = sum(%eps)\n" + kSquares +
                      "%a = add(%v, %all)\n%r = rsqrt(%a)\n%y = mul(%x, %r)"));
  // Another axis, another power, the root behind eps, a variance of n - 1, its root, another x.
  const std::string rms = "%a = add(%v, %eps)\n%r = rsqrt(%a)\n%y = mul(%x, %r)";
  EXPECT_TRUE(
      is_left(kEps + "%q = mul(%x, %x)\n%v = mean(%q) {axes = [0], keepdim = true}\n" + rms));
  EXPECT_TRUE(is_left(kEps +
                      "%three = constant 3.0 : f32[]\n%q = pow(%x, %three)\n"
                      "%v = mean(%q) {axes = [1], keepdim = true}\n" +
                      rms));
  EXPECT_TRUE(is_left(kEps + kSquares + "%s = sqrt(%v)\n%a = add(%s, %eps)\n%y = div(%x, %a)"));
  const std::string rest = "%a = add(%v, %eps)\n%r = rsqrt(%a)\n%y = mul(%d, %r)";
  EXPECT_TRUE(
      is_left(kCentered + "%v = var(%x) {axes = [1], correction = 1, keepdim = true}\n" + rest));
  EXPECT_TRUE(
      is_left(kCentered + "%v = std(%x) {axes = [1], correction = 0, keepdim = true}\n" + rest));
  EXPECT_TRUE(
      is_left(kCentered + "%v = var(%x) {axes = [0], correction = 0, keepdim = true}\n" + rest));
  EXPECT_TRUE(is_left(kEps + kSquares +
                      "%z = tanh(%x)\n%a = add(%v, %eps)\n%r = rsqrt(%a)\n"
                      "%y = mul(%z, %r)"));
}

TEST(JoinNorms, NormsOfSquaresStayWhereAxesMeetOthers) {
  const std::string text = "graph {\n  %x = placeholder : f32[n, n]\n" + kEps + R"(
    %q = mul(%x, %x)
    %v = mean(%q) {axes = [1], keepdim = false}
    %a = add(%v, %eps)
    %r = rsqrt(%a)
    %y = mul(%x, %r)
    return %y
  })";
  EXPECT_TRUE(is_graph(with_norms_joined(text), text));
}

TEST(JoinNorms, ParametersOfOtherShapesStayBehind) {
  const std::string norm = kInverse + "%z = mul(%d, %r)\n";
  const std::string call = kOnes + "%z = layer_norm(%x, %ones, none) {eps = 0.5}\n";
  const std::string rows = "%c = placeholder : f32[m, 1]\n%y = mul(%z, %c)";
  EXPECT_TRUE(is_joined(norm + rows, call + rows));
  const std::string each = "%y = mul(%z, %x)";
  EXPECT_TRUE(is_joined(norm + each, call + each));
  const std::string axis = "%c = placeholder : f32[1, 1, n]\n%y = add(%z, %c)";
  EXPECT_TRUE(is_joined(norm + axis, call + axis));
}

TEST(JoinNorms, NormsStayWhereOthersRead) {
  EXPECT_TRUE(is_left(kInverse + "%z = mul(%d, %r)\n%c = mul(%z, %d)\n%y = mul(%c, %r)"));
  EXPECT_TRUE(is_left(kRms + "%z = mul(%x, %r)\n%y = mul(%z, %r)"));
  // What follows the norm stays where the norm itself is read, too.
  EXPECT_TRUE(is_joined(kRms + "%z = mul(%x, %r)\n%s = mul(%z, %w)\n%y = add(%s, %z)",
                        kOnes + "%z = rms_norm(%x, %ones) {eps = 0.5}\n"
                                "%s = mul(%z, %w)\n%y = add(%s, %z)"));
}

TEST(JoinNorms, WhatIsReadTwiceIsNoWeightOfItself) {
  const std::string begin = "graph {\n  %x = placeholder : f32[n]\n" + kEps;
  const std::string rms = R"(
    %q = mul(%x, %x)
    %v = mean(%q) {axes = [0], keepdim = false}
    %a = add(%v, %eps)
    %r = rsqrt(%a)
    %z = mul(%x, %r)
  )";
  const std::string end = "%y = mul(%z, %z)\n return %y\n}";
  const std::string ones = "graph {\n  %x = placeholder : f32[n]\n" + kOnes;
  EXPECT_TRUE(is_graph(with_norms_joined(begin + rms + end),
                       ones + "%z = rms_norm(%x, %ones) {eps = 0.5}\n" + end));
}

}  // namespace
}  // namespace dyad::passes
