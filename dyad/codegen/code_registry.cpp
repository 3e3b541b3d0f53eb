#include "dyad/codegen/code_registry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

// The interface that GDB documents ("JIT Compilation Interface"): it puts a breakpoint into the
// function and reads the list behind the descriptor. The names and layouts are GDB's.
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" {

struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};

struct jit_descriptor {
  std::uint32_t version;
  std::uint32_t action_flag;
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};

[[gnu::visibility("default"), gnu::used]] jit_descriptor __jit_debug_descriptor = {1, 0, nullptr,
                                                                                   nullptr};

[[gnu::visibility("default"), gnu::used, gnu::noinline]] void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

namespace dyad::codegen {
namespace {

enum Action : std::uint32_t { kRegister = 1, kUnregister = 2 };

std::mutex& list_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

DebuggerEntry::DebuggerEntry(std::span<const std::byte> image)
    : entry_(std::make_unique<jit_code_entry>(jit_code_entry{
          nullptr, nullptr, reinterpret_cast<const char*>(image.data()), image.size()})) {
  const std::lock_guard lock(list_mutex());
  entry_->next_entry = __jit_debug_descriptor.first_entry;
  if (entry_->next_entry != nullptr) entry_->next_entry->prev_entry = entry_.get();
  __jit_debug_descriptor.first_entry = entry_.get();
  __jit_debug_descriptor.relevant_entry = entry_.get();
  __jit_debug_descriptor.action_flag = kRegister;
  __jit_debug_register_code();
}

DebuggerEntry::~DebuggerEntry() {
  const std::lock_guard lock(list_mutex());
  if (entry_->prev_entry != nullptr)
    entry_->prev_entry->next_entry = entry_->next_entry;
  else
    __jit_debug_descriptor.first_entry = entry_->next_entry;
  if (entry_->next_entry != nullptr) entry_->next_entry->prev_entry = entry_->prev_entry;
  __jit_debug_descriptor.relevant_entry = entry_.get();
  __jit_debug_descriptor.action_flag = kUnregister;
  __jit_debug_register_code();
}

void add_to_perf_map(const void* address, std::size_t size, std::string_view name) {
  if (std::getenv("DYAD_PERF_MAP") == nullptr) return;
  const std::lock_guard lock(list_mutex());
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    fmt::print(file, "{:x} {:x} {}\n", reinterpret_cast<std::size_t>(address), size, name);
    static_cast<void>(std::fclose(file));  // a help to perf, which goes without as well
  }
}

}  // namespace dyad::codegen
