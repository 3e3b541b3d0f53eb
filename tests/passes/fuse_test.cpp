#include "dyad/passes/fuse.h"

#include <algorithm>

#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

Ref<GraphImpl> fused(std::string_view text, const FuseOptions& options = {}) {
  return fuse(*parse(text), options);
}

std::ptrdiff_t count_of(std::string_view op, const GraphImpl& graph) {
  return std::ranges::count_if(graph.nodes(), [&](const auto& node) { return node->is(op); });
}

TEST(Fuse, AChainBecomesOneKernelWithItsNumbersInside) {
  EXPECT_TRUE(is_graph(fused(R"(graph {
    %x = placeholder : f32[batch, 4]
    %b = variable : f32[4]
    %two = constant 2.0 : f32[]
    %a = add(%x, %b) : f32[batch, 4]
    %t = tanh(%a) : f32[batch, 4]
    %y = mul(%t, %two) : f32[batch, 4]
    return %y
  })"),
                       R"(graph {
    %x = placeholder : f32[batch, 4]
    %b = variable : f32[4]
    %y = fused(%x, %b) : f32[batch, 4]
      region {
        %in0 = placeholder : f32[batch, 4]
        %in1 = placeholder : f32[4]
        %a = add(%in0, %in1) : f32[batch, 4]
        %t = tanh(%a) : f32[batch, 4]
        %two = constant 2.0 : f32[]
        %y = mul(%t, %two) : f32[batch, 4]
        return %y
      }
    return %y
  })"));
}

TEST(Fuse, ValuesUsedOutsideAreResultsToo) {
  EXPECT_TRUE(is_graph(fused(R"(graph {
    %x = placeholder : f32[4]
    %a = exp(%x) : f32[4]
    %b = neg(%a) : f32[4]
    %c = sqrt(%b) : f32[4]
    return %c, %a
  })"),
                       R"(graph {
    %x = placeholder : f32[4]
    %a, %c = fused(%x) : f32[4], f32[4]
      region {
        %in0 = placeholder : f32[4]
        %a = exp(%in0) : f32[4]
        %b = neg(%a) : f32[4]
        %c = sqrt(%b) : f32[4]
        return %a, %c
      }
    return %c, %a
  })"));
}

TEST(Fuse, WhatAViewShowsIsComputedWhereItIsRead) {
  EXPECT_TRUE(is_graph(fused(R"(graph {
    %x = placeholder : f32[n, 4]
    %b = placeholder : f32[4]
    %e = exp(%x) : f32[n, 4]
    %a = add(%e, %b) : f32[n, 4]
    %t = permute(%a) {axes = [1, 0]} : f32[4, n]
    %y = sin(%t) : f32[4, n]
    return %y
  })"),
                       R"(graph {
    %x = placeholder : f32[n, 4]
    %b = placeholder : f32[4]
    %y = fused(%x, %b) : f32[4, n]
      region {
        %in0 = placeholder : f32[n, 4]
        %e = exp(%in0) : f32[n, 4]
        %in1 = placeholder : f32[4]
        %a = add(%e, %in1) : f32[n, 4]
        %t = permute(%a) {axes = [1, 0]} : f32[4, n]
        %y = sin(%t) : f32[4, n]
        return %y
      }
    return %y
  })"));
}

TEST(Fuse, PartsThatDoNotOverlapAreComputedWhereTheyAreRead) {
  EXPECT_TRUE(is_graph(fused(R"(graph {
    %x = placeholder : f32[n, 4]
    %e = exp(%x) : f32[n, 4]
    %a = slice(%e) {axis = 1, begin = 0, end = 2} : f32[n, 2]
    %b = slice(%e) {axis = 1, begin = 2, end = 4} : f32[n, 2]
    %y = mul(%a, %b) : f32[n, 2]
    return %y
  })"),
                       R"(graph {
    %x = placeholder : f32[n, 4]
    %y = fused(%x) : f32[n, 2]
      region {
        %in0 = placeholder : f32[n, 4]
        %e = exp(%in0) : f32[n, 4]
        %a = slice(%e) {axis = 1, begin = 0, end = 2} : f32[n, 2]
        %b = slice(%e) {axis = 1, begin = 2, end = 4} : f32[n, 2]
        %y = mul(%a, %b) : f32[n, 2]
        return %y
      }
    return %y
  })"));
}

