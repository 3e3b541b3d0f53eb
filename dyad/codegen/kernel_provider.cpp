#include "dyad/codegen/kernel_provider.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "dyad/codegen/interpreter.h"

namespace dyad::codegen {
namespace {

struct HashOfHash {
  std::size_t operator()(const KernelHash& h) const noexcept { return h.low; }
};

}  // namespace

struct KernelProvider::State {
  mutable std::shared_mutex mutex;
  std::unordered_map<KernelHash, std::unique_ptr<CompiledKernel>, HashOfHash> kernels;
  Statistics statistics;
};

KernelProvider::KernelProvider() : state_(std::make_unique<State>()) {}
KernelProvider::~KernelProvider() = default;

KernelProvider& KernelProvider::instance() {
  // Never destroyed: kernels may run in threads that outlive static destructors.
  alignas(KernelProvider) static std::byte memory[sizeof(KernelProvider)];
  static KernelProvider* const provider = ::new (memory) KernelProvider;
  return *provider;
}

const CompiledKernel& KernelProvider::get(const KernelRecipe& recipe) {
  const KernelRecipe* const one = &recipe;
  return *get(std::span(&one, 1)).front();
}

std::vector<const CompiledKernel*> KernelProvider::get(
    std::span<const KernelRecipe* const> recipes) {
  std::vector<const CompiledKernel*> found(recipes.size());
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    const KernelHash hash = recipes[i]->hash();
    {
      const std::shared_lock lock(state_->mutex);
      const auto at = state_->kernels.find(hash);
      if (at != state_->kernels.end()) {
        found[i] = at->second.get();
        continue;
      }
    }
    auto made = interpret(*recipes[i]);
    const std::unique_lock lock(state_->mutex);
    const auto [at, inserted] = state_->kernels.try_emplace(hash, std::move(made));
    if (inserted) ++state_->statistics.interpreted;
    found[i] = at->second.get();
  }
  return found;
}

KernelProvider::Statistics KernelProvider::statistics() const {
  const std::shared_lock lock(state_->mutex);
  return state_->statistics;
}

}  // namespace dyad::codegen
