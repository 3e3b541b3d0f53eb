#include "dyad/core/text_pattern.h"

#include <algorithm>
#include <optional>

#include "dyad/base/error.h"

namespace dyad {
namespace {

constexpr char32_t kLast = 0x10FFFF;
/// Steps of a matcher: repeats of repeats multiply.
constexpr std::size_t kMostSteps = 20'000;
constexpr int kMostRepeats = 1000, kMostDepth = 200;

bool is_word(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

}  // namespace

/// Recursive descent: each rule appends the steps of what it reads.
class TextPatternParser {
  using Step = TextPattern::Step;
  using Kind = Step::Kind;
  using Ranges = TextPattern::Ranges;

 public:
  TextPatternParser(std::string_view expression, std::vector<Step>& steps)
      : expression_(expression), text_(code_points(expression)), steps_(steps) {}

  void parse() {
    alternatives();
    if (at_ < text_.size()) fail("an unmatched ')'");
    add({.kind = Kind::accept});
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ValueError("the regular expression '" + std::string(expression_) + "' has " + what +
                     " at character " + std::to_string(at_));
  }
  [[nodiscard]] bool sees(char32_t c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char32_t c) {
    if (!sees(c)) return false;
    ++at_;
    return true;
  }
  char32_t next() {
    if (at_ == text_.size()) fail("an unfinished part");
    return text_[at_++];
  }
  std::size_t add(Step step) {
    if (steps_.size() >= kMostSteps) fail("more parts than a matcher may have");
    steps_.push_back(std::move(step));
    return steps_.size() - 1;
  }
  /// Steps from `begin` on move so that one more fits before them.
  void insert(std::size_t begin, Step step) {
    add({});
    for (std::size_t i = steps_.size() - 1; i > begin; --i) {
      steps_[i] = std::move(steps_[i - 1]);
      if (steps_[i].next >= begin) ++steps_[i].next;
      if (steps_[i].other >= begin) ++steps_[i].other;
    }
    steps_[begin] = std::move(step);
  }

  void alternatives() {
    if (++depth_ > kMostDepth) fail("groups nested too deeply");
    const std::size_t begin = steps_.size();
    sequence();
    if (take('|')) {
      insert(begin, {.kind = Kind::split, .next = begin + 1});
      const std::size_t leave = add({.kind = Kind::jump});
      steps_[begin].other = leave + 1;
      alternatives();
      steps_[leave].next = steps_.size();
    }
    --depth_;
  }

  void sequence() {
    while (at_ < text_.size() && !sees('|') && !sees(')')) repeated();
  }

  void repeated() {
    const std::size_t begin = steps_.size();
    atom();
    for (;;) {
      if (take('*')) {
        star(begin);
      } else if (take('+')) {
        plus(begin);
      } else if (take('?')) {
        optional(begin);
      } else if (const auto bounds = braces()) {
        repeat(begin, bounds->first, bounds->second);
      } else {
        return;
      }
      static_cast<void>(take('?'));  // whether to take as few as possible: all that matters is if
    }
  }

  void optional(std::size_t begin) {
    insert(begin, {.kind = Kind::split, .next = begin + 1});
    steps_[begin].other = steps_.size();
  }
  void star(std::size_t begin) {
    optional(begin);
    add({.kind = Kind::jump, .next = begin});
    steps_[begin].other = steps_.size();
  }
  void plus(std::size_t begin) {
    const std::size_t after = add({.kind = Kind::split, .next = begin});
    steps_[after].other = steps_.size();
  }
  /// `{m}`, `{m,}` and `{m,n}`; other braces are characters.
  std::optional<std::pair<int, int>> braces() {
    const std::size_t begin = at_;
    const auto number = [&]() -> int {
      int value = -1;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
        value =
            std::min(kMostRepeats + 1, std::max(value, 0) * 10 + static_cast<int>(next() - '0'));
      }
      return value;
    };
    if (take('{')) {
      const int least = number();
      const bool open = take(',');
      const int most = open ? number() : least;
      if (least >= 0 && take('}')) {
        if (std::max(least, most) > kMostRepeats) fail("a count of more than 1000");
        if (open && most >= 0 && most < least) fail("a count that ends before it begins");
        return std::pair(least, most);
      }
    }
    at_ = begin;
    return {};
  }
  void repeat(std::size_t begin, int least, int most) {
    const std::vector<Step> once(steps_.begin() + static_cast<std::ptrdiff_t>(begin), steps_.end());
    steps_.resize(begin);
    const auto append = [&] {
      const std::size_t here = steps_.size(), moved = here - begin;
      for (Step step : once) {
        step.next += moved;
        step.other += moved;
        add(std::move(step));
      }
      return here;
    };
    for (int i = 0; i < least; ++i) append();
    if (most < 0) {
      star(append());
      return;
    }
    for (int i = least; i < most; ++i) optional(append());
  }

