// Compiled functions and sessions run from several threads at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <source_location>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/session.h"
#include "dyad/ir/op.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/threads.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using exec::bits;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// x itself, after the host has been called: what a kernel is doing while others run.
struct Meeting {
  using Attrs = NoAttrs;
  static constexpr ArgInfo inputs[] = {{"x", kFloat}};
  static constexpr ArgInfo outputs[] = {{"out"}};
  static constexpr Schema schema{.name = "test_meeting",
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .doc = "x, after the test's function was called."};
  static Types infer(const InferIn& in, const Attrs&) { return {in[0]}; }
};

std::function<void()>& at_meeting() {
  static std::function<void()> call;
  return call;
}

const bool kRegistered = [] {
  register_op<Meeting>();
  runtime::register_kernel("test_meeting", {.run = [](const runtime::OpCall& call) {
                             if (at_meeting()) at_meeting()();
                             const Tensor x = call.inputs[0].contiguous();
                             for (std::int64_t i = 0; i < x.numel().number(); ++i)
                               call.outputs[0].data<float>()[i] = x.data<float>()[i];
                           }});
  return true;
}();

Tensor meeting(const Tensor& x, Loc loc = std::source_location::current()) {
  return apply<Meeting>({}, loc, x);
}

/// What the test does at a meeting, while it lives.
class AtMeeting {
 public:
  explicit AtMeeting(std::function<void()> call) { at_meeting() = std::move(call); }
  ~AtMeeting() { at_meeting() = nullptr; }
  AtMeeting(const AtMeeting&) = delete;
  AtMeeting& operator=(const AtMeeting&) = delete;
};

