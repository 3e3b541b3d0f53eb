#include "dyad/onnx/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <numeric>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/storage.h"
#include "dyad/exec/step_profile.h"
#include "dyad/runtime/threads.h"

namespace dyad::onnx {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The most memory that the process ever had, in bytes; 0 where the system does not say.
std::uint64_t process_peak() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

class Bench {
 public:
  Bench(const BenchmarkSubject& subject, const BenchmarkOptions& options)
      : subject_(subject), options_(options) {}

  Benchmark run() {
    result_.load_ms = subject_.load_ms;
    result_.sizes = subject_.sizes;
    result_.threads = get_num_threads();
    if (subject_.prepare) {
      tell("compiling", 0);
      const auto start = Clock::now();
      subject_.prepare();
      result_.compile_ms = ms_since(start);
    }
    tell("first run", 0);
    const auto start = Clock::now();
    subject_.run();
    result_.first_run_ms = ms_since(start);

    time_runs();
    result_.tensor_peak_bytes = memory_stats().peak;
    result_.process_peak_bytes = process_peak();
    profile();
    return std::move(result_);
  }

 private:
  void tell(std::string_view stage, double part) const {
    if (options_.progress) options_.progress(stage, part);
  }

  void time_runs() {
    std::vector<double> times;
    const auto start = Clock::now();
    for (;;) {
      const auto count = static_cast<double>(times.size());
      const double part = options_.runs > 0 ? count / static_cast<double>(options_.runs)
                                            : ms_since(start) / 1e3 / options_.seconds;
      if (part >= 1 && (options_.runs > 0 || times.size() >= 3)) break;
      tell("timing", std::min(part, 1.0));
      const auto begin = Clock::now();
      subject_.run();
      times.push_back(ms_since(begin));
    }
    std::ranges::sort(times);
    const auto at = [&](double part) {
      const double place = std::round(part * static_cast<double>(times.size() - 1));
      return times[static_cast<std::size_t>(place)];
    };
    result_.runs = static_cast<std::int64_t>(times.size());
    result_.min_ms = times.front();
    result_.median_ms = at(0.5);
    result_.p90_ms = at(0.9);
    result_.mean_ms =
        std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  }

  void profile() {
    tell("profiling", 0);
    // About a second, and few enough runs for anything.
    const auto runs =
        static_cast<int>(std::clamp(1000.0 / std::max(result_.median_ms, 1e-3), 1.0, 100.0));
    exec::StepProfile profile;
    for (int i = 0; i < runs; ++i) subject_.run();
    const std::vector<exec::StepTime> steps = profile.steps();
    double total = 0;
    for (const exec::StepTime& step : steps) total += step.seconds;
    std::map<std::pair<std::string, std::string>, Benchmark::Operator> by_kind;
    for (const exec::StepTime& step : steps) {
      const auto [onnx, kernel] = names_of(step);
      auto& kind = by_kind[{onnx, kernel}];
      kind.onnx = onnx;
      kind.kernel = kernel;
      kind.ms += 1e3 * step.seconds / runs;
      kind.share += total > 0 ? step.seconds / total : 0;
      kind.calls += static_cast<double>(step.calls) / runs;
      if (result_.slowest.size() < 10) {
        result_.slowest.push_back({.node = place_of(step),
                                   .onnx = onnx,
                                   .ms = 1e3 * step.seconds / runs,
                                   .share = total > 0 ? step.seconds / total : 0});
      }
    }
    for (auto& [names, kind] : by_kind) result_.operators.push_back(std::move(kind));
    std::ranges::sort(result_.operators, std::greater<>(), &Benchmark::Operator::ms);
  }

  /// The ONNX operators of a step, and Dyad's, each name once and in order.
  [[nodiscard]] std::pair<std::string, std::string> names_of(const exec::StepTime& step) const {
    std::vector<std::string> onnx, kernel;
    const auto add = [](std::vector<std::string>& all, std::string name) {
      if (!name.empty() && std::ranges::find(all, name) == all.end())
        all.push_back(std::move(name));
    };
    for (const auto& part : step.parts) {
      if (subject_.operator_at) add(onnx, subject_.operator_at(part.loc));
      add(kernel, part.op);
    }
    return {fmt::format("{}", fmt::join(onnx, ", ")), fmt::format("{}", fmt::join(kernel, ", "))};
  }

  static std::string place_of(const exec::StepTime& step) {
    const Loc loc = step.parts.empty() ? Loc() : step.parts.front().loc;
    std::string place = loc == Loc() ? "" : to_string(loc);  // inputs have none
    if (!loc.function().empty()) place += fmt::format(" \"{}\"", loc.function());
    if (step.parts.size() > 1) {
      const Loc last = step.parts.back().loc;
      if (last != loc) place += fmt::format(" to {}", last.line());
    }
    return place;
  }

  const BenchmarkSubject& subject_;
  const BenchmarkOptions& options_;
  Benchmark result_;
};

}  // namespace

Benchmark benchmark(const BenchmarkSubject& subject, const BenchmarkOptions& options) {
  return Bench(subject, options).run();
}

Benchmark benchmark(const std::string& path, const BenchmarkOptions& options, Loc loc) {
  loc = loc.user();
  reset_peak_memory();
  if (options.progress) options.progress("loading", 0);
  const auto start = Clock::now();
  const Model model = load(path, {.trainable = false, .fast_math = options.fast_math}, loc);
  const double load_ms = ms_since(start);
  const Inputs inputs = make_inputs(model, options.inputs, loc);
  return benchmark({.load_ms = load_ms,
                    .sizes = inputs.sizes,
                    .prepare = [&] { model.prepare(inputs.values, loc); },
                    .run = [&] { static_cast<void>(model.run_values(inputs.values, loc)); },
                    .operator_at = [&](Loc place) { return model.operator_at(place); }},
                   options);
}

}  // namespace dyad::onnx
