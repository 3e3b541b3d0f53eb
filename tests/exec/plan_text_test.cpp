// The order of steps and the places of memory: a graph's text before, the plan's text after.
#include "dyad/exec/plan_text.h"

#include "dyad/exec/control_flow_ops.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/lower.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PlanText : public RestoresThreads {
 protected:
  void SetUp() override { set_num_threads(1); }
};

Ref<GraphImpl> parse(std::string_view text) {
  ops::register_builtin_ops();
  register_control_ops();
  passes::register_fused_ops();
  return parse_graph(text);
}

SymbolMap sizes_of(std::initializer_list<std::pair<const char*, std::int64_t>> sizes) {
  SymbolMap map;
  for (const auto& [name, size] : sizes) map.bind(Dim(name), size);
  return map;
}

Ref<GraphImpl> lowered(const Ref<GraphImpl>& graph) {
  return passes::lower(*graph, {.evaluate = evaluate_node});
}

/// The text of a graph as it is given, no pass having run.
std::string plan_of(std::string_view text, const SymbolMap& sizes = {}) {
  return plan_text(*parse(text), sizes);
}

std::string error_of(std::string_view text, const SymbolMap& sizes = {}) {
  try {
    return plan_of(text, sizes);
  } catch (const Error& error) {
    return error.message();
  }
}

TEST_F(PlanText, AChainTakesTurnsInMemory) {
  EXPECT_EQ(plan_of(R"(graph {
    %x = placeholder : f32[n, 4] @model.cpp:3
    %w = variable : f32[4, 4] @model.cpp:4
    %a = matmul(%x, %w) @model.cpp:5
    %b = matmul(%a, %w) @model.cpp:6
    %c = matmul(%b, %w) @model.cpp:7
    %d = sum(%c) @model.cpp:8
    return %d
  })",
                    sizes_of({{"n", 8}})),
            R"(steps:
  0: matmul(%x, %w) -> %0 @model.cpp:5
  1: matmul(%0, %w) -> %1 @model.cpp:6
  2: matmul(%1, %w) -> %2 @model.cpp:7
  3: sum(%2) -> %3 @model.cpp:8
buffers:
  %x: placeholder, 128 bytes, step 0
  %w: variable, 64 bytes, steps 0 to 2
  %0: arena at 0, 128 bytes, steps 0 to 1
  %1: arena at 128, 128 bytes, steps 1 to 2
  %2: arena at 0, 128 bytes, steps 2 to 3
  %3: output, 4 bytes, step 3
arena: 256 bytes, live peak 256, without sharing 384
results: 4 bytes
)");
}

TEST_F(PlanText, AnElementwiseStepWritesOverAnInputThatNobodyNeedsAnyMore) {
  EXPECT_EQ(plan_of(R"(graph {
    %x = placeholder : f32[16]
    %a = exp(%x)
    %b = sin(%a)
    %c = mul(%a, %b)
    %d = cumsum(%c) {axis = 0}
    return %d
  })"),
            R"(steps:
  0: exp(%x) -> %0
  1: sin(%0) -> %1
  2: mul(%0, %1) -> %2 over %0
  3: cumsum(%2) -> %3
buffers:
  %x: placeholder, 64 bytes, step 0
  %0, %2: arena at 0, 64 bytes, steps 0 to 3
  %1: arena at 64, 64 bytes, steps 1 to 2
  %3: output, 64 bytes, step 3
arena: 128 bytes, live peak 128, without sharing 192
results: 64 bytes
)");
}

TEST_F(PlanText, AViewLiesWhereItsInputLiesUnlessItsLayoutNeedsACopy) {
  EXPECT_EQ(plan_of(R"(graph {
    %x = placeholder : f32[4, 2]
    %a = exp(%x)
    %row = slice(%a) {axis = 0, begin = 3}
    %turned = permute(%a) {axes = [1, 0]}
    %flat = reshape(%turned) {shape = [8]}
    %s = cumsum(%flat) {axis = 0}
    %r = cumsum(%row) {axis = 1}
    return %s, %r
  })"),
            R"(steps:
  0: exp(%x) -> %0
  view permute(%0) -> %2
  1: copy(%2) -> copy of %2
  view reshape(copy of %2) -> %3
  2: cumsum(%3) -> %4
  view slice(%0) -> %1
  3: cumsum(%1) -> %5
buffers:
  %x: placeholder, 32 bytes, step 0
  %0, %1+24, %2: arena at 0, 32 bytes, steps 0 to 3
  copy of %2, %3: arena at 64, 32 bytes, steps 1 to 2
  %4: output, 32 bytes, step 2
  %5: output, 8 bytes, step 3
arena: 128 bytes, live peak 128, without sharing 64
results: 40 bytes
)");
}

