#include "dyad/base/utf8.h"

namespace dyad {

std::size_t utf8_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xC2    ? 0
                             : first <= 0xDF ? 2
                             : first <= 0xEF ? 3
                             : first <= 0xF4 ? 4
                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Longer than it need be, half of a pair of UTF-16, or beyond the last character.
  const unsigned second = byte(1);
  const bool is_none = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                       (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return is_none ? 0 : length;
}

std::size_t printable_length(std::string_view text) noexcept {
  const auto code = static_cast<unsigned char>(text[0]);
  return code < 0x20 || code == 0x7F ? 0 : utf8_length(text);
}

void append_escaped(std::string& text, char byte) {
  constexpr std::string_view digits = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(byte);
  text += {'\\', 'x', digits[code >> 4], digits[code & 15]};
}

}  // namespace dyad
