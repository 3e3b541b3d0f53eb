#pragma once

#include <string>

#include "dyad/core/tensor.h"

namespace dyad::data {

class ByteSource;

/// The array in a NumPy .npy file (format 1.0 to 3.0): f64 f32 f16, integers of 8 to 64 bits with
/// and without sign, c128 c64 and bool, either byte order; a Fortran-ordered array becomes a
/// transposed view. IoError naming the file, the offset, what was expected and what was found.
[[nodiscard]] Tensor load_npy(const std::string& path, Loc loc = std::source_location::current());

/// The same from an open source, such as a member of an archive.
[[nodiscard]] Tensor read_npy(ByteSource& source);

}  // namespace dyad::data
