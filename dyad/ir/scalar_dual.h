#pragma once

#include <array>
#include <concepts>
#include <type_traits>

#include "dyad/ir/scalar_math.h"

namespace dyad::scalar {

/// A number of the type that `x` is computed in.
[[nodiscard]] inline Scalar like(Scalar x, double number) {
  return x.is_literal() ? Scalar(number) : x.like(number);
}
/// `number` as a value of the type of `x`, when it is one without a type.
[[nodiscard]] inline Scalar typed_like(Scalar x, Scalar number) {
  return number.is_literal() && !x.is_literal() ? x.like(number) : number;
}

/// A value with its slope along one input: what a scalar expression written for any number type
/// gives its derivative by. T is Scalar, or a Dual for derivatives of higher order. A value that
/// does not depend on the input has no slope, so that nothing is computed for it. At kinks the
/// slope is that of the side that the expression takes; steps (floor, sign, comparisons) have slope
/// 0. Comparisons give a plain Scalar, as conditions have no slope.
template <class T>
class Dual {
 public:
  Dual(T value) : value_(value) {}
  template <class N>
    requires(std::is_arithmetic_v<N> || (std::same_as<N, Scalar> && !std::same_as<T, Scalar>))
  Dual(N value) : value_(value) {}
  Dual(T value, T slope) : value_(value), slope_(slope), varies_(true) {}

  [[nodiscard]] const T& value() const noexcept { return value_; }
  /// Only when it varies.
  [[nodiscard]] const T& slope() const noexcept { return slope_; }
  [[nodiscard]] bool varies() const noexcept { return varies_; }

  friend Dual operator+(const Dual& a, const Dual& b) {
    const T sum = a.value_ + b.value_;
    if (!a.varies_) return b.varies_ ? Dual(sum, b.slope_) : Dual(sum);
    return Dual(sum, b.varies_ ? a.slope_ + b.slope_ : a.slope_);
  }
  friend Dual operator-(const Dual& a) {
    return a.varies_ ? Dual(-a.value_, -a.slope_) : Dual(-a.value_);
  }
  friend Dual operator-(const Dual& a, const Dual& b) {
    const T difference = a.value_ - b.value_;
    if (!a.varies_) return b.varies_ ? Dual(difference, -b.slope_) : Dual(difference);
    return Dual(difference, b.varies_ ? a.slope_ - b.slope_ : a.slope_);
  }
  friend Dual operator*(const Dual& a, const Dual& b) {
    const T product = a.value_ * b.value_;
    if (!a.varies_) return b.varies_ ? Dual(product, a.value_ * b.slope_) : Dual(product);
    const T left = a.slope_ * b.value_;
    return Dual(product, b.varies_ ? left + a.value_ * b.slope_ : left);
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    const T quotient = a.value_ / b.value_;
    if (!b.varies_) return a.varies_ ? Dual(quotient, a.slope_ / b.value_) : Dual(quotient);
    const T fall = quotient * b.slope_;
    return Dual(quotient, (a.varies_ ? a.slope_ - fall : -fall) / b.value_);
  }
  friend auto operator==(const Dual& a, const Dual& b) { return a.value_ == b.value_; }
  friend auto operator!=(const Dual& a, const Dual& b) { return a.value_ != b.value_; }
  friend auto operator<(const Dual& a, const Dual& b) { return a.value_ < b.value_; }
  friend auto operator<=(const Dual& a, const Dual& b) { return a.value_ <= b.value_; }
  friend auto operator>(const Dual& a, const Dual& b) { return a.value_ > b.value_; }
  friend auto operator>=(const Dual& a, const Dual& b) { return a.value_ >= b.value_; }

  friend Dual select(const Scalar& condition, const Dual& a, const Dual& b) {
    const T value = select(condition, a.value_, b.value_);
    if (!a.varies_ && !b.varies_) return Dual(value);
    return Dual(value, select(condition, slope_or_zero(a), slope_or_zero(b)));
  }
  friend Dual fma(const Dual& a, const Dual& b, const Dual& c) {
    const Dual product = a * b;
    const T value = fma(a.value_, b.value_, c.value_);
    if (!product.varies_ && !c.varies_) return Dual(value);
    if (!c.varies_) return Dual(value, product.slope_);
    return Dual(value, product.varies_ ? product.slope_ + c.slope_ : c.slope_);
  }
  friend Dual min(const Dual& a, const Dual& b) { return select(a < b, a, b); }
  friend Dual max(const Dual& a, const Dual& b) { return select(a > b, a, b); }
  friend Dual minimum(const Dual& a, const Dual& b) { return select((a < b) | isnan(a), a, b); }
  friend Dual maximum(const Dual& a, const Dual& b) { return select((a > b) | isnan(a), a, b); }

