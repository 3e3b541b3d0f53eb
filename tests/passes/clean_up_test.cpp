// cse, dce, fold_constants, sink_assigns, extract: a graph's text before and after.
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/passes/cse.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/extract.h"
#include "dyad/passes/fold_constants.h"
#include "dyad/passes/sink_assigns.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

Value value_of(const Ref<GraphImpl>& graph, std::string_view op, int which = 0) {
  for (const auto& node : graph->nodes()) {
    if (node->is(op) && which-- == 0) return node->output();
  }
  throw InternalError("no such node");
}

TEST(Dce, DropsWhatNeitherAnOutputNorAnEffectNeeds) {
  const Ref<GraphImpl> graph = parse(R"(graph {
    %x = placeholder : f32[4]
    %y = placeholder : f32[4]
    %used = exp(%x) : f32[4]
    %dead = tanh(%x) : f32[4]
    %deader = mul(%dead, %used) : f32[4]
    return %used
  })");
  dce(*graph);
  EXPECT_TRUE(is_graph(graph, R"(graph {
    %x = placeholder : f32[4]
    %y = placeholder : f32[4]
    %used = exp(%x) : f32[4]
    return %used
  })"));
}

TEST(Dce, KeepsRandomKeysAndWritesThatNobodyReads) {
  const char* text = R"(graph {
    %w = variable : f32[4]
    %seed, %offset = random_key() {count = 4} : i64[], i64[]
    %y = exp(%w) : f32[4]
    %done = assign(%w, %y) : f32[4]
    return
  })";
  const Ref<GraphImpl> graph = parse(text);
  dce(*graph);
  EXPECT_TRUE(is_graph(graph, text));
}

TEST(Cse, MergesEqualOperatorsOnEqualInputsAndKeepsTheFirst) {
  const Ref<GraphImpl> graph = parse(R"(graph {
    %x = placeholder : f32[2, 3]
    %a = exp(%x) : f32[2, 3] @first.cpp:1
    %b = exp(%x) : f32[2, 3] @second.cpp:2
    %s = sum(%a) {axes = [0], keepdim = false} : f32[3]
    %t = sum(%b) {axes = [0], keepdim = false} : f32[3]
    %other = sum(%b) {axes = [1], keepdim = false} : f32[2]
    %z = mul(%s, %t) : f32[3]
    return %z, %other, %b
  })");
  cse(*graph);
  EXPECT_TRUE(is_graph(graph, R"(graph {
    %x = placeholder : f32[2, 3]
    %a = exp(%x) : f32[2, 3]
    %s = sum(%a) {axes = [0], keepdim = false} : f32[3]
    %other = sum(%a) {axes = [1], keepdim = false} : f32[2]
    %z = mul(%s, %s) : f32[3]
    return %z, %other, %a
  })"));
  EXPECT_EQ(to_string(value_of(graph, "exp").node->loc()), "first.cpp:1");
}

TEST(Cse, RandomKeysAreNotEqual) {
  const char* text = R"(graph {
    %s1, %o1 = random_key() {count = 4} : i64[], i64[]
    %s2, %o2 = random_key() {count = 4} : i64[], i64[]
    %a = uniform(%s1, %o1) {shape = [4], dtype = f32} : f32[4]
    %b = uniform(%s2, %o2) {shape = [4], dtype = f32} : f32[4]
    return %a, %b
  })";
  const Ref<GraphImpl> graph = parse(text);
  cse(*graph);
  EXPECT_TRUE(is_graph(graph, text));
}

/// Stands in for the executor: gives 7 for everything, and counts.
struct Sevens {
  int calls = 0;
  std::vector<Tensor> operator()(const Node& node, std::span<const Tensor> inputs) {
    ++calls;
    EXPECT_EQ(inputs.size(), node.inputs().size());
    Tensor made = make_empty(node.types()[0].dtype(), node.types()[0].shape());
    for (std::int64_t i = 0; i < made.impl()->numel(); ++i) made.data<float>()[i] = 7;
    return {made};
  }
};

