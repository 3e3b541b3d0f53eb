#include "dyad/passes/hoist.h"

#include "dyad/ir/op_info.h"
#include "dyad/passes/edit_attrs.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

// The operators of loops belong to a higher layer; rows of the same names stand in for them.
struct LoopAttrs {
  std::int64_t states = 0;
  std::int64_t slices = 0;
  bool reverse = false;
};
constexpr ArgInfo kMany[] = {{.name = "values", .variadic = true}};
Types no_types(const InferIn&) { return {}; }

constexpr OpInfo loop_row(std::string_view name) {
  OpInfo row{.name = name};
  row.kind = BodyKind::control;
  row.inputs = kMany;
  row.outputs = kMany;
  row.attrs = &attrs_info<LoopAttrs>;
  row.infer = no_types;
  return row;
}
constexpr OpInfo kWhile = loop_row("while_loop"), kScan = loop_row("scan");

Ref<GraphImpl> read(std::string_view text) {
  static const bool done = [] {
    const OpInfo* rows[] = {&kWhile, &kScan};
    register_ops(rows);
    return true;
  }();
  static_cast<void>(done);
  return parse(text);
}

TEST(Hoist, WhatCapturesAloneDecideRunsBeforeTheLoop) {
  const Ref<GraphImpl> after = hoist(*read(R"(graph {
    %s = placeholder : f32[4]
    %w = placeholder : f32[4]
    %end = while_loop(%s, %w) {states = 1} : f32[4]
      region {
        %a = placeholder : f32[4]
        %b = placeholder : f32[4]
        %norm = sum(%b) {axes = [0], keepdim = false}
        %size = sum(%a) {axes = [0], keepdim = false}
        %go = lt(%size, %norm)
        return %go
      }
      region {
        %a = placeholder : f32[4]
        %b = placeholder : f32[4]
        %two = constant 2.0 : f32[]
        %twice = mul(%b, %two)
        %root = sqrt(%twice)
        %next = add(%a, %root)
        return %next
      }
    return %end
  })"));
  EXPECT_TRUE(is_graph(after, R"(graph {
    %s = placeholder : f32[4]
    %w = placeholder : f32[4]
    %norm = sum(%w) {axes = [0], keepdim = false}
    %two = constant 2.0 : f32[]
    %twice = mul(%w, %two)
    %root = sqrt(%twice)
    %end = while_loop(%s, %w, %norm, %root) {states = 1} : f32[4]
      region {
        %a = placeholder : f32[4]
        %b = placeholder : f32[4]
        %hoisted0 = placeholder : f32[]
        %hoisted1 = placeholder : f32[4]
        %size = sum(%a) {axes = [0], keepdim = false}
        %go = lt(%size, %hoisted0)
        return %go
      }
      region {
        %a = placeholder : f32[4]
        %b = placeholder : f32[4]
        %hoisted0 = placeholder : f32[]
        %hoisted1 = placeholder : f32[4]
        %two = constant 2.0 : f32[]
        %next = add(%a, %hoisted1)
        return %next
      }
    return %end
  })"));
}

TEST(Hoist, SlicesAndStatesAreNoCaptures) {
  const char* text = R"(graph {
    %s = placeholder : f32[4]
    %xs = placeholder : f32[9, 4]
    %end, %all = scan(%s, %xs) {states = 1, slices = 1} : f32[4], f32[9, 4]
      region {
        %a = placeholder : f32[4]
        %x = placeholder : f32[4]
        %e = exp(%x)
        %next = add(%a, %e)
        return %next, %e
      }
    return %end, %all
  })";
  EXPECT_TRUE(is_graph(hoist(*read(text)), to_string(*read(text))));
}

TEST(Hoist, WhatMayFailAndViewsAloneStay) {
  const char* text = R"(graph {
    %s = placeholder : f32[4]
    %i = placeholder : i64[4]
    %w = placeholder : f32[4, 4]
    %end, %all = scan(%s, %i, %w) {states = 1, slices = 0} : f32[4], f32[9, 4]
      region {
        %a = placeholder : f32[4]
        %at = placeholder : i64[4]
        %b = placeholder : f32[4, 4]
        %row = select(%b) {axis = 0, index = 0}
        %picked = index_select(%row, %at) {axis = 0}
        %next = add(%a, %picked)
        return %next, %picked
      }
    return %end, %all
  })";
  EXPECT_TRUE(is_graph(hoist(*read(text)), to_string(*read(text))));
  const auto only_softmax = [](const Node& node) { return node.is("softmax"); };
  EXPECT_TRUE(is_graph(hoist(*read(text), only_softmax), to_string(*read(text))));
}

TEST(Hoist, LibraryOperatorsThatCannotFailRunBeforeTheLoop) {
  const Ref<GraphImpl> before = read(R"(graph {
    %s = placeholder : f32[2, 4]
    %x = placeholder : f32[4, 4]
    %w = placeholder : f32[4, 4]
    %b = placeholder : f32[4]
    %end, %all = scan(%s, %x, %w, %b) {states = 1, slices = 0} : f32[2, 4], f32[9, 2, 4]
      region {
        %a = placeholder : f32[2, 4]
        %x = placeholder : f32[4, 4]
        %w = placeholder : f32[4, 4]
        %b = placeholder : f32[4]
        %l = linear(%x, %w, %b)
        %p = softmax(%l) {axis = 1}
        %m = matmul(%a, %p)
        return %m, %m
      }
    return %end, %all
  })");
  EXPECT_TRUE(is_graph(hoist(*before), to_string(*before)));
  const auto those = [](const Node& node) { return node.is("softmax") || node.is("linear"); };
  EXPECT_TRUE(is_graph(hoist(*before, those), R"(graph {
    %s = placeholder : f32[2, 4]
    %x = placeholder : f32[4, 4]
    %w = placeholder : f32[4, 4]
    %b = placeholder : f32[4]
    %l = linear(%x, %w, %b)
    %p = softmax(%l) {axis = 1}
    %end, %all = scan(%s, %x, %w, %b, %p) {states = 1, slices = 0} : f32[2, 4], f32[9, 2, 4]
      region {
        %a = placeholder : f32[2, 4]
        %x = placeholder : f32[4, 4]
        %w = placeholder : f32[4, 4]
        %b = placeholder : f32[4]
        %hoisted0 = placeholder : f32[4, 4]
        %m = matmul(%a, %hoisted0)
        return %m, %m
      }
    return %end, %all
  })"));
}

}  // namespace
}  // namespace dyad::passes
