#pragma once

#include <string>

#include "dyad/core/tensor.h"

/// Fourier transforms of pairs [..., 2] instead of complex numbers: what the functions of fft.h and
/// spectra.h and the ONNX rules are written in. For the .cpp files of this layer.
namespace dyad::ops {

/// Complex numbers as pairs, real ones with zeros; f32 unless f64.
[[nodiscard]] Tensor pairs_of(const Tensor& x, Loc loc);
/// A real tensor as one that is transformed: f32 unless f64. `call` is what a DTypeError for a
/// complex one begins with.
[[nodiscard]] Tensor real_signal(const Tensor& x, const std::string& call, Loc loc);
/// The conjugate of pairs.
[[nodiscard]] Tensor conjugate_pairs(const Tensor& pairs, Loc loc);
/// The first n elements along an axis from the front; zeros follow where there are fewer.
[[nodiscard]] Tensor resized(const Tensor& x, int axis, Dim n, Loc loc);

/// The rows of these names, of pairs, along an axis from the front.
[[nodiscard]] Tensor fft_of_pairs(const Tensor& pairs, int axis, bool inverse,
                                  const std::string& norm, Loc loc);
[[nodiscard]] Tensor rfft_to_pairs(const Tensor& x, int axis, const std::string& norm, Loc loc);
[[nodiscard]] Tensor irfft_of_pairs(const Tensor& pairs, int axis, Dim n, const std::string& norm,
                                    Loc loc);

}  // namespace dyad::ops
