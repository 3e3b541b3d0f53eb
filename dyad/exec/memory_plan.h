#pragma once

#include <cstddef>
#include <limits>
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
  std::vector<std::size_t> offsets;  ///< in bytes, multiples of 64, in the order of the requests
  std::size_t arena_bytes = 0;
  std::size_t live_peak = 0;  ///< the most bytes needed at one step: no plan has a smaller arena
};

/// Packs blocks so that those needed at the same time do not overlap: the largest first, each into
/// the smallest gap that holds it.
[[nodiscard]] MemoryPlan plan_memory(std::span<const BufferRequest> requests);

/// Memory that is there from step `first` on, beside what is planned, and of use to others until a
/// later step, `written`.
struct LaterMemory {
  std::size_t bytes = 0;
  int first = 0;
  int written = 0;
};

/// Lets blocks lie in memory that is there anyway when they are needed last, and not written yet:
/// by request the number of that memory, or -1. It is taken earlier then, as soon as its block is
/// needed (`first` is set), but not where that would raise the most memory of all steps.
[[nodiscard]] std::vector<int> lend(std::span<const BufferRequest> requests,
                                    std::span<LaterMemory> later);

/// Memory for blocks, there from step `first` to step `last`.
struct ArenaSpan {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

/// Where each block lies in one of several arenas.
struct ArenasPlan {
  std::vector<std::size_t> offsets;  ///< of the requests, in their arenas
  std::vector<int> arena_of;         ///< of the requests
  std::vector<ArenaSpan> arenas;
  std::size_t live_peak = 0;  ///< as in MemoryPlan

  [[nodiscard]] std::size_t bytes() const noexcept;  ///< of all arenas
  /// Of those that are there at one step, at most.
  [[nodiscard]] std::size_t most_at_once() const noexcept;
};

/// Packs blocks into one arena, or into a few where that lowers the most memory of all steps:
/// blocks that nobody needs any more make way for what comes later. From step `latest` on no memory
/// is taken: an arena for later steps is there before.
[[nodiscard]] ArenasPlan plan_arenas(std::span<const BufferRequest> requests,
                                     std::span<const LaterMemory> later,
                                     int latest = std::numeric_limits<int>::max());

}  // namespace dyad::exec
