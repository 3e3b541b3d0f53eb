#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "dyad/codegen/recipe.h"

namespace dyad::codegen {

/// Compiled objects in a folder that processes share. Files are written under another name and then
/// linked to their own, or renamed over a file that is there already, so a reader sees a whole one
/// or none; a file that is damaged, foreign, or writable by others is as good as missing. Nothing
/// here throws: a cache that cannot be used is an empty one.
///
/// The folder is DYAD_CACHE_DIR, or dyad/kernels in XDG_CACHE_HOME or ~/.cache. DYAD_CACHE=0 turns
/// it off. When it holds more than DYAD_CACHE_MB megabytes (256), the files used longest ago go:
/// each process looks when it keeps its first object, and again after every sixteenth of the bound.
class DiskCache {
 public:
  /// `identity` is what objects depend on besides their recipes; without one the cache is off.
  explicit DiskCache(const std::string& identity);
  /// In a folder of its own and with a bound of its own.
  DiskCache(std::string folder, const std::string& identity, std::uint64_t max_bytes);

  [[nodiscard]] bool enabled() const noexcept { return !folder_.empty(); }
  /// The object that holds the recipe's functions, or nothing.
  [[nodiscard]] std::vector<std::byte> find(const KernelHash& recipe) const;
  /// Keeps an object under each of the recipes in it.
  void store(std::span<const KernelHash> recipes, std::span<const std::byte> object) const;

 private:
  [[nodiscard]] std::string path_of(const KernelHash& recipe) const;
  void shrink() const;

  std::string root_, folder_;
  std::uint64_t max_bytes_ = 0;
  /// Bytes kept by this process since it last looked at the whole folder; at first more than any
  /// bound, so that the first object makes it look.
  mutable std::atomic<std::uint64_t> unseen_{std::numeric_limits<std::uint64_t>::max() / 2};
};

}  // namespace dyad::codegen
