#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dyad::codegen {

/// From `address` on, code belongs to a line of a source file.
struct SourceLine {
  std::uint64_t address = 0;
  std::uint32_t line = 0;  ///< from 1; 0 for code that belongs to no line
  std::string file;        ///< as the user's compiler knew it
};

/// Which code belongs to which line of source: what a section .debug_line says, in DWARF 4 as the
/// compiler plug-in writes it.
class LineTable {
 public:
  /// A table without lines.
  LineTable() = default;
  /// Reads a section in which addresses are filled in. One that the plug-in would not write gives a
  /// table without lines, whatever its bytes are.
  [[nodiscard]] static LineTable read(std::span<const std::byte> section);

  /// The lines of `size` bytes of code at `address`, in the order of addresses, one entry where the
  /// line changes; the first is at `address` if its line is known.
  [[nodiscard]] std::vector<SourceLine> lines(std::uint64_t address, std::uint64_t size) const;

 private:
  class Reader;

  /// Holds up to the next row's address. Rows come in runs; the last of a run only ends it.
  struct Row {
    std::uint64_t address;
    std::size_t file;
    std::uint32_t line;
    bool ends;
  };

  std::vector<std::string> files_;
  std::vector<Row> rows_;
};

}  // namespace dyad::codegen
