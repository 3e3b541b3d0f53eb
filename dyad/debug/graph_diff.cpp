#include "dyad/debug/graph_diff.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

namespace dyad::debug {
namespace {

using Kind = DiffLine::Kind;

/// Output `output` of the node at `line`; a line of -1 for a value that no line makes.
struct Maker {
  int line = -1, output = 0;
  [[nodiscard]] bool operator==(const Maker&) const = default;
};

/// A number that stands for a value: `%12`.
struct Mention {
  std::size_t at = 0, size = 0;  ///< of its digits
  Maker maker;
};

struct Line {
  std::string_view text;
  std::vector<Mention> mentions;
  int outputs = 0;  ///< values that it makes
  std::size_t indent = 0;

  /// The text without the numbers of values.
  [[nodiscard]] std::string shape() const {
    return with_numbers([](const Mention&) { return std::string(); });
  }
  /// The text with other numbers.
  [[nodiscard]] std::string with_numbers(const auto& number_of) const {
    std::string shown;
    std::size_t done = 0;
    for (const Mention& mention : mentions) {
      shown += text.substr(done, mention.at - done);
      shown += number_of(mention);
      done = mention.at + mention.size;
    }
    return shown += text.substr(done);
  }
  [[nodiscard]] std::string_view number(const Mention& mention) const {
    return text.substr(mention.at, mention.size);
  }
  [[nodiscard]] std::string_view types() const {
    const std::size_t colon = text.rfind(" : "), place = text.rfind(" @");
    if (colon == std::string_view::npos) return {};
    return text.substr(colon,
                       place == std::string_view::npos || place < colon ? place : place - colon);
  }
};

/// Where a quoted text ends that begins at `at`.
std::size_t end_of_quoted(std::string_view text, std::size_t at) {
  const char quote = text[at++];
  while (at < text.size() && text[at] != quote) at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

class Reader {
 public:
  std::vector<Line> read(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      add(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return std::move(lines_);
  }

 private:
  void add(std::string_view text) {
    const auto number = static_cast<int>(lines_.size());
    Line& line = lines_.emplace_back(Line{.text = text, .mentions = {}});
    line.indent = std::min(text.find_first_not_of(' '), text.size());
    const std::string_view bare = text.substr(line.indent);
    bool makes = bare.starts_with('%');
    for (std::size_t at = line.indent; at < text.size();) {
      if (text[at] == '"' || text[at] == '\'') {
        at = end_of_quoted(text, at);
        continue;
      }
      if (text[at] == '=') makes = false;
      if (text[at++] != '%') continue;
      const std::size_t digits = at;
      while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at]))) ++at;
      const Maker maker{number, line.outputs};
      if (makes) ++line.outputs;
      if (at == digits) continue;  // a value with a name
      const auto name = std::string(text.substr(digits, at - digits));
      if (makes) scopes_.back()[name] = maker;
      const auto known = scopes_.back().find(name);
      line.mentions.push_back(
          {digits, at - digits, known == scopes_.back().end() ? Maker() : known->second});
    }
    if (bare == "graph {" || bare == "region {") scopes_.emplace_back();
    if (bare == "}" && scopes_.size() > 1) scopes_.pop_back();
  }

  std::vector<Line> lines_;
  // What numbers mean, in each graph that is open.
  std::vector<std::unordered_map<std::string, Maker>> scopes_ =
      std::vector<std::unordered_map<std::string, Maker>>(1);
};

class GraphDiff {
 public:
  GraphDiff(std::string_view before, std::string_view after)
      : before_(Reader().read(before)), after_(Reader().read(after)) {}

  std::vector<DiffLine> find() {
    std::unordered_map<std::string, int> shapes;
    const auto ids = [&](const std::vector<Line>& lines) {
      std::vector<int> all;
      for (const Line& line : lines) {
        all.push_back(
            shapes.try_emplace(line.shape(), static_cast<int>(shapes.size())).first->second);
      }
      return all;
    };
    partners_ = align(ids(before_), ids(after_));
    heirs_ = partners_;
    for_each_gap([&](int from, int to, int new_from, int new_to) {
      find_heirs(from, to, new_from, new_to);
    });
    return differences();
  }

