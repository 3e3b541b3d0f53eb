#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dyad/core/dim.h"

namespace dyad::ops {

/// `fft(x)`: the discrete Fourier transform along an axis of pairs [..., 2], or (`inverse`) with
/// the sign of the exponent changed. `norm` is "backward" (the
/// inverse is divided by the size), "forward" (the transform is) or "ortho" (both are by its square
/// root).
struct FftAttrs {
  std::int64_t axis = 0;
  bool inverse = false;
  std::string norm = "backward";
};

/// `rfft(x)`: the first n / 2 + 1 results of fft for real numbers, as pairs. `adjoint`: all of them
/// but the first and, n being even, the last count twice, which makes it the gradient of irfft.
struct RfftAttrs {
  std::int64_t axis = 0;
  std::string norm = "backward";
  bool adjoint = false;
};

/// `irfft(x)`: the n real numbers whose spectrum begins with the n / 2 + 1 given ones. `adjoint`:
/// those in the middle count half, which makes it the gradient of rfft.
struct IrfftAttrs {
  std::int64_t axis = 0;
  Dim n = 0;
  std::string norm = "backward";
  bool adjoint = false;
};

enum class FftNorm : std::uint8_t { backward, ortho, forward };

/// The norm of that name, which has been checked.
[[nodiscard]] inline FftNorm fft_norm(std::string_view name) noexcept {
  return name == "ortho"     ? FftNorm::ortho
         : name == "forward" ? FftNorm::forward
                             : FftNorm::backward;
}

}  // namespace dyad::ops