/// Waits until `count` is reached; false when that takes ten seconds.
bool wait_for(const std::atomic<int>& value, int count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (value < count) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

/// Runs `body(number)` on threads; what they throw is a failure.
void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  for (int number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      try {
        body(number);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        ADD_FAILURE() << "thread " << number << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Tensor numbers(std::int64_t rows, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * 3; ++i)
    values.push_back(static_cast<float>((i * 7 + seed * 13) % 31) / 8.0f - 1.5f);
  return tensor(values, {rows, 3});
}

TEST(Concurrent, OneCompiledFunctionGivesEachThreadItsOwnResults) {
  Tensor w = numbers(3, 99).requires_grad();
  const auto function = [&](const Tensor& x) {
    const Tensor h = tanh(matmul(x, w));
    return softmax(h * sum(h, {1}, true), 1);
  };
  const auto fast = compile(function);
  on_threads(4, [&](int thread) {
    for (int i = 0; i < 40; ++i) {
      // Sizes change, so that threads record, recheck and replay at the same time.
      Tensor x = numbers(1 + (i * 5 + thread) % 6, i + thread).requires_grad();
      Tensor same = x.detach().clone().requires_grad();
      const Tensor got = fast(x), want = function(same);
      ASSERT_EQ(bits(got), bits(want)) << thread << " " << i;
      const Tensor a = grad(sum(got * got), {x})[0], b = grad(sum(want * want), {same})[0];
      ASSERT_EQ(bits(a), bits(b)) << thread << " " << i;
    }
  });
  const Explanation told = fast.explain();
  EXPECT_EQ(told.calls, 160);
  EXPECT_GT(told.replays, 80);
}

TEST(Concurrent, RunsOfOneFunctionDoNotWaitForEachOther) {
  const auto fast =
      compile([](const Tensor& x) { return meeting(x * 2.0f) + 1.0f; }, {.recheck = false});
  const Tensor x = tensor({1.0f, 2.0f});
  fast(x);
  std::atomic<int> inside = 0;
  const AtMeeting both([&] {
    ++inside;
    EXPECT_TRUE(wait_for(inside, 2)) << "the other thread's run did not begin";
  });
  on_threads(2, [&](int) { EXPECT_EQ(bits(fast(x)), (std::vector<float>{3, 5})); });
}

TEST(Concurrent, RunsOfOneSessionDoNotWaitForEachOther) {
  Graph graph;
  const Tensor y = graph.define([] { return meeting(placeholder("x", f32, {"n"})) * 2.0f; });
  Session session(graph);
  session.run({y}, {{"x", tensor({1.0f, 2.0f})}});
  std::atomic<int> inside = 0;
  const AtMeeting both([&] {
    ++inside;
    EXPECT_TRUE(wait_for(inside, 2)) << "the other thread's run did not begin";
  });
  on_threads(2, [&](int thread) {
    const auto first = static_cast<float>(thread);
    EXPECT_EQ(bits(session.run({y}, {{"x", tensor({first, 4.0f})}})[0]),
              (std::vector<float>{first * 2, 8}));
  });
}

TEST(Concurrent, StepsThatWriteWhatOthersReadTakeTurns) {
  Tensor total = zeros({64}), count = zeros({});
  const auto step = compile([&](const Tensor& x) {
    total.add_(x);
    count.add_(1.0f);
    return count * 1.0f;
  });
  const Tensor ones = full({64}, 1.0f);
  step(ones);
  on_threads(4, [&](int) {
    for (int i = 0; i < 50; ++i) step(ones);
  });
  EXPECT_EQ(count.item(), 201);
  EXPECT_EQ(bits(total), std::vector<float>(64, 201.0f));

  Graph graph;
  const Tensor next = graph.define([] {
    const Tensor v = variable("v", zeros({}));
    return assign(v, v + placeholder("x", f32, {}));
  });
  Session session(graph);
  on_threads(4, [&](int) {
    for (int i = 0; i < 50; ++i) session.run({next}, {{"x", tensor(1.0f)}});
  });
  EXPECT_EQ(session.run({next}, {{"x", tensor(0.0f)}})[0].item(), 200);
}

TEST(Concurrent, HostBranchesGrowFromEveryThread) {
  const auto function = [](const Tensor& x, const Tensor& kind) {
    switch (kind.item<int>()) {
      case 0:
        return x + 1.0f;
      case 1:
        return x * 2.0f;
      case 2:
        return -x;
      default:
        return x - 3.0f;
    }
  };
  const auto fast = compile(function);
  on_threads(4, [&](int thread) {
    for (int i = 0; i < 40; ++i) {
      const Tensor x = numbers(2, i), kind = tensor(std::int64_t{(i + thread) % 4});
      ASSERT_EQ(bits(fast(x, kind)), bits(function(x, kind)));
    }
  });
  EXPECT_EQ(fast.explain().recordings[0].ways, 4);
}

TEST(Concurrent, AnErrorReachesItsOwnCallerWithTheLine) {
  const auto fast = compile(
      [](const Tensor& x, const Tensor& places) { return index_select(x * 2.0f, 0, places); });
  const Tensor x = numbers(4, 1), good = tensor({std::int64_t{0}, std::int64_t{3}}),
               bad = tensor({std::int64_t{0}, std::int64_t{4}});
  for (int i = 0; i < 3; ++i) fast(x, good);
  on_threads(4, [&](int thread) {
    for (int i = 0; i < 30; ++i) {
      if (thread % 2 == 0) {
        EXPECT_EQ(fast(x, good).size(0).number(), 2);
        continue;
      }
      try {
        fast(x, bad);
        ADD_FAILURE() << "there is no row 4";
      } catch (const IndexError& error) {
        EXPECT_THAT(error.what(), HasSubstr("concurrent_test.cpp:"));
      }
    }
  });
}

TEST(Concurrent, AnErrorOfATeamReachesTheCallerWithTheLine) {
  const auto line = std::source_location::current().line() + 1;
  const auto fn = [](const Tensor& x, const Tensor& index) { return exp(gather(x * 2, 1, index)); };
  const auto fast = compile(fn, {.recheck = false, .threads = 2});
  const Tensor x = normal({20000, 70});
  Tensor index = randint(0, 70, {20000, 2});
  for (int call = 0; call < 3; ++call) EXPECT_EQ(bits(fast(x, index)), bits(fn(x, index)));
  for (const std::int64_t row : {0, 9999, 19999}) {
    Tensor wrong = index.clone();
    wrong.select(0, row).select(0, 1).fill_(70);
    EXPECT_THAT(dyad::testing::message_of<IndexError>([&] { static_cast<void>(fast(x, wrong)); }),
                AllOf(HasSubstr("index 70 at [" + std::to_string(row) + ", 1] is out of range"),
                      HasSubstr("concurrent_test.cpp:" + std::to_string(line))))
        << row;
  }
}

TEST(Concurrent, CallsThatFitNoRecordingAreNotedFromEveryThread) {
  const auto fn = [](const Tensor& x) { return exp(x) * 2; };
  const auto fast = compile(
      fn, {.dynamic_sizes = false, .recheck = false, .on_recompile = OnRecompile::run_eagerly});
  (void)fast(normal({3}));
  on_threads(4, [&](int thread) {
    for (int call = 0; call < 50; ++call) {
      const Tensor x = ones({4 + thread});
      EXPECT_EQ(bits(fast(x)), bits(fn(x)));
    }
  });
  const Explanation told = fast.explain();
  EXPECT_EQ(told.eager, 200);
  ASSERT_EQ(told.misses.size(), 8u);
  for (const ExplainedMiss& miss : told.misses) EXPECT_THAT(miss.reason, HasSubstr("was 3, is"));
}

TEST(Concurrent, CancelStopsAllRunsInProgressAndNoLaterOne) {
  Tensor written = zeros({});
  const auto fast =
      compile([&](const Tensor& x) { return exp(meeting(x)) + 1.0f; }, {.recheck = false});
  const auto writes = compile(
      [&](const Tensor& x) {
        written.copy_(sum(meeting(x)));
        return x * 1.0f;
      },
      {.recheck = false});
  const Tensor x = tensor({1.0f, 2.0f});
  fast(x);
  writes(x);
  {
    std::atomic<int> inside = 0, go_on = 0;
    const AtMeeting wait([&] {
      ++inside;
      EXPECT_TRUE(wait_for(go_on, 1));
    });
    std::atomic<int> cancelled = 0;
    std::thread host([&] {
      EXPECT_TRUE(wait_for(inside, 3));
      fast.cancel();
      writes.cancel();
      go_on = 1;
    });
    on_threads(3, [&](int thread) {
      try {
        thread == 2 ? writes(full({2}, 7.0f)) : fast(x);
      } catch (const CancelledError&) {
        ++cancelled;
      }
    });
    host.join();
    EXPECT_EQ(cancelled, 3);
  }
  EXPECT_EQ(written.item(), 3);  // nothing of the cancelled run
  EXPECT_EQ(bits(fast(x)), bits(exp(x) + 1.0f));
}

/// The calls that run eagerly: cancelled within their second operator, they do not come to the
/// third.
TEST(Concurrent, CancelStopsCallsThatRunEagerlyBetweenOperators) {
  for (const bool is_eager : {false, true}) {
    Tensor written = zeros({});
    std::atomic<int> ends = 0;
    const auto fast = compile(
        [&](const Tensor& x) {
          written.add_(1.0f);
          Tensor y = meeting(x);
          if (is_eager) static_cast<void>(y.to_vector<float>());
          y = exp(y) + 1.0f;
          ++ends;
          return y;
        },
        {.background = Background::never});
    const Tensor x = tensor({1.0f, 2.0f});
    const auto cancelled_call = [&] {
      const AtMeeting stop([&] { fast.cancel(); });
      const int before = ends;
      std::string text;
      try {
        static_cast<void>(fast(x));
      } catch (const CancelledError& error) {
        text = error.what();
      }
      EXPECT_THAT(text, ::testing::StartsWith("the run was cancelled\n"));
      EXPECT_THAT(text, HasSubstr("concurrent_test.cpp:"));
      EXPECT_EQ(ends, before);
    };
    cancelled_call();  // which would have been recorded
    EXPECT_EQ(written.item(), 1) << "what ran before stays";
    EXPECT_TRUE(fast.explain().recordings.empty());
    EXPECT_EQ(bits(fast(x)), bits(exp(x) + 1.0f));
    EXPECT_EQ(fast.explain().recordings.at(0).refusal.empty(), !is_eager);
    cancelled_call();  // to be checked, or eager
    EXPECT_EQ(written.item(), 3);
    {
      const DetectAnomaly anomaly;
      cancelled_call();
    }
    EXPECT_EQ(written.item(), 4);
    EXPECT_EQ(bits(fast(x)), bits(exp(x) + 1.0f));
    EXPECT_EQ(written.item(), 5);
    EXPECT_EQ(fast.explain().replays, is_eager ? 0 : 1);
  }
}

/// Of a call that a cancelled one makes: its own token, and those of the calls around it.
TEST(Concurrent, CancelStopsNestedCalls) {
  const auto inside = compile([](const Tensor& x) {
    static_cast<void>(x.to_vector<float>());
    return exp(meeting(x));
  });
  const auto outside = compile([&](const Tensor& x) {
    static_cast<void>(x.to_vector<float>());
    return inside(x) + 1.0f;
  });
  const Tensor x = tensor({1.0f, 2.0f});
  for (int call = 0; call < 3; ++call) {
    for (const auto& stop :
         {std::function([&] { inside.cancel(); }), std::function([&] { outside.cancel(); })}) {
      const AtMeeting at(stop);
      EXPECT_THROW(static_cast<void>(outside(x)), CancelledError);
    }
    EXPECT_EQ(bits(outside(x)), bits(exp(x) + 1.0f));
  }
}

TEST(Concurrent, NestedRunsOfOneFunctionAndOneSession) {
  // Too many values are read, so it runs eagerly, and then calls itself.
  std::function<Tensor(const Tensor&)> fast;
  const auto count_down = compile(
      [&](const Tensor& x) {
        const auto left = x.item<int>();
        return left > 0 ? fast(x - 1.0f) + 1.0f : x * 1.0f;
      },
      {.max_outcomes = 2});
  fast = [&](const Tensor& x) { return count_down(x); };
  for (int i = 0; i < 6; ++i) EXPECT_EQ(fast(tensor(static_cast<float>(i))).item(), i);

  Graph graph;
  const Tensor y = graph.define([] { return meeting(placeholder("x", f32, {})) + 1.0f; });
  Session session(graph);
  int depth = 0;
  const AtMeeting again([&] {
    if (++depth > 3) return;
    EXPECT_EQ(session.run({y}, {{"x", tensor(5.0f)}})[0].item(), 6);
  });
  EXPECT_EQ(session.run({y}, {{"x", tensor(1.0f)}})[0].item(), 2);
  EXPECT_EQ(depth, 4);
}

TEST(Concurrent, CallersThatNeverPauseLetAnotherKindOfCallBeRecorded) {
  const auto fast = compile([](const Tensor& x) { return meeting(x) + 1.0f; }, {.recheck = false});
  const Tensor x = ones({4}), other = ones({2, 3});
  fast(x);
  fast(x);
  const AtMeeting busy([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
  std::atomic<bool> enough = false;
  on_threads(4, [&](int thread) {
    if (thread > 0) {
      while (!enough) fast(x);
      return;
    }
    fast(other);
    EXPECT_EQ(bits(fast(other)), std::vector<float>(6, 2.0f));
    enough = true;
  });
  EXPECT_EQ(fast.explain().recorded, 2);
  EXPECT_EQ(fast.explain().eager, 0);
}

TEST(Concurrent, ACallOfAnotherKindFromInsideARunOfTheFunctionIsNotRecorded) {
  const auto fast = compile([](const Tensor& x) { return meeting(x) + 1.0f; }, {.recheck = false});
  const Tensor x = ones({4}), other = ones({2, 3});
  fast(x);
  fast(x);
  bool inside = false;
  const AtMeeting again([&] {
    if (std::exchange(inside, true)) return;
    EXPECT_EQ(bits(fast(other)), std::vector<float>(6, 2.0f));
  });
  EXPECT_EQ(bits(fast(x)), std::vector<float>(4, 2.0f));
  EXPECT_TRUE(inside);
  const Explanation page = fast.explain();
  EXPECT_EQ(page.eager, 1);
  ASSERT_EQ(page.misses.size(), 1u);
  EXPECT_EQ(page.misses[0].reason, "a run of the function itself made it");
}

TEST(Concurrent, FirstCallsOfAFunctionThatWritesTakeTurnsHoweverLongTheyTake) {
  Tensor total = zeros({1});
  std::atomic<int> inside = 0, most = 0;
  const auto add = compile(
      [&](const Tensor& x) {
        const int now = ++inside;
        most = std::max(most.load(), now);
        const Tensor before = total.clone();
        std::this_thread::sleep_for(std::chrono::milliseconds(1300));
        total.copy_(before + x);
        --inside;
        return total.clone();
      },
      {.recheck = false});
  on_threads(2, [&](int) { add(ones({1})); });
  EXPECT_EQ(bits(total), std::vector<float>{2.0f});
  EXPECT_EQ(most, 1);
  EXPECT_EQ(add.explain().eager, 0);
}

TEST(Concurrent, EachSessionAndFunctionHasItsNumberOfThreads) {
  std::map<std::thread::id, int> seen;
  std::mutex mutex;
  const AtMeeting look([&] {
    const std::lock_guard lock(mutex);
    seen[std::this_thread::get_id()] = get_num_threads();
  });
  Graph graph;
  const Tensor y = graph.define([] { return meeting(placeholder("x", f32, {})); });
  Session one(graph, {.threads = 1}), all(graph);
  const Tensor x = tensor(1.0f);
  const int before = get_num_threads();
  one.run({y}, {{"x", x}});
  EXPECT_EQ(seen[std::this_thread::get_id()], 1);
  all.run({y}, {{"x", x}});
  EXPECT_EQ(seen[std::this_thread::get_id()], before);
  const auto fast = compile([](const Tensor& v) { return meeting(v); }, {.threads = 1});
  for (int i = 0; i < 3; ++i) fast(x);
  EXPECT_EQ(seen[std::this_thread::get_id()], 1);
  EXPECT_EQ(get_num_threads(), before);
  EXPECT_THROW(ThreadScope(0), ValueError);
  on_threads(2, [&](int thread) {
    if (thread == 0) {
      for (int i = 0; i < 20; ++i) one.run({y}, {{"x", x}});
    } else {
      for (int i = 0; i < 20; ++i) all.run({y}, {{"x", x}});
    }
    const std::lock_guard lock(mutex);
    EXPECT_EQ(seen[std::this_thread::get_id()], thread == 0 ? 1 : before);
  });
}

}  // namespace
}  // namespace dyad
