#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dyad/codegen/code_memory.h"

namespace dyad::codegen {

/// A relocatable ELF object for x86-64 in executable memory. Checks every offset in the file, so a
/// damaged one is an error, never a crash while loading.
class LoadedObject {
 public:
  /// Maps and relocates; throws IoError that says what is wrong with the object. Undefined symbols
  /// are an error: kernels call nothing. Tells the debugger about it and, when DYAD_PERF_MAP or
  /// DYAD_PERF_JITDUMP is set, perf.
  static std::shared_ptr<const LoadedObject> load(std::span<const std::byte> object);

  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;
  ~LoadedObject();

  /// Address of the function whose symbol ends in '$' and `key`, or null: what comes before is for
  /// people.
  [[nodiscard]] const void* find(const std::string& key) const;

 private:
  LoadedObject() = default;
  class Builder;

  CodeMemory memory_;
  std::unordered_map<std::string, const void*> symbols_;
  std::vector<std::byte> debug_image_;  // the object as the debugger reads it
  std::unique_ptr<class DebuggerEntry> debugger_;
};

}  // namespace dyad::codegen