  friend Dual abs(const Dual& x) {
    return chain(x, abs(x.value_), [&] { return sign(x.value_); });
  }
  friend Dual sqrt(const Dual& x) {
    const T root = sqrt(x.value_);
    return chain(x, root, [&] { return T(0.5) / root; });
  }
  friend Dual rsqrt(const Dual& x) {
    const T root = rsqrt(x.value_);
    return chain(x, root, [&] { return T(-0.5) * root / x.value_; });
  }
  friend Dual exp(const Dual& x) {
    const T y = exp(x.value_);
    return chain(x, y, [&] { return y; });
  }
  friend Dual exp2(const Dual& x) {
    const T y = exp2(x.value_);
    return chain(x, y, [&] { return y * T(0x1.62e42fefa39efp-1); });
  }
  friend Dual expm1(const Dual& x) {
    return chain(x, expm1(x.value_), [&] { return exp(x.value_); });
  }
  friend Dual log(const Dual& x) {
    return chain(x, log(x.value_), [&] { return T(1) / x.value_; });
  }
  friend Dual log2(const Dual& x) {
    return chain(x, log2(x.value_), [&] { return T(0x1.71547652b82fep0) / x.value_; });
  }
  friend Dual log10(const Dual& x) {
    return chain(x, log10(x.value_), [&] { return T(0x1.bcb7b1526e50ep-2) / x.value_; });
  }
  friend Dual log1p(const Dual& x) {
    return chain(x, log1p(x.value_), [&] { return T(1) / (x.value_ + T(1)); });
  }
  friend Dual tanh(const Dual& x) {
    const T y = tanh(x.value_);
    return chain(x, y, [&] { return T(1) - y * y; });
  }
  friend Dual sigmoid(const Dual& x) {
    const T y = sigmoid(x.value_);
    return chain(x, y, [&] { return y * (T(1) - y); });
  }
  friend Dual erf(const Dual& x) {
    return chain(x, erf(x.value_),
                 [&] { return T(0x1.20dd750429b6dp0) * exp(-(x.value_ * x.value_)); });
  }
  friend Dual sin(const Dual& x) {
    return chain(x, sin(x.value_), [&] { return cos(x.value_); });
  }
  friend Dual cos(const Dual& x) {
    return chain(x, cos(x.value_), [&] { return -sin(x.value_); });
  }
  friend Dual tan(const Dual& x) {
    const T y = tan(x.value_);
    return chain(x, y, [&] { return y * y + T(1); });
  }
  /// Where the exponent is 0 the slope along x is 0, also at x = 0; along the exponent it is 0
  /// where x is 0 and the exponent is not negative.
  friend Dual pow(const Dual& x, const Dual& exponent) {
    const Dual y = typed_like(x, exponent);
    const T power = pow(x.value_, y.value_);
    Dual result(power);
    if (x.varies_) {
      const T slope =
          select(y.value_ == T(0), like(x.value_, 0), y.value_ * pow(x.value_, y.value_ - T(1)));
      result = Dual(power, slope * x.slope_);
    }
    if (y.varies_) {
      const T slope =
          select((x.value_ == T(0)) & (y.value_ >= T(0)), like(x.value_, 0), power * log(x.value_));
      result = Dual(power, x.varies_ ? result.slope_ + slope * y.slope_ : slope * y.slope_);
    }
    return result;
  }
  friend Dual copysign(const Dual& x, const Dual& y) {
    const auto one = like(x.value_, 1);
    return select((copysign(one, x.value_) < 0) == (copysign(one, y.value_) < 0), x, -x);
  }
  friend Dual sign(const Dual& x) { return Dual(sign(x.value_)); }
  friend Dual floor(const Dual& x) { return Dual(floor(x.value_)); }
  friend Dual ceil(const Dual& x) { return Dual(ceil(x.value_)); }
  friend Dual trunc(const Dual& x) { return Dual(trunc(x.value_)); }
  friend Dual rint(const Dual& x) { return Dual(rint(x.value_)); }
  friend Dual round(const Dual& x) { return Dual(round(x.value_)); }
  friend auto isnan(const Dual& x) { return isnan(x.value_); }
  friend auto isinf(const Dual& x) { return isinf(x.value_); }
  friend auto isfinite(const Dual& x) { return isfinite(x.value_); }
  /// `number` as a value of the type of `x`, when it is one without a type.
  friend Dual typed_like(const Dual& x, const Dual& number) {
    Dual typed = number;
    typed.value_ = typed_like(x.value_, number.value_);
    return typed;
  }
  /// A number of the type that `x` is computed in.
  friend Dual like(const Dual& x, double number) { return Dual(like(x.value_, number)); }

 private:
  template <class Slope>
  static Dual chain(const Dual& x, const T& y, Slope&& slope) {
    return x.varies_ ? Dual(y, slope() * x.slope_) : Dual(y);
  }
  static T slope_or_zero(const Dual& x) { return x.varies_ ? x.slope_ : like(x.value_, 0); }

  T value_;
  T slope_{0.0};
  bool varies_ = false;
};

}  // namespace dyad::scalar
