#pragma once

#include <complex>

#include "dyad/core/dtype.h"

namespace dyad {

/// The elements of c64 and c128 tensors: include this header to create and read them.
template <>
inline constexpr DType dtype_of<std::complex<float>> = DType::c64;
template <>
inline constexpr DType dtype_of<std::complex<double>> = DType::c128;

}  // namespace dyad
