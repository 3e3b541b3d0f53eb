#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

struct jit_code_entry;  // NOLINT(readability-identifier-naming): GDB's name

/// What tells tools about code that appeared at run time.
namespace dyad::codegen {

/// While it lives, an ELF image is in the list of GDB's JIT interface. The image, with section
/// addresses filled in, must stay where it is.
class DebuggerEntry {
 public:
  explicit DebuggerEntry(std::span<const std::byte> image);
  ~DebuggerEntry();
  DebuggerEntry(const DebuggerEntry&) = delete;
  DebuggerEntry& operator=(const DebuggerEntry&) = delete;

 private:
  std::unique_ptr<jit_code_entry> entry_;
};

/// A line in /tmp/perf-PID.map, which perf reads, when DYAD_PERF_MAP is set.
void add_to_perf_map(const void* address, std::size_t size, std::string_view name);

}  // namespace dyad::codegen
