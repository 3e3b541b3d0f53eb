// Compiled functions whose compilation goes on in another thread.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/passes/pipeline.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using exec::same_bits;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

const CompileOptions kInBackground{.recheck = false, .background = Background::always};
const CompileOptions kByTheCall{.recheck = false, .background = Background::never};

/// While it lives, and until it is opened, every compilation waits in a pass. Made after the
/// functions, which wait for their compilation when they are destroyed.
class Gate {
 public:
  ~Gate() { open(); }
  void open() {
    state_->open = true;
    state_->open.notify_all();
  }
  /// Until a compilation has come so far.
  void wait_for_arrival() const { state_->arrived.wait(0); }
  [[nodiscard]] int passed() const { return state_->passed; }

 private:
  struct State {
    std::atomic<bool> open = false;
    std::atomic<int> arrived = 0, passed = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  passes::RegisteredPass pass_{
      {"gate", "waits", passes::PassUse::required,
       [state = state_](const Ref<GraphImpl>& graph, const passes::LowerOptions&) {
         ++state->arrived;
         state->arrived.notify_all();
         state->open.wait(false);
         ++state->passed;
         return graph;
       }}};
};

/// A function and how often the host has run it.
struct Counted {
  std::shared_ptr<std::atomic<int>> runs = std::make_shared<std::atomic<int>>(0);
  Tensor operator()(const Tensor& x) const {
    ++*runs;
    return tanh(x) * 2.0f + exp(-x);
  }
};

TEST(Background, CallsRunEagerlyUntilItIsCompiled) {
  const Counted fn;
  const Tensor x = arange(12).to(f32).reshape({3, 4});
  const Tensor wanted = Counted()(x);
  const auto fast = compile(fn, kInBackground);
  Gate gate;
  for (int call = 1; call <= 4; ++call) {
    EXPECT_TRUE(same_bits(fast(x), wanted));
    EXPECT_EQ(*fn.runs, call);
    if (call == 1) gate.wait_for_arrival();
  }
  gate.open();
  const Explanation before = fast.explain();  // waits
  EXPECT_EQ(before.early, 3);
  EXPECT_EQ(before.eager, 0);
  EXPECT_TRUE(before.recordings[0].compiled);
  EXPECT_THAT(to_string(before), HasSubstr("4 calls, 0 compiled, 1 recorded (0 to check), 3 eager "
                                           "(3 while it was being compiled)"));
  EXPECT_TRUE(same_bits(fast(x), wanted));
  EXPECT_EQ(*fn.runs, 4);
  const Explanation after = fast.explain();
  EXPECT_EQ(after.replays, 1);
  EXPECT_EQ(after.recordings[0].compile_ms, before.recordings[0].compile_ms) << "planned again";
}

TEST(Background, NeverMeansTheNextCall) {
  const Counted fn;
  const Tensor x = ones({5});
  const auto slow = compile(fn, kByTheCall);
  for (int call = 0; call < 3; ++call) static_cast<void>(slow(x));
  EXPECT_EQ(*fn.runs, 1);
  EXPECT_EQ(slow.explain().early, 0);
}

TEST(Background, NeverMeansBeforeTheSecondCallDoesAnything) {
  const auto passes = std::make_shared<std::atomic<int>>(0);
  const passes::RegisteredPass counts(
      {"counts", "counts", passes::PassUse::required,
       [passes](const Ref<GraphImpl>& graph, const passes::LowerOptions&) {
         ++*passes;
         return graph;
       }});
  std::vector<int> seen;  // by the function, each time that the host runs it
  const auto fast = compile(
      [&](const Tensor& x) {
        seen.push_back(*passes);
        return tanh(x) + 1.0f;
      },
      {.background = Background::never});
  const Tensor x = ones({3});
  const Tensor first = fast(x);
  EXPECT_EQ(*passes, 0);
  EXPECT_TRUE(same_bits(fast(x), first));  // is compared
  EXPECT_EQ(*passes, 1);
  EXPECT_TRUE(same_bits(fast(x), first));
  EXPECT_EQ(*passes, 1);
  EXPECT_EQ(seen, (std::vector<int>{0, 1}));
  EXPECT_EQ(fast.explain().recordings[0].plans, 1);
}

TEST(Background, ACallWhoseRecordingWouldHaveToWaitForOthersRunsEagerly) {
  const Counted fn;
  const auto fast = compile(fn, kByTheCall);
  const Tensor x = ones({3}), other = ones({3, 2});
  const Tensor wanted = fast(x);
  Gate gate;
  std::future<Tensor> call = std::async(std::launch::async, [&] { return fast(x); });
  gate.wait_for_arrival();
  EXPECT_TRUE(same_bits(fast(other), Counted()(other)));
  gate.open();
  EXPECT_TRUE(same_bits(call.get(), wanted));
  const Explanation page = fast.explain();
  EXPECT_EQ(page.recorded, 1);
  EXPECT_EQ(page.eager, 1);
  ASSERT_EQ(page.misses.size(), 1u);
  EXPECT_EQ(page.misses[0].reason, "calls of other threads left it no time to be recorded");
  EXPECT_TRUE(same_bits(fast(other), Counted()(other)));
  EXPECT_EQ(fast.explain().recorded, 2);
}

/// Sixteen steps of a model with momentum: its parameters afterwards.
std::vector<Tensor> train(CompileOptions options) {
  manual_seed(7);
  std::vector<Tensor> parameters = {normal({6, 5}).requires_grad(), normal({5}).requires_grad(),
                                    normal({5, 1}).requires_grad()};
  std::vector<Tensor> momenta;
  for (const Tensor& p : parameters) momenta.push_back(zeros(p.shape()));
  const auto step = compile(
      [&](const Tensor& x) {
        for (Tensor& p : parameters) p.zero_grad();
        const Tensor noisy = x + normal(x.shape()) * 0.1f;
        const Tensor loss =
            mean(square(matmul(tanh(matmul(noisy, parameters[0]) + parameters[1]), parameters[2])));
        loss.backward();
        const NoGrad no_tape;
        for (std::size_t i = 0; i < parameters.size(); ++i) {
          momenta[i].copy_(momenta[i] * 0.9f + parameters[i].grad());
          parameters[i].copy_(parameters[i] - momenta[i] * 0.1f);
        }
        return loss;
      },
      std::move(options));
  std::vector<Tensor> all;
  for (int call = 0; call < 16; ++call) {
    all.push_back(step(normal({call % 3 == 2 ? 9 : 4, 6})));
    if (call == 8)
      static_cast<void>(step.explain());  // from here on compiled, if it was not before
  }
  EXPECT_GT(step.explain().replays, 4);
  all.insert(all.end(), parameters.begin(), parameters.end());
  all.insert(all.end(), momenta.begin(), momenta.end());
  return all;
}

TEST(Background, TrainingGivesTheSameBits) {
  const std::vector<Tensor> wanted = train(kByTheCall), found = train(kInBackground);
  const std::vector<Tensor> checked = train({.background = Background::always});
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_TRUE(same_bits(found[i], wanted[i])) << i;
    EXPECT_TRUE(same_bits(checked[i], wanted[i])) << i;
  }
}

