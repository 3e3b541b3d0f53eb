#include "dyad/debug/columns.h"

#include <algorithm>
#include <cstddef>

namespace dyad::debug {
namespace {

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string columns(const std::vector<std::vector<std::string>>& rows, const std::string& alignment,
                    const std::string& indent) {
  std::vector<std::size_t> widths(alignment.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t space = widths[i] - width_of(row[i]);
      if (i > 0) line.append(2, ' ');
      if (alignment[i] == 'r') line.append(space, ' ');
      line += row[i];
      if (alignment[i] != 'r') line.append(space, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace dyad::debug