TEST_F(PlanText, PartsOfAConcatenationAreComputedWhereTheyBelong) {
  EXPECT_EQ(plan_of(R"(graph {
    %x = placeholder : f32[16]
    %a = exp(%x)
    %b = sin(%x)
    %c = concat(%a, %b) {axis = 0}
    %d = cumsum(%c) {axis = 0}
    return %d
  })"),
            R"(steps:
  0: exp(%x) -> %0
  1: sin(%x) -> %1
  in place concat(%0, %1) -> %2
  2: cumsum(%2) -> %3
buffers:
  %x: placeholder, 64 bytes, steps 0 to 1
  %0, %1+64, %2: arena at 0, 128 bytes, steps 0 to 2
  %3: output, 128 bytes, step 2
arena: 128 bytes, live peak 128, without sharing 256
results: 128 bytes
)");
}

TEST_F(PlanText, VariablesAreWrittenLastInPlaceWhereThatCanBe) {
  EXPECT_EQ(plan_of(R"(graph {
    %w = variable : f32[8]
    %v = variable : f32[8]
    %x = placeholder : f32[8]
    %next = sub(%w, %x)
    %0 = assign(%w, %next)
    %loss = sum(%w)
    %1 = assign(%v, %x)
    return %loss
  })"),
            R"(steps:
  0: sum(%w) -> %2
  variables are written from here on:
  1: sub(%w, %x) -> %0 over %w
  2: copy(%x) -> %v
buffers:
  %w, %0: variable, 32 bytes, steps 0 to 1
  %v: variable, 32 bytes, step 2
  %x: placeholder, 32 bytes, steps 1 to 2
  %2: output, 4 bytes, step 0
arena: 0 bytes, live peak 0, without sharing 32
results: 4 bytes
)");
}

TEST_F(PlanText, OutputsHaveMemoryOfTheirOwn) {
  EXPECT_EQ(plan_of(R"(graph {
    %x = placeholder : f32[4]
    %unused = placeholder : f32[2]
    %k = constant [1.0, 2.0, 3.0, 4.0] : f32[4]
    %a = add(%x, %k)
    %b = reshape(%a) {shape = [2, 2]}
    return %b, %x
  })"),
            R"(steps:
  0: add(%x, %0) -> %1
  1: copy(%x) -> copy of %x
  view reshape(%1) -> %2
buffers:
  %x: placeholder, 16 bytes, steps 0 to 1
  %unused: placeholder, 8 bytes, no step
  %0: constant, 16 bytes, step 0
  %1, %2: output, 16 bytes, step 0
  copy of %x: output, 16 bytes, step 1
arena: 0 bytes, live peak 0, without sharing 0
results: 32 bytes
)");
}

TEST_F(PlanText, KernelsNameTheirOperatorsWithLines) {
  const Ref<GraphImpl> graph = lowered(parse(R"(graph {
    %x = placeholder : f32[n, 8] @model.cpp:3
    %m = max(%x) {axes = [1], keepdim = true} @model.cpp:4
    %d = sub(%x, %m) @model.cpp:5
    %e = exp(%d) @model.cpp:6
    %s = sum(%e) {axes = [1], keepdim = true} @model.cpp:7
    %y = div(%e, %s) @model.cpp:8
    return %y
  })"));
  EXPECT_EQ(plan_text(*graph, sizes_of({{"n", 3}})), R"(steps:
  0: rows(%x) -> %0, 3 rows at a time
    max(%x) -> %0/%0 @model.cpp:4
    sub+exp(%x, %0/%0) -> %0/%1 @model.cpp:5 @model.cpp:6
    sum(%0/%1) -> %0/%2 @model.cpp:7
    div(%0/%1, %0/%2) -> %0 @model.cpp:8
buffers:
  %x: placeholder, 96 bytes, step 0
  %0/%0: scratch at 128, 12 bytes, step 0
  %0/%1: scratch at 0, 96 bytes, step 0
  %0/%2: scratch at 128, 12 bytes, step 0
  %0: output, 96 bytes, step 0
arena: 0 bytes, live peak 0, without sharing 0
results: 96 bytes
)");
  EXPECT_THAT(plan_text(*graph, sizes_of({{"n", 3}}), {.lines = false}),
              AllOf(HasSubstr("sub+exp(%x, %0/%0) -> %0/%1\n"), Not(HasSubstr("@"))));
  EXPECT_THAT(plan_text(*graph, sizes_of({{"n", 0}})),
              HasSubstr("  3: div(%0/%1, %0/%2) -> %0, no elements: not run @model.cpp:8\n"));
}

