#include "dyad/passes/fuse_rows.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

Ref<GraphImpl> with_rows(std::string_view text, const FuseOptions& options = {}) {
  return fuse_rows(*parse(text), options);
}

int count_rows(const GraphImpl& graph) {
  int count = 0;
  for (const auto& node : graph.nodes()) count += node->is("rows") ? 1 : 0;
  return count;
}

TEST(FuseRows, ReductionsAndWhatIsAroundThemWorkOnTheSameRows) {
  EXPECT_TRUE(is_graph(with_rows(R"(graph {
    %x = placeholder : f32[batch, 8]
    %e = exp(%x) : f32[batch, 8]
    %s = sum(%e) {axes = [1], keepdim = true} : f32[batch, 1]
    %y = div(%e, %s) : f32[batch, 8]
    return %y
  })"),
                       R"(graph {
    %x = placeholder : f32[batch, 8]
    %y = rows(%x) {axes = 1} : f32[batch, 8]
      region {
        %in0 = placeholder : f32[batch, 8]
        %e = exp(%in0) : f32[batch, 8]
        %s = sum(%e) {axes = [1], keepdim = true} : f32[batch, 1]
        %y = div(%e, %s) : f32[batch, 8]
        return %y
      }
    return %y
  })"));
}

TEST(FuseRows, LibraryOperatorsAlongTheRowAreMembers) {
  EXPECT_TRUE(is_graph(with_rows(R"(graph {
    %x = placeholder : f32[b, t, 8]
    %r = placeholder : f32[b, t, 8]
    %w = placeholder : f32[8]
    %c = placeholder : f32[8]
    %h = add(%x, %r) : f32[b, t, 8]
    %y = layer_norm(%h, %w, %c) {eps = 1e-5} : f32[b, t, 8]
    return %h, %y
  })"),
                       R"(graph {
    %x = placeholder : f32[b, t, 8]
    %r = placeholder : f32[b, t, 8]
    %w = placeholder : f32[8]
    %c = placeholder : f32[8]
    %h, %y = rows(%x, %r, %w, %c) {axes = 2} : f32[b, t, 8], f32[b, t, 8]
      region {
        %in0 = placeholder : f32[b, t, 8]
        %in1 = placeholder : f32[b, t, 8]
        %h = add(%in0, %in1) : f32[b, t, 8]
        %in2 = placeholder : f32[8]
        %in3 = placeholder : f32[8]
        %y = layer_norm(%h, %in2, %in3) {eps = 1e-5} : f32[b, t, 8]
        return %h, %y
      }
    return %h, %y
  })"));
}

TEST(FuseRows, GradientsOfNormsAreMembersWithSumsOverRowsAtTheirEnd) {
  EXPECT_TRUE(is_graph(with_rows(R"(graph {
    %g = placeholder : f32[b, 8]
    %x = placeholder : f32[b, 8]
    %w = placeholder : f32[8]
    %s = exp(%g) : f32[b, 8]
    %dx, %dw, %dc = layer_norm_backward(%s, %x, %w) {eps = 1e-5} : f32[b, 8], f32[8], f32[8]
    %y = add(%dx, %g) : f32[b, 8]
    %u = mul(%w, %dw) : f32[8]
    return %y, %u, %dc
  })"),
                       R"(graph {
    %g = placeholder : f32[b, 8]
    %x = placeholder : f32[b, 8]
    %w = placeholder : f32[8]
    %dw, %dc, %y = rows(%g, %x, %w) {axes = 1} : f32[8], f32[8], f32[b, 8]
      region {
        %in0 = placeholder : f32[b, 8]
        %s = exp(%in0) : f32[b, 8]
        %in1 = placeholder : f32[b, 8]
        %in2 = placeholder : f32[8]
        %dx, %dw, %dc = layer_norm_backward(%s, %in1, %in2) {eps = 1e-5} : f32[b, 8], f32[8], f32[8]
        %y = add(%dx, %in0) : f32[b, 8]
        return %dw, %dc, %y
      }
    %u = mul(%w, %dw) : f32[8]
    return %y, %u, %dc
  })"));
}

