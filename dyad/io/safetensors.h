#pragma once

#include <map>
#include <string>

#include "dyad/nn/tensor_dict.h"

namespace dyad::io {

/// What a safetensors file says beside its tensors.
using Metadata = std::map<std::string, std::string>;

/// A file with this key in its metadata is checked as a whole: its value is the CRC-32 of the file.
/// Its larger tensors lie on cache lines.
inline constexpr const char* kChecksumKey = "dyad.crc32";

struct Safetensors {
  TensorDict tensors;
  Metadata metadata;
};

/// Writes tensors and metadata in the safetensors layout, atomically: a crash at any moment leaves
/// the old file. Equal contents give equal bytes. `kChecksumKey` in the metadata gets the checksum
/// for its value. DTypeError for c128, f4e2m1, integers of 4 and 2 bits and strings, which the
/// format does not know; ValueError for an undefined tensor; IoError.
void save_safetensors(const std::string& path, const TensorDict& tensors,
                      const Metadata& metadata = {}, Loc loc = std::source_location::current());

struct LoadOptions {
  /// The tensors are the file's pages, read when first touched; writes stay private. For large
  /// files of which parts are used. The file must not be cut while they live (replacing it, as
  /// saving does, is fine).
  bool map = false;
  /// The checksum of a file that has one is compared, for which all of the file is read.
  bool check = true;
};

/// The tensors of a safetensors file. IoError naming the file, the tensor or offset, what was
/// expected and what was found: for a header that is cut, no JSON, or of more than 100 MB; offsets
/// with gaps, overlaps or beyond the file; sizes that do not fit the shape; dtypes that Dyad does
/// not have; a checksum that is not that of the file.
[[nodiscard]] TensorDict load_safetensors(const std::string& path, const LoadOptions& options = {},
                                          Loc loc = std::source_location::current());
/// The same with the file's metadata.
[[nodiscard]] Safetensors read_safetensors(const std::string& path, const LoadOptions& options = {},
                                           Loc loc = std::source_location::current());

}  // namespace dyad::io
