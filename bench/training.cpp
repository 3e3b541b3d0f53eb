#include "bench/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "dyad/core/generator.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/step_profile.h"

namespace dyad::bench {
namespace {

void measure(Results& results, const Workload& workload, int threads, double floor) {
  const std::vector<Batch> data = workload.batches();
  manual_seed(2);
  const Workload::Step eager = workload.make();
  manual_seed(2);
  const auto compiled = compile(workload.make(), {.recheck = false});
  for (std::size_t i = 0; i < data.size(); ++i) {
    const float a = eager(data[i].x, data[i].y).item<float>();
    const float b = compiled(data[i].x, data[i].y).item<float>();
    const bool plausible = i > 0 || std::abs(a - std::log(workload.classes)) < 1.5;
    if (std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b) || !plausible)
      results.fail(workload.name, "loss of step " + std::to_string(i) + ": eager " +
                                      std::to_string(a) + ", compiled " + std::to_string(b));
  }
  // In turns: a machine that runs slower for a second does so for both. No longer than that, for
  // eight batches are soon known by heart, and gradients that underflow are slow.
  constexpr int kRounds = 7;
  constexpr double kRoundSeconds = 0.05;
  using Clock = std::chrono::steady_clock;
  std::size_t next = 0;
  const auto add_round = [&](const auto& step, std::vector<double>& seconds) {
    double passed = 0;
    while (passed < kRoundSeconds) {
      next = (next + 1) % data.size();
      const auto start = Clock::now();
      (void)step(data[next].x, data[next].y);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      passed += seconds.back();
    }
  };
  std::vector<double> eagerly, replayed;
  for (int round = 0; round < kRounds; ++round) {
    add_round(eager, eagerly);
    add_round(compiled, replayed);
  }
  const auto rate = [](std::vector<double>& of) {
    const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
    std::ranges::nth_element(of, middle);
    return 1 / *middle;
  };
  results.add({workload.name, "dyad-eager", threads, rate(eagerly), "steps/s", floor});
  results.add({workload.name, "dyad-compiled", threads, rate(replayed), "steps/s", floor});
}

/// The operators of a step with the line of the last one.
std::string text_of(const exec::StepTime& step) {
  constexpr std::size_t kMost = 6;
  std::string text;
  for (std::size_t i = 0; i < step.parts.size() && i < kMost; ++i) {
    text += (i > 0 ? " " : "") + step.parts[i].op;
  }
  if (step.parts.size() > kMost) text += fmt::format(" and {} more", step.parts.size() - kMost);
  return step.parts.empty() ? text : text + "  " + to_string(step.parts.back().loc);
}

}  // namespace

void profile_training(const Results& wanted) {
  constexpr int kSteps = 10;
  for (const Workload& workload : workloads()) {
    if (!wanted.wants(workload.name)) continue;
    const std::vector<Batch> data = workload.batches();
    const auto step = compile(workload.make(), {.recheck = false});
    for (int i = 0; i < 3; ++i) (void)step(data[0].x, data[0].y);
    const exec::StepProfile profile;
    for (int i = 0; i < kSteps; ++i) (void)step(data[1].x, data[1].y);
    const std::vector<exec::StepTime> times = profile.steps();
    double total = 0;
    for (const exec::StepTime& time : times) total += time.seconds;
    fmt::print("{}: {:.2f} ms a step in {} kernels\n", workload.name, 1e3 * total / kSteps,
               times.size());
    for (const exec::StepTime& time : times) {
      if (time.seconds < total / 2000) break;
      fmt::print("{:9.1f} us {:5.1f}%  {}\n", 1e6 * time.seconds / kSteps,
                 100 * time.seconds / total, text_of(time));
    }
  }
}

void training(Results& results, int threads) {
  for (const Workload& workload : workloads()) {
    if (!results.wants(workload.name)) continue;
    measure(results, workload, threads,
            1 / floor_seconds(workload.layers, workload.dtype, workload.update_bytes));
  }
}

}  // namespace dyad::bench
