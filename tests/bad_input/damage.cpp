#include "tests/bad_input/damage.h"

#include <cctype>
#include <string_view>

namespace dyad::testing {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool is_in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '%';
}

/// `bytes` with `count` of them replaced, and what was done.
void use_replaced(const std::string& bytes, std::size_t at, std::size_t count, std::string_view by,
                  const UseDamaged& use) {
  std::string damaged = bytes;
  use(damaged.replace(at, count, by), "at byte " + std::to_string(at) + ": " +
                                          std::to_string(count) + " bytes replaced by " +
                                          std::to_string(by.size()));
}

}  // namespace

void for_each_damage(const std::string& bytes, const UseDamaged& use) {
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    use(bytes.substr(0, length), "cut to " + std::to_string(length) + " bytes");
  }
  const auto replaced = [&](std::size_t at, std::size_t count, std::string_view by) {
    use_replaced(bytes, at, count, by, use);
  };
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const char byte = bytes[at];
    for (const int other : {~byte, byte ^ 1, byte ^ 0x80, 0, int{'9'}, int{'-'}, int{'"'}}) {
      replaced(at, 1, std::string(1, static_cast<char>(other)));
    }
    replaced(at, 1, "");
    replaced(at, 1, std::string(2, byte));
  }
  for (const std::size_t width : {2u, 4u, 8u}) {
    const std::string zeros(width, '\0'), ones(width, '\xff');
    for (std::size_t at = 0; at + width <= bytes.size(); ++at) {
      replaced(at, width, zeros);
      replaced(at, width, ones);
      replaced(at, width, ones.substr(1) + '\x7f');
      replaced(at, width, '\x7f' + ones.substr(1));
    }
  }
}

void for_each_number(const std::string& bytes, std::span<const char* const> numbers,
                     const UseDamaged& use) {
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (!is_digit(bytes[at]) || (at > 0 && is_in_word(bytes[at - 1]))) continue;
    std::size_t count = 1;
    while (at + count < bytes.size() && is_digit(bytes[at + count])) ++count;
    for (const char* number : numbers) use_replaced(bytes, at, count, number, use);
  }
}

}  // namespace dyad::testing
