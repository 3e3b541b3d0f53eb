#pragma once

#include <optional>
#include <string_view>

#include "dyad/core/tensor.h"

namespace dyad {

// Discrete Fourier transforms: y[k] = sum over j of x[j] exp(-2 pi i j k / n), the inverse with the
// sign of the exponent changed, for any size n (large primes too). Results are c128 for f64 and
// c128, otherwise c64; f16 and bf16 are computed in f32, integers and bool become f32.
//
// `n`: that many elements along the axis are transformed, x being cut off or continued by zeros.
// `norm` says where a factor goes: "backward" divides the inverse by n, "forward" the transform,
// "ortho" both by sqrt(n). ValueError for another norm or when there is nothing to transform,
// IndexError for an axis that is out of range. Gradients are transforms again. A line's sums are
// ordered by its size and, below a vector's width, the number of lines; never by threads.

/// The transform of x, real or complex, along an axis.
[[nodiscard]] Tensor fft(const Tensor& x, std::optional<Dim> n = {}, std::int64_t axis = -1,
                         std::string_view norm = "backward",
                         Loc loc = std::source_location::current());
/// fft's opposite.
[[nodiscard]] Tensor ifft(const Tensor& x, std::optional<Dim> n = {}, std::int64_t axis = -1,
                          std::string_view norm = "backward",
                          Loc loc = std::source_location::current());
/// The first n / 2 + 1 elements of the transform of a real x; the others are their conjugates.
/// DTypeError for a complex x.
[[nodiscard]] Tensor rfft(const Tensor& x, std::optional<Dim> n = {}, std::int64_t axis = -1,
                          std::string_view norm = "backward",
                          Loc loc = std::source_location::current());
/// rfft's opposite: the n real numbers (2 * (size - 1) unless said) whose transform begins with x.
/// The imaginary part of the first element, and of the last one where n is even, counts as 0.
[[nodiscard]] Tensor irfft(const Tensor& x, std::optional<Dim> n = {}, std::int64_t axis = -1,
                           std::string_view norm = "backward",
                           Loc loc = std::source_location::current());
/// The transform, n real numbers, of a signal whose second half is the conjugate of the first,
/// which is given: irfft of its conjugate, with the factor of a transform.
[[nodiscard]] Tensor hfft(const Tensor& x, std::optional<Dim> n = {}, std::int64_t axis = -1,
                          std::string_view norm = "backward",
                          Loc loc = std::source_location::current());
/// hfft's opposite: the first n / 2 + 1 elements of a signal whose transform is the real x.
/// DTypeError for a complex x.
[[nodiscard]] Tensor ihfft(const Tensor& x, std::optional<Dim> n = {}, std::int64_t axis = -1,
                           std::string_view norm = "backward",
                           Loc loc = std::source_location::current());

// Along several axes, one after the other. `sizes` are n for each of `axes`, -1 for the size of x;
// no axes are all of them, or the last ones where sizes are given. The real transforms are real
// along the last one. ValueError when an axis is named twice or the numbers of sizes and axes
// differ.

/// fft() along several axes.
[[nodiscard]] Tensor fftn(const Tensor& x, const Shape& sizes = {}, const Ints& axes = {},
                          std::string_view norm = "backward",
                          Loc loc = std::source_location::current());
/// ifft() along several axes.
[[nodiscard]] Tensor ifftn(const Tensor& x, const Shape& sizes = {}, const Ints& axes = {},
                           std::string_view norm = "backward",
                           Loc loc = std::source_location::current());
/// rfft() along the last of several axes and fft() along the others.
[[nodiscard]] Tensor rfftn(const Tensor& x, const Shape& sizes = {}, const Ints& axes = {},
                           std::string_view norm = "backward",
                           Loc loc = std::source_location::current());
/// rfftn's opposite: ifft() along several axes and irfft() along the last one.
[[nodiscard]] Tensor irfftn(const Tensor& x, const Shape& sizes = {}, const Ints& axes = {},
                            std::string_view norm = "backward",
                            Loc loc = std::source_location::current());
/// fftn() along the last two axes, unless others are named.
[[nodiscard]] Tensor fft2(const Tensor& x, const Shape& sizes = {}, const Ints& axes = {-2, -1},
                          std::string_view norm = "backward",
                          Loc loc = std::source_location::current());
/// ifftn() along the last two axes, unless others are named.
[[nodiscard]] Tensor ifft2(const Tensor& x, const Shape& sizes = {}, const Ints& axes = {-2, -1},
                           std::string_view norm = "backward",
                           Loc loc = std::source_location::current());
/// rfftn() along the last two axes, unless others are named.
[[nodiscard]] Tensor rfft2(const Tensor& x, const Shape& sizes = {}, const Ints& axes = {-2, -1},
                           std::string_view norm = "backward",
                           Loc loc = std::source_location::current());
/// irfftn() along the last two axes, unless others are named.
[[nodiscard]] Tensor irfft2(const Tensor& x, const Shape& sizes = {}, const Ints& axes = {-2, -1},
                            std::string_view norm = "backward",
                            Loc loc = std::source_location::current());

/// The frequency 0 moved from the front to the middle of each axis (none named: all); any dtype.
[[nodiscard]] Tensor fftshift(const Tensor& x, const Ints& axes = {},
                              Loc loc = std::source_location::current());
/// fftshift's opposite.
[[nodiscard]] Tensor ifftshift(const Tensor& x, const Ints& axes = {},
                               Loc loc = std::source_location::current());
/// The frequencies of fft's results, in cycles per unit of the spacing d: 0, 1, ..., -2, -1 over
/// (n d).
[[nodiscard]] Tensor fftfreq(Dim n, double d = 1, DType dtype = f32,
                             Loc loc = std::source_location::current());
/// Those of rfft's results: 0, 1, ... n / 2 over (n d).
[[nodiscard]] Tensor rfftfreq(Dim n, double d = 1, DType dtype = f32,
                              Loc loc = std::source_location::current());

}  // namespace dyad
