#include "dyad/codegen/kernel_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace dyad::codegen {

KernelCache::KernelCache(std::size_t most_unused)
    : most_unused_(most_unused), full_(2 * most_unused) {}

std::shared_ptr<const CompiledKernel> KernelCache::find(const KernelHash& hash) const noexcept {
  const auto at = kernels_.find(hash);
  if (at == kernels_.end()) return nullptr;
  at->second.asked.store(time_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  return at->second.kernel;
}

void KernelCache::add(const KernelHash& hash, std::shared_ptr<const CompiledKernel> kernel) {
  Entry& entry = kernels_[hash];
  entry.kernel = std::move(kernel);
  entry.asked.store(time_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  if (kernels_.size() >= full_) drop_unused();
}

/// Looks at all of them, and so again only when there are `most_unused_` more.
void KernelCache::drop_unused() {
  using At = decltype(kernels_)::iterator;
  std::vector<At> unused;
  for (At at = kernels_.begin(); at != kernels_.end(); ++at) {
    if (at->second.kernel.use_count() == 1) unused.push_back(at);
  }
  if (unused.size() > most_unused_) {
    const auto end = unused.end() - static_cast<std::ptrdiff_t>(most_unused_);
    std::nth_element(unused.begin(), end, unused.end(), [](const At& a, const At& b) {
      return a->second.asked.load(std::memory_order_relaxed) <
             b->second.asked.load(std::memory_order_relaxed);
    });
    std::for_each(unused.begin(), end, [&](const At& at) { kernels_.erase(at); });
  }
  full_ = kernels_.size() + most_unused_;
}

}  // namespace dyad::codegen
