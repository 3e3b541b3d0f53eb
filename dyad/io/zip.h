#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/io/atomic_file.h"
#include "dyad/io/input_file.h"

namespace dyad::io {

/// Writes a zip archive of stored (not packed) members: what NumPy's savez writes. Members beyond
/// 4 GB use zip64. No times are written, so equal contents give equal bytes.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  /// Adds a member whose contents are `parts`, one after the other.
  void add(const std::string& name, std::initializer_list<std::string_view> parts);
  /// Writes the directory; nothing can be added after it.
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint64_t offset, size;
    std::uint32_t crc;
  };
  AtomicFile& file_;
  std::vector<Member> members_;
};

/// A member as the archive's directory describes it.
struct ZipMember {
  std::string name;
  std::uint64_t header = 0;  ///< offset of the local header
  FileRange data;            ///< its offset is set by zip_member_data
};

/// The directory of an archive, zip64 included. IoError for what is no archive, is cut, spans
/// several files, or has members that are encrypted or packed by another method than deflate.
[[nodiscard]] std::vector<ZipMember> read_zip_directory(const InputFile& file);
/// Where the contents of a member are, after checking its local header against the directory.
[[nodiscard]] FileRange zip_member_data(const InputFile& file, const ZipMember& member);

}  // namespace dyad::io