TEST(FoldConstants, ComputesWhatDependsOnConstantsAlone) {
  const Ref<GraphImpl> graph = parse(R"(graph {
    %x = placeholder : f32[2]
    %one = constant 1.0 : f32[]
    %two = constant 2.0 : f32[]
    %sum = add(%one, %two) : f32[]
    %pair = expand(%sum) {shape = [2]} : f32[2]
    %root = sqrt(%pair) : f32[2]
    %y = mul(%x, %root) : f32[2]
    return %y
  })");
  Sevens sevens;
  const Ref<GraphImpl> folded = fold_constants(*graph, std::ref(sevens));
  dce(*folded);
  EXPECT_EQ(sevens.calls, 3);
  EXPECT_TRUE(is_graph(folded, R"(graph {
    %x = placeholder : f32[2]
    %root = constant [7.0, 7.0] : f32[2]
    %y = mul(%x, %root) : f32[2]
    return %y
  })"));
}

TEST(FoldConstants, LeavesLargeOnesAndSymbolicOnes) {
  const char* text = R"(graph {
    %x = placeholder : f32[batch]
    %two = constant 2.0 : f32[]
    %large = expand(%two) {shape = [100, 100]} : f32[100, 100]
    %unknown = expand(%two) {shape = [batch]} : f32[batch]
    %y = mul(%x, %unknown) : f32[batch]
    %n = size_tensor() {size = batch} : i64[]
    return %y, %large, %n
  })";
  Sevens sevens;
  EXPECT_TRUE(is_graph(fold_constants(*parse(text), std::ref(sevens)), text));
  EXPECT_EQ(sevens.calls, 0);
}

TEST(SinkAssigns, WritesComeLastAndOnlyTheLastOfAVariable) {
  const Ref<GraphImpl> graph = parse(R"(graph {
    %w = variable : f32[4]
    %a = exp(%w) : f32[4]
    %first = assign(%w, %a) : f32[4]
    %b = tanh(%first) : f32[4]
    %second = assign(%w, %b) : f32[4]
    %c = neg(%second) : f32[4]
    return %c, %second
  })");
  EXPECT_TRUE(is_graph(sink_assigns(*graph), R"(graph {
    %w = variable : f32[4]
    %a = exp(%w) : f32[4]
    %b = tanh(%a) : f32[4]
    %c = neg(%b) : f32[4]
    %done = assign(%w, %b) : f32[4]
    return %c, %b
  })"));
}

TEST(SinkAssigns, WhatComesAfterAWriteIsTheValueItself) {
  const Ref<GraphImpl> graph = parse(R"(graph {
    %x = placeholder : f32[4]
    %w = variable : f32[4]
    %loss = exp(%x) : f32[4]
    %now = add(%w, %x) : f32[4]
    %written = assign(%w, %now) : f32[4]
    %trained = after(%loss, %written) : f32[4]
    return %trained
  })");
  const Value wanted[] = {value_of(graph, "after")};
  EXPECT_TRUE(is_graph(extract(*graph, wanted), to_string(*graph)));
  EXPECT_TRUE(is_graph(sink_assigns(*graph), R"(graph {
    %x = placeholder : f32[4]
    %w = variable : f32[4]
    %loss = exp(%x) : f32[4]
    %now = add(%w, %x) : f32[4]
    %done = assign(%w, %now) : f32[4]
    return %loss
  })"));
}

TEST(Extract, TakesWhatTheValuesNeedAndEveryRandomKey) {
  const Ref<GraphImpl> graph = parse(R"(graph {
    %x = placeholder : f32[4]
    %y = placeholder : f32[4]
    %s, %o = random_key() {count = 4} : i64[], i64[]
    %noise = uniform(%s, %o) {shape = [4], dtype = f32} : f32[4]
    %a = add(%x, %noise) : f32[4]
    %b = exp(%y) : f32[4]
    return %a
  })");
  const Value wanted[] = {value_of(graph, "exp")};
  EXPECT_TRUE(is_graph(extract(*graph, wanted), R"(graph {
    %y = placeholder : f32[4]
    %s, %o = random_key() {count = 4} : i64[], i64[]
    %b = exp(%y) : f32[4]
    return %b
  })"));
  const auto all_keys = [](const Node& node) { return node.is("random_key"); };
  EXPECT_TRUE(is_graph(extract(*graph, wanted, all_keys), R"(graph {
    %y = placeholder : f32[4]
    %b = exp(%y) : f32[4]
    return %b
  })"));
}

}  // namespace
}  // namespace dyad::passes
