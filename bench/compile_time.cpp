#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "bench/harness.h"
#include "bench/training.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/storage.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/library_time.h"

namespace dyad::bench {
namespace {

/// What the first steps took in one process.
struct Sample {
  double wall_ms = 0,
         cpu_ms = 0;       ///< beyond later ones: recording and compiling, and first touches
  double start_ms = 0;     ///< until a call is at full speed: of the first, beyond an eager one,
                           ///< and of the next ones, beyond later ones
  double first_ms = 0;     ///< of the first call, beyond what eager steps take later
  double library_ms = 0;   ///< in which the library generates code, once in a process
  double compiler_ms = 0;  ///< in passes, plans and kernels
  double process_mb = 0;   ///< the most memory that the process had, from its start on
  double tensors_mb = 0;   ///< the most that tensors had in a later step
};

double cpu_milliseconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

/// Megabytes of this process that `field` of its status tells.
double status_mb(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stod(line.substr(field.size() + 1)) / 1e3;
  }
  return 0;
}

/// What another process, started from this program, measures; `cache` is the shell's setting of the
/// cache of kernels.
Sample measure(const std::string& cache, std::size_t workload, bool compiled, int threads) {
  std::array<char, PATH_MAX> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) < 0)
    throw IoError("this program does not find itself");
  const std::string command =
      fmt::format("{} '{}' --threads {} --first-steps {} {}", cache, program.data(), threads,
                  workload, compiled ? "--compiled" : "");
  FILE* output = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): it is written above
  Sample sample;
  const bool read =
      output != nullptr &&
      std::fscanf(output, "%lf %lf %lf %lf %lf %lf %lf %lf", &sample.wall_ms, &sample.cpu_ms,
                  &sample.start_ms, &sample.first_ms, &sample.library_ms, &sample.compiler_ms,
                  &sample.process_mb, &sample.tensors_mb) == 8;
  if (output == nullptr || pclose(output) != 0 || !read)
    throw IoError("'" + command + "' did not succeed");
  return sample;
}

/// The medians of several processes.
Sample measure_often(const std::string& cache, std::size_t workload, bool compiled, int threads) {
  constexpr std::size_t kProcesses = 9;
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    samples.push_back(measure(cache, workload, compiled, threads));
  }
  const auto middle = [&](double Sample::* part) {
    std::ranges::nth_element(samples, samples.begin() + kProcesses / 2, {}, part);
    return samples[kProcesses / 2].*part;
  };
  return {middle(&Sample::wall_ms),    middle(&Sample::cpu_ms),     middle(&Sample::start_ms),
          middle(&Sample::first_ms),   middle(&Sample::library_ms), middle(&Sample::compiler_ms),
          middle(&Sample::process_mb), middle(&Sample::tensors_mb)};
}

void measure_workload(Results& results, std::size_t number, int threads) {
  const std::string& name = workloads()[number].name;
  const auto add = [&](const std::string& what, const std::string& system, double value,
                       const std::string& unit) {
    results.add({name + ": " + what, system, threads, value, unit, 0});
  };
  const Sample cold = measure_often("DYAD_CACHE=0", number, true, threads);
  add("record and compile", "dyad-compiled", cold.wall_ms, "ms");
  add("record and compile, CPU time", "dyad-compiled", cold.cpu_ms, "ms");

  std::string folder = (std::filesystem::temp_directory_path() / "dyad-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw IoError("cannot make a folder like " + folder);
  const std::string cache = "DYAD_CACHE_DIR='" + folder + "'";
  (void)measure(cache, number, true, threads);  // fills it
  const Sample again = measure_often(cache, number, true, threads);
  const Sample eager = measure_often(cache, number, false, threads);
  std::filesystem::remove_all(folder);
  add("record and compile, second start", "dyad-compiled", again.start_ms, "ms");
  add("second start: as much of eager steps", "dyad-eager", eager.start_ms, "ms");
  add("second start: first call, beyond an eager step", "dyad-compiled", again.first_ms, "ms");
  add("second start: the library's own code", "dyad-compiled", again.library_ms, "ms");
  add("second start: passes and plans", "dyad-compiled", again.compiler_ms, "ms");
  add("peak memory", "dyad-eager", eager.process_mb, "MB");
  add("peak memory", "dyad-compiled", again.process_mb, "MB");
  add("tensors of a step", "dyad-eager", eager.tensors_mb, "MB");
  add("tensors of a step", "dyad-compiled", again.tensors_mb, "MB");
}

}  // namespace

void first_steps(int number, bool compiled) {
  // The first five calls, which record, compile and run, without what five later steps cost: the
  // peers' scripts take the same difference.
  constexpr std::size_t kCalls = 5;
  constexpr double kFullSpeed = 1.05;  // of what later calls take
  using Clock = std::chrono::steady_clock;
  if (number < 0 || static_cast<std::size_t>(number) >= workloads().size())
    throw ValueError(fmt::format("there is no workload {}", number));
  const Workload& workload = workloads()[static_cast<std::size_t>(number)];
  const double memory_before = status_mb("VmRSS");
  const std::vector<Batch> data = workload.batches();
  Workload::Step step = workload.make();
  const Workload::Step eager = step;
  const auto fast = compile(eager, {.recheck = false});
  if (compiled) step = fast;

  const auto milliseconds_of = [](const auto& call) {
    const auto start = Clock::now();
    (void)call();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  };
  const double cpu_start = cpu_milliseconds();
  // The first plain product of a process has the library generate the code of all. Few rows make
  // it one of those.
  const Tensor few = ones({8, 64}), square = ones({64, 64});
  const double first_product = milliseconds_of([&] { return matmul(few, square); });
  const double library_start = runtime::library_seconds();
  std::array<double, kCalls> calls{};
  for (std::size_t i = 0; i < kCalls; ++i)
    calls[i] = milliseconds_of([&] { return step(data[i].x, data[i].y); });
  const double cpu_first = cpu_milliseconds() - cpu_start;
  const double library = first_product + 1e3 * (runtime::library_seconds() - library_start);
  double compiler = 0;
  for (const ExplainedRecording& recording : fast.explain().recordings)
    compiler += recording.compile_ms;

  reset_peak_memory();
  const double cpu_later_start = cpu_milliseconds();
  int steps = 0;
  const double later = 1e3 * median_seconds([&] {
                         (void)step(data[0].x, data[0].y);
                         ++steps;
                       });
  const double cpu_later = (cpu_milliseconds() - cpu_later_start) / steps;
  const double process_mb = status_mb("VmHWM") - memory_before;
  const double tensors_mb = static_cast<double>(memory_stats().peak) / 1e6;
  const double eager_later = 1e3 * median_seconds([&] { (void)eager(data[0].x, data[0].y); });
  const double all = std::accumulate(calls.begin(), calls.end(), first_product);
  // The first call runs eagerly. After calls at full speed differences are the machine's own.
  double until_full_speed = first_product + calls[0] - eager_later;
  for (std::size_t i = 1; i < kCalls && calls[i] > kFullSpeed * later; ++i)
    until_full_speed += calls[i] - later;
  fmt::print("{} {} {} {} {} {} {} {}\n", all - kCalls * later, cpu_first - kCalls * cpu_later,
             until_full_speed, calls[0] - eager_later, library, compiler, process_mb, tensors_mb);
}

void compile_time(Results& results, int threads) {
  for (std::size_t i = 0; i < workloads().size(); ++i) {
    if (results.wants(workloads()[i].name)) measure_workload(results, i, threads);
  }
}

}  // namespace dyad::bench
