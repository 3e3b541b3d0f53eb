#include "dyad/core/dim_expr.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "dyad/base/error.h"

namespace dyad {
namespace {

/// Symbols and numbers in an expression that is written out.
constexpr std::size_t kMostLength = 4096;

[[noreturn]] void throw_too_long() {
  throw ShapeError("a size is an expression of more than " + std::to_string(kMostLength) +
                   " symbols and numbers; give some of the sizes that it follows from as numbers");
}

std::size_t length_of(Dim dim);
std::size_t length_of(const DimExpr& expr) {
  std::size_t length = 1;
  for (const DimTerm& term : expr.terms) {
    ++length;
    for (const DimAtom* atom : term.factors) length += atom->length;
  }
  return length;
}
std::size_t length_of(Dim dim) { return dim.is_number() ? 1 : length_of(dim.expr()); }

}  // namespace

namespace detail {
namespace {
std::optional<std::int64_t> bound_of_atom(const DimAtom& atom, bool lower);
}
}  // namespace detail

/// Owner of all expressions and atoms. A symbolic word is the address of the expression moved to
/// the bottom of the range of int64, below every number.
class DimTable {
 public:
  static DimTable& get() {
    static auto* table = new DimTable;  // immortal: Dims outlive static destructors
    return *table;
  }

  Dim expression(DimExpr expr) {
    if (length_of(expr) > kMostLength) throw_too_long();
    std::string key;
    append(key, expr.constant);
    for (const DimTerm& term : expr.terms) {
      append(key, term.coefficient);
      append(key, static_cast<std::int64_t>(term.factors.size()));
      for (const DimAtom* atom : term.factors) append(key, atom->self.word());
    }
    const std::lock_guard lock(mutex_);
    if (const auto it = expression_index_.find(key); it != expression_index_.end()) {
      return it->second;
    }
    const Dim dim = word_of(expressions_.emplace_back(std::move(expr)));
    expression_index_.emplace(std::move(key), dim);
    return dim;
  }

  Dim atom(DimAtom::Kind kind, std::string_view name, Dim a, Dim b) {
    std::string key;
    append(key, static_cast<std::int64_t>(kind));
    append(key, a.word());
    append(key, b.word());
    key += name;
    const std::size_t length = kind == DimAtom::Kind::symbol ? 1 : 1 + length_of(a) + length_of(b);
    if (length > kMostLength) throw_too_long();
    const std::lock_guard lock(mutex_);
    if (const auto it = atom_index_.find(key); it != atom_index_.end()) return it->second;
    DimAtom& made = atoms_.emplace_back(DimAtom{kind, std::string(name), a, b});
    made.length = length;
    made.lower = detail::bound_of_atom(made, true);
    made.upper = detail::bound_of_atom(made, false);
    DimExpr& expr = expressions_.emplace_back();
    expr.terms.push_back({1, {&made}});
    made.self = word_of(expr);
    atom_index_.emplace(std::move(key), made.self);
    return made.self;
  }

  static const DimExpr& at(Dim dim) noexcept {
    return *reinterpret_cast<const DimExpr*>(
        static_cast<std::uintptr_t>(dim.word_ - std::numeric_limits<std::int64_t>::min()));
  }

 private:
  static Dim word_of(const DimExpr& expr) {
    Dim dim;
    dim.word_ = std::numeric_limits<std::int64_t>::min() +
                static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(&expr));
    return dim;
  }
  static void append(std::string& key, std::int64_t word) {
    key.append(reinterpret_cast<const char*>(&word), sizeof word);
  }

  std::mutex mutex_;
  std::deque<DimExpr> expressions_;
  std::deque<DimAtom> atoms_;
  std::unordered_map<std::string, Dim> expression_index_, atom_index_;
};

const DimExpr& Dim::expr() const noexcept { return DimTable::at(*this); }

Dim Dim::symbol(std::string_view name) {
  if (name.empty()) throw ValueError("the name of a symbolic size is empty");
  return DimTable::get().atom(DimAtom::Kind::symbol, name, {}, {});
}

std::int64_t Dim::overflow() { detail::throw_dim_overflow(); }

