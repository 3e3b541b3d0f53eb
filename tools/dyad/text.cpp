#include "tools/dyad/text.h"

#include <fmt/format.h>

#include <array>

namespace dyad::tool {

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
