#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dyad::exec {

/// A block of memory that a run needs from step `first` to step `last`, both included.
struct BufferRequest {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

/// Where each block lies in one arena.
struct MemoryPlan {
  std::vector<std::size_t>
      offsets;  ///< in bytes, as aligned as asked, in the order of the requests
  std::size_t arena_bytes = 0;
  std::size_t live_peak = 0;  ///< the most bytes needed at one step: no plan has a smaller arena
};

/// Packs blocks so that those needed at the same time do not overlap: the largest first, each into
/// the smallest gap that holds it.
[[nodiscard]] MemoryPlan plan_memory(std::span<const BufferRequest> requests,
                                     std::size_t alignment = 64);

}  // namespace dyad::exec
