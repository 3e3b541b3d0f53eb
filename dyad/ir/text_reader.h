#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dyad {

/// Reads the pieces of a text graph from front to back; spaces, line ends and `//` comments between
/// them do not count. Whatever cannot be read is a GraphError with line, column, what was expected
/// and the line itself.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  /// Takes the character or the word if it comes next.
  [[nodiscard]] bool accept(char c);
  [[nodiscard]] bool accept_word(std::string_view word);
  void expect(char c);
  void expect_word(std::string_view word);
  /// The next character that counts, or 0 at the end.
  [[nodiscard]] char peek();
  [[nodiscard]] bool at_end() { return peek() == '\0' && at_ == text_.size(); }
  /// The character right here, spaces included, or 0 at the end.
  [[nodiscard]] char here() const noexcept { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// A letter or underscore, then letters, digits, underscores and points.
  [[nodiscard]] std::string_view identifier(std::string_view expected);
  /// In double quotes, with the escapes that `quote` writes.
  [[nodiscard]] std::string quoted(std::string_view expected);
  [[nodiscard]] std::int64_t integer();
  /// A number up to the next character that no number has: digits, signs, points, letters and
  /// colons (`-1e+30`, `inf`, `nan:0x7fc00001`, `true`).
  [[nodiscard]] std::string_view number(std::string_view expected);
  /// Letters, digits and underscores (`#` references, file names: with points and signs).
  [[nodiscard]] std::string_view run_of(std::string_view others, std::string_view expected);
  /// The raw text of one size, up to the comma or bracket that ends it.
  [[nodiscard]] std::string_view size_text();

  /// Where the next piece starts.
  [[nodiscard]] std::size_t position();
  void seek(std::size_t position) noexcept { at_ = position; }
  [[nodiscard]] std::size_t length() const noexcept { return text_.size(); }

  [[noreturn]] void fail_expected(std::string_view expected);
  [[noreturn]] void fail_at(std::size_t position, const std::string& problem) const;

 private:
  void skip_space();
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace dyad