namespace detail {
namespace {

int compare_numbers(std::int64_t a, std::int64_t b) noexcept { return a < b ? -1 : a > b; }

int compare_monomials(const DimTerm& a, const DimTerm& b) noexcept {
  if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size() ? -1 : 1;
  for (std::size_t i = 0; i < a.factors.size(); ++i) {
    if (const int order = compare(*a.factors[i], *b.factors[i])) return order;
  }
  return 0;
}

std::int64_t checked(std::int64_t a, std::int64_t b, std::int64_t add) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || __builtin_add_overflow(result, add, &result)) {
    throw_dim_overflow();
  }
  return result;
}

using Bound = std::optional<std::int64_t>;

/// The bound of a product of atoms, known only when none of them can be negative. `of_atom(atom,
/// lower)` gives those of atoms.
template <class OfAtom>
Bound bound_of(const DimTerm& term, bool lower, const OfAtom& of_atom) {
  std::int64_t product = 1;
  for (const DimAtom* atom : term.factors) {
    const Bound low = of_atom(*atom, true);
    if (!low || *low < 0) return term.factors.size() == 1 ? of_atom(*atom, lower) : std::nullopt;
    const Bound factor = lower ? low : of_atom(*atom, false);
    if (!factor || __builtin_mul_overflow(product, *factor, &product)) return std::nullopt;
  }
  return product;
}

template <class OfAtom>
Bound bound_of(Dim dim, bool lower, const OfAtom& of_atom) {
  if (dim.is_number()) return dim.number();
  const DimExpr& expr = dim.expr();
  std::int64_t sum = expr.constant;
  for (const DimTerm& term : expr.terms) {
    const Bound product = bound_of(term, term.coefficient > 0 ? lower : !lower, of_atom);
    std::int64_t scaled = 0;
    if (!product || __builtin_mul_overflow(*product, term.coefficient, &scaled) ||
        __builtin_add_overflow(sum, scaled, &sum)) {
      return std::nullopt;
    }
  }
  return sum;
}

template <class OfAtom>
Bound bound_of_atom(const DimAtom& atom, bool lower, const OfAtom& of_atom) {
  const Bound a = bound_of(atom.a, lower, of_atom), b = bound_of(atom.b, lower, of_atom);
  switch (atom.kind) {
    case DimAtom::Kind::symbol:
      return lower ? Bound(0) : std::nullopt;
    case DimAtom::Kind::floordiv: {
      if (atom.b.is_number()) {
        return a ? Bound(floor_div(*a, atom.b.number())) : std::nullopt;
      }
      const Bound divisor = bound_of(atom.b, true, of_atom);
      return lower && a && *a >= 0 && divisor && *divisor >= 0 ? Bound(0) : std::nullopt;
    }
    case DimAtom::Kind::mod: {
      const Bound divisor = bound_of(atom.b, true, of_atom);
      if (!divisor || *divisor < 0) return std::nullopt;
      if (lower) return 0;
      return b ? Bound(*b - 1) : std::nullopt;
    }
    case DimAtom::Kind::max:
      if (lower) return !a ? b : !b ? a : Bound(std::max(*a, *b));
      return a && b ? Bound(std::max(*a, *b)) : std::nullopt;
    case DimAtom::Kind::min:
      if (!lower) return !a ? b : !b ? a : Bound(std::min(*a, *b));
      return a && b ? Bound(std::min(*a, *b)) : std::nullopt;
  }
  return std::nullopt;
}

/// What an atom knows of itself.
Bound own_bound(const DimAtom& atom, bool lower) { return lower ? atom.lower : atom.upper; }

Bound bound_of_atom(const DimAtom& atom, bool lower) {
  return bound_of_atom(atom, lower, own_bound);
}

/// Bounds of atoms that take over what is known of others.
struct KnownBounds {
  const std::function<Bounds(const DimAtom&)>& known;

  Bound operator()(const DimAtom& atom, bool lower) const {
    const Bounds told = known(atom);
    const Bound one = lower ? told.lower : told.upper, other = bound_of_atom(atom, lower, *this);
    if (!one || !other) return one ? one : other;
    return lower ? std::max(*one, *other) : std::min(*one, *other);
  }
};

}  // namespace

