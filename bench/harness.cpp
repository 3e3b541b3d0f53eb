#include "bench/harness.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "dyad/base/error.h"

namespace dyad::bench {
namespace {

/// Keeps the seconds of each repetition instead of printing them.
class SampleReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration)
        samples.push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }
  std::vector<double> samples;
};

/// Whether more is better.
bool is_rate(const std::string& unit) { return unit.find("/s") != std::string::npos; }

double times_as_fast(const Row& row, double other) {
  return is_rate(row.unit) ? row.value / other : other / row.value;
}

}  // namespace

double median_seconds(const std::function<void()>& body) {
  constexpr double kSampleSeconds = 0.05;
  constexpr int kSamples = 7;
  body();
  benchmark::RegisterBenchmark("body",
                               [&](benchmark::State& state) {
                                 for (auto _ : state) body();
                               })
      ->MinTime(kSampleSeconds)
      ->Repetitions(kSamples)
      ->UseRealTime();
  SampleReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter, "body");
  benchmark::ClearRegisteredBenchmarks();
  auto& samples = reporter.samples;
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2];
}

double least_seconds(const std::function<void()>& body, double during) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSampleSeconds = 0.001;
  constexpr int kSamples = 7;
  body();
  double least = std::numeric_limits<double>::infinity(), total = 0;
  for (int i = 0; i < kSamples || total < during; ++i) {
    const auto start = Clock::now();
    double passed = 0;
    int calls = 0;
    while (passed < kSampleSeconds) {
      body();
      ++calls;
      passed = std::chrono::duration<double>(Clock::now() - start).count();
    }
    least = std::min(least, passed / calls);
    total += passed;
  }
  return least;
}

bool Results::wants(const std::string& workload) const {
  const auto has = [&](std::string_view text) { return workload.find(text) != std::string::npos; };
  bool named = false, any_named = false;
  for (const std::string_view text : only_) {
    if (text.starts_with('-')) {
      if (has(text.substr(1))) return false;
    } else {
      any_named = true;
      named = named || has(text);
    }
  }
  return named || !any_named;
}

void Results::add(Row row) { rows_.push_back(std::move(row)); }

void Results::fail(const std::string& workload, const std::string& what) {
  failed_ = true;
  fmt::print(stderr, "{}: WRONG RESULT: {}\n", workload, what);
}

void Results::print() const {
  // Rows of one workload stand together, in the order in which workloads first appear.
  std::vector<Row> rows = rows_;
  std::map<std::string, std::size_t> order;
  for (const Row& row : rows) order.try_emplace(row.workload, order.size());
  std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return std::pair(order[a.workload], a.threads) < std::pair(order[b.workload], b.threads);
  });
  std::map<std::pair<std::string, int>, double> best_peer;
  for (const Row& row : rows) {
    if (row.system.starts_with("dyad")) continue;
    auto [it, added] = best_peer.try_emplace({row.workload, row.threads}, row.value);
    if (!added && times_as_fast(row, it->second) > 1) it->second = row.value;
  }
  fmt::print("{:>8} {:>9}  {:<34} {:>7}  {:<22} {:>11} {}\n", "vs peer", "of floor", "workload",
             "threads", "system", "value", "unit");
  for (const Row& row : rows) {
    std::string floor, ratio;
    if (row.floor > 0) floor = fmt::format("{:.0f}%", 100 * times_as_fast(row, row.floor));
    if (auto peer = best_peer.find({row.workload, row.threads}); peer != best_peer.end())
      ratio = fmt::format("{:.2f}x", times_as_fast(row, peer->second));
    fmt::print("{:>8} {:>9}  {:<34} {:>7}  {:<22} {:>11.4g} {}\n", ratio, floor, row.workload,
               row.threads, row.system, row.value, row.unit);
  }
}

void Results::read_json(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw IoError("cannot read " + path);
  try {
    for (const auto& row : nlohmann::json::parse(file)) {
      const auto& floor = row.at("floor");
      add({row.at("workload"), row.at("system"), row.at("threads"), row.at("value"), row.at("unit"),
           floor.is_null() ? 0 : floor.get<double>()});
    }
  } catch (const nlohmann::json::exception& error) {
    throw IoError(path + " holds no rows of benchmarks: " + error.what());
  }
}

void Results::write_json(const std::string& path) const {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows_) {
    list.push_back({{"workload", row.workload},
                    {"system", row.system},
                    {"threads", row.threads},
                    {"value", row.value},
                    {"unit", row.unit},
                    {"floor", row.floor > 0 ? nlohmann::json(row.floor) : nlohmann::json()}});
  }
  std::ofstream file(path);
  file << list.dump(1) << '\n';
  file.close();
  if (!file) throw IoError("cannot write " + path);
}

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"dispatch",
       "nanoseconds per eager operator on 16 elements, and a scalar product built, run, "
       "differentiated and freed",
       dispatch},
      {"pointwise", "chains and single operators on 16M floats against the copy bandwidth",
       pointwise},
      {"kernels", "matrix products, convolutions and row reductions against peak and bandwidth",
       kernels},
      {"fused",
       "operators written one by one, as one pass through memory: against the copy bandwidth",
       fused},
      {"training",
       "training steps a second of six models, two of them in bf16 too, eager and compiled",
       training},
      {"compile",
       "milliseconds to record and compile these steps, cold and in a second start of the program, "
       "and the memory of steps",
       compile_time},
      {"dynamic",
       "graphs that differ from call to call: a branch on data, texts of many lengths, and what a "
       "call costs",
       dynamic},
      {"concurrent",
       "calls a second of one compiled function from several threads together, each on arguments of "
       "its own, against so many times the calls of one",
       concurrent},
  };
  return all;
}

}  // namespace dyad::bench
