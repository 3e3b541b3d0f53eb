#include "dyad/passes/checkpoints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "dyad/passes/lifetimes.h"
#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

constexpr std::int64_t kMatrix = 64 * 64 * 4;

/// A chain of `layers` products, each kept for what stands for its gradient.
Ref<GraphImpl> chain(int layers) {
  std::string text = R"(graph {
  %h0 = placeholder : f32[64, 64]
  %w = placeholder : f32[64, 64]
)";
  for (int i = 1; i <= layers; ++i) {
    text += fmt::format("  %h{} = matmul(%h{}, %w) : f32[64, 64]\n", i, i - 1);
  }
  text += fmt::format("  %g{} = tanh(%h{}) : f32[64, 64]\n", layers, layers);
  for (int i = layers - 1; i >= 0; --i) {
    text += fmt::format("  %g{} = matmul(%g{}, %h{}) : f32[64, 64]\n", i, i + 1, i);
  }
  return parse(text + "  return %g0\n}");
}

int products(const GraphImpl& graph) {
  int count = 0;
  for (const auto& node : graph.nodes()) count += node->is("matmul") ? 1 : 0;
  return count;
}

TEST(Checkpoints, OfAChainKeepsTheEndsOfSegments) {
  const Ref<GraphImpl> graph = chain(36);
  const std::int64_t before = Lifetimes(*graph, {}).peak_bytes();
  EXPECT_GE(before, 36 * kMatrix);
  const Ref<GraphImpl> made = recompute(graph, {.memory_limit = 1});
  verify(*made);
  // About twice the square root of the length, and each product but those of the last segment
  // once more.
  EXPECT_LE(Lifetimes(*made, {}).peak_bytes(), 14 * kMatrix);
  EXPECT_GT(products(*made), products(*graph) + 18);
  EXPECT_LT(products(*made), products(*graph) + 36);
}

TEST(Checkpoints, ComputeNoMoreAgainThanTheLimitAsksFor) {
  const Ref<GraphImpl> graph = chain(36);
  const std::int64_t limit = Lifetimes(*graph, {}).peak_bytes() * 3 / 4;
  const Ref<GraphImpl> made = recompute(graph, {.memory_limit = limit});
  verify(*made);
  const std::int64_t after = Lifetimes(*made, {}).peak_bytes();
  EXPECT_LE(after, limit);
  EXPECT_GE(after, limit / 2);
  EXPECT_TRUE(is_graph(recompute(graph, {.memory_limit = limit * 2}), to_string(*graph)));
}

TEST(Checkpoints, WhatPassesASegmentIsKept) {
  // %s is made before all cuts and read at the end of the chain: computed once.
  std::string text = to_string(*chain(16));
  text.insert(text.find("  %2 ="), "  %s = matmul(%w, %w) : f32[64, 64]\n");
  const std::size_t gradient = text.find("tanh(");
  text.replace(gradient, text.find(')', gradient) - gradient, "mul(%s, %15");
  const Ref<GraphImpl> made = recompute(parse(text), {.memory_limit = 1});
  verify(*made);
  int squares = 0;
  for (const auto& node : made->nodes()) {
    squares += node->is("matmul") && node->inputs()[0] == node->inputs()[1] ? 1 : 0;
  }
  EXPECT_EQ(squares, 1);
}

}  // namespace
}  // namespace dyad::passes