TEST(Background, GradientsFromOutsideAreCompiledAheadToo) {
  const Tensor w = ones({4}).requires_grad();
  const auto fast = compile([&](const Tensor& x) { return sum(exp(w * x)); }, kInBackground);
  const Tensor x = arange(4).to(f32);
  const auto gradient = [&] { return grad(fast(x), {w})[0]; };
  const Tensor wanted = gradient();
  static_cast<void>(fast.explain());
  const std::size_t rows = fast.explain().recordings[0].table.size();
  EXPECT_TRUE(same_bits(gradient(), wanted));
  const Explanation told = fast.explain();
  EXPECT_EQ(told.replays, 1);
  EXPECT_EQ(told.recordings[0].table.size(), rows) << "the backward part was not planned";
}

TEST(Background, WaysOfHostBranchesAreCompiledOneByOne) {
  const auto fn = [](const Tensor& x) {
    const Tensor y = tanh(x) + 1.0f;
    return mean(x) > 0.0f ? exp(y) * y : sqrt(abs(y));
  };
  const auto fast = compile(fn, kInBackground);
  const Tensor inputs[] = {ones({8}), ones({8}) * -2.0f};
  for (int round = 0; round < 4; ++round) {
    for (const Tensor& x : inputs) EXPECT_TRUE(same_bits(fast(x), fn(x)));
    static_cast<void>(fast.explain());
  }
  const Explanation told = fast.explain();
  EXPECT_EQ(told.recordings[0].ways, 2);
  EXPECT_GE(told.replays, 5);
}

TEST(Background, SizesThatDataDecideOnAreLeftToTheCall) {
  const auto fn = [](const Tensor& x) { return nonzero(x > 0.0f).to(f32) * 2.0f; };
  const auto fast = compile(fn, kInBackground);
  const Tensor inputs[] = {ones({3}), ones({3}) * -1.0f, arange(3).to(f32)};
  for (int round = 0; round < 3; ++round) {
    for (const Tensor& x : inputs) EXPECT_TRUE(same_bits(fast(x), fn(x)));
    static_cast<void>(fast.explain());
  }
  EXPECT_GT(fast.explain().replays, 0);
}

TEST(Background, DestroyingAFunctionWaitsForItsCompilation) {
  auto gate = std::make_unique<Gate>();
  auto first = std::make_optional(compile(Counted(), kInBackground));
  auto second = std::make_optional(compile(Counted(), kInBackground));
  const Tensor x = ones({3});
  static_cast<void>((*first)(x));
  static_cast<void>((*second)(x));
  gate->wait_for_arrival();
  second.reset();  // had not begun
  std::future<void> gone = std::async(std::launch::async, [&] { first.reset(); });
  EXPECT_EQ(gone.wait_for(20ms), std::future_status::timeout);
  EXPECT_EQ(gate->passed(), 0);
  gate->open();
  gone.wait();
  EXPECT_EQ(gate->passed(), 1);
}

