#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "dyad/base/intrusive_ptr.h"

namespace dyad {

/// Where memory lies and code runs. Only the CPU so far; the index tells devices of one kind apart.
struct Device {
  enum class Kind : std::uint8_t { cpu } kind = Kind::cpu;
  std::uint8_t index = 0;
  [[nodiscard]] bool operator==(const Device&) const noexcept = default;
};

/// Is told when the contents of a memory change, in the thread that writes.
class WriteWatch : public RefCounted<WriteWatch> {
 public:
  virtual ~WriteWatch() = default;
  /// What it throws refuses the write. A write may yet fail, and change nothing.
  virtual void before_write() = 0;
  virtual void after_write() noexcept = 0;
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
  /// Whether the memory is nobody else's, but the tensors' that share this storage.
  [[nodiscard]] bool is_own() const noexcept { return memory_ != Memory::adopted; }
  [[nodiscard]] std::uint32_t version() const noexcept {
    return version_.load(std::memory_order_relaxed);
  }
  /// To be called before contents change, as bump_version() after that.
  void before_write() {
    if (WriteWatch* const told = watch()) told->before_write();
  }
  /// Who is told of writes, or null.
  [[nodiscard]] WriteWatch* watch() const noexcept {
    return watch_.load(std::memory_order_acquire);
  }
  /// Lets `watch` be told, unless somebody is already; returns who is.
  WriteWatch& set_watch(const Ref<WriteWatch>& watch) noexcept;
  void bump_version() noexcept {
    version_.fetch_add(1, std::memory_order_relaxed);
    if (WriteWatch* const told = watch()) told->after_write();
  }

  /// A view that tracks gradients looks at this memory (see autograd): overwriting it in place
  /// would make its gradient wrong.
  [[nodiscard]] bool has_tracked_view() const noexcept {
    return tracked_view_.load(std::memory_order_relaxed);
  }
  void mark_tracked_view() noexcept { tracked_view_.store(true, std::memory_order_relaxed); }

  // Memory whose contents can be made again from something else that has them, such as a weight in
  // the layout that a kernel wants: while nobody holds them, its pages are the system's.

  /// From now on contents are read under a ContentsHold alone and nobody writes to them, so that
  /// they may be away at other times. Called before other threads know the memory.
  void allow_shedding();
  /// How contents are made again, which allows them to go as soon as nobody holds them; the caller
  /// does. No effect without allow_shedding().
  void set_remake(std::function<void(void*)> remake);
  /// Anyone may read the contents again, for as long as the memory lives.
  void keep_contents();
  [[nodiscard]] bool is_away() const noexcept;

  static void destroy(Storage* storage) noexcept;
  ~Storage();

 private:
  friend class ContentsHold;
  struct Extra;
  /// False when nobody needs to: contents are there.
  [[nodiscard]] bool hold();
  void let_go() noexcept;

  enum class Memory : std::uint8_t { behind_this, own_block, adopted };
  Storage(void* data, std::size_t bytes, Device device, Memory memory) noexcept;
  Device device_;
  Memory memory_;
  std::atomic<bool> tracked_view_{false};
  std::atomic<std::uint32_t> version_{0};
  std::byte* data_;
  std::size_t bytes_;
  std::atomic<WriteWatch*> watch_{nullptr};  // owned
  std::unique_ptr<Extra> extra_;             // of adopted memory, and of memory that may be away
};

/// Keeps the contents of memory where they are (makes them again if they are away) while it lives.
class ContentsHold {
 public:
  ContentsHold() = default;
  /// No storage: nothing is held.
  explicit ContentsHold(const Ref<Storage>& storage) {
    if (storage && storage->hold()) storage_ = storage;
  }
  ~ContentsHold() {
    if (storage_) storage_->let_go();
  }
  ContentsHold(ContentsHold&& other) noexcept : storage_(std::exchange(other.storage_, {})) {}
  ContentsHold& operator=(ContentsHold&& other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  /// False where contents are never away.
  [[nodiscard]] bool holds() const noexcept { return storage_.get() != nullptr; }

 private:
  Ref<Storage> storage_;
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
  /// Contents that are away because they can be made again (see Storage::allow_shedding), whoever
  /// handed out the memory.
  std::size_t away = 0;
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
