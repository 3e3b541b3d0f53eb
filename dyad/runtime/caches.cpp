#include "dyad/runtime/caches.h"

#include <unistd.h>

namespace dyad::runtime {

std::size_t core_cache_bytes() noexcept {
  static const std::size_t bytes = [] {
    constexpr long kSmall = 256 << 10;
    const long told = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return static_cast<std::size_t>(told > kSmall ? told : kSmall);
  }();
  return bytes;
}

}  // namespace dyad::runtime
