// Programs that are looked into, stopped, and given a number of threads while they run.

#include <gmock/gmock.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/step_profile.h"
#include "dyad/io/program.h"
#include "dyad/ir/op.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/threads.h"
#include "tests/data/files.h"
#include "tests/shared/message_of.h"
#include "values_of.h"

namespace dyad::io {
namespace {

using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// Operators with their lines, bytes, operations.
using Kernel = std::tuple<std::vector<std::string>, std::int64_t, std::int64_t>;

std::vector<Kernel> kernels_of(const Explanation& told) {
  std::vector<Kernel> all;
  for (const ExplainedRecording& recording : told.recordings) {
    for (const ExplainedKernel& kernel : recording.table) {
      std::vector<std::string> parts;
      for (const ExplainedKernel::Part& part : kernel.parts)
        parts.push_back(part.op + " " + to_string(part.loc));
      all.emplace_back(std::move(parts), kernel.bytes, kernel.operations);
    }
  }
  return all;
}

TEST(ProgramExplain, AStepTellsTheKernelsAndLinesOfItsSource) {
  const TempFile file("explained.dyad");
  nn::Linear layer(6, 3);
  optim::SGD optimizer(nn::parameters(layer), {.lr = 0.1});
  std::string line;
  const auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        optimizer.zero_grad();
        line = "program_control_test.cpp:" + std::to_string(__LINE__ + 1);
        Tensor loss = cross_entropy(tanh(layer(x)), y);
        loss.backward();
        optimizer.step();
        return loss;
      },
      {.recheck = false, .name = "step"});
  const Tensor x = ones({8, 6}), y = zeros({8}, i64);
  for (int i = 0; i < 3; ++i) step(x, y);
  save(file.path(), step);
  const Program program = load(file.path());

  Explanation told = program.explain();
  EXPECT_EQ(told.name, "step");
  ASSERT_EQ(told.recordings.size(), 1U);
  EXPECT_EQ(told.recordings[0].reason, "loaded from a file");
  EXPECT_THAT(told.recordings[0].arguments, ElementsAre("f32[8, 6]", "i64[8]"));
  EXPECT_THAT(told.recordings[0].table, IsEmpty()) << "nothing has run";

  program(x, y);
  {
    const exec::StepProfile profile;
    program(x, y);
    told = program.explain(&profile);
  }
  EXPECT_EQ(told.replays, 2);
  EXPECT_EQ(kernels_of(told), kernels_of(step.explain()));
  EXPECT_THAT(kernels_of(told), Contains(::testing::FieldsAre(Contains("tanh " + line),
                                                              ::testing::Gt(0), ::testing::Gt(0))));
  for (const ExplainedKernel& kernel : told.recordings[0].table) EXPECT_EQ(kernel.calls, 1);
  EXPECT_THAT(
      to_string(told),
      StartsWith("compiled function 'step': 2 calls, 2 compiled, 0 recorded (0 to check), 0 "
                 "eager\n  recording 1: loaded from a file\n    arguments: f32[8, 6]"));
}

TEST(ProgramExplain, AGraphTellsWhatItsOutputsNeed) {
  const TempFile file("explained_graph.dyad");
  Graph g;
  g.define([] {
    const Tensor x = placeholder("x", f32, {"n", 6});
    return exp(matmul(x, variable("w", ones({6, 3})))) * 2.0f;
  });
  save(file.path(), g);
  const Program program = load(file.path());
  EXPECT_THAT(program.explain().recordings, IsEmpty());
  program(ones({5, 6}));
  const Explanation told = program.explain();
  ASSERT_EQ(told.recordings.size(), 1U);
  const ExplainedRecording& recording = told.recordings[0];
  EXPECT_THAT(recording.reason, StartsWith("fetches mul: f32[n, 3] (program_control_test.cpp:"));
  EXPECT_THAT(recording.arguments, ElementsAre("\"x\": f32[n, 6]"));
  EXPECT_EQ(recording.nodes, 3);
  EXPECT_EQ(recording.kernels, 2);
  ASSERT_EQ(recording.table.size(), 2U);
  EXPECT_EQ(recording.table[0].parts.at(0).op, "matmul");
  EXPECT_THAT(to_string(recording.table[0].parts.at(0).loc),
              StartsWith("program_control_test.cpp:"));
  EXPECT_EQ(recording.table[0].bytes, 4 * (5 * 6 + 6 * 3 + 5 * 3));
  EXPECT_EQ(recording.table[0].operations, 2 * 5 * 6 * 3);
  EXPECT_EQ(recording.table[1].parts.size(), 2U);
  const std::string text = to_string(told);
  EXPECT_THAT(text, StartsWith("graph: 1 calls, 1 compiled,"));
  EXPECT_THAT(text, HasSubstr("3 operators in 1 way -> 2 kernels"));
}

