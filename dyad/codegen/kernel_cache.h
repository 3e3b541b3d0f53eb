#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "dyad/codegen/kernel.h"

namespace dyad::codegen {

/// Kernels by the hashes of their recipes: all that somebody holds, and of the others those that
/// were asked for last. `find` may be called from several threads at once, `add` from one alone.
class KernelCache {
 public:
  struct HashOfHash {
    std::size_t operator()(const KernelHash& h) const noexcept { return h.low; }
  };

  /// `most_unused`: so many kernels that nobody holds may stay.
  explicit KernelCache(std::size_t most_unused);

  /// Null where there is none.
  [[nodiscard]] std::shared_ptr<const CompiledKernel> find(const KernelHash& hash) const noexcept;
  void add(const KernelHash& hash, std::shared_ptr<const CompiledKernel> kernel);
  [[nodiscard]] std::size_t size() const noexcept { return kernels_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const CompiledKernel> kernel;
    mutable std::atomic<std::uint64_t> asked{0};  ///< when last, by `time_`
  };
  void drop_unused();

  std::unordered_map<KernelHash, Entry, HashOfHash> kernels_;
  mutable std::atomic<std::uint64_t> time_{0};
  std::size_t most_unused_;
  std::size_t full_;  ///< so many kernels make it look for unused ones
};

}  // namespace dyad::codegen
