#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Computed in f64 and rounded to `dtype` (floating or integer). Counts may be symbolic; a negative
// one is a ValueError.

/// `count` numbers from `first` to `last`, both included, evenly apart.
[[nodiscard]] Tensor linspace(double first, double last, Dim count, DType dtype = f32,
                              Loc loc = std::source_location::current());
/// base to the power of each of linspace(first, last, count)
[[nodiscard]] Tensor logspace(double first, double last, Dim count, double base = 10,
                              DType dtype = f32, Loc loc = std::source_location::current());
/// The coordinates of a grid: result i has the sizes of all vectors (or scalars) as axes and holds
/// vector i along axis i ("ij"), or with the first two axes exchanged ("xy"). Views. ShapeError for
/// an operand of another rank, ValueError for another indexing.
[[nodiscard]] std::vector<Tensor> meshgrid(std::span<const Tensor> vectors,
                                           const std::string& indexing = "ij",
                                           Loc loc = std::source_location::current());
[[nodiscard]] std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors,
                                           const std::string& indexing = "ij",
                                           Loc loc = std::source_location::current());

// Windows of `size` numbers: periodic ones, for spectra, are those of size + 1 without the last;
// others are symmetric.

/// 0.5 - 0.5 * cos(2 pi i / size)
[[nodiscard]] Tensor hann_window(Dim size, bool periodic = true, DType dtype = f32,
                                 Loc loc = std::source_location::current());
/// alpha - (1 - alpha) * cos(2 pi i / size)
[[nodiscard]] Tensor hamming_window(Dim size, bool periodic = true, double alpha = 0.54,
                                    DType dtype = f32, Loc loc = std::source_location::current());
/// 0.42 - 0.5 * cos(2 pi i / size) + 0.08 * cos(4 pi i / size)
[[nodiscard]] Tensor blackman_window(Dim size, bool periodic = true, DType dtype = f32,
                                     Loc loc = std::source_location::current());
/// A triangle: 1 - |2 i / size - 1|
[[nodiscard]] Tensor bartlett_window(Dim size, bool periodic = true, DType dtype = f32,
                                     Loc loc = std::source_location::current());
/// I0(beta sqrt(1 - (2 i / size - 1)^2)) / I0(beta), I0 being the modified Bessel function.
[[nodiscard]] Tensor kaiser_window(Dim size, bool periodic = true, double beta = 12,
                                   DType dtype = f32, Loc loc = std::source_location::current());

}  // namespace dyad