TEST(Fuse, WhatIsReadElsewhereThanThroughAViewIsComputedOnceAndSaysWhy) {
  const auto note_of = [](std::string_view text) {
    std::string notes;
    static_cast<void>(
        fused(text, {.note = [&](Loc, const std::string& note) { notes += note + "\n"; }}));
    return notes;
  };
  EXPECT_EQ(note_of(R"(graph {
    %x = placeholder : f32[n, 4]
    %e = exp(%x) : f32[n, 4]
    %t = permute(%e) {axes = [1, 0]} : f32[4, n]
    %y = sin(%t) : f32[4, n]
    return %y, %e
  })"),
            "exp and sin have kernels of their own, 1024 bytes between them: the result of exp is "
            "read elsewhere too, not only through permute\n");
  EXPECT_EQ(note_of(R"(graph {
    %x = placeholder : f32[4, 4]
    %e = exp(%x) : f32[4, 4]
    %a = slice(%e) {axis = 1, begin = 0, end = 3} : f32[4, 3]
    %b = slice(%e) {axis = 1, begin = 1, end = 4} : f32[4, 3]
    %y = mul(%a, %b) : f32[4, 3]
    return %y
  })"),
            "exp and mul have kernels of their own, 64 bytes between them: the result of exp is "
            "read elsewhere too, not only through slice\n"
            "exp and mul have kernels of their own, 64 bytes between them: the result of exp is "
            "read elsewhere too, not only through slice\n");
  EXPECT_EQ(note_of(R"(graph {
    %x = placeholder : f32[n, 4]
    %e = exp(%x) : f32[n, 4]
    %a = select(%e) {axis = 0, index = 1} : f32[4]
    %y = mul(%x, %a) : f32[n, 4]
    return %y
  })"),
            "exp and mul read the same 1024 bytes in kernels of their own: what stands between "
            "them needs the one and feeds the other\n"
            "exp and mul have kernels of their own, 1024 bytes between them: [4] is computed once, "
            "not for each element of [n, 4]\n");
}

TEST(Fuse, SaysWhatSharingAKernelSaves) {
  const auto note_of = [](std::string_view text, const SymbolMap& sizes) {
    std::string notes;
    static_cast<void>(fused(text, {.sizes = sizes, .note = [&](Loc, const std::string& note) {
                                     notes += note + "\n";
                                   }}));
    return notes;
  };
  const std::string_view text = R"(graph {
    %x = placeholder : f32[n, 4]
    %b = placeholder : f32[4]
    %two = full() {shape = [], value = 2.0} : f32[]
    %e = exp(%x) : f32[n, 4]
    %m = mul(%e, %two) : f32[n, 4]
    %a = add(%m, %b) : f32[n, 4]
    %s = sum(%a) {axes = [0], keepdim = false} : f32[4]
    return %s
  })";
  // Of their own exp, mul and add read and write [n, 4], and sum reads it.
  EXPECT_EQ(note_of(text, {}),
            "exp, mul, add, sum share a kernel: 1056 bytes to move, apart 7200\n");
  SymbolMap sizes;
  sizes.bind("n", 100);
  EXPECT_EQ(note_of(text, sizes),
            "exp, mul, add, sum share a kernel: 1632 bytes to move, apart 11232\n");
  std::string chain = "graph {\n%x0 = placeholder : f32[4]\n";
  for (int i = 0; i < 9; ++i) {
    chain += "%x" + std::to_string(i + 1) + " = exp(%x" + std::to_string(i) + ")\n";
  }
  EXPECT_EQ(note_of(chain + "return %x9\n}", {}),
            "exp, exp, exp, exp, exp, exp and 3 more share a kernel: 32 bytes to move, apart "
            "288\n");
}

