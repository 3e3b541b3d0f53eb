#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "dyad/codegen/line_table.h"
#include "tests/fuzz/targets.h"

namespace dyad::fuzz {

/// Lines come in the order of addresses, within what was asked for, each at another line or file
/// than the one before.
void read_line_table(std::string_view bytes) {
  const auto table = codegen::LineTable::read(std::as_bytes(std::span(bytes)));
  struct Asked {
    std::uint64_t address, size;
  };
  for (const Asked& asked : {Asked{0, ~std::uint64_t{0}}, {0x1000, 0x100}, {0x1004, 1}}) {
    const std::vector<codegen::SourceLine> lines = table.lines(asked.address, asked.size);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].address < asked.address || lines[i].address - asked.address >= asked.size)
        throw std::logic_error("a line beyond the code at " + std::to_string(asked.address));
      if (i == 0) continue;
      if (lines[i].address <= lines[i - 1].address ||
          (lines[i].line == lines[i - 1].line && lines[i].file == lines[i - 1].file))
        throw std::logic_error("lines out of order at " + std::to_string(lines[i].address));
    }
  }
}

}  // namespace dyad::fuzz
