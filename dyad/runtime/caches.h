#pragma once

#include <cstddef>

namespace dyad::runtime {

/// Bytes of the second-level cache of one core, as the system tells; a small one where it does not.
[[nodiscard]] std::size_t core_cache_bytes() noexcept;

}  // namespace dyad::runtime
