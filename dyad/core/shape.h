#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "dyad/base/inline_vector.h"
#include "dyad/core/dim.h"

namespace dyad {

/// Distances between neighbours along each axis, in elements.
using Strides = InlineVector<std::int64_t, 6>;

/// The sizes of a tensor, outermost first; each may be a number or symbolic.
class Shape : public InlineVector<Dim, 6> {
 public:
  using InlineVector::InlineVector;
  Shape() = default;
  Shape(std::span<const std::int64_t> sizes) {
    for (const std::int64_t size : sizes) push_back(Dim(size));
  }

  [[nodiscard]] int rank() const noexcept { return static_cast<int>(size()); }
  /// True when every size is a number.
  [[nodiscard]] bool is_concrete() const noexcept {
    for (const Dim d : *this) {
      if (d.is_symbolic()) return false;
    }
    return true;
  }
  /// Number of elements: the product of the sizes (1 for a scalar, 0 when a size is 0); overflow of
  /// 2^62 is a ShapeError.
  [[nodiscard]] Dim numel() const;
  /// The sizes as numbers, in place; of a symbolic size its value(), as long as the function that
  /// asks is recorded. GraphError where one has no value.
  [[nodiscard]] std::span<const std::int64_t> numbers() const {
    static_assert(sizeof(Dim) == sizeof(std::int64_t));
    if (!is_concrete()) return values();
    return {reinterpret_cast<const std::int64_t*>(data()), size()};
  }
  [[nodiscard]] bool same_as(const Shape& other) const noexcept {
    if (size() != other.size()) return false;
    for (std::size_t i = 0; i < size(); ++i) {
      if (!(*this)[i].same_as(other[i])) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] std::span<const std::int64_t> values() const;
};

/// Sizes as an argument: a shape, a list or one number: `zeros({2, 3})`, `zeros(3)`.
class Sizes : public Shape {
 public:
  using Shape::Shape;
  Sizes() = default;
  Sizes(Shape shape) noexcept : Shape(std::move(shape)) {}
  Sizes(Dim one) { push_back(one); }
  template <std::integral T>
    requires(!std::is_same_v<T, bool>)
  Sizes(T one) : Sizes(Dim(one)) {}
};

/// `[3, batch, 4]`
[[nodiscard]] std::string to_string(const Shape& shape);
/// With a number for each size that is known, as messages tell shapes.
[[nodiscard]] std::string size_text(const Shape& shape);

/// The shape that a and b broadcast to (NumPy's rule), comparing sizes as Dim does; false when they
/// do not fit. With symbols, a size that is the number 1 broadcasts, and two different expressions
/// are compared by Dim's ==.
[[nodiscard]] bool broadcast(const Shape& a, const Shape& b, Shape& result);

/// Row-major strides of a concrete shape.
[[nodiscard]] Strides contiguous_strides(const Shape& shape);

/// `axis` counted from the end when negative; IndexError naming `op`, the axis and the rank when
/// out of range.
[[nodiscard]] int normalize_axis(std::int64_t axis, int rank, std::string_view op, Loc loc);

/// The number of an axis that may count from the end.
[[nodiscard]] constexpr int from_front(std::int64_t axis, int rank) noexcept {
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace dyad