TEST(Fuse, RandomNumbersAreMadeWhereTheyAreUsed) {
  EXPECT_TRUE(is_graph(fused(R"(graph {
    %x = placeholder : f32[n, 4]
    %seed, %offset = random_key() {count = 4*n} : i64[], i64[]
    %u = uniform(%seed, %offset) {shape = [n, 4]} : f32[n, 4]
    %p = constant 0.5 : f32[]
    %kept = gt(%u, %p) : bool[n, 4]
    %zero = constant 0.0 : f32[]
    %y = where(%kept, %x, %zero) : f32[n, 4]
    %rows = uniform(%seed, %offset) {shape = [n, 1]} : f32[n, 1]
    %z = mul(%y, %rows) : f32[n, 4]
    %alone = uniform(%seed, %offset) {shape = [4, 4]} : f32[4, 4]
    return %z, %alone
  })"),
                       R"(graph {
    %x = placeholder : f32[n, 4]
    %seed, %offset = random_key() {count = 4*n} : i64[], i64[]
    %rows = uniform(%seed, %offset) {shape = [n, 1]} : f32[n, 1]
    %z = fused(%seed, %offset, %x, %rows) : f32[n, 4]
      region {
        %in0 = placeholder : i64[]
        %in1 = placeholder : i64[]
        %u = uniform(%in0, %in1) {shape = [n, 4]} : f32[n, 4]
        %p = constant 0.5 : f32[]
        %kept = gt(%u, %p) : bool[n, 4]
        %in2 = placeholder : f32[n, 4]
        %zero = constant 0.0 : f32[]
        %y = where(%kept, %in2, %zero) : f32[n, 4]
        %in3 = placeholder : f32[n, 1]
        %z = mul(%y, %in3) : f32[n, 4]
        return %z
      }
    %alone = uniform(%seed, %offset) {shape = [4, 4]} : f32[4, 4]
    return %z, %alone
  })"));
}

TEST(Fuse, SiblingsThatReadOneTensorReadItOnce) {
  EXPECT_TRUE(is_graph(fused(R"(graph {
    %g = placeholder : f32[4]
    %x = placeholder : f32[4]
    %y = placeholder : f32[4]
    %dx = mul(%g, %y) : f32[4]
    %dy = mul(%g, %x) : f32[4]
    return %dx, %dy
  })"),
                       R"(graph {
    %g = placeholder : f32[4]
    %x = placeholder : f32[4]
    %y = placeholder : f32[4]
    %dx, %dy = fused(%g, %y, %x) : f32[4], f32[4]
      region {
        %in0 = placeholder : f32[4]
        %in1 = placeholder : f32[4]
        %dx = mul(%in0, %in1) : f32[4]
        %in2 = placeholder : f32[4]
        %dy = mul(%in0, %in2) : f32[4]
        return %dx, %dy
      }
    return %dx, %dy
  })"));
}

TEST(Fuse, AReductionTakesInWhatOnlyItReads) {
  EXPECT_TRUE(is_graph(fused(R"(graph {
    %x = placeholder : f32[4, 3]
    %a = exp(%x) : f32[4, 3]
    %b = mul(%a, %a) : f32[4, 3]
    %s = sum(%b) {axes = [1], keepdim = false} : f32[4]
    return %s
  })"),
                       R"(graph {
    %x = placeholder : f32[4, 3]
    %s = fused(%x) : f32[4]
      region {
        %in0 = placeholder : f32[4, 3]
        %a = exp(%in0) : f32[4, 3]
        %b = mul(%a, %a) : f32[4, 3]
        %s = sum(%b) {axes = [1], keepdim = false} : f32[4]
        return %s
      }
    return %s
  })"));
}

TEST(Fuse, AReductionLeavesWhatOthersReadAsWell) {
  const char* softmax = R"(graph {
    %x = placeholder : f32[4, 3]
    %e = exp(%x) : f32[4, 3]
    %s = sum(%e) {axes = [1], keepdim = true} : f32[4, 1]
    %y = div(%e, %s) : f32[4, 3]
    return %y
  })";
  EXPECT_TRUE(is_graph(fused(softmax), softmax));
}

