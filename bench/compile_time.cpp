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
#include <memory>
#include <vector>

#include "bench/harness.h"
#include "bench/training.h"
#include "dyad/base/error.h"
#include "dyad/exec/compile.h"

namespace dyad::bench {
namespace {

/// Milliseconds of one process.
struct Sample {
  double wall = 0, cpu = 0;
};

double cpu_milliseconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

/// What another process, started from this program, measures; `cache` is the shell's setting of the
/// cache of kernels.
Sample measure(const std::string& cache, int threads) {
  std::array<char, PATH_MAX> program{};
  if (readlink("/proc/self/exe", program.data(), program.size() - 1) < 0)
    throw IoError("this program does not find itself");
  const std::string command =
      fmt::format("{} '{}' --compile-once {}", cache, program.data(), threads);
  FILE* output = popen(command.c_str(), "r");
  Sample sample;
  const bool read =
      output != nullptr && std::fscanf(output, "%lf %lf", &sample.wall, &sample.cpu) == 2;
  if (output == nullptr || pclose(output) != 0 || !read)
    throw IoError("'" + command + "' did not succeed");
  return sample;
}

/// The medians of several processes.
Sample measure_often(const std::string& cache, int threads) {
  constexpr std::size_t kProcesses = 5;
  std::vector<double> wall, cpu;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    const Sample sample = measure(cache, threads);
    wall.push_back(sample.wall);
    cpu.push_back(sample.cpu);
  }
  const auto middle = [](std::vector<double>& values) {
    std::nth_element(values.begin(), values.begin() + kProcesses / 2, values.end());
    return values[kProcesses / 2];
  };
  return {middle(wall), middle(cpu)};
}

}  // namespace

void compile_once() {
  // The first five calls, which record, compile and run, without what five compiled steps cost: the
  // peers' scripts take the same difference.
  constexpr std::size_t kCalls = 5;
  using Clock = std::chrono::steady_clock;
  const Batches data = make_batches(128, {1, 28, 28});
  auto trainer = std::make_shared<DemoCnnTrainer>(optim::AdamOptions{.lr = 0.002});
  const auto step = compile(
      [trainer](const Tensor& x, const Tensor& y) { return (*trainer)(x, y); }, {.recheck = false});
  const double cpu_start = cpu_milliseconds();
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kCalls; ++i) (void)step(data.images[i], data.labels[i]);
  const double first = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  const double cpu_first = cpu_milliseconds() - cpu_start;
  const double cpu_warm_start = cpu_milliseconds();
  int steps = 0;
  const double warm = 1e3 * median_seconds([&] {
                        (void)step(data.images[0], data.labels[0]);
                        ++steps;
                      });
  const double cpu_warm = (cpu_milliseconds() - cpu_warm_start) / steps;
  fmt::print("{} {}\n", first - kCalls * warm, cpu_first - kCalls * cpu_warm);
}

void compile_time(Results& results, int threads) {
  const std::string workload = "demo CNN step, record and compile", system = "dyad-compiled";
  const Sample cold = measure_often("DYAD_CACHE=0", threads);
  results.add({workload, system, threads, cold.wall, "ms", 0});
  results.add({workload + ", CPU time", system, threads, cold.cpu, "ms", 0});

  std::string folder = (std::filesystem::temp_directory_path() / "dyad-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) throw IoError("cannot make a folder like " + folder);
  const std::string cache = "DYAD_CACHE_DIR='" + folder + "'";
  (void)measure(cache, threads);  // fills it
  const Sample again = measure_often(cache, threads);
  std::filesystem::remove_all(folder);
  results.add({workload + ", second start", system, threads, again.wall, "ms", 0});
}

}  // namespace dyad::bench
