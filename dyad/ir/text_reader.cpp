#include "dyad/ir/text_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "dyad/base/error.h"
#include "dyad/ir/literal.h"

namespace dyad {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

void TextReader::skip_space() {
  for (;;) {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    if (!text_.substr(at_).starts_with("//")) return;
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
}

std::size_t TextReader::position() {
  skip_space();
  return at_;
}

char TextReader::peek() {
  skip_space();
  return here();
}

bool TextReader::accept(char c) {
  if (peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

bool TextReader::accept_word(std::string_view word) {
  skip_space();
  if (!text_.substr(at_).starts_with(word)) return false;
  const std::size_t end = at_ + word.size();
  if (end < text_.size() && is_word(text_[end])) return false;
  at_ = end;
  return true;
}

void TextReader::expect(char c) {
  if (!accept(c)) fail_expected(std::string("'") + c + "'");
}

void TextReader::expect_word(std::string_view word) {
  if (!accept_word(word)) fail_expected("'" + std::string(word) + "'");
}

std::string_view TextReader::identifier(std::string_view expected) {
  if (!is_letter(peek())) fail_expected(expected);
  const std::size_t start = at_;
  while (is_word(here()) || here() == '.') ++at_;
  return text_.substr(start, at_ - start);
}

std::string TextReader::quoted(std::string_view expected) {
  if (peek() != '"') fail_expected(expected);
  const std::size_t start = at_++;
  std::string value;
  for (;; ++at_) {
    if (at_ == text_.size() || text_[at_] == '\n') fail_at(start, "the quotes are not closed");
    char c = text_[at_];
    if (c == '"') break;
    if (c == '\\') {
      const std::size_t escape = at_++;
      c = here();
      if (c == 'n') {
        c = '\n';
      } else if (c == 'x') {
        const int high = at_ + 2 < text_.size() ? hex_value(text_[at_ + 1]) : -1;
        const int low = high >= 0 ? hex_value(text_[at_ + 2]) : -1;
        if (low < 0) fail_at(escape, "expected two hexadecimal digits after \\x");
        c = static_cast<char>(high * 16 + low);
        at_ += 2;
      } else if (c != '"' && c != '\\') {
        fail_at(escape, "the escapes are \\\" \\\\ \\n \\x");
      }
    }
    value += c;
  }
  ++at_;
  return value;
}

std::int64_t TextReader::integer() {
  skip_space();
  std::int64_t value = 0;
  const char* end = text_.data() + text_.size();
  const auto [stop, error] = std::from_chars(text_.data() + at_, end, value);
  if (error == std::errc::result_out_of_range) fail_at(at_, "the integer is out of range");
  if (error != std::errc()) fail_expected("an integer");
  at_ = static_cast<std::size_t>(stop - text_.data());
  return value;
}

std::string_view TextReader::number(std::string_view expected) { return run_of("+-.:", expected); }

std::string_view TextReader::run_of(std::string_view others, std::string_view expected) {
  skip_space();
  const std::size_t start = at_;
  while (at_ < text_.size() && (is_word(here()) || others.find(here()) != others.npos)) ++at_;
  if (at_ == start) fail_expected(expected);
  return text_.substr(start, at_ - start);
}

std::string_view TextReader::size_text() {
  skip_space();
  const std::size_t start = at_;
  int depth = 0;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\'') {
      for (++at_; here() != '\'' && at_ < text_.size(); ++at_) {
        if (here() == '\\') ++at_;
      }
    } else if (c == '(') {
      // Sizes are written as sums of products; a product of sums could be made to grow without end.
      if (at_ == start || !is_word(text_[at_ - 1])) {
        fail_at(at_, "brackets in a size belong to floordiv, mod, max or min");
      }
      ++depth;
    } else if (c == ')' && depth > 0) {
      --depth;
    } else if (depth == 0 && (c == ',' || c == ']' || c == '}' || c == ')' || c == '\n')) {
      break;
    }
  }
  at_ = std::min(at_, text_.size());
  std::size_t end = at_;
  while (end > start && std::isspace(static_cast<unsigned char>(text_[end - 1]))) --end;
  if (end == start) fail_expected("a size");
  return text_.substr(start, end - start);
}

void TextReader::fail_expected(std::string_view expected) {
  skip_space();
  std::string found = "the end of the text";
  if (at_ < text_.size()) {
    std::size_t end = at_ + 1;
    while (is_word(text_[at_]) && end < text_.size() && is_word(text_[end]) && end - at_ < 20)
      ++end;
    found = quote(text_.substr(at_, end - at_));
    found = "'" + found.substr(1, found.size() - 2) + "'";
  }
  fail_at(at_, "expected " + std::string(expected) + " but found " + found);
}

void TextReader::fail_at(std::size_t position, const std::string& problem) const {
  const std::string_view before = text_.substr(0, std::min(position, text_.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::size_t start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  const std::size_t column = before.size() - start + 1;
  std::string message = "graph text, line " + std::to_string(line) + ", column " +
                        std::to_string(column) + ": " + problem;
  // The line with a mark below the place; only its surroundings when it is very long.
  constexpr std::size_t around = 60;
  const std::size_t from = column > around ? before.size() - around : start;
  const std::size_t to =
      std::min({text_.find('\n', before.size()), text_.size(), before.size() + around});
  message += "\n  ";
  for (const char c : text_.substr(from, to - from)) {
    message += std::iscntrl(static_cast<unsigned char>(c)) ? ' ' : c;
  }
  throw GraphError(message + "\n  " + std::string(before.size() - from, ' ') + "^");
}

}  // namespace dyad
