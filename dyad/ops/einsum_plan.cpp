#include "dyad/ops/einsum_plan.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <map>

namespace dyad::ops {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

/// The text of one term: its letters, and where `...` stands among them.
struct Term {
  std::vector<char> letters;
  int dots = -1;
};

Term read_term(std::string_view text, std::string& error) {
  Term term;
  for (std::size_t i = 0; i < text.size() && error.empty(); ++i) {
    if (is_letter(text[i])) {
      term.letters.push_back(text[i]);
    } else if (text.substr(i, 3) == "...") {
      if (term.dots >= 0) error = "the term " + quoted(text) + " has ... twice";
      term.dots = static_cast<int>(term.letters.size());
      i += 2;
    } else {
      error = "the term " + quoted(text) + " has " + quoted(text.substr(i, 1)) +
              ", where only letters and ... may stand";
    }
  }
  return term;
}

/// The subscripts of a term for which `...` stands for `dots` axes.
Subscripts subscripts_of(const Term& term, int dots) {
  Subscripts list(term.letters.begin(), term.letters.end());
  if (term.dots >= 0) {
    Subscripts axes;
    for (int i = dots; i-- > 0;) axes.push_back(-1 - i);
    list.insert(list.begin() + term.dots, axes.begin(), axes.end());
  }
  return list;
}

std::vector<std::string_view> split_terms(std::string_view text) {
  std::vector<std::string_view> terms;
  for (;;) {
    const std::size_t comma = text.find(',');
    terms.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return terms;
    text.remove_prefix(comma + 1);
  }
}

std::string without_blanks(std::string_view equation) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text),
               [](char c) { return c != ' ' && c != '\t'; });
  return text;
}

Term implicit_result(const std::vector<Term>& operands) {
  std::map<char, int> count;
  for (const Term& term : operands) {
    for (const char letter : term.letters) ++count[letter];
  }
  Term result;
  result.dots = 0;
  for (const auto& [letter, times] : count) {
    if (times == 1) result.letters.push_back(letter);
  }
  return result;
}

std::string check_result(std::string_view text, const Term& result, bool operands_have_dots,
                         const std::vector<Term>& operands) {
  for (std::size_t i = 0; i < result.letters.size(); ++i) {
    const char letter = result.letters[i];
    const auto has = [&](const Term& t) {
      return std::find(t.letters.begin(), t.letters.end(), letter) != t.letters.end();
    };
    if (std::none_of(operands.begin(), operands.end(), has)) {
      return "the result " + quoted(text) + " names " + quoted(std::string(1, letter)) +
             ", which no operand has";
    }
    if (std::count(result.letters.begin(), result.letters.end(), letter) > 1) {
      return "the result " + quoted(text) + " names " + quoted(std::string(1, letter)) + " twice";
    }
  }
  if (result.dots >= 0 && !operands_have_dots) {
    return "the result " + quoted(text) + " has ..., which no operand has";
  }
  return {};
}

// --- order ---------------------------------------------------------------------------------------

template <class Size>
Size volume(std::uint64_t bits, const std::vector<Size>& sizes) {
  Size total = 1;
  for (; bits != 0; bits &= bits - 1) {
    total *= sizes[static_cast<std::size_t>(std::countr_zero(bits))];
  }
  return total;
}

/// The subscripts of what a set of operands gives: those that the others or the result need.
class Contents {
 public:
  Contents(const std::vector<std::uint64_t>& operands, std::uint64_t result)
      : operands_(operands), result_(result) {}
  [[nodiscard]] std::uint64_t of(std::uint32_t set) const {
    std::uint64_t inside = 0, outside = result_;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      (set >> i & 1 ? inside : outside) |= operands_[i];
    }
    return inside & outside;
  }

 private:
  const std::vector<std::uint64_t>& operands_;
  std::uint64_t result_;
};

/// The best split of every set of operands, from the small sets to the whole.
template <class Size>
ContractionOrder best_order(const std::vector<std::uint64_t>& operands, std::uint64_t result,
                            const std::vector<Size>& sizes) {
  const auto n = static_cast<std::uint32_t>(operands.size());
  const std::uint32_t all = (std::uint32_t{1} << n) - 1;
  const Contents contents(operands, result);
  std::vector<std::uint64_t> bits(all + 1);
  std::vector<Size> cost(all + 1, Size(0));
  std::vector<std::uint32_t> split(all + 1, 0);
  for (std::uint32_t set = 1; set <= all; ++set) {
    const bool single = std::has_single_bit(set);
    bits[set] =
        single ? operands[static_cast<std::size_t>(std::countr_zero(set))] : contents.of(set);
    if (single) continue;
    for (std::uint32_t part = (set - 1) & set; part != 0; part = (part - 1) & set) {
      const std::uint32_t rest = set ^ part;
      if (part < rest) continue;  // each split once
      const Size here = cost[part] + cost[rest] + volume(bits[part] | bits[rest], sizes);
      if (split[set] == 0 || here < cost[set]) {
        cost[set] = here;
        split[set] = rest;
      }
    }
  }
  // Sets in the order in which they are made become positions in the list.
  ContractionOrder order;
  std::vector<std::uint32_t> list;
  for (std::uint32_t i = 0; i < n; ++i) list.push_back(std::uint32_t{1} << i);
  const auto make = [&](const auto& self, std::uint32_t set) -> void {
    if (std::has_single_bit(set)) return;
    const std::uint32_t a = split[set], b = set ^ split[set];
    self(self, a);
    self(self, b);
    auto first = std::find(list.begin(), list.end(), a) - list.begin();
    auto second = std::find(list.begin(), list.end(), b) - list.begin();
    if (first > second) std::swap(first, second);
    order.emplace_back(static_cast<int>(first), static_cast<int>(second));
    list.erase(list.begin() + second);
    list.erase(list.begin() + first);
    list.push_back(set);
  };
  make(make, all);
  return order;
}

