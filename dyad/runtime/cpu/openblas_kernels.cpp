#include "dyad/runtime/cpu/openblas_kernels.h"

#include <cblas.h>
#include <dlfcn.h>

#include <cstdlib>

namespace dyad::runtime::cpu {
namespace {

/// A CPU that came out after it OpenBLAS takes for the first one with 64 bits, whose kernels take
/// five times as long: it is told to choose again, by the instructions that there are. Before main,
/// when nobody uses it yet; not where the user has chosen (OPENBLAS_CORETYPE).
[[maybe_unused]] const bool chosen_again = [] {
#if defined(__x86_64__) && defined(__GNUC__)
  constexpr const char* kChoice = "OPENBLAS_CORETYPE";
  const char* const given = std::getenv(kChoice);  // NOLINT(concurrency-mt-unsafe)
  if (given != nullptr || openblas_kernels() != "Prescott") return false;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return false;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512cd");
  // The library chooses when it is loaded, or when this pointer is null.
  auto* const kernels = static_cast<void**>(dlsym(RTLD_DEFAULT, "gotoblas"));
  auto* const choose = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "gotoblas_dynamic_init"));
  if (kernels == nullptr || choose == nullptr) return false;
  setenv(kChoice, wide ? "SkylakeX" : "Haswell", 1);  // NOLINT(concurrency-mt-unsafe)
  *kernels = nullptr;
  choose();
  unsetenv(kChoice);  // NOLINT(concurrency-mt-unsafe)
  return true;
#else
  return false;
#endif
}();

}  // namespace

std::string_view openblas_kernels() { return openblas_get_corename(); }

}  // namespace dyad::runtime::cpu