 private:
  /// Calls `f` with the lines, old and new, between those that have partners.
  void for_each_gap(const auto& f) const {
    int from = 0, new_from = 0;
    const auto count = static_cast<int>(before_.size());
    for (int i = 0; i <= count; ++i) {
      const int partner = i == count ? static_cast<int>(after_.size()) : partner_of(i);
      if (partner < 0) continue;
      f(from, i, new_from, partner);
      from = i + 1;
      new_from = partner + 1;
    }
  }

  /// What stands where other lines stood mostly makes their values: the last ones of equal types
  /// take over the names.
  void find_heirs(int from, int to, int new_from, int new_to) {
    const auto makers = [](const std::vector<Line>& lines, int first, int last) {
      std::vector<int> found;
      std::size_t least = std::string_view::npos;
      for (int i = last - 1; i >= first; --i) {
        const Line& line = lines[static_cast<std::size_t>(i)];
        if (line.outputs == 0 || line.indent > least) continue;
        if (line.indent < least) found.clear();
        least = line.indent;
        found.push_back(i);
      }
      return found;
    };
    const std::vector<int> old = makers(before_, from, to),
                           fresh = makers(after_, new_from, new_to);
    for (std::size_t k = 0; k < std::min(old.size(), fresh.size()); ++k) {
      const Line& was = before_[static_cast<std::size_t>(old[k])];
      const Line& is = after_[static_cast<std::size_t>(fresh[k])];
      if (was.indent != is.indent || was.outputs != is.outputs || was.types() != is.types()) return;
      heirs_[static_cast<std::size_t>(old[k])] = fresh[k];
    }
  }

  [[nodiscard]] int partner_of(int i) const { return partners_[static_cast<std::size_t>(i)]; }

  /// The maker of an old value in the new graph; none where it is gone.
  [[nodiscard]] Maker heir_of(const Maker& maker) const {
    if (maker.line < 0) return {};
    return {heirs_[static_cast<std::size_t>(maker.line)], maker.output};
  }

  /// Of lines that are alike but for the numbers of values.
  [[nodiscard]] bool same_values(const Line& was, const Line& is) const {
    for (std::size_t k = 0; k < was.mentions.size(); ++k) {
      const Maker& old = was.mentions[k].maker;
      const bool same = old.line < 0 ? was.number(was.mentions[k]) == is.number(is.mentions[k])
                                     : heir_of(old) == is.mentions[k].maker;
      if (!same) return false;
    }
    return true;
  }

  [[nodiscard]] std::string renamed(const Line& line) const {
    return line.with_numbers([&](const Mention& mention) {
      const std::string number(line.number(mention));
      if (mention.maker.line < 0) return number;
      const Maker heir = heir_of(mention.maker);
      if (heir.line < 0) return "was" + number;
      const Line& made_by = after_[static_cast<std::size_t>(heir.line)];
      for (const Mention& output : made_by.mentions) {
        if (output.maker == heir) return std::string(made_by.number(output));
      }
      return "was" + number;
    });
  }

  [[nodiscard]] std::vector<DiffLine> differences() const {
    std::vector<DiffLine> all, added;
    const auto add_changes = [&](int from, int to, int new_from, int new_to) {
      for (int i = from; i < to; ++i)
        all.push_back({Kind::removed, renamed(before_[static_cast<std::size_t>(i)])});
      for (int j = new_from; j < new_to; ++j)
        added.push_back({Kind::added, std::string(after_[static_cast<std::size_t>(j)].text)});
    };
    for_each_gap([&](int from, int to, int new_from, int new_to) {
      add_changes(from, to, new_from, new_to);
      const bool at_end = to == static_cast<int>(before_.size());
      if (!at_end && !same_values(before_[static_cast<std::size_t>(to)],
                                  after_[static_cast<std::size_t>(new_to)])) {
        add_changes(to, to + 1, new_to, new_to + 1);
        return;
      }
      std::ranges::move(added, std::back_inserter(all));
      added.clear();
      if (!at_end)
        all.push_back({Kind::same, std::string(after_[static_cast<std::size_t>(new_to)].text)});
    });
    return all;
  }

  std::vector<Line> before_, after_;
  std::vector<int> partners_;  // of each old line, the new one of its shape
  std::vector<int> heirs_;     // of each old line, the new one that makes its values
};

}  // namespace

std::vector<DiffLine> graph_difference(std::string_view before, std::string_view after) {
  return GraphDiff(before, after).find();
}

}  // namespace dyad::debug
