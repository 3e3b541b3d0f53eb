#include "bench/machine.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <atomic>
#include <cstdint>
#include <cstring>

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

}  // namespace

double copy_rate() {
  constexpr std::int64_t kElements = std::int64_t{1} << 24;
  Tensor from = ones({kElements}), to = zeros({kElements});
  const auto* source = from.data<float>();
  auto* target = to.data<float>();
  const double seconds = median_seconds([&] {
    runtime::parallel_for(0, kElements, kElements / 64, [&](std::int64_t lo, std::int64_t hi) {
      std::memcpy(target + lo, source + lo, static_cast<std::size_t>(hi - lo) * sizeof(float));
    });
  });
  return 2.0 * kElements * sizeof(float) / seconds;
}

double stream_rate() {
#ifdef __SSE2__
  constexpr std::int64_t kElements = std::int64_t{1} << 24;
  Tensor from = ones({kElements}), to = zeros({kElements});
  const auto* source = from.data<float>();
  auto* target = to.data<float>();
  const double seconds = median_seconds([&] {
    runtime::parallel_for(0, kElements / 4, kElements / 256, [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t i = 4 * lo; i < 4 * hi; i += 4) {
        _mm_stream_ps(target + i, _mm_loadu_ps(source + i));
      }
      _mm_sfence();
    });
  });
  return 2.0 * kElements * sizeof(float) / seconds;
#else
  return copy_rate();
#endif
}

double read_rate() {
  constexpr std::int64_t kElements = std::int64_t{1} << 24, kPieces = 64;
  const Tensor from = ones({kElements});
  const auto* source = from.data<float>();
  std::atomic<float> keep = 0;
  const double seconds = median_seconds([&] {
    runtime::parallel_for(0, kPieces, kPieces / 8, [&](std::int64_t lo, std::int64_t hi) {
      constexpr std::int64_t kPiece = kElements / kPieces;
      for (std::int64_t i = lo; i < hi; ++i) keep = read_halves(source + i * kPiece, kPiece);
    });
  });
  return 1.0 * kElements * sizeof(float) / seconds;
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
  constexpr std::int64_t kSide = 1024;
  const Tensor a = uniform({kSide, kSide}), b = uniform({kSide, kSide});
  return 2.0 * kSide * kSide * kSide / median_seconds([&] { (void)matmul(a, b); });
}

}  // namespace dyad::bench
