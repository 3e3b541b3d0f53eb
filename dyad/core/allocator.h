#pragma once

#include <cstddef>

#include "dyad/core/storage.h"

namespace dyad::detail {

// The CPU allocator behind Storage. Blocks are aligned to 64 bytes. Up to 32 kB they come from free
// lists of the thread that asks; up to 2 MB from shared lists, both by size class, which cut them
// from mapped chunks of 4 MB; larger ones are mapped on their own. What is mapped lies at multiples
// of 2 MB, in huge pages where the system has them, and is kept for reuse as long as that stays
// within the most memory that was in use. Where nothing fits, a new block or chunk takes over pages
// of what is free, which the system need not clear again. In sanitizer builds every block is the
// system's, so that each access is seen.

/// A block of at least `bytes`; null when the system refuses.
[[nodiscard]] void* allocate_block(std::size_t bytes) noexcept;
/// Gives back a block that was asked for with the same `bytes`, from any thread.
void free_block(void* block, std::size_t bytes) noexcept;

/// Bytes of the block that a request for `bytes` is served with.
[[nodiscard]] std::size_t block_size(std::size_t bytes) noexcept;
/// The most bytes below this number of which a block has no more than it was asked for.
[[nodiscard]] std::size_t full_block_below(std::size_t bytes) noexcept;

/// What MemoryStats::away says.
[[nodiscard]] std::size_t shed_bytes() noexcept;

/// Physical memory of the machine: more than that cannot be had.
[[nodiscard]] std::size_t physical_memory() noexcept;

}  // namespace dyad::detail