TEST(Background, ResetForgetsWhatIsBeingCompiled) {
  const Counted fn;
  const Tensor x = ones({3});
  const auto fast = compile(fn, kInBackground);
  Gate gate;
  const Tensor wanted = fast(x);
  gate.wait_for_arrival();
  std::future<void> reset = std::async(std::launch::async, [&] { fast.reset(); });
  std::this_thread::sleep_for(5ms);
  gate.open();
  reset.wait();
  EXPECT_TRUE(fast.explain().recordings.empty());
  EXPECT_TRUE(same_bits(fast(x), wanted));
  static_cast<void>(fast.explain());
  EXPECT_TRUE(same_bits(fast(x), wanted));
  EXPECT_EQ(*fn.runs, 2);
}

TEST(Background, TheNextCallThrowsWhatTheCompilerThrows) {
  const passes::RegisteredPass broken(
      {"broken", "throws", passes::PassUse::required,
       [](const Ref<GraphImpl>&, const passes::LowerOptions&) -> Ref<GraphImpl> {
         throw GraphError("this pass is broken");
       }});
  const auto text_of_second_call = [](const CompileOptions& options) -> std::string {
    const auto fast = compile(Counted(), options);
    const Tensor x = ones({3});
    static_cast<void>(fast(x));
    static_cast<void>(fast.explain());
    try {
      static_cast<void>(fast(x));
    } catch (const GraphError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_THAT(text_of_second_call(kInBackground), HasSubstr("this pass is broken"));
  EXPECT_EQ(text_of_second_call(kInBackground), text_of_second_call(kByTheCall));
}

TEST(Background, ThreadsTakeTurnsWithParameters) {
  constexpr int kThreads = 4, kCalls = 50;
  Tensor total = zeros({2});
  const auto add = compile([&](const Tensor& x) { total.copy_(total + x); }, kInBackground);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int call = 0; call < kCalls; ++call) {
        add(ones({2}));
        if (call == kCalls / 2) static_cast<void>(add.explain());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total.to_vector<float>(), std::vector<float>(2, kThreads * kCalls));
  EXPECT_GT(add.explain().replays, 0);
}

TEST(Background, AFunctionThatCallsItselfRunsWhileItIsCompiled) {
  Tensor seen = zeros({1});
  std::function<Tensor(Tensor, int)> self;
  const auto fast = compile(
      [&](const Tensor& x, int depth) {
        seen.copy_(seen + 1.0f);
        return depth == 0 ? x : self(x + 1.0f, depth - 1);
      },
      kInBackground);
  self = [&](Tensor x, int depth) { return fast(x, depth); };
  const Gate gate;
  for (int call = 1; call <= 3; ++call) {
    EXPECT_EQ(fast(zeros({1}), 2).to_vector<float>()[0], 2.0f);
    EXPECT_EQ(seen.to_vector<float>()[0], 3.0f * static_cast<float>(call));
  }
}

TEST(Background, AfterASecondCallsWait) {
  const Counted fn;
  const Tensor x = ones({3});
  const auto fast = compile(fn, kInBackground);
  Gate gate;
  static_cast<void>(fast(x));
  std::this_thread::sleep_for(1050ms);
  std::future<void> call = std::async(std::launch::async, [&] { static_cast<void>(fast(x)); });
  EXPECT_EQ(call.wait_for(20ms), std::future_status::timeout);
  gate.open();
  call.wait();
  EXPECT_EQ(*fn.runs, 1);
}

TEST(Background, AForkedProcessCompilesForItself) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads in a process that one with threads forked";
#endif
  const Counted fn;
  const Tensor x = ones({3});
  const auto fast = compile(fn, kInBackground);
  const Tensor wanted = fast(x);
  const pid_t child = fork();
  if (child == 0) {
    const bool same = same_bits(fast(x), wanted) && same_bits(fast(x), wanted);
    const auto other = compile(fn, kInBackground);
    const bool others = same_bits(other(x), wanted) && other.explain().recordings[0].compiled;
    _exit(same && others ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(same_bits(fast(x), wanted));
}

TEST(BackgroundDeathTest, AProgramMayEndMeanwhile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const passes::RegisteredPass slow(
            {"slow", "takes its time", passes::PassUse::required,
             [](const Ref<GraphImpl>& graph, const passes::LowerOptions&) {
               std::this_thread::sleep_for(50ms);
               return graph;
             }});
        static const auto fast = compile(Counted(), kInBackground);
        static_cast<void>(fast(ones({3})));
        std::exit(3);
      },
      ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace dyad
