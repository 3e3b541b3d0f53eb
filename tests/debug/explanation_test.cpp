#include "dyad/debug/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/session.h"
#include "dyad/exec/step_profile.h"
#include "dyad/nn/rnn.h"
#include "dyad/ops/ops.h"

namespace dyad {
namespace {

using ::testing::HasSubstr;

Tensor model(const Tensor& x, const Tensor& w) {
  const Tensor h = matmul(x, w);
  return sum(exp(h) * 2.0f, {1});
}

TEST(ExplanationReport, TellsKernelsWithLinesBytesAndOperations) {
  const auto fast = compile(model, {.recheck = false, .name = "model"});
  const Tensor x = ones({4, 8}), w = ones({8, 6});
  for (int i = 0; i < 2; ++i) (void)fast(x, w);
  const Explanation told = fast.explain();
  ASSERT_EQ(told.recordings.size(), 1u);
  const std::vector<ExplainedKernel>& table = told.recordings[0].table;
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0].parts.at(0).op, "matmul");
  EXPECT_EQ(to_string(table[0].parts.at(0).loc), "explanation_test.cpp:25");
  EXPECT_EQ(table[0].bytes, 4 * (4 * 8 + 8 * 6 + 4 * 6));
  EXPECT_EQ(table[0].operations, 2 * 4 * 8 * 6);
  EXPECT_EQ(table[0].calls, 0) << "nobody asked for times";
  EXPECT_EQ(table[1].parts.size(), 3u);
  EXPECT_EQ(table[1].bytes, 4 * (4 * 6 + 4));
  EXPECT_EQ(table[1].operations, 3 * 4 * 6);
  const std::string text = debug::kernel_table(told);
  EXPECT_THAT(text, HasSubstr("exp mul sum"));
  EXPECT_THAT(text, HasSubstr("explanation_test.cpp:26"));
}

TEST(ExplanationReport, OperationsOfAttentionAndRecurrence) {
  // Of the kernels of f(x), in their order, forward and backward.
  const auto operations = [](const auto& f, const Tensor& x) {
    const auto fast = compile(
        [&](const Tensor& given) {
          const Tensor leaf = given.detach().requires_grad();
          return grad(sum(f(leaf)), {leaf})[0];
        },
        {.recheck = false});
    for (int i = 0; i < 2; ++i) (void)fast(x);
    const Explanation told = fast.explain();
    std::map<std::string, std::int64_t> found;
    for (const ExplainedKernel& kernel : told.recordings.at(0).table)
      found[kernel.parts.at(0).op] = kernel.operations;
    return found;
  };
  // Four samples of two heads, 6 queries and keys 8 wide: two products forward, five backward.
  const Tensor q = normal({4, 2, 6, 8});
  auto found =
      operations([](const Tensor& x) { return scaled_dot_product_attention(x, x * 2, x * 3); }, q);
  constexpr std::int64_t kProduct = 2 * 4 * 2 * 6 * 6 * 8;
  EXPECT_EQ(found["attention_forward"], 2 * kProduct);
  EXPECT_EQ(found["attention_backward"], 5 * kProduct);
  found = operations(
      [](const Tensor& x) {
        return scaled_dot_product_attention(x, x * 2, x * 3, {.is_causal = true});
      },
      q);
  EXPECT_EQ(found["attention_forward"], 2 * 4 * 2 * (1 + 2 + 3 + 4 + 5 + 6) * (8 + 8));

  const nn::LSTM lstm(8, 5);
  found = operations([&](const Tensor& x) { return lstm(x).y; }, normal({7, 3, 8}));
  constexpr std::int64_t kSteps = 2 * 7 * 3 * (4 * 5 * 8 + 4 * 5 * 5);
  EXPECT_EQ(found["recurrent_forward"], kSteps);
  EXPECT_EQ(found["recurrent_backward"], 2 * kSteps);
}

TEST(ExplanationReport, AProfileAddsTimesAndShares) {
  const auto fast = compile(model, {.recheck = false});
  const Tensor x = ones({4, 8}), w = ones({8, 6});
  for (int i = 0; i < 2; ++i) (void)fast(x, w);
  const exec::StepProfile profile;
  for (int i = 0; i < 3; ++i) (void)fast(x, w);
  const Explanation told = fast.explain(&profile);
  for (const ExplainedKernel& kernel : told.recordings[0].table) {
    EXPECT_EQ(kernel.calls, 3);
    EXPECT_GT(kernel.seconds, 0);
  }
  const auto page =
      nlohmann::json::parse(debug::to_json(told, {.bytes = 1e12, .operations = 1e15}));
  EXPECT_EQ(page["calls"], 5);
  EXPECT_EQ(page["recordings"][0]["reason"], "first call");
  const auto& kernel = page["recordings"][0]["table"][0];
  EXPECT_EQ(kernel["operators"][0]["operator"], "matmul");
  EXPECT_EQ(kernel["calls"], 3);
  EXPECT_GT(kernel["share"].get<double>(), 0);
  EXPECT_THAT(debug::kernel_table(told, {.bytes = 1e6, .operations = 1e6}), HasSubstr("%"));
  // The product: 4 x 8 by 8 x 6 numbers read, 4 x 6 written, so many sums of products.
  debug::HtmlReport report("Report");
  debug::add_explanation(report, told, {.bytes = 1e6, .operations = 1e6});
  const std::string html = report.html();
  for (const char* column : {"operators", "lines", "kB", "kflop", "calls", "us", "share"})
    EXPECT_THAT(html, HasSubstr(">" + std::string(column) + "</th>"));
  for (const char* cell : {"matmul", "0.4", "3"})
    EXPECT_THAT(html, HasSubstr(">" + std::string(cell) + "</td>"));
  EXPECT_THAT(html, HasSubstr("explanation_test.cpp:"));
  EXPECT_EQ(told.recordings[0].table[0].operations, 2 * 4 * 8 * 6);
  EXPECT_EQ(told.recordings[0].table[0].bytes, 4 * (4 * 8 + 8 * 6 + 4 * 6));
}

