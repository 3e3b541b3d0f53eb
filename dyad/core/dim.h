#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/base/loc.h"

namespace dyad {

class DimExpr;
class Dim;

namespace detail {
[[nodiscard]] Dim dim_add(Dim a, Dim b);
[[nodiscard]] Dim dim_subtract(Dim a, Dim b);
[[nodiscard]] Dim dim_multiply(Dim a, Dim b);
[[nodiscard]] bool dim_equal(Dim a, Dim b);
[[nodiscard]] bool dim_less(Dim a, Dim b);
}  // namespace detail

/// A size: a number, or a symbolic expression over named sizes ("batch", 2*time + 1). One tagged
/// word, trivially copyable; a number costs what an int64 costs. Expressions are kept in canonical
/// form and shared, so equal expressions are the same word. Negative numbers are allowed (offsets,
/// the -1 of reshape); a symbol stands for a size and is therefore at least 0, which comparisons
/// use.
class Dim {
 public:
  constexpr Dim() noexcept = default;
  /// A number; magnitudes from 2^62 on are a ShapeError.
  template <std::integral T>
    requires(!std::is_same_v<T, bool>)
  constexpr Dim(T value) noexcept(sizeof(T) < sizeof(std::int64_t))
      : word_(std::cmp_less(value, kMinNumber) || std::cmp_greater(value, -kMinNumber - 1)
                  ? overflow()
                  : static_cast<std::int64_t>(value)) {}
  /// The symbol of that name: implicit, so that shapes read `{"batch", 784}`. ValueError when the
  /// name is empty.
  Dim(const char* name);
  Dim(const std::string& name);
  static Dim symbol(std::string_view name);

  [[nodiscard]] constexpr bool is_number() const noexcept { return word_ >= kMinNumber; }
  [[nodiscard]] constexpr bool is_symbolic() const noexcept { return word_ < kMinNumber; }
  /// The number; of a symbolic Dim its value().
  [[nodiscard]] constexpr std::int64_t number() const {
    return is_number() ? word_ : symbol_value();
  }
  /// The number, or what the current evaluator knows it to be: while recording that adds a guard;
  /// where no value exists it throws GraphError naming the symbol.
  [[nodiscard]] std::int64_t value(Loc loc = std::source_location::current()) const;

  /// The expression behind a symbolic Dim.
  [[nodiscard]] const DimExpr& expr() const noexcept;

  /// The same number or the same canonical expression (no guard: a statement about the text, not
  /// the value).
  [[nodiscard]] constexpr bool same_as(Dim other) const noexcept { return word_ == other.word_; }
  [[nodiscard]] constexpr std::int64_t word() const noexcept { return word_; }

  Dim operator-() const { return Dim(0) - *this; }
  Dim& operator+=(Dim other) { return *this = *this + other; }
  Dim& operator*=(Dim other) { return *this = *this * other; }
  friend Dim operator+(Dim a, Dim b) {
    return a.is_number() && b.is_number() ? Dim(a.word_ + b.word_) : detail::dim_add(a, b);
  }
  friend Dim operator-(Dim a, Dim b) {
    return a.is_number() && b.is_number() ? Dim(a.word_ - b.word_) : detail::dim_subtract(a, b);
  }
  friend Dim operator*(Dim a, Dim b) {
    std::int64_t product = 0;
    return a.is_number() && b.is_number() && !__builtin_mul_overflow(a.word_, b.word_, &product)
               ? Dim(product)
               : detail::dim_multiply(a, b);
  }
  /// Floor division and its remainder (signs as in Python); division by the number 0 is a
  /// ShapeError.
  friend Dim operator/(Dim a, Dim b);
  friend Dim operator%(Dim a, Dim b);

 private:
  friend class DimTable;
  static constexpr std::int64_t kMinNumber = -(std::int64_t{1} << 62);
  static std::int64_t overflow();
  [[nodiscard]] std::int64_t symbol_value() const;
  std::int64_t word_ = 0;
};

[[nodiscard]] Dim max(Dim a, Dim b);
[[nodiscard]] Dim min(Dim a, Dim b);
/// ceil(a / b) for positive b.
[[nodiscard]] Dim ceil_div(Dim a, Dim b);

/// Whether comparing `size` has an outcome (which a recording guards): not where a static graph
/// leaves it open, nor where only data tell it.
[[nodiscard]] bool is_known(Dim size);

/// Comparisons decide: numbers at once; expressions whose difference is known to have one sign
/// (it is a number, or its symbols can only make it larger) at once too; otherwise through the
/// current evaluator, which guards on the outcome, or GraphError.
[[nodiscard]] inline bool operator==(Dim a, Dim b) {
  return a.same_as(b) || (!(a.is_number() && b.is_number()) && detail::dim_equal(a, b));
}
[[nodiscard]] inline bool operator<(Dim a, Dim b) {
  return a.is_number() && b.is_number() ? a.number() < b.number() : detail::dim_less(a, b);
}
inline bool operator>(Dim a, Dim b) { return b < a; }
inline bool operator<=(Dim a, Dim b) { return !(b < a); }
inline bool operator>=(Dim a, Dim b) { return !(a < b); }

/// As the upper end of a range of sizes: none.
inline constexpr std::int64_t kAnySize = std::numeric_limits<std::int64_t>::max();

/// Whether it is the size of one name, not computed from some.
[[nodiscard]] bool is_symbol(Dim size);

/// `784`, `batch`, `2*time + 1`, `floordiv(time, 2)`, `mod(a, b)`, `max(a, b)`, `min(a, b)`: read
/// back by parse_dim. A name that is no identifier is written in single quotes, with `\'`, `\\` and
/// `\x1b` for control characters and bytes that are no UTF-8.
[[nodiscard]] std::string to_string(Dim dim);
/// As messages tell a size: its number, where it is known.
[[nodiscard]] std::string size_text(Dim size);
/// Throws GraphError with the position of the first character that cannot be read.
[[nodiscard]] Dim parse_dim(std::string_view text);

/// Values of symbols for one run, small and ordered by first binding.
class SymbolMap {
 public:
  /// Binds (again) `symbol`; a negative value is a ShapeError, anything but a symbol a ValueError.
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
