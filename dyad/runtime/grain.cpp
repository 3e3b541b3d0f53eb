#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <span>

#include "dyad/runtime/caches.h"
#include "dyad/runtime/cores.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/team.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime {
namespace {

/// What decides whether a second thread pays.
struct Speeds {
  double half_of_worthwhile;  ///< half of the nanoseconds of work from which on a team is quicker
  double bytes;               ///< a nanosecond, of data in the L2 cache
  double flops;               ///< a nanosecond, of operators on vectors
};

constexpr Speeds kUsual{.half_of_worthwhile = 2500, .bytes = 100, .flops = 60};
constexpr double kLeastHalf = 1250, kMostHalf = 10000;
constexpr int kTries = 16;

/// The fewest nanoseconds that a call takes of several.
template <class Call>
double least_ns(const Call& call) {
  using Clock = std::chrono::steady_clock;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const Clock::time_point start = Clock::now();
    call();
    least = std::min(least, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return least;
}

/// Of a region in which nothing is done; 0 while other threads have the cores.
double empty_region_ns() {
  const int threads = get_num_threads();
  const TakenCores cores(threads);
  if (cores.count() < threads) return 0;
  return least_ns([threads] {
    detail::TeamJob job(0, threads, 1, threads, [](void*, std::int64_t, std::int64_t) {}, nullptr);
    detail::run_on_team(job, threads);
  });
}

DYAD_VECTOR_CLONES void add_scaled(std::span<const float> x, std::span<float> y) {
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = y[i] + 0.5f * x[i];
}

constexpr int kPolynomialFlops = 16;

/// A polynomial and a quotient of each, as most functions are computed.
DYAD_VECTOR_CLONES void rational(std::span<float> x) {
  for (float& at : x) {
    float p = 0.1f;
    for (int i = 0; i < kPolynomialFlops / 2 - 1; ++i) p = p * at + 0.5f;
    at = p / (1.0f + at);
  }
}

double cache_bytes_per_ns() {
  constexpr std::size_t kElements = 1 << 14;
  const auto x = std::make_unique<float[]>(kElements), y = std::make_unique<float[]>(kElements);
  const std::span<const float> from(x.get(), kElements);
  const std::span<float> to(y.get(), kElements);
  return 3.0 * sizeof(float) * kElements / least_ns([&] { add_scaled(from, to); });
}

double flops_per_ns() {
  std::array<float, 1 << 10> x{};
  return static_cast<double>(kPolynomialFlops * x.size()) / least_ns([&] { rational(x); });
}

/// The second thread's caches are cold, too: four times what a region takes is the least that pays.
/// It takes 0.6 us where threads wait awake, and many times that where they sleep. The bounds keep
/// what a busy moment of the machine can do to a process small.
Speeds measured(double region_ns) {
  const auto near = [](double value, double usual) {
    return std::clamp(value, usual / 4, 4 * usual);
  };
  return {.half_of_worthwhile = std::clamp(4 * region_ns, kLeastHalf, kMostHalf),
          .bytes = near(cache_bytes_per_ns(), kUsual.bytes),
          .flops = near(flops_per_ns(), kUsual.flops)};
}

/// Nanoseconds of a unit when there are `units` in all.
double unit_ns(const Cost& unit, double units, const Speeds& speeds) noexcept {
  // Past the caches every loop is worth a team, at whatever rate: this one says how long its chunks
  // are.
  constexpr double kMemoryBytes = 25;
  const auto cache = static_cast<double>(core_cache_bytes());
  const double bytes = unit.bytes * units <= cache ? speeds.bytes : kMemoryBytes;
  return std::max({unit.bytes / bytes, unit.flops / speeds.flops, 1e-3});
}

/// Measured when a loop asks first that could be worth a second thread, in a tenth of a
/// millisecond.
Speeds speeds_for(const Cost& unit, double units) noexcept {
  static std::mutex mutex;
  static std::atomic<bool> known{false};
  static Speeds kept = kUsual;
  if (known.load(std::memory_order_acquire)) return kept;
  if (units * unit_ns(unit, units, kUsual) < 2 * kLeastHalf || team_size() == 1) return kUsual;
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock.owns_lock() || known.load(std::memory_order_relaxed)) return kUsual;
  try {
    const double region = empty_region_ns();
    if (region <= 0) return kUsual;
    kept = measured(region);
    known.store(true, std::memory_order_release);
    return kept;
  } catch (const std::exception&) {
    return kUsual;  // no more threads or memory to be had: the loop will say so
  }
}

}  // namespace

std::int64_t grain_for(Cost per_unit, std::int64_t units) noexcept {
  const auto count = static_cast<double>(units);
  const Speeds speeds = speeds_for(per_unit, count);
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(speeds.half_of_worthwhile / unit_ns(per_unit, count, speeds)));
}

}  // namespace dyad::runtime
