#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "dyad/core/tensor.h"
#include "dyad/runtime/cpu/fft_plan.h"

namespace dyad::runtime::cpu {

/// The largest prime factor that is transformed as a sum of products; lines with larger ones are
/// convolutions.
inline constexpr std::int64_t kFftLargestRadix = 61;
/// Lines that lie in the lanes of one vector, at most.
inline constexpr int kFftMostLanes = 16;

/// What a transform makes of a line of n numbers.
enum class FftKind : std::uint8_t {
  complex,  ///< n complex numbers of n
  half,     ///< the first n / 2 + 1 of the spectrum of n real ones
  real,     ///< n real numbers of the first n / 2 + 1 of their spectrum
};

/// How the elements of a line lie in memory, in units of real numbers.
struct FftLayout {
  std::int64_t along = 0;  ///< from one element to the next
  std::int64_t part = 0;   ///< from a real part to its imaginary part; of real numbers nothing
};

/// One call: lines of n numbers and where they begin.
template <class T>
struct FftJob {
  FftKind kind = FftKind::complex;
  std::int64_t n = 0;
  bool inverse = false;  ///< exp(+2 pi i j k / n), of complex ones; `real` always does
  T scale = 1;
  T middle = 1;  ///< half and real: a factor for all but the first and (n even) the last of them
  const LanesPlan<T>* lanes = nullptr;  ///< for n, or n / 2 (real transforms of even n)
  const LinePlan<T>* line = nullptr;    ///< instead of `lanes`
  const T* real_twiddles = nullptr;     ///< FftPlan::real_twiddles
  FftLayout from = {}, to = {};
  bool streams = false;  ///< the result is so large that stores go past the caches
};

/// LinePlan as the code takes it.
template <class T>
struct FftMatrix {
  std::int64_t n1, n2;
  const LanesPlan<T>*columns, *rows;
  const T* twiddles;
};

/// The code for one instruction set.
template <class T>
struct FftCode {
  int lanes;
  /// A buffer for block() of a plan holds 4 * lanes * capacity numbers.
  /// Transforms `lanes` lines in lanes and writes the first `count` of them.
  void (*block)(const FftJob<T>& job, const T* from, const std::int64_t* from_at, T* to,
                const std::int64_t* to_at, int count, T* buffer);
  /// The two halves of a transform of one line of plan.n complex numbers by LinePlan: blocks of
  /// columns into `matrix` (2 * lanes * n2 * row blocks numbers), blocks of rows out of it.
  /// `exchange`: parts are read or written in exchanged places, which makes the inverse.
  void (*columns)(const FftMatrix<T>& plan, const T* from, FftLayout layout, bool exchange,
                  std::int64_t begin, std::int64_t end, T* matrix, T* buffer);
  void (*rows)(const FftMatrix<T>& plan, T* matrix, std::int64_t begin, std::int64_t end, T* to,
               FftLayout layout, bool exchange, T scale, bool streams, T* buffer);
  /// Numbers 1 to h - 1 of the spectrum of 2 h real numbers, times `middle` and `scale`, from the
  /// transform `z` of h complex ones.
  void (*untangle)(const T* z, std::int64_t h, const T* twiddles, T middle, T scale, T* to,
                   FftLayout layout);
};

/// The code that suits this CPU.
template <class T>
[[nodiscard]] const FftCode<T>& fft_code() noexcept;

/// What the transform of one line works in, for one line after another.
template <class T>
struct FftWork {
  explicit FftWork(const FftJob<T>& job);
  Tensor matrix, buffer;  ///< FftCode::columns and rows
  Tensor first, second;   ///< Bluestein's numbers
  Tensor room;            ///< a line of complex numbers, of real transforms
};

/// Transforms one line, on the team where that pays.
template <class T>
void run_fft_line(const FftJob<T>& job, const T* from, T* to, FftWork<T>& work);

/// The transform of numbers whose count has no large prime factor.
void transform_in_place(std::vector<std::complex<double>>& numbers);

}  // namespace dyad::runtime::cpu
