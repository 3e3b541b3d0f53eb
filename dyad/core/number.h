#pragma once

#include <cstdint>
#include <type_traits>

#include "dyad/core/dtype.h"

namespace dyad {

/// A host number as an argument, with all the digits of the type that it was written in.
class Number {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr Number(T value) noexcept
      : floating_(static_cast<double>(value)),
        integer_(std::is_integral_v<T> ? static_cast<std::int64_t>(value) : 0),
        dtype_(std::is_same_v<T, bool>         ? DType::boolean
               : !std::is_integral_v<T>        ? DType::f64
               : floating_ > 0 && integer_ < 0 ? DType::u64
                                               : DType::i64) {}

  /// The number, rounded when it is a large integer.
  [[nodiscard]] constexpr double floating() const noexcept { return floating_; }
  /// The bits of an integer or bool, 0 of a floating number.
  [[nodiscard]] constexpr std::int64_t integer() const noexcept { return integer_; }
  /// f64, bool, i64, or u64 of what is beyond i64.
  [[nodiscard]] constexpr DType dtype() const noexcept { return dtype_; }
  /// Whether it is a number of `dtype`, i64 or u64, that f64 rounds.
  [[nodiscard]] constexpr bool only_in(DType dtype) const noexcept {
    if (dtype_ == DType::i64 && (dtype == DType::i64 || (dtype == DType::u64 && integer_ > 0))) {
      return floating_ == kTwoTo64 / 2 || static_cast<std::int64_t>(floating_) != integer_;
    }
    return dtype_ == DType::u64 && dtype == DType::u64 &&
           (floating_ == kTwoTo64 ||
            static_cast<std::uint64_t>(floating_) != static_cast<std::uint64_t>(integer_));
  }

 private:
  static constexpr double kTwoTo64 = 18446744073709551616.0;
  double floating_;
  std::int64_t integer_;
  DType dtype_;
};

}  // namespace dyad