/// Counts to `limit`: without end where that is infinite.
Tensor count_to(const Tensor& limit) {
  return while_loop([&](const Tensor& n) { return n < limit; },
                    [](const Tensor& n) { return n + 1.0f; }, zeros({}));
}

/// Calls a program that counts to the number given and keeps it as `count`: without end until
/// another thread stops it; then to 4.
void expect_calls_are_cancelled(const std::string& path) {
  const Program program = load(path);
  const float before = program.state().at("count").item<float>();
  for (int i = 0; i < 3; ++i) {
    std::atomic<bool> done = false;
    std::thread stopper([&, program] {
      while (!done) {
        program.cancel();
        std::this_thread::yield();
      }
    });
    EXPECT_THROW(program(std::numeric_limits<float>::infinity()), CancelledError);
    done = true;
    stopper.join();
    EXPECT_EQ(program.state().at("count").item<float>(), before);
  }
  program.cancel();
  program(4.0f);
  EXPECT_EQ(program.state().at("count").item<float>(), 4.0f) << "a later call is whole";
}

TEST(ProgramCancel, ACallOfAFunctionStopsAndWritesNothing) {
  const TempFile file("cancelled.dyad");
  const Tensor count = zeros({});
  const auto step = compile([&](const Tensor& limit) {
    Tensor kept = count;
    kept.copy_(count_to(limit));
    return kept * 1.0f;
  });
  for (const float limit : {2.0f, 5.0f, 3.0f}) static_cast<void>(step(full({}, limit)));
  TensorDict state;
  state.add("count", count);
  save(file.path(), step, {.state = state});
  expect_calls_are_cancelled(file.path());
}

TEST(ProgramCancel, ARunOfAGraphStopsAndWritesNothing) {
  const TempFile file("cancelled_graph.dyad");
  Graph g;
  g.define([] {
    return assign(variable("count", full({}, 3.0f)), count_to(placeholder("limit", f32, {})));
  });
  save(file.path(), g);
  expect_calls_are_cancelled(file.path());
}

/// As many threads as its kernel may use, for each element.
struct TellThreads {
  using Attrs = NoAttrs;
  static constexpr ArgInfo inputs[] = {{"x", kFloat}};
  static constexpr ArgInfo outputs[] = {{"out"}};
  static constexpr Schema schema{.name = "test_tell_threads",
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .doc = "The number of threads, for each element of x."};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
};

const bool kRegistered = [] {
  register_op<TellThreads>();
  runtime::register_kernel("test_tell_threads", {.run = [](const runtime::OpCall& call) {
                             *call.outputs[0].data<float>() = static_cast<float>(get_num_threads());
                           }});
  return true;
}();

TEST(ProgramThreads, AreThoseThatLoadIsGiven) {
  const TempFile function("threads.dyad"), graph("threads_graph.dyad");
  const auto tell = [](const Tensor& x, Loc loc = std::source_location::current()) {
    return apply<TellThreads>({}, loc, x);
  };
  const auto fast = compile([&](const Tensor& x) { return tell(x); }, {.threads = 1});
  static_cast<void>(fast(zeros({})));
  save(function.path(), fast);
  Graph g;
  g.define([&] { return tell(placeholder("x", f32, {})); });
  save(graph.path(), g);
  for (const TempFile* file : {&function, &graph}) {
    const auto used = [&](const ProgramLoadOptions& options) {
      return static_cast<int>(load(file->path(), options)(0.0f)[0].item<float>());
    };
    const int all = get_num_threads();
    EXPECT_EQ(used({}), all) << "those of the function that was saved stay behind";
    EXPECT_EQ(used({.threads = 1}), 1);
    {
      const ThreadScope fewer(1);
      EXPECT_EQ(used({}), 1);
      EXPECT_EQ(used({.threads = all}), all);
    }
    EXPECT_EQ(get_num_threads(), all);
    EXPECT_THAT(message_of<ValueError>([&] { used({.threads = -2}); }),
                HasSubstr("load: threads = -2, but must be 0 or more: 0 takes as many as "
                          "set_num_threads() says"));
  }
}

}  // namespace
}  // namespace dyad::io