/// Takes the pair whose result is smallest against the two that it replaces, again and again.
ContractionOrder greedy_order(std::vector<std::uint64_t> list, std::uint64_t result,
                              const std::vector<double>& sizes) {
  ContractionOrder order;
  while (list.size() > 1) {
    const auto product_of = [&](std::size_t a, std::size_t b) {
      std::uint64_t outside = result;
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (i != a && i != b) outside |= list[i];
      }
      return (list[a] | list[b]) & outside;
    };
    std::size_t first = 0, second = 1;
    bool best_shares = false;
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t a = 0; a < list.size(); ++a) {
      for (std::size_t b = a + 1; b < list.size(); ++b) {
        // Outer products wait until nothing else is left.
        const bool shares = (list[a] & list[b]) != 0;
        if (best_shares && !shares) continue;
        const double gain =
            volume(product_of(a, b), sizes) - volume(list[a], sizes) - volume(list[b], sizes);
        if (gain < best || (shares && !best_shares)) {
          best = gain;
          best_shares = shares;
          first = a;
          second = b;
        }
      }
    }
    const std::uint64_t made = product_of(first, second);
    order.emplace_back(static_cast<int>(first), static_cast<int>(second));
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(second));
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(first));
    list.push_back(made);
  }
  return order;
}

}  // namespace

std::string subscript_name(Subscript subscript) {
  if (subscript >= 0) return quoted(std::string(1, static_cast<char>(subscript)));
  return "axis " + std::to_string(subscript) + " of ...";
}

EinsumTerms parse_einsum(std::string_view equation, const std::vector<int>& ranks,
                         std::string& error, bool& shape_error) {
  shape_error = false;
  const std::string text = without_blanks(equation);
  std::string_view left = text, right;
  const std::size_t arrow = left.find("->");
  if (arrow != std::string_view::npos) {
    right = left.substr(arrow + 2);
    left = left.substr(0, arrow);
  }
  const std::vector<std::string_view> texts = split_terms(left);
  if (texts.size() != ranks.size()) {
    error = "the equation has " + std::to_string(texts.size()) + " terms for " +
            std::to_string(ranks.size()) + (ranks.size() == 1 ? " operand" : " operands");
    return {};
  }
  std::vector<Term> terms;
  EinsumTerms read;
  int most_dots = 0;
  bool any_dots = false;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    terms.push_back(read_term(texts[i], error));
    if (!error.empty()) return {};
    const Term& term = terms.back();
    const int letters = static_cast<int>(term.letters.size());
    const int dots = term.dots >= 0 ? ranks[i] - letters : 0;
    if (dots < 0 || letters + dots != ranks[i]) {
      error = "the term " + quoted(texts[i]) + " names " + std::to_string(letters) +
              (letters == 1 ? " axis" : " axes") + ", but operand " + std::to_string(i) + " has " +
              std::to_string(ranks[i]);
      shape_error = true;
      return {};
    }
    any_dots |= term.dots >= 0;
    most_dots = std::max(most_dots, dots);
    read.operands.push_back(subscripts_of(term, dots));
  }
  Term result = implicit_result(terms);
  if (arrow != std::string_view::npos) {
    result = read_term(right, error);
    if (error.empty()) error = check_result(right, result, any_dots, terms);
    if (!error.empty()) return {};
  }
  read.result = subscripts_of(result, most_dots);
  return read;
}

std::vector<EllipsisAt> ellipses_of(std::string_view equation, const std::vector<int>& ranks) {
  const std::string text = without_blanks(equation);
  const std::string_view operands = std::string_view(text).substr(0, text.find("->"));
  std::vector<EllipsisAt> found;
  std::string error;
  for (const std::string_view term_text : split_terms(operands)) {
    const Term term = read_term(term_text, error);
    const int axes = ranks[found.size()] - static_cast<int>(term.letters.size());
    found.push_back(term.dots < 0 ? EllipsisAt{} : EllipsisAt{term.dots, axes});
  }
  return found;
}

ContractionOrder contraction_order_of_bits(std::vector<std::uint64_t> operands,
                                           std::uint64_t result, const std::vector<double>& sizes) {
  constexpr std::size_t kBest = 8;
  if (operands.size() < 2) return {};
  return operands.size() <= kBest ? best_order(operands, result, sizes)
                                  : greedy_order(std::move(operands), result, sizes);
}

ContractionOrder contraction_order_of_bits(const std::vector<std::uint64_t>& operands,
                                           std::uint64_t result, const std::vector<Dim>& sizes) {
  if (operands.size() < 2) return {};
  return best_order(operands, result, sizes);
}

}  // namespace dyad::ops