TEST(Fuse, ReductionsOverTheSameAxesReadOneTensorOnce) {
  const Ref<GraphImpl> graph = fuse(*parse(R"(graph {
    %x = placeholder : f32[n, 8]
    %sum = sum(%x) {axes = [0], keepdim = false} @model.cpp:1
    %square = mul(%x, %x) @model.cpp:2
    %squares = sum(%square) {axes = [0], keepdim = true} @model.cpp:3
    %most = max(%x) {axes = [0], keepdim = false} @model.cpp:4
    return %sum, %squares, %most
  })"));
  EXPECT_TRUE(is_graph(graph, R"(graph {
    %x = placeholder : f32[n, 8]
    %0, %1, %2 = fused(%x) : f32[8], f32[1, 8], f32[8]
      region {
        %in0 = placeholder : f32[n, 8]
        %sum = sum(%in0) {axes = [0], keepdim = false}
        %square = mul(%in0, %in0)
        %squares = sum(%square) {axes = [0], keepdim = true}
        %most = max(%in0) {axes = [0], keepdim = false}
        return %sum, %squares, %most
      }
    return %0, %1, %2
  })"));
}

TEST(Fuse, SeveralReductionsTakeInWhatTheyAloneRead) {
  const Ref<GraphImpl> graph = fused(R"(graph {
    %x = placeholder : f32[n, 8]
    %square = mul(%x, %x)
    %size = abs(%x)
    %squares = sum(%square) {axes = [0], keepdim = false}
    %sizes = sum(%size) {axes = [0], keepdim = false}
    return %squares, %sizes
  })");
  EXPECT_EQ(count_of("fused", *graph), 1);
  EXPECT_EQ(count_of("sum", *graph), 0);
  EXPECT_EQ(graph->outputs().size(), 2u);
}

TEST(Fuse, TooManyReductionsOfOneGroupReadItsResults) {
  std::string text = "graph {\n%x = placeholder : f32[n, 8]\n", results;
  for (int i = 0; i < 5; ++i) {
    const std::string name = std::to_string(i);
    text += "%e" + name + " = " + std::vector{"exp", "abs", "sin", "cos", "tanh"}[i] + "(%x)\n";
    text += "%s" + name + " = sum(%e" + name + ") {axes = [0], keepdim = false}\n";
    results += (i == 0 ? "" : ", ") + ("%s" + name);
  }
  std::vector<std::string> notes;
  const Ref<GraphImpl> graph =
      fused(text + "return " + results + "\n}",
            {.note = [&](Loc, const std::string& note) { notes.push_back(note); }});
  EXPECT_EQ(count_of("sum", *graph), 5);
  EXPECT_EQ(notes.front(),
            "exp and sum have kernels of their own, 2048 bytes between them: the reductions of it "
            "need 5 accumulators, a kernel has 4");
}

TEST(Fuse, ReductionsOfOthersOrOverOtherAxesStayApart) {
  const char* text = R"(graph {
    %x = placeholder : f32[n, 8]
    %y = placeholder : f32[n, 8]
    %rows = sum(%x) {axes = [1], keepdim = false}
    %columns = sum(%x) {axes = [0], keepdim = false}
    %others = sum(%y) {axes = [0], keepdim = false}
    return %rows, %columns, %others
  })";
  EXPECT_TRUE(is_graph(fuse(*parse(text)), text));
}

TEST(Fuse, AReductionOfWhatNeedsAnotherOneComesBehindIt) {
  const Ref<GraphImpl> graph = fuse(*parse(R"(graph {
    %x = placeholder : f32[n, 8]
    %mean = mean(%x) {axes = [0], keepdim = true}
    %d = sub(%x, %mean)
    %square = mul(%d, %d)
    %variance = mean(%square) {axes = [0], keepdim = false}
    return %mean, %variance
  })"));
  EXPECT_EQ(count_of("mean", *graph), 1);
  EXPECT_EQ(count_of("fused", *graph), 1);
}

TEST(Fuse, AKernelHasFourAccumulators) {
  const Ref<GraphImpl> graph = fuse(*parse(R"(graph {
    %x = placeholder : f32[n, 8]
    %a = argmax(%x) {axis = 0, keepdim = false}
    %b = argmin(%x) {axis = 0, keepdim = false}
    %c = sum(%x) {axes = [0], keepdim = false}
    %d = max(%x) {axes = [0], keepdim = false}
    return %a, %b, %c, %d
  })"));
  EXPECT_EQ(count_of("fused", *graph), 2);
}

