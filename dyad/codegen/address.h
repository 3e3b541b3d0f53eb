#pragma once

#include <cstdint>

namespace dyad::codegen {

/// `at`, `bytes` further on. An operand that is a position, not memory, counts from null, which
/// pointers must not.
[[nodiscard]] inline char* moved(char* at, std::int64_t bytes) noexcept {
  return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(at) +
                                 static_cast<std::uintptr_t>(bytes));
}

}  // namespace dyad::codegen
