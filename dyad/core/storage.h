#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "dyad/base/intrusive_ptr.h"

namespace dyad {

/// Where memory lies and code runs. Only the CPU so far; the index tells devices of one kind apart.
struct Device {
  enum class Kind : std::uint8_t { cpu } kind = Kind::cpu;
  std::uint8_t index = 0;
  [[nodiscard]] bool operator==(const Device&) const noexcept = default;
};

/// A block of memory shared by the tensors that view it. The version counts writes, so that
/// gradients notice a saved tensor that was overwritten.
class Storage : public RefCounted<Storage> {
 public:
  /// `bytes` from the caching allocator, aligned to 64 (2 MB huge pages from 2 MB on),
  /// uninitialised; MemoryError when refused.
  static Ref<Storage> allocate(std::size_t bytes, Device device = {});
  /// Memory of somebody else, given back by `deleter` (which may be empty and must not throw) when
  /// the last tensor lets go.
  static Ref<Storage> adopt(void* data, std::size_t bytes, std::function<void()> deleter,
                            Device device = {});

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] std::uint32_t version() const noexcept {
    return version_.load(std::memory_order_relaxed);
  }
  void bump_version() noexcept { version_.fetch_add(1, std::memory_order_relaxed); }

  /// A view that tracks gradients looks at this memory (see autograd): overwriting it in place
  /// would make its gradient wrong.
  [[nodiscard]] bool has_tracked_view() const noexcept {
    return tracked_view_.load(std::memory_order_relaxed);
  }
  void mark_tracked_view() noexcept { tracked_view_.store(true, std::memory_order_relaxed); }

  static void destroy(Storage* storage) noexcept;

 private:
  enum class Memory : std::uint8_t { behind_this, own_block, adopted };
  Storage(void* data, std::size_t bytes, Device device, Memory memory) noexcept
      : device_(device), memory_(memory), data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  Device device_;
  Memory memory_;
  std::atomic<bool> tracked_view_{false};
  std::atomic<std::uint32_t> version_{0};
  std::byte* data_;
  std::size_t bytes_;
  std::function<void()> deleter_;  // set for adopted memory only
};

/// What the CPU allocator has done so far for tensors' data, in bytes. Sizes are those of the
/// blocks handed out, which are somewhat larger than what was asked for.
struct MemoryStats {
  std::size_t in_use = 0;  ///< handed out now
  /// Most ever in use since reset_peak_memory, to 64 kB for each thread.
  std::size_t peak = 0;
  std::size_t reserved = 0;      ///< taken from the system: in use and cached
  std::size_t allocations = 0;   ///< calls so far
  std::size_t system_calls = 0;  ///< of which went to the system
};
[[nodiscard]] MemoryStats memory_stats() noexcept;
void reset_peak_memory() noexcept;
/// Gives cached memory back to the system.
void release_cached_memory() noexcept;

namespace detail {
/// Small fixed-size blocks for handles and records, aligned to 64, from per-thread free lists; not
/// counted in memory_stats().in_use.
void* pool_allocate(std::size_t bytes);
void pool_free(void* block, std::size_t bytes) noexcept;
}  // namespace detail

}  // namespace dyad
