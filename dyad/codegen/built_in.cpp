#include "dyad/codegen/built_in.h"

#include <algorithm>

namespace dyad::codegen {
namespace {

constinit BuiltInKernels built_in;

int cpu_level() noexcept {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  const bool level3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
                      __builtin_cpu_supports("popcnt");
  const bool level4 = level3 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return level4 ? 4 : level3 ? 3 : 0;
#else
  return 0;
#endif
}

}  // namespace

int built_in_level() noexcept {
  static const int level = cpu_level();
  return level;
}

void set_built_in_kernels(const BuiltInKernels& kernels) noexcept { built_in = kernels; }

const void* find_function(std::span<const BuiltInFunction> sorted, const KernelHash& key) noexcept {
  const auto at =
      std::lower_bound(sorted.begin(), sorted.end(), key,
                       [](const BuiltInFunction& f, const KernelHash& k) { return f.key < k; });
  return at != sorted.end() && at->key == key ? at->address : nullptr;
}

const void* find_built_in(const KernelHash& key, int level) noexcept {
  return level == 4   ? find_function(built_in.level4, key)
         : level == 3 ? find_function(built_in.level3, key)
                      : nullptr;
}

}  // namespace dyad::codegen
