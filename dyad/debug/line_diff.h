#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dyad::debug {

/// A line of what differs between two texts.
struct DiffLine {
  enum class Kind : std::uint8_t { same, removed, added };
  Kind kind = Kind::same;
  std::string text;

  [[nodiscard]] bool operator==(const DiffLine&) const = default;
};

/// Which items of one sequence are which of another, so that few are left over on both sides: for
/// each of `before` its place in `after`, or -1; places rise. The fewest are left over unless the
/// sequences differ in thousands of places. Takes memory for their items, and time for the items
/// times the differences, of which it counts the first thousand.
[[nodiscard]] std::vector<int> align(std::span<const int> before, std::span<const int> after);

}  // namespace dyad::debug