TEST(FuseRows, NoMemberReadsASumOverAllRows) {
  // That of %dw has as many rows as %x.
  for (const char* reader :
       {"%z = softmax(%dw) {axis = 1} : f32[8, 4]", "%z = exp(%dw) : f32[8, 4]",
        "%v = reshape(%dw) {shape = [8, 2, 2]} : f32[8, 2, 2]\n"
        "    %z = max(%v) {axes = [1, 2], keepdim = false} : f32[8]"}) {
    const std::string text = R"(graph {
    %g = placeholder : f32[8, 8, 4]
    %x = placeholder : f32[8, 8, 4]
    %w = placeholder : f32[8, 4]
    %dx, %dw, %dc = layer_norm_backward(%g, %x, %w) {eps = 1e-5} : f32[8, 8, 4], f32[8, 4], f32[8, 4]
    )" + std::string(reader) +
                             R"(
    return %dx, %z
  })";
    const Ref<GraphImpl> graph = with_rows(text);
    verify(*graph);
    EXPECT_EQ(count_rows(*graph), 0) << to_string(*graph);
  }
}

TEST(FuseRows, ElementsThatAnIndexPicksFromRowsAreMembers) {
  EXPECT_TRUE(is_graph(with_rows(R"(graph {
    %x = placeholder : f32[b, 8]
    %i = placeholder : i64[b, 1]
    %l = log_softmax(%x) {axis = 1} : f32[b, 8]
    %p = gather(%l, %i) {axis = 1, from_end = false, of = ""} : f32[b, 1]
    return %p
  })"),
                       R"(graph {
    %x = placeholder : f32[b, 8]
    %i = placeholder : i64[b, 1]
    %p = rows(%x, %i) {axes = 1} : f32[b, 1]
      region {
        %in0 = placeholder : f32[b, 8]
        %l = log_softmax(%in0) {axis = 1} : f32[b, 8]
        %in1 = placeholder : i64[b, 1]
        %p = gather(%l, %in1) {axis = 1, from_end = false, of = ""} : f32[b, 1]
        return %p
      }
    return %p
  })"));
}

TEST(FuseRows, RowsOfATableAreMembers) {
  const auto graph = with_rows(R"(graph {
    %table = placeholder : f32[v, 8]
    %i = placeholder : i64[b, t]
    %r = placeholder : f32[t, 8]
    %w = placeholder : f32[8]
    %e = index_select(%table, %i) {axis = 0, from_end = false, of = ""} : f32[b, t, 8]
    %h = add(%e, %r) : f32[b, t, 8]
    %y = layer_norm(%h, %w, %w) {eps = 1e-5} : f32[b, t, 8]
    return %h, %y
  })");
  EXPECT_THAT(to_string(*graph), testing::HasSubstr("rows(%table, %i, %r, %w) {axes = 2}"));
  EXPECT_EQ(graph->nodes().size(), graph->placeholders().size() + 1);
}

TEST(FuseRows, ElementsOfATableWithOneForEachElementAreMembers) {
  const auto graph = with_rows(R"(graph {
    %table = placeholder : f32[v, 8]
    %i = placeholder : i64[b, 8]
    %w = placeholder : f32[8]
    %e = gather(%table, %i) {axis = 0, from_end = false, of = ""} : f32[b, 8]
    %h = exp(%e) : f32[b, 8]
    %y = layer_norm(%h, %w, %w) {eps = 1e-5} : f32[b, 8]
    return %h, %y
  })");
  EXPECT_THAT(to_string(*graph), testing::HasSubstr("rows(%table, %i, %w) {axes = 1}"));
  EXPECT_EQ(graph->nodes().size(), graph->placeholders().size() + 1);
}

