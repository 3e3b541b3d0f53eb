#include "dyad/core/dim.h"

#include <algorithm>
#include <numeric>

#include "dyad/base/error.h"
#include "dyad/core/dim_expr.h"
#include "dyad/core/evaluator.h"

namespace dyad {
namespace {

using detail::floor_div;
using detail::floor_mod;
using detail::intern;
using detail::intern_atom;
using detail::polynomial;

/// The factors of `whole` without those of `part`; false when they are not all there.
bool divide_monomial(const DimTerm& whole, const DimTerm& part, std::vector<const DimAtom*>& left) {
  left = whole.factors;
  for (const DimAtom* factor : part.factors) {
    const auto it = std::find(left.begin(), left.end(), factor);
    if (it == left.end()) return false;
    left.erase(it);
  }
  return true;
}

struct Division {
  DimExpr quotient, remainder;
};

/// Splits off what every coefficient gives: the remainder's lie in [0, divisor).
Division divide(const DimExpr& a, std::int64_t divisor) {
  Division result;
  const auto split = [&](std::int64_t c, std::int64_t& rest) {
    rest = floor_mod(c, divisor);
    return floor_div(c, divisor);
  };
  result.quotient.constant = split(a.constant, result.remainder.constant);
  for (const DimTerm& term : a.terms) {
    std::int64_t rest = 0;
    if (const std::int64_t whole = split(term.coefficient, rest)) {
      result.quotient.terms.push_back({whole, term.factors});
    }
    if (rest != 0) result.remainder.terms.push_back({rest, term.factors});
  }
  return result;
}

/// Division by a polynomial with symbols: exact where it comes out, otherwise the terms that a
/// divisor of one term divides. The rest is the remainder.
Division divide(const DimExpr& a, const DimExpr& divisor) {
  const DimTerm& lead = divisor.terms[0];
  Division result;
  DimExpr rest = a;
  std::size_t skipped = 0;
  while (skipped < rest.terms.size()) {
    const DimTerm& term = rest.terms[skipped];
    DimExpr step;
    DimTerm part;
    if (term.coefficient % lead.coefficient != 0 || !divide_monomial(term, lead, part.factors)) {
      ++skipped;
      continue;
    }
    part.coefficient = term.coefficient / lead.coefficient;
    if (part.factors.empty()) {
      step.constant = part.coefficient;
    } else {
      step.terms.push_back(std::move(part));
    }
    rest = detail::add(rest, detail::multiply(step, divisor), -1);
    result.quotient = detail::add(result.quotient, step, 1);
  }
  const bool exact = rest.terms.empty() && rest.constant == 0;
  const bool one_term = divisor.terms.size() == 1 && divisor.constant == 0;
  if (!exact && !one_term) return {{}, a};
  result.remainder = std::move(rest);
  return result;
}

/// The largest number that divides all coefficients of the terms, and `start`.
std::int64_t common_number(const DimExpr& expr, std::int64_t start) {
  for (const DimTerm& term : expr.terms) start = std::gcd(start, term.coefficient);
  return start;
}

/// Takes out what every term of both has in common, which floor division and (as a factor) its
/// remainder allow; returns it.
DimExpr cancel(DimExpr& a, DimExpr& b) {
  DimExpr common;
  std::int64_t number = std::gcd(a.constant, b.constant);
  number = common_number(b, common_number(a, number));
  DimTerm shared{number, {}};
  if (a.constant == 0 && b.constant == 0 && !a.terms.empty()) {
    for (const DimAtom* factor : a.terms[0].factors) {
      DimTerm candidate = shared;
      candidate.factors.push_back(factor);
      std::vector<const DimAtom*> unused;
      const auto has = [&](const DimTerm& term) {
        return divide_monomial(term, candidate, unused);
      };
      if (std::all_of(a.terms.begin(), a.terms.end(), has) &&
          std::all_of(b.terms.begin(), b.terms.end(), has)) {
        shared = std::move(candidate);
      }
    }
  }
  for (DimExpr* expr : {&a, &b}) {
    DimExpr reduced;
    reduced.constant = expr->constant / number;
    for (const DimTerm& term : expr->terms) {
      DimTerm left{term.coefficient / number, {}};
      divide_monomial(term, shared, left.factors);
      if (left.factors.empty()) {
        reduced.constant += left.coefficient;
      } else {
        reduced.terms.push_back(std::move(left));
      }
    }
    *expr = std::move(reduced);
  }
  if (shared.factors.empty()) {
    common.constant = number;
  } else {
    common.terms.push_back(std::move(shared));
  }
  return common;
}

/// True when 0 <= a < b is known.
bool is_below(Dim a, Dim b) {
  const auto low = detail::lower_bound(a), gap = detail::lower_bound(b - a);
  return low && *low >= 0 && gap && *gap > 0;
}

void check_divisor(Dim a, Dim b, const char* op) {
  if (b.is_number() && b.number() == 0) {
    throw ShapeError(std::string(op) + "(" + to_string(a) + ", 0): a size is divided by 0",
                     Loc().user());
  }
}

/// floordiv or mod of a polynomial with symbols by a positive number.
Dim divide_by_number(const DimExpr& a, std::int64_t divisor, bool want_mod) {
  auto [quotient, rest] = divide(a, divisor);
  const Dim whole = want_mod ? Dim(0) : intern(std::move(quotient));
  const Dim remainder = intern(rest);
  if (is_below(remainder, divisor)) return want_mod ? remainder : whole;
  const std::int64_t common = common_number(rest, divisor);
  if (common > 1) {
    // The constant's part below the common factor never reaches the next multiple.
    const std::int64_t low = rest.constant % common;
    for (DimTerm& term : rest.terms) term.coefficient /= common;
    rest.constant /= common;
    const Dim reduced = intern(std::move(rest));
    const std::int64_t by = divisor / common;
    return want_mod ? Dim(common) * (reduced % Dim(by)) + Dim(low) : whole + reduced / Dim(by);
  }
  if (rest.terms.size() == 1 && rest.terms[0].coefficient == 1 &&
      rest.terms[0].factors.size() == 1) {
    const DimAtom& inner = *rest.terms[0].factors[0];
    if (!want_mod && inner.kind == DimAtom::Kind::floordiv && inner.b.is_number()) {
      return whole + (inner.a + inner.b * Dim(rest.constant)) / (inner.b * Dim(divisor));
    }
    if (want_mod && inner.kind == DimAtom::Kind::mod && inner.b.is_number() &&
        inner.b.number() % divisor == 0) {
      return (inner.a + Dim(rest.constant)) % Dim(divisor);
    }
  }
  return whole +
         intern_atom(want_mod ? DimAtom::Kind::mod : DimAtom::Kind::floordiv, remainder, divisor);
}

/// floordiv or mod by an expression with symbols.
Dim divide_by_expression(Dim a, Dim b, bool want_mod) {
  auto [quotient, rest] = divide(polynomial(a), b.expr());
  const Dim whole = want_mod ? Dim(0) : intern(std::move(quotient));
  Dim remainder = intern(rest);
  if (remainder.is_number() && remainder.number() == 0) return whole;
  if (is_below(remainder, b)) return want_mod ? remainder : whole;
  DimExpr divisor = b.expr();
  const Dim common = intern(cancel(rest, divisor));
  if (!common.same_as(1)) {
    const Dim numerator = intern(std::move(rest)), denominator = intern(std::move(divisor));
    return want_mod ? common * (numerator % denominator) : whole + numerator / denominator;
  }
  return whole + intern_atom(want_mod ? DimAtom::Kind::mod : DimAtom::Kind::floordiv, remainder, b);
}

void flatten(Dim dim, DimAtom::Kind kind, std::vector<Dim>& into) {
  const DimAtom* atom = dim.is_symbolic() ? dim.expr().atom() : nullptr;
  if (atom && atom->kind == kind) {
    flatten(atom->a, kind, into);
    flatten(atom->b, kind, into);
    return;
  }
  into.push_back(dim);
}

/// True when the extremum of a and b is known to be a.
bool covers(Dim a, Dim b, DimAtom::Kind kind) {
  const auto bound = detail::lower_bound(kind == DimAtom::Kind::max ? a - b : b - a);
  return bound && *bound >= 0;
}

Dim extremum(Dim a, Dim b, DimAtom::Kind kind) {
  std::vector<Dim> all, kept;
  flatten(a, kind, all);
  flatten(b, kind, all);
  for (const Dim candidate : all) {
    if (std::any_of(kept.begin(), kept.end(),
                    [&](Dim other) { return covers(other, candidate, kind); })) {
      continue;
    }
    std::erase_if(kept, [&](Dim other) { return covers(candidate, other, kind); });
    kept.push_back(candidate);
  }
  std::sort(kept.begin(), kept.end(), [](Dim x, Dim y) { return detail::compare(x, y) < 0; });
  return std::accumulate(kept.begin() + 1, kept.end(), kept[0],
                         [&](Dim x, Dim y) { return intern_atom(kind, x, y); });
}

}  // namespace

Dim::Dim(const char* name) : Dim(symbol(name)) {}
Dim::Dim(const std::string& name) : Dim(symbol(name)) {}

bool is_known(Dim size) { return size.is_number() || Evaluator::current().peek(size).is_number(); }

std::string size_text(Dim size) {
  return to_string(Evaluator::is_eager() ? size : Evaluator::current().peek(size));
}

std::int64_t Dim::symbol_value() const { return Evaluator::current().dim_value(*this, Loc()); }

std::int64_t Dim::value(Loc loc) const {
  return is_number() ? word_ : Evaluator::current().dim_value(*this, loc.user());
}

namespace detail {

Dim dim_add(Dim a, Dim b) { return intern(add(polynomial(a), polynomial(b), 1)); }
Dim dim_subtract(Dim a, Dim b) { return intern(add(polynomial(a), polynomial(b), -1)); }
Dim dim_multiply(Dim a, Dim b) {
  if (a.is_number() && b.is_number()) throw_dim_overflow();
  return intern(multiply(polynomial(a), polynomial(b)));
}

bool dim_equal(Dim a, Dim b) {
  const Dim difference = a - b;
  if (difference.is_number()) return difference.number() == 0;
  const auto low = lower_bound(difference), high = upper_bound(difference);
  if ((low && *low > 0) || (high && *high < 0)) return false;
  return Evaluator::current().dim_equal(a, b, Loc().user());
}

bool dim_less(Dim a, Dim b) {
  const Dim difference = b - a;
  if (const auto low = lower_bound(difference); low && *low > 0) return true;
  if (const auto high = upper_bound(difference); high && *high <= 0) return false;
  return Evaluator::current().dim_less(a, b, Loc().user());
}

}  // namespace detail

Dim operator/(Dim a, Dim b) {
  check_divisor(a, b, "floordiv");
  if (b.is_symbolic()) return divide_by_expression(a, b, false);
  if (a.is_number()) return floor_div(a.number(), b.number());
  if (b.number() < 0) return -a / Dim(-b.number());
  return divide_by_number(a.expr(), b.number(), false);
}

Dim operator%(Dim a, Dim b) {
  check_divisor(a, b, "mod");
  if (b.is_symbolic()) return divide_by_expression(a, b, true);
  if (a.is_number()) return floor_mod(a.number(), b.number());
  if (b.number() < 0) return -(-a % Dim(-b.number()));
  return divide_by_number(a.expr(), b.number(), true);
}

Dim max(Dim a, Dim b) {
  if (a.is_number() && b.is_number()) return std::max(a.number(), b.number());
  return extremum(a, b, DimAtom::Kind::max);
}

Dim min(Dim a, Dim b) {
  if (a.is_number() && b.is_number()) return std::min(a.number(), b.number());
  return extremum(a, b, DimAtom::Kind::min);
}

Dim ceil_div(Dim a, Dim b) { return (a + b - 1) / b; }

void SymbolMap::bind(Dim symbol, std::int64_t value) {
  const DimAtom* atom = symbol.is_symbolic() ? symbol.expr().atom() : nullptr;
  if (!atom || atom->kind != DimAtom::Kind::symbol) {
    throw ValueError("only a symbol can be bound to a value, not " + to_string(symbol));
  }
  if (value < 0) {
    throw ShapeError("the size " + to_string(symbol) + " = " + std::to_string(value) +
                     ": a size is at least 0");
  }
  for (auto& [known, old] : entries_) {
    if (known.same_as(symbol)) {
      old = value;
      return;
    }
  }
  entries_.emplace_back(symbol, value);
}

const std::int64_t* SymbolMap::find(Dim symbol) const noexcept {
  for (const auto& [known, value] : entries_) {
    if (known.same_as(symbol)) return &value;
  }
  return nullptr;
}

bool SymbolMap::operator==(const SymbolMap& other) const noexcept {
  return std::equal(entries_.begin(), entries_.end(), other.entries_.begin(), other.entries_.end(),
                    [](const auto& a, const auto& b) {
                      return a.first.same_as(b.first) && a.second == b.second;
                    });
}

std::int64_t evaluate(Dim dim, const SymbolMap& symbols) {
  // Numbers as Dims carry the check against overflow.
  return substitute(dim,
                    [&](Dim symbol) {
                      const std::int64_t* value = symbols.find(symbol);
                      if (!value) {
                        throw GraphError("the size " + to_string(symbol) +
                                         " has no value here; it is bound by a feed whose shape "
                                         "has it");
                      }
                      return Dim(*value);
                    })
      .number();
}

Dim substitute(Dim dim, const std::function<Dim(Dim)>& replace) {
  if (dim.is_number()) return dim;
  Dim sum = dim.expr().constant;
  for (const DimTerm& term : dim.expr().terms) {
    Dim product = term.coefficient;
    for (const DimAtom* atom : term.factors) {
      if (atom->kind == DimAtom::Kind::symbol) {
        product *= replace(atom->self);
        continue;
      }
      const Dim a = substitute(atom->a, replace), b = substitute(atom->b, replace);
      switch (atom->kind) {
        case DimAtom::Kind::floordiv:
          product *= a / b;
          break;
        case DimAtom::Kind::mod:
          product *= a % b;
          break;
        case DimAtom::Kind::max:
          product *= max(a, b);
          break;
        default:
          product *= min(a, b);
      }
    }
    sum += product;
  }
  return sum;
}

bool is_symbol(Dim size) {
  std::vector<Dim> used;
  collect_symbols(size, used);
  return used.size() == 1 && used[0].same_as(size);
}

void collect_symbols(Dim dim, std::vector<Dim>& into) {
  if (dim.is_number()) return;
  for (const DimTerm& term : dim.expr().terms) {
    for (const DimAtom* atom : term.factors) {
      if (atom->kind != DimAtom::Kind::symbol) {
        collect_symbols(atom->a, into);
        collect_symbols(atom->b, into);
      } else if (std::none_of(into.begin(), into.end(),
                              [&](Dim known) { return known.same_as(atom->self); })) {
        into.push_back(atom->self);
      }
    }
  }
}

bool as_linear(Dim dim, std::int64_t& coefficient, Dim& symbol, std::int64_t& constant) noexcept {
  if (dim.is_number()) return false;
  const DimExpr& expr = dim.expr();
  if (expr.terms.size() != 1 || expr.terms[0].factors.size() != 1 ||
      expr.terms[0].factors[0]->kind != DimAtom::Kind::symbol) {
    return false;
  }
  coefficient = expr.terms[0].coefficient;
  symbol = expr.terms[0].factors[0]->self;
  constant = expr.constant;
  return true;
}

}  // namespace dyad
