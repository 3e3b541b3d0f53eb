#pragma once

#include <cstddef>

namespace dyad::runtime {

/// Bytes of the second-level cache of one core, as the system tells; a small one where it does not.
[[nodiscard]] std::size_t core_cache_bytes() noexcept;

/// Bytes beyond which what a pass moves is taken to have left all caches before it is read again.
constexpr std::size_t kPastCachesBytes = std::size_t{32} << 20;

}  // namespace dyad::runtime