TEST(FuseRows, PositionsAndTablesThatMembersMakeComeFromOutside) {
  // Checked before anything is taken: all positions at once.
  const auto graph = with_rows(R"(graph {
    %x = placeholder : f32[b, 8]
    %i = placeholder : i64[b, 1]
    %l = log_softmax(%x) {axis = 1} : f32[b, 8]
    %m = argmax(%l) {axis = 1, keepdim = true} : i64[b, 1]
    %p = gather(%l, %m) {axis = 1, from_end = false, of = ""} : f32[b, 1]
    return %p
  })");
  EXPECT_THAT(to_string(*graph), testing::HasSubstr("\n  %2 = gather(%0, %1)"));
  EXPECT_EQ(count_rows(*with_rows(R"(graph {
    %x = placeholder : f32[b, 8]
    %i = placeholder : i64[b]
    %l = log_softmax(%x) {axis = 1} : f32[b, 8]
    %e = index_select(%l, %i) {axis = 0, from_end = false, of = ""} : f32[b, 8]
    %y = exp(%e) : f32[b, 8]
    return %y
  })")),
            1)
      << "the table is made of other rows";
  EXPECT_EQ(count_rows(*with_rows(R"(graph {
    %x = placeholder : f32[b, 8]
    %i = placeholder : i64[b, 8]
    %l = log_softmax(%x) {axis = 1} : f32[b, 8]
    %e = gather(%l, %i) {axis = 0, from_end = false, of = ""} : f32[b, 8]
    return %e
  })")),
            0);
}

TEST(FuseRows, SeveralReductionsReadTheirRowsOnce) {
  const Ref<GraphImpl> graph = with_rows(R"(graph {
    %x = placeholder : f32[b, 8]
    %s = sum(%x) {axes = [1], keepdim = false} : f32[b]
    %m = max(%x) {axes = [1], keepdim = false} : f32[b]
    return %s, %m
  })");
  verify(*graph);
  EXPECT_EQ(count_rows(*graph), 1);
}

TEST(FuseRows, ViewsOfARowStayInside) {
  EXPECT_TRUE(is_graph(with_rows(R"(graph {
    %x = placeholder : f32[b, 8]
    %s = sum(%x) {axes = [1], keepdim = false} : f32[b]
    %u = unsqueeze(%s) {axis = 1} : f32[b, 1]
    %y = div(%x, %u) : f32[b, 8]
    return %y, %u
  })"),
                       R"(graph {
    %x = placeholder : f32[b, 8]
    %s, %y = rows(%x) {axes = 1} : f32[b], f32[b, 8]
      region {
        %in0 = placeholder : f32[b, 8]
        %s = sum(%in0) {axes = [1], keepdim = false} : f32[b]
        %u = unsqueeze(%s) {axis = 1} : f32[b, 1]
        %y = div(%in0, %u) : f32[b, 8]
        return %s, %y
      }
    %u = unsqueeze(%s) {axis = 1} : f32[b, 1]
    return %y, %u
  })"));
}

TEST(FuseRows, WhatMixesRowsStaysOutside) {
  for (const char* text : {// Reduced along the rows' own axis, and over everything.
                           R"(graph {
             %x = placeholder : f32[b, 8]
             %e = exp(%x) : f32[b, 8]
             %s = sum(%e) {axes = [0], keepdim = true} : f32[1, 8]
             %y = div(%e, %s) : f32[b, 8]
             return %y
           })",
                           R"(graph {
             %x = placeholder : f32[b, 8]
             %e = exp(%x) : f32[b, 8]
             %s = sum(%e) {axes = [0, 1], keepdim = false} : f32[]
             %y = div(%e, %s) : f32[b, 8]
             return %y
           })",
                           // The sums of rows are read along the columns of a square.
                           R"(graph {
             %x = placeholder : f32[8, 8]
             %s = sum(%x) {axes = [1], keepdim = false} : f32[8]
             %y = div(%x, %s) : f32[8, 8]
             return %y
           })",
                           // Nothing works along a row.
                           R"(graph {
             %x = placeholder : f32[b, 1]
             %z = placeholder : f32[b, 8]
             %e = exp(%x) : f32[b, 1]
             %y = div(%z, %e) : f32[b, 8]
             return %y, %e
           })"}) {
    const Ref<GraphImpl> graph = with_rows(text);
    verify(*graph);
    EXPECT_EQ(count_rows(*graph), 0) << to_string(*graph);
  }
}

