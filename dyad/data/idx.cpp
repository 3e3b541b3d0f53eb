#include "dyad/data/idx.h"

#include <fmt/format.h>

#include <vector>

#include "dyad/data/byte_source.h"

namespace dyad::data {
namespace {

DType dtype_of_code(const ByteSource& source, unsigned char code) {
  switch (code) {
    case 0x08:
      return u8;
    case 0x09:
      return i8;
    case 0x0B:
      return i16;
    case 0x0C:
      return i32;
    case 0x0D:
      return f32;
    case 0x0E:
      return f64;
    default:
      source.fail(fmt::format(
          "at byte 2: expected an IDX element type (8, 9, 11, 12, 13 or 14), found {}", code));
  }
}

}  // namespace

Tensor load_idx(const std::string& path, Loc loc) {
  const auto source = open_file(path, loc);
  unsigned char magic[4];
  source->read(magic, sizeof(magic), "IDX magic number");
  if (magic[0] != 0 || magic[1] != 0) {
    source->fail(fmt::format("at byte 0: expected an IDX file (two zero bytes), found {} {}",
                             magic[0], magic[1]));
  }
  const DType dtype = dtype_of_code(*source, magic[2]);
  std::vector<std::uint64_t> sizes(magic[3]);
  for (std::uint64_t& size : sizes) {
    unsigned char word[4];
    source->read(word, sizeof(word), "IDX sizes");
    size = (std::uint64_t{word[0]} << 24) | (word[1] << 16) | (word[2] << 8) | word[3];
  }
  Tensor tensor = read_elements(*source, dtype, sizes, true, "IDX data");
  source->expect_end("IDX data");
  return tensor;
}

}  // namespace dyad::data
