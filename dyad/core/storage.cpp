#include "dyad/core/storage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/allocation_limit.h"
#include "dyad/core/allocator.h"

namespace dyad {
namespace {

constexpr std::size_t kHeader = 64;         // bytes of a Storage in front of its data
constexpr std::size_t kSharedBlock = 4096;  // data up to here shares a block with its Storage

thread_local std::size_t most_in_use =
    std::numeric_limits<std::size_t>::max();  // AllocationLimit's

// Of texts, which stay: those of this thread, and of these what was not compared with the limit;
// those of all.
thread_local std::size_t texts_here = 0, texts_unchecked = 0;
std::atomic<std::size_t> texts_of_all{0};

[[noreturn]] void throw_out_of_memory(std::size_t bytes) {
  const MemoryStats stats = memory_stats();
  throw MemoryError(
      "no memory for " + std::to_string(bytes) + " bytes: " + std::to_string(stats.in_use) +
          " bytes are in use by tensors and the "
          "machine has " +
          std::to_string(detail::physical_memory()) + "; use smaller batches or let go of tensors",
      Loc().user());
}

void check_limit(std::size_t bytes) {
  if (bytes > detail::physical_memory()) throw_out_of_memory(bytes);
  if (most_in_use == std::numeric_limits<std::size_t>::max()) return;
  const std::size_t in_use = memory_stats().in_use + texts_here;
  if (in_use <= most_in_use && bytes <= most_in_use - in_use) return;
  throw MemoryError("no memory for " + std::to_string(bytes) +
                        " bytes: " + std::to_string(most_in_use - std::min(in_use, most_in_use)) +
                        " are left of the limit that was set; raise the limit, or ask for less",
                    Loc().user());
}

std::atomic<std::size_t> bytes_away{0};

/// Gives the whole pages of a block back to the system: they read as anything until written again.
void discard_pages(std::byte* data, std::size_t bytes) noexcept {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (begin + page - 1) / page * page,
                       end = (begin + bytes) / page * page;
  if (first < end) madvise(data + (first - begin), end - first, MADV_DONTNEED);
}

}  // namespace

struct Storage::Extra {
  std::function<void()> deleter;
  bool may_shed = false;
  std::mutex mutex;  // of what follows
  int holders = 0;
  bool away = false;
  std::function<void(void*)> remake;
};

Storage::Storage(void* data, std::size_t bytes, Device device, Memory memory) noexcept
    : device_(device), memory_(memory), data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
Storage::~Storage() {
  if (WriteWatch* const told = watch()) told->release();
}

WriteWatch& Storage::set_watch(const Ref<WriteWatch>& watch) noexcept {
  WriteWatch* told = nullptr;
  if (!watch_.compare_exchange_strong(told, watch.get(), std::memory_order_acq_rel)) return *told;
  watch->retain();
  return *watch;
}

void Storage::allow_shedding() {
  if (!extra_) extra_ = std::make_unique<Extra>();
  if (!extra_->may_shed) extra_->may_shed = true;  // read without the lock: written once
}

void Storage::set_remake(std::function<void(void*)> remake) {
  if (!extra_ || !extra_->may_shed) return;
  const std::scoped_lock lock(extra_->mutex);
  extra_->remake = std::move(remake);
}

void Storage::keep_contents() { static_cast<void>(hold()); }

bool Storage::is_away() const noexcept {
  if (!extra_) return false;
  const std::scoped_lock lock(extra_->mutex);
  return extra_->away;
}

bool Storage::hold() {
  if (!extra_ || !extra_->may_shed) return false;
  const std::scoped_lock lock(extra_->mutex);
  if (extra_->away) {
    extra_->remake(data_);
    extra_->away = false;
    bytes_away -= bytes_;
  }
  ++extra_->holders;
  return true;
}

void Storage::let_go() noexcept {
  const std::scoped_lock lock(extra_->mutex);
  if (--extra_->holders > 0 || !extra_->remake) return;
  discard_pages(data_, bytes_);
  extra_->away = true;
  bytes_away += bytes_;
}

std::size_t detail::shed_bytes() noexcept { return bytes_away; }

AllocationLimit::AllocationLimit(std::size_t bytes) noexcept : previous_(most_in_use) {
  const std::size_t in_use = memory_stats().in_use + texts_here;
  const std::size_t room = std::numeric_limits<std::size_t>::max() - in_use;
  most_in_use = std::min(previous_, in_use + std::min(bytes, room));
}

AllocationLimit::~AllocationLimit() { most_in_use = previous_; }

detail::NoAllocationLimit::NoAllocationLimit() noexcept
    : previous_(std::exchange(most_in_use, std::numeric_limits<std::size_t>::max())) {}

detail::NoAllocationLimit::~NoAllocationLimit() { most_in_use = previous_; }

std::size_t detail::text_bytes() noexcept { return texts_here; }

void detail::count_text(std::size_t bytes) {
  constexpr std::size_t kUnchecked = 65536;
  if (texts_unchecked + bytes >= kUnchecked) {
    // Whoever made the text has it too.
    if (texts_of_all + 2 * bytes > physical_memory()) throw_out_of_memory(bytes);
    check_limit(bytes);
    texts_unchecked = 0;
  } else {
    texts_unchecked += bytes;
  }
  texts_here += bytes;
  texts_of_all += bytes;
}

Ref<Storage> Storage::allocate(std::size_t bytes, Device device) {
  static_assert(sizeof(Storage) <= kHeader);
#if !DYAD_PLAIN_LOOPS  // a sanitizer sees an access before the data only if nothing lies there
  if (bytes <= kSharedBlock) {
    void* block = detail::allocate_block(kHeader + bytes);
    if (!block) throw_out_of_memory(bytes);
    void* data = static_cast<std::byte*>(block) + kHeader;
    return Ref<Storage>(new (block) Storage(data, bytes, device, Memory::behind_this));
  }
#endif
  if (bytes > kSharedBlock) check_limit(bytes);
  void* header = detail::pool_allocate(sizeof(Storage));
  void* data = detail::allocate_block(bytes);
  if (!data) {
    detail::pool_free(header, sizeof(Storage));
    throw_out_of_memory(bytes);
  }
  return Ref<Storage>(new (header) Storage(data, bytes, device, Memory::own_block));
}

Ref<Storage> Storage::adopt(void* data, std::size_t bytes, std::function<void()> deleter,
                            Device device) {
  std::unique_ptr<Extra> extra;
  if (deleter) {
    extra = std::make_unique<Extra>();
    extra->deleter = std::move(deleter);
  }
  void* header = detail::pool_allocate(sizeof(Storage));
  Ref<Storage> storage(new (header) Storage(data, bytes, device, Memory::adopted));
  storage->extra_ = std::move(extra);
  return storage;
}

void Storage::destroy(Storage* storage) noexcept {
  const Memory memory = storage->memory_;
  void* data = storage->data_;
  const std::size_t bytes = storage->bytes_;
  if (storage->extra_) {
    if (storage->extra_->away) bytes_away -= bytes;
    // First: what remakes this memory must not outlive its address.
    storage->extra_->remake = nullptr;
    if (storage->extra_->deleter) storage->extra_->deleter();
  }
  storage->~Storage();
  if (memory == Memory::behind_this) {
    detail::free_block(storage, kHeader + bytes);
    return;
  }
  detail::pool_free(storage, sizeof(Storage));
  if (memory == Memory::own_block) detail::free_block(data, bytes);
}

}  // namespace dyad
