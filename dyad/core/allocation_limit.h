#pragma once

#include <cstddef>

namespace dyad {

/// While it lives, memory for tensors that this thread asks for may raise what the program's
/// tensors hold (memory_stats().in_use, to 64 kB for each thread) by at most `bytes`; MemoryError
/// otherwise. Blocks of up to 4 kB are counted, but not refused. Of nested ones each holds.
class AllocationLimit {
 public:
  explicit AllocationLimit(std::size_t bytes) noexcept;
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

 private:
  std::size_t previous_;
};

}  // namespace dyad