TEST(FuseRows, ReductionsThatKeepOtherAxesMakeOtherRows) {
  // One row is [8], the other [t, 8].
  const Ref<GraphImpl> graph = with_rows(R"(graph {
    %x = placeholder : f32[b, t, 8]
    %s = softmax(%x) {axis = 2} : f32[b, t, 8]
    %m = max(%s) {axes = [1], keepdim = true} : f32[b, 1, 8]
    %y = div(%s, %m) : f32[b, t, 8]
    return %y
  })");
  verify(*graph);
  EXPECT_EQ(count_rows(*graph), 1);
  for (const auto& node : graph->nodes()) {
    if (!node->is("rows")) continue;
    EXPECT_EQ(node->regions()[0]->nodes().size(), 3u) << "max and div: " << to_string(*graph);
  }
}

TEST(FuseRows, WhatIsMadeAgainIsMadeWhereItWas) {
  // The later layer_norm is there so that %y need not be kept. %v follows it without a break.
  EXPECT_TRUE(is_graph(with_rows(R"(graph {
    %x = placeholder : f32[b, 8]
    %w = placeholder : f32[8]
    %h = exp(%x) : f32[b, 8]
    %y = layer_norm(%h, %w, %w) {eps = 1e-5} : f32[b, 8]
    %p = matmul(%y, %y) {transpose_b = true} : f32[b, b]
    %z = layer_norm(%h, %w, %w) {eps = 1e-5} : f32[b, 8]
    %v = neg(%z) : f32[b, 8]
    %q = matmul(%p, %v) : f32[b, 8]
    %u = tanh(%z) : f32[b, 8]
    return %q, %u
  })"),
                       R"(graph {
    %x = placeholder : f32[b, 8]
    %w = placeholder : f32[8]
    %h, %y = rows(%x, %w) {axes = 1} : f32[b, 8], f32[b, 8]
      region {
        %in0 = placeholder : f32[b, 8]
        %h = exp(%in0) : f32[b, 8]
        %in1 = placeholder : f32[8]
        %y = layer_norm(%h, %in1, %in1) {eps = 1e-5} : f32[b, 8]
        return %h, %y
      }
    %p = matmul(%y, %y) {transpose_b = true} : f32[b, b]
    %z, %v = rows(%h, %w) {axes = 1} : f32[b, 8], f32[b, 8]
      region {
        %in0 = placeholder : f32[b, 8]
        %in1 = placeholder : f32[8]
        %z = layer_norm(%in0, %in1, %in1) {eps = 1e-5} : f32[b, 8]
        %v = neg(%z) : f32[b, 8]
        return %z, %v
      }
    %q = matmul(%p, %v) : f32[b, 8]
    %u = tanh(%z) : f32[b, 8]
    return %q, %u
  })"));
}

TEST(FuseRows, NoCycleArises) {
  const Ref<GraphImpl> graph = with_rows(R"(graph {
    %x = placeholder : f32[8, 8]
    %s = softmax(%x) {axis = 1} : f32[8, 8]
    %m = matmul(%s, %s) {transpose_a = false, transpose_b = false} : f32[8, 8]
    %y = mul(%s, %m) : f32[8, 8]
    %z = softmax(%y) {axis = 1} : f32[8, 8]
    return %z
  })");
  verify(*graph);
  EXPECT_EQ(count_rows(*graph), 1);
}