  void atom() {
    const char32_t c = next();
    if (c == '(') {
      if (take('?')) {
        if (!take(':')) fail("a group of another kind than (...) and (?:...)");
      }
      alternatives();
      if (!take(')')) fail("a group that does not end");
    } else if (c == '[') {
      characters();
    } else if (c == '.') {
      one({{'\n', '\n'}}, true);
    } else if (c == '^') {
      const std::size_t step = add({.kind = Kind::begin});
      steps_[step].next = step + 1;
    } else if (c == '$') {
      const std::size_t step = add({.kind = Kind::end});
      steps_[step].next = step + 1;
    } else if (c == '\\' && (sees('b') || sees('B'))) {
      const std::size_t step = add({.kind = Kind::edge});
      steps_[step].next = step + 1;
      steps_[step].negated = next() == 'B';
    } else if (c == '\\') {
      bool negated = false;
      const Ranges ranges = escaped(negated);
      one(ranges, negated);
    } else if (c == '*' || c == '+' || c == '?') {
      fail("nothing to repeat");
    } else {
      one({{c, c}}, false);
    }
  }

  void one(Ranges ranges, bool negated) {
    const std::size_t step = add({.kind = Kind::set});
    steps_[step].next = step + 1;
    steps_[step].ranges = std::move(ranges);
    steps_[step].negated = negated;
  }

