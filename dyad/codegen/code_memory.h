#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace dyad::codegen {

/// Pages for the code of one object. Those of many objects lie in one mapping, because a process
/// may have only so many (65,530 by Linux's default) and kernels are small.
class CodeMemory {
 public:
  /// None.
  CodeMemory() noexcept = default;
  /// At least `bytes`, all zero, to be written; throws IoError where the system gives none.
  explicit CodeMemory(std::size_t bytes);
  CodeMemory(CodeMemory&& other) noexcept;
  CodeMemory& operator=(CodeMemory&& other) noexcept;
  CodeMemory(const CodeMemory&) = delete;
  CodeMemory& operator=(const CodeMemory&) = delete;
  ~CodeMemory();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return pages_; }
  /// From now on it is read and run, and not written; throws IoError.
  void make_executable();

 private:
  class Block;
  std::shared_ptr<const Block> block_;
  std::span<std::byte> pages_;
};

}  // namespace dyad::codegen
