#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>

#include "dyad/base/error.h"
#include "dyad/base/utf8.h"
#include "dyad/core/dim.h"
#include "dyad/core/dim_expr.h"

namespace dyad {
namespace {

bool starts_identifier(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_identifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}

std::string text_of_name(const std::string& name) {
  bool plain = starts_identifier(name[0]);
  for (const char c : name) plain = plain && continues_identifier(c);
  if (plain) return name;
  std::string quoted = "'";
  for (std::string_view rest = name; !rest.empty();) {
    const std::size_t length = printable_length(rest);
    if (length == 0) {
      append_escaped(quoted, rest[0]);
    } else {
      if (rest[0] == '\'' || rest[0] == '\\') quoted += '\\';
      quoted += rest.substr(0, length);
    }
    rest.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return quoted + "'";
}

std::string to_string(const DimAtom& atom) {
  const char* functions[] = {"", "floordiv", "mod", "max", "min"};
  if (atom.kind == DimAtom::Kind::symbol) return text_of_name(atom.name);
  return functions[static_cast<int>(atom.kind)] + ("(" + dyad::to_string(atom.a)) + ", " +
         dyad::to_string(atom.b) + ")";
}

/// Recursive descent over sum := product (+|- product)*, product := factor (* factor)*,
/// factor := number | name | 'name' | function(sum, sum) | (sum) | - factor.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Dim parse() {
    const Dim dim = sum();
    if (!at_end()) fail("an operator or the end");
    return dim;
  }

 private:
  Dim sum() {
    Dim total = product();
    for (;;) {
      if (accept('+')) {
        total = total + product();
      } else if (accept('-')) {
        total = total - product();
      } else {
        return total;
      }
    }
  }
  Dim product() {
    Dim total = factor();
    while (accept('*')) total = total * factor();
    return total;
  }
  Dim factor() {
    // Each level of nesting is a call: a limit keeps hostile text from exhausting the stack.
    if (++depth_ > 200) fail("at most 200 nested brackets");
    const Dim dim = nested_factor();
    --depth_;
    return dim;
  }
  Dim nested_factor() {
    if (accept('-')) return Dim(0) - factor();
    if (accept('(')) {
      const Dim dim = sum();
      expect(')');
      return dim;
    }
    if (at_end()) fail("a size");
    const char c = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(c))) return number();
    if (c == '\'') return Dim::symbol(quoted_name());
    if (!starts_identifier(c)) fail("a size");
    const std::string_view name = identifier();
    if (!accept('(')) return Dim::symbol(name);
    const auto start = static_cast<std::size_t>(name.data() - text_.data());
    const Dim a = sum();
    expect(',');
    const Dim b = sum();
    expect(')');
    if (name == "floordiv") return a / b;
    if (name == "mod") return a % b;
    if (name == "max") return max(a, b);
    if (name == "min") return min(a, b);
    at_ = start;
    fail("floordiv, mod, max or min before a bracket");
  }
  Dim number() {
    Dim value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
      value = value * 10 + (text_[at_] - '0');
    }
    return value;
  }
  std::string_view identifier() {
    const std::size_t start = at_;
    while (at_ < text_.size() && continues_identifier(text_[at_])) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string quoted_name() {
    std::string name;
    for (++at_; at_ < text_.size() && text_[at_] != '\''; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        unsigned byte = 0;
        const char* const digits = text_.data() + at_ + 2;
        const bool is_byte = text_[at_ + 1] == 'x' && at_ + 3 < text_.size() &&
                             std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
        if (is_byte) {
          name += static_cast<char>(byte);
          at_ += 3;
          continue;
        }
        ++at_;
      }
      name += text_[at_];
    }
    if (at_ == text_.size()) fail("a closing quote");
    if (name.empty()) fail("a name between the quotes");
    ++at_;
    return name;
  }
  bool at_end() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ == text_.size();
  }
  bool accept(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "'");
  }
  [[noreturn]] void fail(const std::string& expected) {
    throw GraphError("the size '" + std::string(text_) + "' cannot be read: expected " + expected +
                     " at character " + std::to_string(at_ + 1));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string to_string(Dim dim) {
  if (dim.is_number()) return std::to_string(dim.number());
  const DimExpr& expr = dim.expr();
  std::string text;
  const auto add = [&](std::int64_t coefficient, const std::string& factors) {
    const bool negative = coefficient < 0;
    const std::int64_t magnitude = negative ? -coefficient : coefficient;
    text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
    if (factors.empty()) {
      text += std::to_string(magnitude);
    } else {
      text += magnitude == 1 ? factors : std::to_string(magnitude) + "*" + factors;
    }
  };
  for (const DimTerm& term : expr.terms) {
    std::string factors;
    for (const DimAtom* atom : term.factors)
      factors += (factors.empty() ? "" : "*") + to_string(*atom);
    add(term.coefficient, factors);
  }
  if (expr.constant != 0) add(expr.constant, "");
  return text;
}

Dim parse_dim(std::string_view text) { return Parser(text).parse(); }

}  // namespace dyad