TEST(ExplanationReport, JsonTellsAllOfIt) {
  const auto fast = compile(
      [](const Tensor& x) {
        const Tensor y = softmax(x * 2.0f, -1) + 1.0f;
        return x.size(0) > 2 && sum(y) > 100.0f ? y * 3.0f : y;
      },
      {.recheck = false, .max_recordings = 2, .name = "f"});
  for (const std::int64_t n : {900, 700, 600, 600}) (void)fast(normal({n, 256}));
  (void)fast(ones({3, 256}, f64));
  Explanation told = fast.explain();
  told.early = 7;  // depends on how fast another thread compiles
  ASSERT_EQ(told.recordings.size(), 2u);
  const auto page = nlohmann::json::parse(debug::to_json(told));
  EXPECT_EQ(page["kind"], "compiled function");
  EXPECT_EQ(page["name"], "f");
  EXPECT_EQ(page["line"], to_string(told.loc));
  EXPECT_EQ(page["calls"], told.calls);
  EXPECT_EQ(page["replays"], told.replays);
  EXPECT_EQ(page["recorded"], told.recorded);
  EXPECT_EQ(page["rechecks"], told.rechecks);
  EXPECT_EQ(page["eager"], told.eager);
  EXPECT_EQ(page["early"], 7);
  ASSERT_EQ(page["misses"].size(), 1u);
  EXPECT_EQ(page["misses"][0]["call"], told.misses[0].call);
  EXPECT_EQ(page["misses"][0]["reason"], told.misses[0].reason);
  ASSERT_EQ(page["recordings"].size(), 2u);
  const ExplainedRecording& recording = told.recordings[1];
  const auto& shown = page["recordings"][1];
  EXPECT_EQ(shown["reason"], recording.reason);
  EXPECT_EQ(shown["arguments"], recording.arguments);
  EXPECT_EQ(shown["guards"], recording.guards);
  EXPECT_EQ(shown["ways"], recording.ways);
  EXPECT_EQ(shown["compiled"], recording.compiled);
  EXPECT_EQ(shown["operators"], recording.nodes);
  EXPECT_EQ(shown["kernels"], recording.kernels);
  EXPECT_EQ(shown["compile_ms"], recording.compile_ms);
  EXPECT_EQ(shown["memory"], recording.memory);
  EXPECT_EQ(shown["fusion"], recording.fusion);
  EXPECT_EQ(shown["runs_eagerly_because"], recording.refusal);
  ASSERT_EQ(shown["decisions"].size(), 1u);
  EXPECT_EQ(shown["decisions"][0]["line"], to_string(recording.decisions[0].loc));
  EXPECT_EQ(shown["decisions"][0]["reads"], "bool");
  EXPECT_EQ(shown["decisions"][0]["outcomes"], recording.decisions[0].outcomes);
  ASSERT_EQ(shown["table"].size(), recording.table.size());
  EXPECT_EQ(shown["table"][0]["bytes"], recording.table[0].bytes);
  // What is compared says something.
  EXPECT_TRUE(recording.compiled);
  EXPECT_GT(recording.memory, 0);
  EXPECT_FALSE(recording.fusion.empty());
  EXPECT_FALSE(recording.guards.empty());
}

TEST(ExplanationReport, AGraphIsToldAsAFunctionIs) {
  Graph graph;
  const Tensor y = graph.define(
      [] { return model(placeholder("x", f32, {4, 8}), variable("w", ones({8, 6}))); });
  Session session(graph);
  (void)session.run({y}, {{"x", ones({4, 8})}});
  const Explanation told = session.explain();
  EXPECT_THAT(debug::kernel_table(told), HasSubstr("exp mul sum"));
  const auto page = nlohmann::json::parse(debug::to_json(told));
  EXPECT_EQ(page["kind"], "graph");
  EXPECT_EQ(page["replays"], 1);
  EXPECT_EQ(page["recordings"][0]["arguments"][0], "\"x\": f32[4, 8]");
  EXPECT_EQ(page["recordings"][0]["table"][0]["operators"][0]["operator"], "matmul");
}

TEST(ExplanationReport, RecompilationsAndMissesAreTold) {
  const auto fast = compile(model, {.recheck = false, .max_recordings = 2});
  for (const std::int64_t n : {8, 6}) (void)fast(ones({4, n}), ones({n, 6}));
  (void)fast(ones({4, 3}, f64), ones({3, 6}, f64));
  const auto page = nlohmann::json::parse(debug::to_json(fast.explain()));
  EXPECT_EQ(page["recordings"][1]["reason"], "size of argument 0 along axis 1 was 8, is 6");
  EXPECT_EQ(page["misses"][0]["call"], 3);
  EXPECT_THAT(page["misses"][0]["reason"].get<std::string>(), HasSubstr("argument 0 was f32["));
  debug::HtmlReport report("Report");
  debug::add_explanation(report, fast.explain());
  EXPECT_THAT(report.html(), HasSubstr("size of argument 0 along axis 1 was 8, is 6"));
  EXPECT_THAT(debug::kernel_table(fast.explain()), HasSubstr("no kernels yet"));
}

TEST(ExplanationReport, TheMachineIsMeasured) {
  const debug::MachineSpeed machine = debug::measure_machine();
  EXPECT_GT(machine.bytes, 1e8);
  EXPECT_GT(machine.operations, 1e8);
}

}  // namespace
}  // namespace dyad