TEST(Fuse, NothingIsComputedForEachElementThatIsComputedOnce) {
  // exp(%b) has 4 elements: inside the kernel of the sum it would be computed 4 * batch times.
  const char* text = R"(graph {
    %x = placeholder : f32[batch, 4]
    %b = placeholder : f32[4]
    %e = exp(%b) : f32[4]
    %y = add(%x, %e) : f32[batch, 4]
    return %y
  })";
  EXPECT_TRUE(is_graph(fused(text), text));
}

TEST(Fuse, NoCycleArises) {
  // %a and %d read %x, but %d needs the product, which needs %a.
  const char* text = R"(graph {
    %x = placeholder : f32[4, 4]
    %a = exp(%x) : f32[4, 4]
    %m = matmul(%a, %a) {transpose_a = false, transpose_b = false} : f32[4, 4]
    %d = add(%x, %m) : f32[4, 4]
    return %d
  })";
  EXPECT_TRUE(is_graph(fused(text), text));
}

TEST(Fuse, ACycleThroughAnotherGroupIsSeenToo) {
  // Once %n has joined %k, %k depends on %h; so %m may not join %h, which %k's user feeds.
  const Ref<GraphImpl> graph = fused(R"(graph {
    %x = placeholder : f32[4, 4]
    %y = placeholder : f32[4, 4]
    %k = exp(%x) : f32[4, 4]
    %p = matmul(%k, %k) {transpose_a = false, transpose_b = false} : f32[4, 4]
    %h = exp(%y) : f32[4, 4]
    %n = add(%k, %h) : f32[4, 4]
    %m = mul(%h, %p) : f32[4, 4]
    return %n, %m
  })");
  verify(*graph);  // a schedule exists: every value is made before it is used
  EXPECT_EQ(graph->outputs().size(), 2u);
}

TEST(Fuse, AFilledTensorIsANumberOfTheKernel) {
  EXPECT_TRUE(is_graph(fused(R"(graph {
    %x = placeholder : f32[8, 8]
    %ones = full() {shape = [8, 8], value = 1.0, dtype = f32} : f32[8, 8]
    %y = sub(%ones, %x) : f32[8, 8]
    return %y
  })"),
                       R"(graph {
    %x = placeholder : f32[8, 8]
    %y = fused(%x) : f32[8, 8]
      region {
        %ones = full() {shape = [8, 8], value = 1.0, dtype = f32} : f32[8, 8]
        %in0 = placeholder : f32[8, 8]
        %y = sub(%ones, %in0) : f32[8, 8]
        return %y
      }
    return %y
  })"));
}

TEST(Fuse, RandomKeysStayInOrder) {
  const Ref<GraphImpl> graph = fused(R"(graph {
    %x = placeholder : f32[4]
    %s1, %o1 = random_key() {count = 1} : i64[], i64[]
    %a = exp(%x) : f32[4]
    %s2, %o2 = random_key() {count = 2} : i64[], i64[]
    %b = neg(%a) : f32[4]
    %s3, %o3 = random_key() {count = 3} : i64[], i64[]
    return %b
  })");
  std::string counts;
  for (const auto& node : graph->nodes()) {
    if (node->is("random_key")) counts += to_string(node->attrs().info(), node->attrs().data());
  }
  EXPECT_EQ(counts, "{count = 1}{count = 2}{count = 3}");
}

TEST(Fuse, GroupsStayBelowTheLimits) {
  std::string text = "graph {\n  %v0 = placeholder : f32[4]\n";
  for (int i = 1; i <= 10; ++i) {
    text += "  %v" + std::to_string(i) + " = exp(%v" + std::to_string(i - 1) + ") : f32[4]\n";
  }
  const Ref<GraphImpl> graph = fused(text + "  return %v10\n}\n", {.max_nodes = 4});
  verify(*graph);
  int kernels = 0;
  for (const auto& node : graph->nodes()) {
    if (node->regions().empty()) continue;
    ++kernels;
    EXPECT_LE(node->regions()[0]->nodes().size(), 5u);  // 4 and the parameter
  }
  EXPECT_EQ(kernels, 3);
}

}  // namespace
}  // namespace dyad::passes
