#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/base/loc.h"

namespace dyad::io {

/// Writes a file that appears whole or not at all: the bytes go to a temporary file in the same
/// folder, which commit() brings to disk and renames over `path`. Until then, and after a crash at
/// any moment, the old file is what it was. A symbolic link keeps pointing where it did. IoError
/// naming the file and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path, Loc loc = std::source_location::current());
  /// Without commit() nothing is left of the new file.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Bytes written so far.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  void commit();

 private:
  void flush();
  void write_out(const char* data, std::size_t bytes);
  [[noreturn]] void fail(std::string_view action) const;

  std::string path_;
  Loc loc_;
  std::string target_;     ///< path_ with links resolved
  std::string temporary_;  ///< empty once committed
  int descriptor_ = -1;
  std::uint64_t offset_ = 0;
  std::vector<char> buffer_;
};

/// Writes `contents` as an AtomicFile, in one go.
void write_file(const std::string& path, std::string_view contents,
                Loc loc = std::source_location::current());

}  // namespace dyad::io
