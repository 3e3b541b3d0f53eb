#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dyad {

/// The bytes of the character of UTF-8 that `text` (not empty) begins with; 0 when it begins with
/// none.
[[nodiscard]] std::size_t utf8_length(std::string_view text) noexcept;
/// The same, and 0 for a control character.
[[nodiscard]] std::size_t printable_length(std::string_view text) noexcept;

/// Adds a byte that is no text as `\x1b`.
void append_escaped(std::string& text, char byte);

}  // namespace dyad
