#pragma once

#include <string>

#include "dyad/core/tensor.h"

namespace dyad::data {

/// The array in an IDX file (the format of MNIST), plain or gzip: u8, i8, i16, i32, f32 or f64 of
/// any shape up to 8 axes. IoError naming the file, the offset, what was expected and what was
/// found.
[[nodiscard]] Tensor load_idx(const std::string& path, Loc loc = std::source_location::current());

}  // namespace dyad::data
