#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "bench/harness.h"
#include "dyad/autograd/grad_mode.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"

namespace dyad::bench {
namespace {

/// Calls a second of `callers` threads together, each on an argument of its own.
double calls_per_second(const std::function<Tensor(const Tensor&)>& fn, const Shape& shape,
                        int callers) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kDuration = std::chrono::milliseconds(250);
  std::atomic<int> ready = 0;
  std::atomic<std::int64_t> calls = 0;
  std::atomic<bool> go = false, stop = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < callers; ++i) {
    threads.emplace_back([&] {
      const NoGrad no_tape;
      const Tensor x = normal(shape);
      constexpr int kWarmUp = 16;
      for (int call = 0; call < kWarmUp; ++call) static_cast<void>(fn(x));
      ++ready;
      while (!go) std::this_thread::yield();
      std::int64_t own = 0;
      for (; !stop; ++own) static_cast<void>(fn(x));
      calls += own;
    });
  }
  while (ready < callers) std::this_thread::yield();
  const auto start = Clock::now();
  go = true;
  std::this_thread::sleep_for(kDuration);
  stop = true;
  threads.clear();
  return static_cast<double>(calls) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

void concurrent(Results& results, int callers) {
  const Tensor w1 = normal({256, 256}), w2 = normal({256, 256});
  const auto measure = [&](const std::string& name, const Shape& shape, const auto& fn) {
    const auto fast = compile(fn, {.threads = 1, .name = name});
    const Tensor x = normal(shape);
    for (int call = 0; call < 4; ++call) {
      if (no_grad([&] { return fast(x); }).template to_vector<float>() !=
          no_grad([&] { return fn(x); }).template to_vector<float>())
        results.fail(name, "the elements");
    }
    // In turns, for the machine's speed is another one from second to second.
    constexpr int kRounds = 5;
    std::vector<double> together, alone;
    for (int round = 0; round < kRounds; ++round) {
      alone.push_back(calls_per_second(fast, shape, 1));
      together.push_back(calls_per_second(fast, shape, callers));
    }
    std::ranges::sort(alone);
    std::ranges::sort(together);
    results.add({"callers of " + name, "dyad-compiled", callers, together[kRounds / 2], "calls/s",
                 alone[kRounds / 2] * callers});
  };
  measure("sum of 16", {16}, [](const Tensor& a) { return sum(a); });
  measure("exp(x) * 2 + x of 64x256", {64, 256}, [](const Tensor& a) { return exp(a) * 2 + a; });
  measure("perceptron 256-256-256 of 64", {64, 256},
          [&](const Tensor& a) { return matmul(relu(matmul(a, w1)), w2); });
}

}  // namespace dyad::bench
