#include "dyad/codegen/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "dyad/base/error.h"

namespace dyad::codegen {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

void set_access(std::span<std::byte> pages, int access) {
  if (mprotect(pages.data(), pages.size(), access) != 0)
    throw IoError("kernel object: cannot change the access to its memory");
}

}  // namespace

/// One mapping. Neighbours with the same access stay one for the system, so a block takes three:
/// what is executable, what is being written, and the rest.
class CodeMemory::Block {
 public:
  explicit Block(std::size_t size) : size_(size) {
    void* memory = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw IoError("kernel object: no memory");
    memory_ = static_cast<std::byte*>(memory);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { munmap(memory_, size_); }

  /// Where the next `bytes` lie, of a block with room for them: the last one, which goes on as long
  /// as an object has memory of it, or a new one.
  static std::pair<std::shared_ptr<const Block>, std::span<std::byte>> take(std::size_t bytes) {
    struct Last {
      std::mutex mutex;
      std::weak_ptr<Block> block;
    };
    static auto* last = new Last;  // immortal: kernels are made after static destructors, too
    const std::scoped_lock lock(last->mutex);
    std::shared_ptr<Block> block = last->block.lock();
    if (!block || block->size_ - block->used_ < bytes) {
      block = std::make_shared<Block>(std::max(kBlockBytes, bytes));
      last->block = block;
    }
    const std::span pages(block->memory_ + block->used_, bytes);
    block->used_ += bytes;
    return {std::move(block), pages};
  }

 private:
  std::byte* memory_;
  std::size_t size_;
  std::size_t used_ = 0;
};

CodeMemory::CodeMemory(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::tie(block_, pages_) =
      Block::take(std::max<std::size_t>(1, (bytes + page - 1) / page) * page);
  set_access(pages_, PROT_READ | PROT_WRITE);
}

CodeMemory::CodeMemory(CodeMemory&& other) noexcept { *this = std::move(other); }

CodeMemory& CodeMemory::operator=(CodeMemory&& other) noexcept {
  std::swap(block_, other.block_);
  std::swap(pages_, other.pages_);
  return *this;
}

CodeMemory::~CodeMemory() {
  // The block may go on for others; what these pages hold need not.
  if (block_) madvise(pages_.data(), pages_.size(), MADV_DONTNEED);
}

void CodeMemory::make_executable() { set_access(pages_, PROT_READ | PROT_EXEC); }

}  // namespace dyad::codegen
