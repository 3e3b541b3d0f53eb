#include "bench/machine.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>

#include "bench/harness.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor.h"
#include "dyad/dyad.h"
#include "dyad/runtime/threads.h"

namespace dyad::bench {
namespace {

// As wide as the CPU's registers; the compiler splits the widest one for the others.
using Vector [[gnu::vector_size(64)]] = float;
constexpr int kAccumulators = 12;
constexpr std::int64_t kRounds = 20000;

/// Enough independent chains to fill the pipes. Contracted to fused multiply-adds (the build
/// compiles this file so).
[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] float multiply_add(
    std::int64_t rounds, float factor) {
  Vector sums[kAccumulators];
  for (int k = 0; k < kAccumulators; ++k) sums[k] = Vector{} + factor * static_cast<float>(k);
  const Vector a = Vector{} + factor, b = Vector{} + 0.5f;
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (int k = 0; k < kAccumulators; ++k) sums[k] = sums[k] * a + b;
  }
  Vector total{};
  for (const Vector& sum : sums) total += sum;
  return total[0];
}

/// Reads all of n elements, halves of them side by side.
[[gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")]] float read_halves(
    const float* from, std::int64_t n) {
  constexpr std::int64_t kLanes = sizeof(Vector) / sizeof(float);
  Vector sums[2] = {};
  for (std::int64_t i = 0; i < n / 2; i += kLanes) {
    for (int k = 0; k < 2; ++k) {
      Vector v;
      std::memcpy(&v, from + k * (n / 2) + i, sizeof(v));
      sums[k] += v;
    }
  }
  return sums[0][0] + sums[1][0];
}

/// How long rates are measured: each decides on whole tables, and a machine may be busy for a
/// while.
constexpr double kLong = 0.3;

/// What threads share out is cut into pieces of 64 kB.
constexpr std::int64_t kPiece = 16384;
std::int64_t pieces_of(double bytes) {
  return std::max<std::int64_t>(1, std::llround(bytes / (kPiece * sizeof(float))));
}
std::int64_t grain_of(std::int64_t pieces) {
  return std::max<std::int64_t>(1, pieces / get_num_threads());
}

/// A copy with stores past the caches, where the CPU has them.
void stream(float* to, const float* from, std::int64_t n) {
#ifdef __SSE2__
  for (std::int64_t i = 0; i < n; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
  _mm_sfence();
#else
  std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(float));
#endif
}

}  // namespace

double copy_rate(double bytes) {
  const std::int64_t pieces = pieces_of(bytes / 2), elements = pieces * kPiece;
  const Tensor from = ones({elements}), to = zeros({elements});
  const auto* source = from.data<float>();
  auto* target = to.data<float>();
  const auto rate = [&](auto copy) {
    return 2.0 * static_cast<double>(elements) * sizeof(float) /
           least_seconds(
               [&] {
                 runtime::parallel_for(0, pieces, grain_of(pieces), [&](auto lo, auto hi) {
                   copy(target + lo * kPiece, source + lo * kPiece, (hi - lo) * kPiece);
                 });
               },
               kLong);
  };
  return std::max(rate([](float* a, const float* b, std::int64_t n) {
                    std::memcpy(a, b, static_cast<std::size_t>(n) * sizeof(float));
                  }),
                  rate(stream));
}

double read_rate(double bytes) {
  const std::int64_t pieces = pieces_of(bytes), elements = pieces * kPiece;
  const Tensor from = ones({elements});
  const auto* source = from.data<float>();
  std::atomic<float> keep = 0;
  const double seconds = least_seconds(
      [&] {
        runtime::parallel_for(0, pieces, grain_of(pieces), [&](std::int64_t lo, std::int64_t hi) {
          keep = read_halves(source + lo * kPiece, (hi - lo) * kPiece);
        });
      },
      kLong);
  return static_cast<double>(elements) * sizeof(float) / seconds;
}

double peak_flops() {
  constexpr std::int64_t kPieces = 64;
  std::atomic<float> keep = 0;
  const double seconds = median_seconds([&] {
    runtime::parallel_for(0, kPieces, 1, [&](std::int64_t lo, std::int64_t hi) {
      keep = multiply_add(kRounds * (hi - lo), 0.5f);
    });
  });
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  return 2.0 * static_cast<double>(kLanes) * kAccumulators * kRounds * kPieces / seconds;
}

double product_flops() {
  const NoGrad scope;
  constexpr std::int64_t kSide = 512;
  const Tensor a = uniform({kSide, kSide}), b = uniform({kSide, kSide});
  return 2.0 * kSide * kSide * kSide / least_seconds([&] { (void)matmul(a, b); }, kLong);
}

double core_round_trip_ns() {
  constexpr int kTurns = 20000, kPatience = 1000;
  struct alignas(128) Line {
    std::atomic<int> turn{0};
  } line;
  const auto take_turns = [&](int first) {
    for (int i = first; i < 2 * kTurns; i += 2) {
      // Where both have one core, each must make way for the other.
      for (int spins = 0; line.turn.load(std::memory_order_acquire) != i; ++spins) {
        if (spins > kPatience) std::this_thread::yield();
      }
      line.turn.store(i + 1, std::memory_order_release);
    }
  };
  return 1e9 / kTurns * least_seconds([&] {
           line.turn = 0;
           std::thread other([&] { take_turns(1); });
           take_turns(0);
           other.join();
         });
}

}  // namespace dyad::bench