constexpr std::string_view kScan = R"(graph {
  %h = placeholder : f32[1, 4]
  %xs = placeholder : f32[n, 1, 4]
  %w = placeholder : f32[4, 4]
  %0, %1 = scan(%h, %xs, %w) {states = 1, slices = 1} : f32[1, 4], f32[n, 1, 4]
    region {
      %h = placeholder : f32[1, 4]
      %x = placeholder : f32[1, 4]
      %w = placeholder : f32[4, 4]
      %0 = matmul(%h, %w)
      %1 = add(%0, %x)
      %2 = tanh(%1)
      return %2, %2
    }
  %2 = sum(%1)
  return %0, %2
})";

TEST_F(PlanText, RowsThatNobodyReadsGoPastTheCachesWhereTheseHoldLess) {
  const Ref<GraphImpl> graph = lowered(parse(R"(graph {
    %x = placeholder : f32[n, 1024] @model.cpp:3
    %r = placeholder : f32[n, 1024] @model.cpp:4
    %w = placeholder : f32[1024] @model.cpp:5
    %v = placeholder : f32[1024, 1] @model.cpp:6
    %h = add(%x, %r) @model.cpp:7
    %y = layer_norm(%h, %w, %w) {eps = 1e-5} @model.cpp:8
    %z = matmul(%h, %v) @model.cpp:9
    return %y, %z
  })"));
  const auto plan = [&](std::int64_t n) { return plan_text(*graph, sizes_of({{"n", n}})); };
  EXPECT_THAT(plan(4096), AllOf(HasSubstr("  add(%x, %r) -> %0 @model.cpp:7\n"),
                                HasSubstr("  layer_norm(%0, %w, %w) -> %1 past the caches")));
  EXPECT_THAT(plan(512), Not(HasSubstr("past the caches")));
}

TEST_F(PlanText, ALoopsRegionHasAPlanBelowItsStep) {
  const PlanTextOptions options{.lower = lowered};
  EXPECT_EQ(plan_text(*lowered(parse(kScan)), sizes_of({{"n", 6}}), options), R"(steps:
  0: scan(%h, %xs, %w) -> %0, %1
    region:
      steps:
        0: matmul(%h, %w) -> %0
        1: add+tanh(%0, %x) -> %1
      buffers:
        %h: placeholder, 16 bytes, step 0
        %x: placeholder, 16 bytes, step 1
        %w: placeholder, 64 bytes, step 0
        %0: arena at 0, 16 bytes, steps 0 to 1
        %1: output, 16 bytes, step 1
      arena: 64 bytes, live peak 64, without sharing 16
      results: 16 bytes
  1: sum(%1) -> %2
buffers:
  %h: placeholder, 16 bytes, step 0
  %xs: placeholder, 96 bytes, step 0
  %w: placeholder, 64 bytes, step 0
  %0: made by its regions, 16 bytes, step 0
  %1: made by its regions, 96 bytes, steps 0 to 1
  %2: output, 4 bytes, step 1
arena: 0 bytes, live peak 0, without sharing 0
made by regions: 96 bytes
results: 20 bytes
)");
  EXPECT_THAT(plan_text(*parse(kScan), sizes_of({{"n", 6}})),
              HasSubstr("        1: add(%0, %x) -> %1 over %0\n        2: tanh(%1) -> %2\n"));
}

