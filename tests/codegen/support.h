#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "dyad/codegen/iteration.h"
#include "dyad/codegen/kernel.h"
#include "dyad/ir/scalar_evaluate.h"
#include "dyad/ir/scalar_math.h"

namespace dyad::codegen {

using Sizes = std::vector<std::int64_t>;

inline Sizes row_major(const Sizes& sizes) {
  Sizes strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step *= sizes[d];
  }
  return strides;
}

/// Calls f(coordinates) for all places, row-major.
template <class F>
void for_each_place(const Sizes& sizes, F&& f) {
  Sizes at(sizes.size());
  std::int64_t count = 1;
  for (std::int64_t s : sizes) count *= s;
  for (std::int64_t i = 0; i < count; ++i) {
    f(at);
    for (std::size_t d = sizes.size(); d-- > 0 && ++at[d] == sizes[d];) at[d] = 0;
  }
}

inline std::int64_t offset(const Sizes& at, const Sizes& strides) {
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < at.size(); ++d) sum += at[d] * strides[d];
  return sum;
}

template <class T>
std::vector<T> random_values(std::size_t count, unsigned seed = 1, double low = -4,
                             double high = 4) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> values(count);
  for (T& v : values) v = static_cast<T>(uniform(random));
  return values;
}

/// Any bits, with zeros, infinities, NaN, denormals and large numbers among them.
template <class T>
std::vector<T> edge_values(std::size_t count, unsigned seed = 1) {
  using L = std::numeric_limits<T>;
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  const T edges[] = {T(0),           T(-T(0)),        T(1),
                     T(-1),          L::max(),        L::lowest(),
                     L::min(),       L::infinity(),   T(-L::infinity()),
                     L::quiet_NaN(), L::denorm_min(), L::epsilon()};
  for (T& v : values) {
    if (random() % 4 == 0) {
      v = edges[random() % std::size(edges)];
    } else {
      const std::uint64_t bits = random();
      std::memcpy(&v, &bits, sizeof v);
      if constexpr (std::is_same_v<T, bool>) v = bits & 1;
    }
  }
  return values;
}

/// Whether two arrays hold the same bits, any NaN being the same as any other.
template <class T>
std::size_t different_bits(const std::vector<T>& a, const std::vector<T>& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    }
    count += std::memcmp(&a[i], &b[i], sizeof(T)) != 0;
  }
  return count;
}

}  // namespace dyad::codegen
