#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace dyad::runtime::cpu {

/// One step of a transform by factors: `blocks` * `stride` butterflies of `radix` points.
template <class T>
struct FftPass {
  std::int64_t radix, blocks, stride;
  const T* twiddles;  ///< radix - 1 complex numbers for each block; none for the last pass
  const T* roots;     ///< exp(-2 pi i k / radix), of a radix that has no butterfly of its own
};

/// How the transform of n complex numbers runs on several lines at once, one in each lane of a
/// vector (Stockham's passes, which need no reordering; Bluestein's convolution for large primes).
template <class T>
struct LanesPlan {
  std::int64_t n = 0;
  const FftPass<T>* passes = nullptr;
  int count = 0;
  // Bluestein: the transform as a convolution of `inner->n` numbers.
  const LanesPlan* inner = nullptr;
  const T* chirp = nullptr;   ///< exp(-pi i k^2 / n), n complex numbers
  const T* filter = nullptr;  ///< the transform of its conjugate, over inner->n
  /// Complex numbers of a lane that a buffer must have room for.
  std::int64_t capacity = 0;

  // Who owns what the pointers point to.
  std::vector<FftPass<T>> pass_list;
  std::vector<T> table;
  std::unique_ptr<LanesPlan> inner_plan;
};

/// How one long line runs: as a matrix of n1 rows and n2 columns, its columns and then its rows in
/// lanes (Bailey's four steps), or by Bluestein's convolution of such lines.
template <class T>
struct LinePlan {
  std::int64_t n = 0, n1 = 0, n2 = 0;
  std::unique_ptr<LanesPlan<T>> columns, rows;  ///< of sizes n1 and n2
  /// exp(-2 pi i j k / n) in the order in which the columns are met: blocks of lanes j, each k,
  /// the real and then the imaginary parts of a vector.
  std::vector<T> twiddles;
  std::unique_ptr<LinePlan> inner;
  std::vector<std::complex<T>> chirp, filter;
};

/// The plan of a transform of n numbers (real: n / 2 complex ones where n is even).
template <class T>
struct FftPlan {
  std::unique_ptr<LanesPlan<T>> lanes;  ///< one of the two
  std::unique_ptr<LinePlan<T>> line;
  std::vector<T> real_twiddles;  ///< exp(-2 pi i k / n) for k up to n / 4, of real transforms
};

/// Whether lines of n complex numbers (`real`: that stand for real ones) run one by one rather than
/// in lanes, when there are so many.
[[nodiscard]] bool runs_by_line(std::int64_t n, bool real, std::int64_t lines, int lanes) noexcept;

/// The plan for n real or complex numbers, as lines or lanes, for vectors of `lanes` elements: made
/// once and kept for the calls that follow.
template <class T>
[[nodiscard]] std::shared_ptr<const FftPlan<T>> plan_fft(std::int64_t n, bool real, bool by_line,
                                                         int lanes);

}  // namespace dyad::runtime::cpu