TEST_F(PlanText, ARegionWithoutAPlanSaysWhy) {
  const std::string text = plan_of(R"(graph {
    %p = placeholder : bool[]
    %x = placeholder : f32[4]
    %0 = cond(%p, %x) : f32[]
      region {
        %x = placeholder : f32[4]
        %0 = sum(%x)
        return %0
      }
      region {
        %x = placeholder : f32[k]
        %0 = sum(%x)
        return %0
      }
    return %0
  })");
  EXPECT_THAT(text, HasSubstr("    region 1 of 2:\n      steps:\n        0: sum(%x) -> %0\n"));
  EXPECT_THAT(text, HasSubstr("    region 2 of 2 has no plan here: no number is given for the "
                              "size k\n"));
}

TEST_F(PlanText, IsThatOfTheExecutable) {
  const Ref<GraphImpl> graph = parse(R"(graph {
    %x = placeholder : f32[n, 64]
    %w = variable : f32[64, 64]
    %a = matmul(%x, %w)
    %b = tanh(%a)
    %c = matmul(%b, %w)
    %d = tanh(%c)
    %e = sum(%d)
    return %e
  })");
  Executable executable(graph);
  static_cast<void>(executable.run({{ones({5, 64})}}));
  const ExecutableStats stats = executable.stats();
  const std::string text = plan_text(executable.lowered(), sizes_of({{"n", 5}}));
  EXPECT_THAT(text, HasSubstr("\narena: " + std::to_string(stats.arena_bytes) +
                              " bytes, live peak " + std::to_string(stats.live_peak) + ", "));
  EXPECT_THAT(text, HasSubstr("\n  " + std::to_string(stats.kernels - 1) + ": "));
  EXPECT_THAT(text, Not(HasSubstr("\n  " + std::to_string(stats.kernels) + ": ")));
}

TEST_F(PlanText, NamesTheArenasWhereOneMakesWay) {
  const std::string text = plan_of(R"(graph {
    %x = placeholder : f32[1024, 1024]
    %a = matmul(%x, %x)
    %b = matmul(%a, %x)
    %s = sum(%b)
    %c = mul(%x, %s)
    return %c
  })");
  EXPECT_THAT(text, HasSubstr("  %0: arena 0 at 0, 4194304 bytes, steps 0 to 1\n"));
  EXPECT_THAT(text, HasSubstr("  %2: arena 1 at 0, 4 bytes, steps 2 to 3\n"));
  EXPECT_THAT(text, HasSubstr("arenas: 8388672 bytes, live peak 8388608, without sharing 8388612\n"
                              "  arena 0: 8388608 bytes, steps 0 to 2\n"
                              "  arena 1: 64 bytes, steps 2 to 3\n"));
}

TEST_F(PlanText, SaysWhyAGraphHasNone) {
  EXPECT_EQ(error_of("graph {\n%x = placeholder : f32[n, m + n]\nreturn %x\n}"),
            "no number is given for the sizes n, m");
  EXPECT_EQ(error_of("graph {\n%x = placeholder : f32[n - 4]\nreturn %x\n}", sizes_of({{"n", 3}})),
            "%x: f32[n - 4] has a size of -1");
  EXPECT_EQ(error_of("graph {\n%x = placeholder : f32[4]\n%0 = nonzero(%x)\nreturn %0\n}"),
            "data decide on the sizes of %0 = nonzero: the graph runs in parts, up to there and "
            "from there on, each with a plan of its own");
  EXPECT_EQ(error_of("graph {\n%x = placeholder : f32[4]\n%0 = normalize(%x) {p = 2.0, axis = 0, "
                     "eps = 0.0}\nreturn %0\n}"),
            "%0 = normalize does not run as it is: the pass expand_composites comes before a plan");
  EXPECT_EQ(error_of("graph {\n%x = placeholder : f32[4]\n%0 = after(%x, %x)\nreturn %0\n}"),
            "%0 = after does not run as it is: the pass sink_assigns comes before a plan");
  const auto at = [](std::int64_t n) {
    return error_of(
        "graph {\n%x = placeholder : f32[n]\n%y = placeholder : f32[m]\n"
        "%0 = add(%x, %y) : f32[n]\nreturn %0\n}",
        sizes_of({{"n", n}, {"m", 3}}));
  };
  EXPECT_THAT(at(3), HasSubstr("  0: add(%x, %y) -> %0\n"));
  EXPECT_THAT(at(4), HasSubstr("add(a: f32[4], b: f32[3]): "));
}

}  // namespace
}  // namespace dyad::exec
