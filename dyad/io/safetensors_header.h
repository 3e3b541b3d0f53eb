#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/core/dtype.h"
#include "dyad/io/input_file.h"
#include "dyad/io/safetensors.h"

namespace dyad::io {

/// One tensor as the header of a safetensors file describes it.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::uint64_t> sizes;
  std::uint64_t begin = 0, end = 0;  ///< bytes, from the end of the header on
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< as the header lists them
  Metadata metadata;
  std::uint64_t bytes = 0;  ///< of the length and the text: where the data begin
};

/// Reads and checks everything before the data, including that the tensors fill the rest of the
/// file without gap or overlap.
[[nodiscard]] SafetensorsHeader read_safetensors_header(const InputFile& file);

/// The length and the JSON text, padded so that the data are aligned. ValueError for text that is
/// not UTF-8.
[[nodiscard]] std::string safetensors_header_text(const std::vector<SafetensorsEntry>& entries,
                                                  const Metadata& metadata, std::size_t alignment,
                                                  Loc loc);

}  // namespace dyad::io