  /// What follows a backslash.
  Ranges escaped(bool& negated) {
    const char32_t c = next();
    const auto is = [&](char small, char capital) {
      negated = c == static_cast<char32_t>(capital);
      return negated || c == static_cast<char32_t>(small);
    };
    if (is('d', 'D')) return {{'0', '9'}};
    if (is('w', 'W')) return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    if (is('s', 'S')) return {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    negated = false;
    constexpr std::pair<char, char32_t> kNamed[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'},
                                                    {'f', '\f'}, {'v', '\v'}, {'a', '\a'}};
    for (const auto& [name, value] : kNamed) {
      if (c == static_cast<char32_t>(name)) return {{value, value}};
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) fail("an escape that has no meaning here");
    return {{c, c}};
  }

  void characters() {
    const bool negated = take('^');
    Ranges ranges;
    bool first = true;
    while (first || !sees(']')) {
      first = false;
      Ranges from = character_of_class();
      const bool single = from.size() == 1 && from[0].first == from[0].second;
      if (single && sees('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        const Ranges to = character_of_class();
        if (to.size() != 1 || to[0].first != to[0].second || to[0].first < from[0].first) {
          fail("a range of characters that is none");
        }
        from[0].second = to[0].first;
      }
      ranges.insert(ranges.end(), from.begin(), from.end());
    }
    ++at_;
    one(std::move(ranges), negated);
  }

  Ranges character_of_class() {
    const char32_t c = next();
    if (c != '\\') return {{c, c}};
    bool negated = false;
    Ranges ranges = escaped(negated);
    if (!negated) return ranges;
    Ranges others;
    char32_t from = 0;
    for (const auto& [low, high] : ranges) {
      if (low > from) others.emplace_back(from, low - 1);
      from = high + 1;
    }
    others.emplace_back(from, kLast);
    return others;
  }

  std::string_view expression_;
  std::u32string text_;
  std::vector<Step>& steps_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

TextPattern::TextPattern(std::string_view expression) {
  TextPatternParser(expression, steps_).parse();
}

bool TextPattern::matches_all(std::string_view text) const {
  const std::u32string characters = code_points(text);
  std::vector<std::size_t> now, then, pending;
  std::vector<std::size_t> seen(steps_.size(), 0);  // at which place a step was entered, plus one
  bool accepted = false;
  const auto enter = [&](std::size_t step, std::size_t place) {
    pending.push_back(step);
    while (!pending.empty()) {
      const std::size_t at = pending.back();
      pending.pop_back();
      if (seen[at] == place + 1) continue;
      seen[at] = place + 1;
      const Step& s = steps_[at];
      switch (s.kind) {
        case Step::Kind::set:
          then.push_back(at);
          break;
        case Step::Kind::split:
          pending.push_back(s.other);
          pending.push_back(s.next);
          break;
        case Step::Kind::jump:
          pending.push_back(s.next);
          break;
        case Step::Kind::begin:
          if (place == 0) pending.push_back(s.next);
          break;
        case Step::Kind::end:
          if (place == characters.size()) pending.push_back(s.next);
          break;
        case Step::Kind::edge: {
          const bool before = place > 0 && is_word(characters[place - 1]);
          const bool after = place < characters.size() && is_word(characters[place]);
          if ((before != after) != s.negated) pending.push_back(s.next);
          break;
        }
        case Step::Kind::accept:
          accepted = accepted || place == characters.size();
          break;
      }
    }
  };
  enter(0, 0);
  for (std::size_t place = 0; place < characters.size() && !then.empty(); ++place) {
    now.swap(then);
    then.clear();
    const char32_t c = characters[place];
    for (const std::size_t at : now) {
      const Step& s = steps_[at];
      const bool in_ranges = std::ranges::any_of(
          s.ranges, [&](const auto& range) { return range.first <= c && c <= range.second; });
      if (in_ranges != s.negated) enter(s.next, place + 1);
    }
  }
  return accepted;
}

std::u32string code_points(std::string_view text) {
  std::u32string found;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    char32_t value = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    bool good = lead < 0x80 || (lead >= 0xC2 && lead < 0xF5);
    for (std::size_t k = 1; good && k < length; ++k) {
      const auto byte = i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0u;
      good = (byte & 0xC0u) == 0x80u;
      value = value << 6 | (byte & 0x3Fu);
    }
    found += good ? value : lead;
    i += good ? length : 1;
  }
  return found;
}

std::string utf8(std::u32string_view text) {
  std::string bytes;
  for (const char32_t c : text) {
    if (c < 0x80) {
      bytes += static_cast<char>(c);
      continue;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
    bytes += static_cast<char>(kLead[more] | c >> (6 * more));
    for (int k = more - 1; k >= 0; --k) bytes += static_cast<char>(0x80 | (c >> (6 * k) & 0x3F));
  }
  return bytes;
}

namespace {

/// Capitals from `first` to `last`; the small letters are `distance` after them, or, when that is
/// 1, capitals and small letters take turns.
struct Letters {
  char32_t first, last;
  char32_t distance;
};
constexpr Letters kLetters[] = {
    {'A', 'Z', 32},      {0xC0, 0xD6, 32},    {0xD8, 0xDE, 32},   {0x100, 0x12F, 1},
    {0x132, 0x137, 1},   {0x139, 0x148, 1},   {0x14A, 0x177, 1},  {0x179, 0x17E, 1},
    {0x391, 0x3A1, 32},  {0x3A3, 0x3AB, 32},  {0x400, 0x40F, 80}, {0x410, 0x42F, 32},
    {0x460, 0x481, 1},   {0x48A, 0x4BF, 1},   {0x4D0, 0x52F, 1},  {0x531, 0x556, 48},
    {0x1E00, 0x1E95, 1}, {0x1EA0, 0x1EFF, 1},
};

char32_t with_case(char32_t c, bool upper) {
  for (const auto& [first, last, distance] : kLetters) {
    if (distance == 1) {
      if (c < first || c > last) continue;
      const bool is_small = (c - first) % 2 == 1;
      return upper == is_small ? (upper ? c - 1 : c + 1) : c;
    }
    if (!upper && c >= first && c <= last) return c + distance;
    if (upper && c >= first + distance && c <= last + distance) return c - distance;
  }
  return c;
}

}  // namespace

std::string with_case(std::string_view text, bool upper) {
  std::u32string characters = code_points(text);
  for (char32_t& c : characters) c = with_case(c, upper);
  return utf8(characters);
}

}  // namespace dyad
