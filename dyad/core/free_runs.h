#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace dyad::detail {

/// Memory side by side.
struct FreeRun {
  std::byte* begin;
  std::size_t bytes;
  [[nodiscard]] bool operator==(const FreeRun&) const noexcept = default;
};

/// What is free of larger blocks, in runs as long as can be. For one thread at a time.
class FreeRuns {
 public:
  /// Joins it with what is free on either side.
  void add(FreeRun run) noexcept;
  /// The begin of the shortest run that is long enough; null when there is none.
  [[nodiscard]] std::byte* take(std::size_t bytes) noexcept;
  /// The pages of this size (a power of two, also what they are aligned to) that are free as a
  /// whole, by place; they are no longer here afterwards.
  [[nodiscard]] std::vector<FreeRun> take_pages(std::size_t page) noexcept;

 private:
  using ByPlace = std::map<std::byte*, std::size_t>;
  FreeRun erase(ByPlace::iterator at) noexcept;
  ByPlace by_place_;
  std::set<std::pair<std::size_t, std::byte*>> by_size_;
};

}  // namespace dyad::detail
