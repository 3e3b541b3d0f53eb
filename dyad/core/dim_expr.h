#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dyad/core/dim.h"

namespace dyad {

/// What polynomials over sizes are built from: a symbol, or an integer function of two Dims that no
/// polynomial expresses. Immortal and unique: equal atoms have one address.
struct DimAtom {
  enum class Kind : std::uint8_t { symbol, floordiv, mod, max, min };
  Kind kind;
  std::string name;        ///< symbol
  Dim a, b;                ///< the other kinds
  Dim self = {};           ///< this atom as a Dim
  std::size_t length = 1;  ///< symbols and numbers in it when written out
  /// Bounds that hold for every value of the symbols, where they are known.
  std::optional<std::int64_t> lower = {}, upper = {};
};

/// coefficient * product of factors; the factors are sorted, one entry for each power.
struct DimTerm {
  std::int64_t coefficient;
  std::vector<const DimAtom*> factors;
};

/// The canonical form of a symbolic Dim: constant + terms, sorted by falling degree and then by
/// name, so that the text of an expression does not depend on how it came about. Immortal and
/// unique. Library code only.
class DimExpr {
 public:
  std::vector<DimTerm> terms;
  std::int64_t constant = 0;

  /// The only atom when the expression is one atom and nothing else.
  [[nodiscard]] const DimAtom* atom() const noexcept {
    return constant == 0 && terms.size() == 1 && terms[0].coefficient == 1 &&
                   terms[0].factors.size() == 1
               ? terms[0].factors[0]
               : nullptr;
  }
};

namespace detail {

/// An order of atoms by structure: negative, 0 (the same atom), positive.
[[nodiscard]] int compare(const DimAtom& a, const DimAtom& b) noexcept;
/// The same of Dims; numbers come last.
[[nodiscard]] int compare(Dim a, Dim b) noexcept;

/// `dim` as a polynomial (a number is one without terms).
[[nodiscard]] DimExpr polynomial(Dim dim);
/// The Dim of a polynomial in canonical form.
[[nodiscard]] Dim intern(DimExpr polynomial);
/// The Dim of a function of two Dims that has been simplified as far as it goes.
[[nodiscard]] Dim intern_atom(DimAtom::Kind kind, Dim a, Dim b);

/// Canonical sum of a and factor * b, and product; ShapeError on overflow, or when there would be
/// more to write than anybody computes with (the parts of an expression are shared: a few steps
/// make one that has 2^60 of them when written out).
[[nodiscard]] DimExpr add(const DimExpr& a, const DimExpr& b, std::int64_t factor);
[[nodiscard]] DimExpr multiply(const DimExpr& a, const DimExpr& b);

/// Bounds that hold for every value of the symbols, where they are known.
[[nodiscard]] std::optional<std::int64_t> lower_bound(Dim dim);
[[nodiscard]] std::optional<std::int64_t> upper_bound(Dim dim);

/// What is known of a size.
struct Bounds {
  std::optional<std::int64_t> lower = {}, upper = {};
};
/// Bounds that hold where those of `known` do, which tells of any atom what is known of it beyond
/// its own bounds.
[[nodiscard]] Bounds bounds_where(Dim dim, const std::function<Bounds(const DimAtom&)>& known);

/// Floor division and its remainder, signs as in Python; b is not 0.
[[nodiscard]] constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
[[nodiscard]] constexpr std::int64_t floor_mod(std::int64_t a, std::int64_t b) noexcept {
  return a - b * floor_div(a, b);
}

/// Throws ShapeError: a size of 2^62 or more.
[[noreturn]] void throw_dim_overflow();

}  // namespace detail
}  // namespace dyad
