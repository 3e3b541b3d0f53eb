#include "dyad/core/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "dyad/core/free_runs.h"

#ifndef DYAD_PLAIN_LOOPS
#define DYAD_PLAIN_LOOPS 0
#endif

namespace dyad {
namespace detail {
namespace {

// NOLINTBEGIN(cppcoreguidelines-no-malloc): this is what others leave memory to

constexpr bool kPlainMalloc = DYAD_PLAIN_LOOPS != 0;
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLocalLimit = 32 << 10;  // largest block of a thread's own lists
constexpr std::size_t kSlab = kHugePage;       // what the lists of small blocks are cut from
constexpr std::size_t kChunk = 2 * kHugePage;  // what those of 32 kB to 2 MB are cut from

// Size classes: multiples of 64 up to 1 kB, then four to a doubling up to 2 MB.
constexpr int kLinearClasses = 16;
constexpr int kClasses = kLinearClasses + 4 * 11;

constexpr int class_of(std::size_t bytes) noexcept {
  if (bytes <= 1024) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / kAlignment);
  const int doubling = std::bit_width(bytes - 1) - 1;  // bytes in (2^doubling, 2^(doubling + 1)]
  const auto quarter = static_cast<int>(((bytes - 1) >> (doubling - 2)) & 3);
  return kLinearClasses + 4 * (doubling - 10) + quarter;
}
constexpr std::size_t bytes_of(int size_class) noexcept {
  if (size_class < kLinearClasses) return static_cast<std::size_t>(size_class + 1) * kAlignment;
  const int doubling = (size_class - kLinearClasses) / 4,
            quarter = (size_class - kLinearClasses) % 4;
  return static_cast<std::size_t>(5 + quarter) << (doubling + 8);
}
constexpr int kLocalClasses = class_of(kLocalLimit) + 1;
static_assert(bytes_of(kClasses - 1) == kHugePage && bytes_of(class_of(1025)) == 1280);

/// How many blocks move at a time between a thread and the shared lists, about 32 kB.
constexpr std::size_t batch_of(int size_class) noexcept {
  return std::clamp<std::size_t>(kLocalLimit / bytes_of(size_class), 2, 128);
}
/// How many a thread keeps, by class.
constexpr std::array<std::size_t, kLocalClasses> kKept = [] {
  std::array<std::size_t, kLocalClasses> kept{};
  for (int c = 0; c < kLocalClasses; ++c) kept[static_cast<std::size_t>(c)] = 8 * batch_of(c);
  return kept;
}();

constexpr std::size_t rounded(std::size_t bytes) noexcept {
  return bytes < kHugePage ? bytes_of(class_of(bytes))
                           : (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

/// A free block holds the link to the next one.
struct FreeBlock {
  FreeBlock* next;
};

struct FreeList {
  FreeBlock* head = nullptr;
  std::size_t count = 0;

  void push(void* block) noexcept {
    head = new (block) FreeBlock{head};
    ++count;
  }
  void* pop() noexcept {
    FreeBlock* block = head;
    head = block->next;
    --count;
    return block;
  }
};

/// Owner of what threads share: lists of freed blocks, slabs, mapped blocks, and the counts.
class Central {
 public:
  static Central& get() {
    static auto* central = new Central;  // immortal: tensors may be freed after static destructors
    return *central;
  }

  std::atomic<std::int64_t> in_use{0}, peak{0}, reserved{0}, allocations{0}, system_calls{0};

  void add_in_use(std::int64_t bytes) noexcept {
    const std::int64_t now = in_use.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t seen = peak.load(std::memory_order_relaxed);
    while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }

  /// Moves up to `count` blocks into `list`, cutting new ones when there are none; false when the
  /// system refuses.
  bool refill(int size_class, FreeList& list, std::size_t count) noexcept {
    const std::lock_guard lock(mutex_);
    FreeList& shared = classes_[static_cast<std::size_t>(size_class)];
    if (shared.count == 0) return cut(bytes_of(size_class), list, count);
    while (shared.count > 0 && count-- > 0) list.push(shared.pop());
    return true;
  }
  void give_back(int size_class, FreeList& list, std::size_t count) noexcept {
    const std::lock_guard lock(mutex_);
    FreeList& shared = classes_[static_cast<std::size_t>(size_class)];
    while (list.count > 0 && count-- > 0) shared.push(list.pop());
  }

  void* allocate_medium(int size_class) noexcept {
    const std::size_t bytes = bytes_of(size_class);
    {
      const std::lock_guard lock(mutex_);
      FreeList& shared = classes_[static_cast<std::size_t>(size_class)];
      if (shared.count > 0) {
        cached_ -= bytes;
        return shared.pop();
      }
      if (void* block = runs_.take(bytes)) return block;
      join_classes();
      if (void* block = runs_.take(bytes)) return block;
    }
    auto* chunk = static_cast<std::byte*>(map(kChunk));
    if (!chunk) return nullptr;
    const std::lock_guard lock(mutex_);
    if (!move_cached_pages(chunk, kChunk)) return unmapped(chunk, kChunk);
    runs_.add({chunk + bytes, kChunk - bytes});
    return chunk;
  }
  void free_medium(void* block, int size_class) noexcept {
    const std::lock_guard lock(mutex_);
    classes_[static_cast<std::size_t>(size_class)].push(block);
    cached_ += bytes_of(size_class);
    trim();
  }

  void* allocate_large(std::size_t bytes) noexcept {
    {
      const std::lock_guard lock(mutex_);
      auto it = by_size_.lower_bound(bytes);
      // Of several of one size the one that was freed last: more of it is in the caches.
      if (it != by_size_.end()) it = std::prev(by_size_.upper_bound(it->first));
      // A block a quarter too large is better used than mapped anew; a larger one is not.
      if (it != by_size_.end() && it->first <= bytes + std::max(kHugePage, bytes / 4)) {
        Mapped free = *it->second;
        cached_ -= free.bytes;
        by_age_.erase(it->second);
        by_size_.erase(it);
        // What is too much counts where the program needs about as much as ever.
        const auto most = static_cast<std::size_t>(peak.load(std::memory_order_relaxed));
        if (free.bytes > bytes && used() + free.bytes > most - most / 4) {
          keep({static_cast<std::byte*>(free.block) + bytes, free.bytes - bytes});
          free.bytes = bytes;
        }
        sizes_[free.block] = free.bytes;
        add_in_use(static_cast<std::int64_t>(free.bytes));
        return free.block;
      }
    }
    void* block = map(bytes);
    if (!block) return nullptr;
    const std::lock_guard lock(mutex_);
    // A size that is asked for over and over is worth blocks of its own, unless others would go
    // back to the system for them.
    constexpr int kMoves = 64;
    const auto most = static_cast<std::size_t>(peak.load(std::memory_order_relaxed));
    const bool is_full = used() + cached_ + bytes > most + most / 8;
    if (cached_ > 0 && (is_full || moves_[bytes]++ < kMoves) &&
        !move_cached_pages(static_cast<std::byte*>(block), bytes)) {
      return unmapped(block, bytes);
    }
    sizes_[block] = bytes;
    add_in_use(static_cast<std::int64_t>(bytes));
    return block;
  }
  void free_large(void* block) noexcept {
    const std::lock_guard lock(mutex_);
    const auto it = sizes_.find(block);
    const std::size_t bytes = it->second;
    sizes_.erase(it);
    in_use.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    keep({block, bytes});
    trim();
  }

  void release() noexcept {
    const std::lock_guard lock(mutex_);
    release_classes();
    while (!by_age_.empty()) unmap_oldest();
    moves_.clear();
  }

  /// 64-byte aligned memory of the system, with one more try after the cache has been given back.
  void* from_system(std::size_t bytes) noexcept {
    void* block = std::aligned_alloc(kAlignment, bytes);
    if (!block) {
      release();
      block = std::aligned_alloc(kAlignment, bytes);
    }
    if (block) note_system(bytes);
    return block;
  }
  void to_system(void* block, std::size_t bytes) noexcept {
    std::free(block);
    reserved.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }

 private:
  struct Mapped {
    void* block;
    std::size_t bytes;
  };

  void note_system(std::size_t bytes) noexcept {
    system_calls.fetch_add(1, std::memory_order_relaxed);
    reserved.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }

  void* map(std::size_t bytes) noexcept {
    void* block = map_once(bytes);
    if (!block) {
      release();
      block = map_once(bytes);
    }
    return block;
  }
  /// Maps 2 MB more than asked and gives back what is left and right of the aligned part.
  void* map_once(std::size_t bytes) noexcept {
    void* raw = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto* begin = static_cast<std::byte*>(raw);
    const auto skip = (kHugePage - reinterpret_cast<std::uintptr_t>(raw) % kHugePage) % kHugePage;
    if (skip > 0) munmap(begin, skip);
    munmap(begin + skip + bytes, kHugePage - skip);
    madvise(begin + skip, bytes, MADV_HUGEPAGE);  // a hint: small pages work too
    note_system(bytes);
    return begin + skip;
  }

  /// Gives a mapped block back, and null.
  void* unmapped(void* block, std::size_t bytes) noexcept {
    munmap(block, bytes);
    reserved.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    return nullptr;
  }

  /// Puts the pages of cached blocks, oldest first, in the place of the fresh block's, as far as
  /// they reach: the system clears every page that it gives, which costs more than a kernel's pass.
  /// Pages are moved, not copied. False when the block has a hole now and must not be used.
  bool move_cached_pages(std::byte* block, std::size_t bytes) noexcept {
    bool whole = true;
    while (bytes > 0) {
      if (by_age_.empty()) release_classes();
      if (by_age_.empty()) break;
      const Mapped oldest = by_age_.front();
      const std::size_t part = std::min(bytes, oldest.bytes);
      forget_oldest();
      // Blocks that were put together like this are several mappings; one call moves one of them.
      for (std::size_t at = 0; at < part; at += kHugePage) {
        auto* from = static_cast<std::byte*>(oldest.block) + at;
        if (mremap(from, kHugePage, kHugePage, MREMAP_MAYMOVE | MREMAP_FIXED, block + at) !=
            MAP_FAILED) {
          continue;
        }
        // What is at the new place is unknown now: fresh pages again.
        munmap(from, kHugePage);
        if (mmap(block + at, kHugePage, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
          whole = false;
        }
      }
      reserved.fetch_sub(static_cast<std::int64_t>(part), std::memory_order_relaxed);
      if (part < oldest.bytes)
        keep({static_cast<std::byte*>(oldest.block) + part, oldest.bytes - part});
      block += part;
      bytes -= part;
    }
    return whole;
  }

  void keep(Mapped free) noexcept {
    by_age_.push_back(free);
    by_size_.emplace(free.bytes, std::prev(by_age_.end()));
    cached_ += free.bytes;
  }
  void forget_oldest() noexcept {
    const Mapped oldest = by_age_.front();
    auto [it, end] = by_size_.equal_range(oldest.bytes);
    while (it != end && it->second != by_age_.begin()) ++it;
    by_size_.erase(it);
    by_age_.pop_front();
    cached_ -= oldest.bytes;
  }

  /// New blocks from the current slab, which is never given back.
  bool cut(std::size_t bytes, FreeList& list, std::size_t count) noexcept {
    if (slab_left_ < bytes) {
      auto* slab = static_cast<std::byte*>(map_once(kSlab));
      if (!slab) return false;
      slab_ = slab;
      slab_left_ = kSlab;
    }
    while (slab_left_ >= bytes && count-- > 0) {
      list.push(slab_);
      slab_ += bytes;
      slab_left_ -= bytes;
    }
    return true;
  }

  [[nodiscard]] std::size_t used() const noexcept {
    return static_cast<std::size_t>(
        std::max<std::int64_t>(in_use.load(std::memory_order_relaxed), 0));
  }
  /// What may be used and cached: what the program has needed at most, and a quarter.
  [[nodiscard]] std::size_t limit() const noexcept {
    const auto most = static_cast<std::size_t>(peak.load(std::memory_order_relaxed));
    return most + most / 4 + (std::size_t{64} << 20);
  }
  void trim() noexcept {
    while (used() + cached_ > limit() && !by_age_.empty()) unmap_oldest();
    for (int c = kClasses; used() + cached_ > limit() && c-- > kLocalClasses;) {
      join_class(c);
      keep_pages();
      while (used() + cached_ > limit() && !by_age_.empty()) unmap_oldest();
    }
  }
  void unmap_oldest() noexcept {
    const Mapped oldest = by_age_.front();
    forget_oldest();
    static_cast<void>(unmapped(oldest.block, oldest.bytes));
  }
  void release_classes() noexcept {
    join_classes();
    keep_pages();
  }
  void join_classes() noexcept {
    for (int c = kLocalClasses; c < kClasses; ++c) join_class(c);
  }
  /// Blocks of the class become what they were cut from again.
  void join_class(int size_class) noexcept {
    FreeList& list = classes_[static_cast<std::size_t>(size_class)];
    const std::size_t bytes = bytes_of(size_class);
    while (list.count > 0) {
      runs_.add({static_cast<std::byte*>(list.pop()), bytes});
      cached_ -= bytes;
    }
  }
  /// What is free of chunks becomes large blocks, whose pages others can take over.
  void keep_pages() noexcept {
    for (const FreeRun& pages : runs_.take_pages(kHugePage)) keep({pages.begin, pages.bytes});
  }

  std::mutex mutex_;
  std::array<FreeList, kClasses> classes_;
  std::byte* slab_ = nullptr;
  std::size_t slab_left_ = 0;
  FreeRuns runs_;           // of chunks
  std::size_t cached_ = 0;  // freed blocks above kLocalLimit
  std::list<Mapped> by_age_;
  std::multimap<std::size_t, std::list<Mapped>::iterator> by_size_;
  std::unordered_map<void*, std::size_t> sizes_;  // of mapped blocks in use
  std::unordered_map<std::size_t, int> moves_;    // how often a size was put together
};

/// What one thread has for itself. Counts are written by the owner alone and read by memory_stats.
struct Local {
  std::array<FreeList, kLocalClasses> lists;
  std::atomic<std::int64_t> in_use{0};  // not yet added to the shared count
  std::atomic<std::int64_t> allocations{0};

  void count(std::int64_t bytes) noexcept {
    const std::int64_t sum = in_use.load(std::memory_order_relaxed) + bytes;
    if (sum > -65536 && sum < 65536) {
      in_use.store(sum, std::memory_order_relaxed);
      return;
    }
    in_use.store(0, std::memory_order_relaxed);
    Central::get().add_in_use(sum);
  }
  void count_allocation() noexcept {
    allocations.store(allocations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

/// Owner of the list of threads, for statistics.
class Threads {
 public:
  static Threads& get() {
    static auto* threads = new Threads;  // immortal, as Central
    return *threads;
  }
  void add(Local* local) {
    const std::lock_guard lock(mutex_);
    locals_.push_back(local);
  }
  void remove(Local* local) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(locals_, local);
    Central::get().add_in_use(local->in_use.load(std::memory_order_relaxed));
    Central::get().allocations += local->allocations.load(std::memory_order_relaxed);
  }
  void sum(std::int64_t& in_use, std::int64_t& allocations) {
    const std::lock_guard lock(mutex_);
    for (const Local* local : locals_) {
      in_use += local->in_use.load(std::memory_order_relaxed);
      allocations += local->allocations.load(std::memory_order_relaxed);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Local*> locals_;
};

thread_local Local* local_of_thread = nullptr;  // owned by LocalOwner
thread_local bool thread_ended = false;

struct LocalOwner {
  Local local;
  LocalOwner() {
    Threads::get().add(&local);
    local_of_thread = &local;
  }
  ~LocalOwner() {
    local_of_thread = nullptr;
    thread_ended = true;  // tensors freed by later destructors of the thread go to Central
    for (int c = 0; c < kLocalClasses; ++c) {
      FreeList& list = local.lists[static_cast<std::size_t>(c)];
      Central::get().give_back(c, list, list.count);
    }
    Threads::get().remove(&local);
  }
};

[[gnu::noinline]] Local* make_local() {
  if (thread_ended) return nullptr;
  thread_local LocalOwner owner;
  return &owner.local;
}
Local* local() { return local_of_thread ? local_of_thread : make_local(); }

void count_in_use(std::int64_t bytes) noexcept {
  if (Local* mine = local()) {
    mine->count(bytes);
    if (bytes > 0) mine->count_allocation();
  } else {
    Central::get().add_in_use(bytes);
    if (bytes > 0) Central::get().allocations.fetch_add(1, std::memory_order_relaxed);
  }
}

/// A block when the thread's list has none.
[[gnu::noinline]] void* refill_and_allocate(int size_class) noexcept {
  Local* mine = local();
  FreeList once;
  FreeList& list = mine ? mine->lists[static_cast<std::size_t>(size_class)] : once;
  if (list.count == 0 &&
      !Central::get().refill(size_class, list, mine ? batch_of(size_class) : 1)) {
    return nullptr;
  }
  return list.pop();
}

void* allocate_small(int size_class) noexcept {
  if (Local* mine = local_of_thread) {
    FreeList& list = mine->lists[static_cast<std::size_t>(size_class)];
    if (list.count > 0) return list.pop();
  }
  return refill_and_allocate(size_class);
}

/// Half of what a thread may keep of a class goes back; a thread that has ended keeps nothing.
[[gnu::noinline]] void give_back(void* block, int size_class) noexcept {
  Local* mine = local();
  FreeList once;
  FreeList& list = mine ? mine->lists[static_cast<std::size_t>(size_class)] : once;
  list.push(block);
  const std::size_t kept = kKept[static_cast<std::size_t>(size_class)];
  if (!mine || list.count > kept) Central::get().give_back(size_class, list, kept / 2);
}

void free_small(void* block, int size_class) noexcept {
  Local* mine = local_of_thread;
  const auto at = static_cast<std::size_t>(size_class);
  if (mine && mine->lists[at].count < kKept[at]) {
    mine->lists[at].push(block);
  } else {
    give_back(block, size_class);
  }
}

}  // namespace

void* allocate_block(std::size_t bytes) noexcept {
  if constexpr (kPlainMalloc) {
    void* block = std::aligned_alloc(kAlignment, (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64);
    if (block) count_in_use(static_cast<std::int64_t>(rounded(bytes)));
    return block;
  }
  if (bytes >= kHugePage) {
    void* block = Central::get().allocate_large(rounded(bytes));
    if (block) Central::get().allocations.fetch_add(1, std::memory_order_relaxed);
    return block;
  }
  const int size_class = class_of(bytes);
  void* block = size_class < kLocalClasses ? allocate_small(size_class)
                                           : Central::get().allocate_medium(size_class);
  if (block) count_in_use(static_cast<std::int64_t>(bytes_of(size_class)));
  return block;
}

void free_block(void* block, std::size_t bytes) noexcept {
  if constexpr (kPlainMalloc) {
    count_in_use(-static_cast<std::int64_t>(rounded(bytes)));
    std::free(block);
    return;
  }
  if (bytes >= kHugePage) {
    Central::get().free_large(block);
    return;
  }
  const int size_class = class_of(bytes);
  count_in_use(-static_cast<std::int64_t>(bytes_of(size_class)));
  if (size_class < kLocalClasses) {
    free_small(block, size_class);
  } else {
    Central::get().free_medium(block, size_class);
  }
}

std::size_t block_size(std::size_t bytes) noexcept { return rounded(bytes); }

std::size_t full_block_below(std::size_t bytes) noexcept {
  if (bytes > kHugePage) return (bytes - 1) / kHugePage * kHugePage;
  const int size_class = class_of(bytes);
  return size_class == 0 ? 0 : bytes_of(size_class - 1);
}

std::size_t physical_memory() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* pool_allocate(std::size_t bytes) {
  void* block = kPlainMalloc           ? std::aligned_alloc(kAlignment, (bytes + 63) / 64 * 64)
                : bytes <= kLocalLimit ? allocate_small(class_of(bytes))
                                       : Central::get().from_system((bytes + 63) / 64 * 64);
  if (!block) throw std::bad_alloc();
  return block;
}

void pool_free(void* block, std::size_t bytes) noexcept {
  if constexpr (kPlainMalloc) {
    std::free(block);
  } else if (bytes <= kLocalLimit) {
    free_small(block, class_of(bytes));
  } else {
    Central::get().to_system(block, (bytes + 63) / 64 * 64);
  }
}

// NOLINTEND(cppcoreguidelines-no-malloc)

}  // namespace detail

MemoryStats memory_stats() noexcept {
  detail::Central& central = detail::Central::get();
  std::int64_t in_use = central.in_use, allocations = central.allocations;
  detail::Threads::get().sum(in_use, allocations);
  MemoryStats stats;
  stats.in_use = static_cast<std::size_t>(std::max<std::int64_t>(in_use, 0));
  stats.peak = std::max(stats.in_use, static_cast<std::size_t>(central.peak.load()));
  stats.reserved = std::max(stats.in_use, static_cast<std::size_t>(central.reserved.load()));
  stats.allocations = static_cast<std::size_t>(allocations);
  stats.system_calls = static_cast<std::size_t>(central.system_calls.load());
  stats.away = detail::shed_bytes();
  return stats;
}

void reset_peak_memory() noexcept {
  detail::Central::get().peak = static_cast<std::int64_t>(memory_stats().in_use);
}

void release_cached_memory() noexcept { detail::Central::get().release(); }

}  // namespace dyad
