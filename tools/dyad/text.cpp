#include "tools/dyad/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dyad::tool {
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

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array units{"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string count_text(std::uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string time_text(double ms) {
  const auto three_digits = [](double value, const char* unit) {
    const int places = value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return fmt::format("{:.{}f} {}", value, places, unit);
  };
  if (ms < 1) return three_digits(1000 * ms, "us");
  if (ms < 1000) return three_digits(ms, "ms");
  return three_digits(ms / 1000, "s");
}

std::string plural(std::uint64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count_text(count), noun, count == 1 ? "" : "s");
}

}  // namespace dyad::tool
