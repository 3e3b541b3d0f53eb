#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/rows.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Above it numbers are normal ones, moved and rounded.
constexpr double kLargeRate = 0x1p20;

/// The probability of n at a rate, by Stirling's series for large n.
double probability(double n, double rate) {
  if (n < 16) {
    double p = std::exp(-rate);
    for (int k = 1; k <= n; ++k) p *= rate / k;
    return p;
  }
  const double series = 1 / (12 * n) - 1 / (360 * n * n * n) + 1 / (1260 * n * n * n * n * n);
  return std::exp(n * std::log(rate / n) + (n - rate) - series) /
         std::sqrt(2 * std::numbers::pi * n);
}

/// The number at u in [0, 1) when the numbers are ranged from the most probable one outwards.
double by_inversion(double rate, double u) {
  const double middle = std::floor(rate), p = probability(middle, rate);
  double above = middle, below = middle, p_above = p, p_below = p;
  u -= p;
  while (u >= 0 && (p_above > 0x1p-70 || p_below > 0x1p-70)) {
    ++above;
    p_above *= rate / above;
    u -= p_above;
    if (u < 0) return above;
    if (below > 0) {
      p_below *= below / rate;
      --below;
      u -= p_below;
      if (u < 0) return below;
    } else {
      p_below = 0;
    }
  }
  return middle;
}

/// By the expansion of Cornish and Fisher to the second order.
double by_normal(double rate, std::uint32_t first, std::uint32_t second) {
  const double radius = std::sqrt(-2 * std::log((first + 0.5) * 0x1p-32));
  const double z = radius * std::cos(2 * std::numbers::pi * second * 0x1p-32);
  return std::max(0.0, std::floor(rate + std::sqrt(rate) * z + (z * z - 1) / 6 + 0.5));
}

void poisson(const OpCall& call) {
  const TensorImpl& rate = *call.inputs[0].impl();
  const TensorImpl& out = *call.outputs[0].impl();
  const auto number = [&](std::size_t i) {
    return *reinterpret_cast<const std::int64_t*>(call.inputs[i].impl()->data);
  };
  const RandomKey key{number(1), number(2)};
  const Ints sizes(rate.shape.numbers().begin(), rate.shape.numbers().end());
  const std::array<Ints, 1> strides{Ints(rate.strides.begin(), rate.strides.end())};
  const std::int64_t count = out.numel();
  with_floating(rate.dtype, [&]<class T>(T) {
    const T* from = reinterpret_cast<const T*>(rate.data);
    T* to = reinterpret_cast<T*>(out.data);
    RowWalk<1> check(sizes, strides, 0);
    for (std::int64_t i = 0; i < count; ++i, check.next()) {
      const auto x = static_cast<double>(load(from[check[0]]));
      if (x >= 0 && std::isfinite(x)) continue;
      throw ValueError("poisson(" + type_string(call.inputs[0]) + "): the rate of element " +
                           std::to_string(i) + ", " + std::to_string(x) +
                           ", must be finite and at least 0",
                       call.loc.user());
    }
    parallel_for(0, count, grain_for({.flops = 500}, count), [&](std::int64_t lo, std::int64_t hi) {
      RowWalk<1> walk(sizes, strides, lo);
      for (std::int64_t i = lo; i < hi; ++i, walk.next()) {
        const auto x = static_cast<double>(load(from[walk[0]]));
        const std::array<std::uint32_t, 4> words = random_words(key, i);
        const std::uint64_t bits = (static_cast<std::uint64_t>(words[0]) << 21) | (words[1] >> 11);
        const double drawn = x < kLargeRate ? by_inversion(x, static_cast<double>(bits) * 0x1p-53)
                                            : by_normal(x, words[0], words[1]);
        to[i] = store<T>(static_cast<Accumulator<T>>(drawn));
      }
    });
  });
}

}  // namespace

std::span<const NamedKernel> poisson_kernels() {
  static constexpr NamedKernel kernels[] = {{"poisson", {poisson}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