TEST(FuseRows, FusedKernelsAreMembersInAnyOrder) {
  const Ref<GraphImpl> graph = with_rows(R"(graph {
    %x = placeholder : f32[b, 8]
    %w = placeholder : f32[8]
    %v = fused(%w) : f32[8]
      region {
        %in0 = placeholder : f32[8]
        %v = exp(%in0) : f32[8]
        return %v
      }
    %s = fused(%x) : f32[b, 1]
      region {
        %in0 = placeholder : f32[b, 8]
        %q = mul(%in0, %in0) : f32[b, 8]
        %s = sum(%q) {axes = [1], keepdim = true} : f32[b, 1]
        return %s
      }
    %y = fused(%x, %s, %v) : f32[b, 8]
      region {
        %in0 = placeholder : f32[b, 8]
        %in1 = placeholder : f32[b, 1]
        %in2 = placeholder : f32[8]
        %a = div(%in0, %in1) : f32[b, 8]
        %y = mul(%a, %in2) : f32[b, 8]
        return %y
      }
    return %y
  })");
  verify(*graph);
  EXPECT_EQ(count_rows(*graph), 1);
  EXPECT_EQ(graph->nodes().size(), 4u) << to_string(*graph);
}

TEST(FuseRows, SaysWhyKernelsRunTogetherOrNot) {
  std::vector<std::string> notes;
  const auto note = [&](Loc where, const std::string& text) {
    notes.push_back(to_string(where) + ": " + text);
  };
  const char* text = R"(graph {
    %x = placeholder : f32[b, t, 8] @model.cpp:1
    %w = placeholder : f32[8] @model.cpp:2
    %v = exp(%w) : f32[8] @model.cpp:3
    %y = mul(%x, %v) : f32[b, t, 8] @model.cpp:4
    %s = softmax(%y) {axis = 2} : f32[b, t, 8] @model.cpp:5
    %m = max(%s) {axes = [1], keepdim = true} : f32[b, 1, 8] @model.cpp:6
    %z = sum(%y) {axes = [0, 1, 2], keepdim = false} : f32[] @model.cpp:7
    return %m, %z
  })";
  const Ref<GraphImpl> kernels = fuse(*parse(text), {.note = note});
  EXPECT_THAT(
      notes,
      ::testing::ElementsAre(
          "model.cpp:4: exp and mul have kernels of their own, 32 bytes between them: [8] is "
          "computed once, not for each element of [b, t, 8]",
          "model.cpp:7: mul and sum have kernels of their own, 131072 bytes between them: the "
          "result of mul is read elsewhere too"));
  notes.clear();
  static_cast<void>(fuse_rows(*kernels, {.note = note}));
  EXPECT_THAT(notes,
              ::testing::ElementsAre(
                  "model.cpp:4: exp and mul do not run on the same rows: exp has other rows",
                  "model.cpp:6: softmax and max do not run on the same rows: max is along "
                  "another axis",
                  "model.cpp:5: mul, softmax run together on the rows of 2 axes: 393248 bytes to "
                  "move, apart 524320"));
}

TEST(FuseRows, GroupsStayBelowTheLimits) {
  std::vector<std::string> notes;
  const auto note = [&](Loc, const std::string& text) { notes.push_back(text); };
  const char* text = R"(graph {
    %x = placeholder : f32[b, 8]
    %a = softmax(%x) {axis = 1} : f32[b, 8]
    %b = softmax(%a) {axis = 1} : f32[b, 8]
    %c = softmax(%b) {axis = 1} : f32[b, 8]
    return %c
  })";
  const Ref<GraphImpl> graph = fuse_rows(*parse(text), {.max_nodes = 2, .note = note});
  verify(*graph);
  EXPECT_EQ(count_rows(*graph), 1);
  EXPECT_THAT(notes, ::testing::Contains("softmax and softmax do not run on the same rows: 3 "
                                         "operators together, 2 are allowed"));
}

}  // namespace
}  // namespace dyad::passes