void throw_dim_overflow() {
  throw ShapeError("a size of 2^62 or more: sizes and their products must stay below 2^62");
}

int compare(const DimAtom& a, const DimAtom& b) noexcept {
  if (&a == &b) return 0;
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.kind == DimAtom::Kind::symbol) return a.name.compare(b.name);
  const int order = compare(a.a, b.a);
  return order != 0 ? order : compare(a.b, b.b);
}

int compare(Dim a, Dim b) noexcept {
  if (a.same_as(b)) return 0;
  if (a.is_number() || b.is_number()) {
    if (a.is_number() && b.is_number()) return compare_numbers(a.number(), b.number());
    return a.is_number() ? 1 : -1;
  }
  const DimExpr &x = a.expr(), &y = b.expr();
  for (std::size_t i = 0; i < std::min(x.terms.size(), y.terms.size()); ++i) {
    if (const int order = compare_monomials(x.terms[i], y.terms[i])) return order;
    if (const int order = compare_numbers(x.terms[i].coefficient, y.terms[i].coefficient))
      return order;
  }
  if (x.terms.size() != y.terms.size()) return x.terms.size() > y.terms.size() ? -1 : 1;
  return compare_numbers(x.constant, y.constant);
}

DimExpr polynomial(Dim dim) {
  if (dim.is_symbolic()) return dim.expr();
  DimExpr number;
  number.constant = dim.number();
  return number;
}

Dim intern(DimExpr polynomial) {
  if (polynomial.terms.empty()) return Dim(polynomial.constant);
  if (const DimAtom* atom = polynomial.atom()) return atom->self;
  return DimTable::get().expression(std::move(polynomial));
}

Dim intern_atom(DimAtom::Kind kind, Dim a, Dim b) { return DimTable::get().atom(kind, "", a, b); }

DimExpr add(const DimExpr& a, const DimExpr& b, std::int64_t factor) {
  DimExpr sum;
  sum.constant = checked(b.constant, factor, a.constant);
  sum.terms.reserve(a.terms.size() + b.terms.size());
  std::size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    const int order = i == a.terms.size()   ? 1
                      : j == b.terms.size() ? -1
                                            : compare_monomials(a.terms[i], b.terms[j]);
    if (order < 0) {
      sum.terms.push_back(a.terms[i++]);
      continue;
    }
    const std::int64_t base = order == 0 ? a.terms[i++].coefficient : 0;
    const DimTerm& term = b.terms[j++];
    if (const std::int64_t c = checked(term.coefficient, factor, base)) {
      sum.terms.push_back({c, term.factors});
    }
  }
  return sum;
}

DimExpr multiply(const DimExpr& a, const DimExpr& b) {
  if (a.terms.size() * b.terms.size() > kMostLength) throw_too_long();
  DimExpr product = add({}, a, b.constant);
  for (const DimTerm& term : b.terms) {
    DimExpr part;
    for (const DimTerm& other : a.terms) {
      DimTerm& made = part.terms.emplace_back();
      made.coefficient = checked(term.coefficient, other.coefficient, 0);
      std::merge(term.factors.begin(), term.factors.end(), other.factors.begin(),
                 other.factors.end(), std::back_inserter(made.factors),
                 [](const DimAtom* x, const DimAtom* y) { return compare(*x, *y) < 0; });
    }
    if (a.constant != 0) {
      part.terms.push_back({checked(term.coefficient, a.constant, 0), term.factors});
    }
    product = add(product, part, 1);
  }
  return product;
}

std::optional<std::int64_t> lower_bound(Dim dim) { return bound_of(dim, true, own_bound); }
std::optional<std::int64_t> upper_bound(Dim dim) { return bound_of(dim, false, own_bound); }

Bounds bounds_where(Dim dim, const std::function<Bounds(const DimAtom&)>& known) {
  const KnownBounds of_atom{known};
  return {.lower = bound_of(dim, true, of_atom), .upper = bound_of(dim, false, of_atom)};
}

}  // namespace detail
}  // namespace dyad
