#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dyad {

/// A regular expression in the syntax of RE2, without captures and back references: literals, `.`,
/// classes (`[a-z]`, `[^0-9]`, `\d \w \s` and their opposites), groups, `|`, `* + ? {m,n}`, `^`,
/// `$` and `\b \B`. Characters are Unicode code points of UTF-8 text. Matching takes time in
/// proportion to the lengths of text and expression, whatever these are.
class TextPattern {
 public:
  /// ValueError, naming what and where, for an expression that is none or is too large.
  explicit TextPattern(std::string_view expression);
  /// Whether the expression matches the whole text.
  [[nodiscard]] bool matches_all(std::string_view text) const;

 private:
  friend class TextPatternParser;
  using Ranges = std::vector<std::pair<char32_t, char32_t>>;
  /// A step of a matcher: `set` takes a character, `split` goes both ways.
  struct Step {
    enum class Kind { set, split, jump, begin, end, edge, accept } kind = Kind::accept;
    std::size_t next = 0, other = 0;
    Ranges ranges = {};
    bool negated = false;  // edge: within a word, or outside
  };
  std::vector<Step> steps_;
};

/// The code points of UTF-8 text; a byte that is none stands for itself.
[[nodiscard]] std::u32string code_points(std::string_view text);
/// UTF-8 again.
[[nodiscard]] std::string utf8(std::u32string_view text);
/// The text in capitals, or in small letters: Latin, Greek, Cyrillic and Armenian letters that have
/// one form of the other case.
[[nodiscard]] std::string with_case(std::string_view text, bool upper);

}  // namespace dyad
