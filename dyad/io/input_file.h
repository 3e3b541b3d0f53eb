#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "dyad/base/loc.h"
#include "dyad/core/storage.h"
#include "dyad/core/tensor.h"
#include "dyad/data/byte_source.h"

namespace dyad::io {

/// A regular file read at any offset. Every failure is an IoError that names the file, the offset,
/// what was expected and what was found.
class InputFile {
 public:
  InputFile(std::string path, Loc loc);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] Loc loc() const noexcept { return loc_; }

  /// Exactly `bytes` bytes from `offset` on.
  void read(std::uint64_t offset, void* into, std::size_t bytes, std::string_view what) const;
  /// The whole file as memory: pages come in when touched, writes stay private. The file must not
  /// be cut while the storage lives.
  [[nodiscard]] Ref<Storage> map() const;

  /// Throws IoError `'path': message`.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  std::string path_;
  Loc loc_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A tensor over the bytes of a mapped file from `offset` on, which must be there, or a copy of
/// them when they are not aligned for its elements.
[[nodiscard]] Tensor mapped_tensor(const Ref<Storage>& file, std::uint64_t offset, DType dtype,
                                   const Shape& shape);

/// A part of a file: bytes as they are, or a raw deflate stream, with the CRC-32 of its contents.
struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t packed = 0;
  std::uint64_t unpacked = 0;
  bool deflated = false;
  std::uint32_t crc = 0;
};
/// The contents of a range as a stream; `name` follows the path in messages. A checksum that does
/// not match is an IoError when the last byte is read. The file must outlive the stream.
[[nodiscard]] std::unique_ptr<data::ByteSource> open_range(const InputFile& file, std::string name,
                                                           const FileRange& range);

}  // namespace dyad::io
