#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dyad/base/loc.h"

namespace dyad {

class DimExpr;

/// A size: a number, or a symbolic expression over named sizes ("batch", 2*time + 1). One tagged
/// word, trivially copyable; a number costs what an int64 costs. Expressions are kept in canonical
/// form and shared, so equal expressions are the same word. Negative numbers are allowed (offsets,
/// the -1 of reshape).
class Dim {
 public:
  constexpr Dim() noexcept = default;
  /// A number; magnitudes from 2^62 on are a ShapeError.
  constexpr Dim(std::int64_t value)
      : word_(value < kMinNumber || value > -kMinNumber - 1 ? overflow() : value) {}
  constexpr Dim(int value) noexcept : word_(value) {}
  constexpr Dim(std::size_t value) : Dim(static_cast<std::int64_t>(value)) {}
  /// The symbol of that name: implicit, so that shapes read `{"batch", 784}`.
  Dim(const char* name);
  Dim(const std::string& name);
  static Dim symbol(std::string_view name);

  [[nodiscard]] constexpr bool is_number() const noexcept { return word_ >= kMinNumber; }
  [[nodiscard]] constexpr bool is_symbolic() const noexcept { return word_ < kMinNumber; }
  /// The number; for a symbolic Dim only defined through `value()`.
  [[nodiscard]] constexpr std::int64_t number() const noexcept { return word_; }
  /// The number, or what the current evaluator knows it to be: while recording that adds a guard;
  /// where no value exists it throws GraphError naming the symbol.
  [[nodiscard]] std::int64_t value(Loc loc = std::source_location::current()) const;

  /// The expression behind a symbolic Dim.
  [[nodiscard]] const DimExpr& expr() const noexcept;

  /// The same number or the same canonical expression (no guard: a statement about the text, not
  /// the value).
  [[nodiscard]] constexpr bool same_as(Dim other) const noexcept { return word_ == other.word_; }
  [[nodiscard]] constexpr std::int64_t word() const noexcept { return word_; }

  Dim& operator+=(Dim other) { return *this = *this + other; }
  Dim& operator*=(Dim other) { return *this = *this * other; }
  friend Dim operator+(Dim a, Dim b);
  friend Dim operator-(Dim a, Dim b);
  friend Dim operator*(Dim a, Dim b);
  /// Floor division and its remainder (signs as in Python); division by the number 0 is a
  /// ShapeError.
  friend Dim operator/(Dim a, Dim b);
  friend Dim operator%(Dim a, Dim b);

 private:
  friend class DimTable;
  static constexpr std::int64_t kMinNumber = -(std::int64_t{1} << 62);
  static std::int64_t overflow();
  std::int64_t word_ = 0;
};

[[nodiscard]] Dim max(Dim a, Dim b);
[[nodiscard]] Dim min(Dim a, Dim b);
/// ceil(a / b) for positive b.
[[nodiscard]] Dim ceil_div(Dim a, Dim b);

/// Comparisons decide: numbers at once; the same expression, or expressions that differ by a
/// number, at once too; otherwise through the current evaluator, which guards on the outcome, or
/// GraphError.
[[nodiscard]] bool operator==(Dim a, Dim b);
[[nodiscard]] bool operator<(Dim a, Dim b);
inline bool operator>(Dim a, Dim b) { return b < a; }
inline bool operator<=(Dim a, Dim b) { return !(b < a); }
inline bool operator>=(Dim a, Dim b) { return !(a < b); }

/// `784`, `batch`, `2*time + 1`, `floordiv(time, 2)`, `mod(a, b)`, `max(a, b)`, `min(a, b)`: read
/// back by parse_dim.
[[nodiscard]] std::string to_string(Dim dim);
/// Throws GraphError with the position of the first character that cannot be read.
[[nodiscard]] Dim parse_dim(std::string_view text);

/// Values of symbols for one run, small and ordered by first binding.
class SymbolMap {
 public:
  void bind(Dim symbol, std::int64_t value);
  [[nodiscard]] const std::int64_t* find(Dim symbol) const noexcept;
  [[nodiscard]] std::span<const std::pair<Dim, std::int64_t>> entries() const noexcept {
    return entries_;
  }
  [[nodiscard]] bool operator==(const SymbolMap& other) const noexcept;
  void clear() noexcept { entries_.clear(); }

 private:
  std::vector<std::pair<Dim, std::int64_t>> entries_;
};

/// The number that `dim` is under `symbols`; GraphError naming the first unbound symbol. Overflow
/// is a ShapeError.
[[nodiscard]] std::int64_t evaluate(Dim dim, const SymbolMap& symbols);
/// `dim` with each symbol replaced by what `replace` gives for it (itself to keep it).
[[nodiscard]] Dim substitute(Dim dim, const std::function<Dim(Dim)>& replace);
/// The symbols of `dim`, each once, in order of appearance.
void collect_symbols(Dim dim, std::vector<Dim>& into);
/// The coefficient, symbol and constant when dim = coefficient*symbol + constant; false otherwise.
/// For solving a placeholder's size for its symbol.
[[nodiscard]] bool as_linear(Dim dim, std::int64_t& coefficient, Dim& symbol,
                             std::int64_t& constant) noexcept;

}  // namespace dyad
