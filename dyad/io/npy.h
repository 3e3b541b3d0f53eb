#pragma once

#include <string>

#include "dyad/core/tensor.h"
#include "dyad/data/npy.h"
#include "dyad/nn/tensor_dict.h"

namespace dyad::io {

using data::load_npy;

/// Writes a concrete tensor as NumPy's .npy, atomically. DTypeError for bf16, floats of 8 and 4
/// bits, integers of 4 and 2 bits and strings, which the format does not know; IoError.
void save_npy(const std::string& path, const Tensor& tensor,
              Loc loc = std::source_location::current());

/// Writes tensors as NumPy's .npz (an uncompressed zip archive of .npy files), atomically. The
/// files of equal tensors are equal, byte for byte. ValueError for an empty name.
void save_npz(const std::string& path, const TensorDict& tensors,
              Loc loc = std::source_location::current());

/// Reads an .npz, stored or deflated. IoError naming the file, the member, the offset, what was
/// expected and what was found.
[[nodiscard]] TensorDict load_npz(const std::string& path,
                                  Loc loc = std::source_location::current());

}  // namespace dyad::io
