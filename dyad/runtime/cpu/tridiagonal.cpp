#include "dyad/runtime/cpu/tridiagonal.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "dyad/runtime/cpu/lapack.h"
#include "dyad/runtime/cpu/matrices.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {
namespace {

/// Rows from which halves are worth threads.
constexpr std::int64_t kWorthHalves = 48;

}  // namespace

template <class W>
int tridiagonal_eigenvectors(std::int64_t n, W* d, W* e, W* z) {
  W largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(d[i]));
  for (std::int64_t i = 0; i + 1 < n; ++i) largest = std::max(largest, std::abs(e[i]));
  if (n < kWorthHalves || largest == 0) return lapack::stedc(n, d, e, z, n);
  for (std::int64_t i = 0; i < n; ++i) d[i] /= largest;
  for (std::int64_t i = 0; i + 1 < n; ++i) e[i] /= largest;

  const std::int64_t half = n / 2;
  const W tie = e[half - 1];
  d[half - 1] -= std::abs(tie);
  d[half] -= std::abs(tie);
  std::array<int, 2> info{};
  parallel_for(0, 2, 1, [&](std::int64_t lo, std::int64_t hi) {
    const lapack::Threads threads(1);
    for (std::int64_t i = lo; i < hi; ++i) {
      const std::int64_t first = i == 0 ? 0 : half, count = i == 0 ? half : n - half;
      W* const block = z + first * (n + 1);
      for (std::int64_t j = 0; j < count; ++j) {
        std::fill_n(i == 0 ? block + j * n + count : block + j * n - half, n - count, W(0));
      }
      info[static_cast<std::size_t>(i)] = lapack::stedc(count, d + first, e + first, block, n);
    }
  });
  if (info[0] != 0 || info[1] != 0) return std::max(info[0], info[1]);

  std::vector<int> order(static_cast<std::size_t>(n));
  if (const int failed = lapack::laed1(n, d, z, tie, half, order.data()); failed != 0) {
    return failed;
  }
  const auto values = scratch<W>(n), vectors = scratch<W>(n * n);
  std::copy_n(d, n, values.get());
  std::copy_n(z, n * n, vectors.get());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i)];
    d[i] = values[static_cast<std::size_t>(from)] * largest;
    std::copy_n(vectors.get() + from * n, n, z + i * n);
  }
  return 0;
}

template int tridiagonal_eigenvectors<float>(std::int64_t, float*, float*, float*);
template int tridiagonal_eigenvectors<double>(std::int64_t, double*, double*, double*);

}  // namespace dyad::runtime::cpu
