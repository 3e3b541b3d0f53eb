#pragma once

#include <cstddef>

namespace dyad {

/// While it lives, memory for tensors that this thread asks for may raise what the program's
/// tensors hold (memory_stats().in_use, to 64 kB for each thread) by at most `bytes`; MemoryError
/// otherwise. Blocks of up to 4 kB are counted, but not refused; nor is what kernels work in once a
/// compiled step has begun to write variables. Of nested ones each holds. New texts of string
/// tensors count too, to 64 kB.
class AllocationLimit {
 public:
  explicit AllocationLimit(std::size_t bytes) noexcept;
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

 private:
  std::size_t previous_;
};

namespace detail {
/// While it lives, no limit holds on this thread: for work that must not fail once it has begun.
class NoAllocationLimit {
 public:
  NoAllocationLimit() noexcept;
  ~NoAllocationLimit();
  NoAllocationLimit(const NoAllocationLimit&) = delete;
  NoAllocationLimit& operator=(const NoAllocationLimit&) = delete;

 private:
  std::size_t previous_;
};

/// Takes note that this thread is about to make a text of so many bytes, which is never given back;
/// MemoryError when the limit, or the machine, has no room for it.
void count_text(std::size_t bytes);
/// What the texts that this thread made come to.
[[nodiscard]] std::size_t text_bytes() noexcept;
}  // namespace detail

}  // namespace dyad
