#pragma once

#include <cstddef>
#include <string_view>

namespace dyad {

/// The bytes of the character of UTF-8 that `text` (not empty) begins with; 0 when it begins with
/// none.
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;

}  // namespace dyad
