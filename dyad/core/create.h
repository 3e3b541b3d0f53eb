#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

// Tensors from host data. They are concrete at once, in every mode: inside a graph, or in a
// function that is being recorded, they are constants (the elements as they are at that moment).
// What is to vary from run to run is an argument or a placeholder.

namespace detail {

/// What `tensor({{1.f, 2.f}, {3.f, 4.f}})` is read as: a number or a list of such. Only ever an
/// argument: lists end with the full expression they are written in.
class Literal {
 public:
  template <Element T>
  Literal(T value) noexcept : dtype_(dtype_of<T>) {
    if constexpr (std::is_integral_v<T>) {
      integer_ = static_cast<std::int64_t>(value);
    } else if constexpr (requires { value.imag(); }) {
      floating_ = value.real();
      imaginary_ = value.imag();
    } else if constexpr (contains(kSmallInteger, dtype_of<T>)) {
      static_assert(contains(kNumber, dtype_of<T>),
                    "write small integers as numbers with a dtype: tensor({1, -2}, i4)");
    } else if constexpr (std::is_floating_point_v<T>) {
      floating_ = static_cast<double>(value);
    } else {
      floating_ = to_float(value);
    }
  }
  Literal(const char* text) noexcept : Literal(std::string_view(text)) {}
  Literal(const std::string& text) noexcept : Literal(std::string_view(text)) {}
  Literal(std::string_view text) noexcept : dtype_(DType::string), text_(text) {}
  Literal(std::initializer_list<Literal> items) noexcept : items_(items), is_list_(true) {}

  [[nodiscard]] bool is_list() const noexcept { return is_list_; }
  [[nodiscard]] std::span<const Literal> items() const noexcept {
    return {items_.begin(), items_.size()};
  }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] double floating() const noexcept { return floating_; }
  [[nodiscard]] std::string_view text() const noexcept { return text_; }
  [[nodiscard]] double imaginary() const noexcept { return imaginary_; }
  [[nodiscard]] std::int64_t integer() const noexcept { return integer_; }

 private:
  std::initializer_list<Literal> items_;
  bool is_list_ = false;
  DType dtype_ = DType::f32;
  union {
    double floating_;
    std::int64_t integer_ = 0;
  };
  double imaginary_ = 0;
  std::string_view text_;
};

Tensor tensor_of_literal(const Literal& literal, std::optional<DType> dtype, const Shape* shape,
                         Loc loc);
/// A tensor of `shape` (which may have one -1) and dtype to be filled with `count` elements;
/// ShapeError when the shape does not hold that many.
Tensor tensor_to_fill(DType dtype, Shape shape, std::size_t count, Loc loc);
/// Where such a tensor's elements go: the program's own constant, which no recording has to follow.
[[nodiscard]] void* elements_to_fill(const Tensor& tensor) noexcept;

}  // namespace detail

/// A scalar or, from nested lists, an array: `tensor(15.0f)`, `tensor({1, 2, 3})`,
/// `tensor({{1.f, 2.f}, {3.f, 4.f}})`. The dtype is that of the C++ type of the numbers (an int is
/// i32, a double f64), promoted when they differ; `{}` is an empty f32. ShapeError naming the
/// position when rows differ in length.
[[nodiscard]] inline Tensor tensor(const detail::Literal& values,
                                   Loc loc = std::source_location::current()) {
  return detail::tensor_of_literal(values, {}, nullptr, loc);
}
/// The same, converted to `dtype`: `tensor({0, 2, 1}, i64)`.
[[nodiscard]] inline Tensor tensor(const detail::Literal& values, DType dtype,
                                   Loc loc = std::source_location::current()) {
  return detail::tensor_of_literal(values, dtype, nullptr, loc);
}
/// A flat list as an array of `shape`, one of whose sizes may be -1 (what is left).
[[nodiscard]] inline Tensor tensor(std::initializer_list<detail::Literal> values,
                                   const Shape& shape, Loc loc = std::source_location::current()) {
  return detail::tensor_of_literal(values, {}, &shape, loc);
}

/// A copy of the elements of a range, as an array of `shape`, one of whose sizes may be -1;
/// ShapeError when the numbers of elements differ.
template <std::forward_iterator It>
  requires Element<std::iter_value_t<It>>
[[nodiscard]] Tensor tensor(It first, It last, const Shape& shape = {-1},
                            Loc loc = std::source_location::current()) {
  using T = std::iter_value_t<It>;
  const auto count = static_cast<std::size_t>(std::distance(first, last));
  Tensor made = detail::tensor_to_fill(dtype_of<T>, shape, count, loc);
  T* to = static_cast<T*>(detail::elements_to_fill(made));
  for (; first != last; ++first) *to++ = *first;
  return made;
}
/// The same of a whole range: a vector, a span, an array, a list.
template <class R>
  requires Element<std::iter_value_t<decltype(std::begin(std::declval<const R&>()))>>
[[nodiscard]] Tensor tensor(const R& values, const Shape& shape = {-1},
                            Loc loc = std::source_location::current()) {
  return tensor(std::begin(values), std::end(values), shape, loc);
}

/// A tensor over memory that somebody else owns, without a copy: writes go both ways. `deleter` is
/// called when the last tensor over it is gone; without one, the memory must outlive them all.
/// `strides` are in elements, row-major when left out. ValueError for a null or misaligned pointer.
[[nodiscard]] Tensor from_blob(void* data, const Shape& shape, DType dtype = f32,
                               std::function<void()> deleter = {},
                               std::optional<Strides> strides = {},
                               Loc loc = std::source_location::current());

/// A tensor whose elements are whatever was in memory, to be filled by the host through `data()`.
[[nodiscard]] Tensor empty(const Sizes& shape, DType dtype = f32,
                           Loc loc = std::source_location::current());
/// Ones on the diagonal of a matrix of `rows` by `columns` (as many as rows unless given).
[[nodiscard]] Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns = {},
                         DType dtype = f32, Loc loc = std::source_location::current());
/// `count` numbers from `first` to `last`, both included, evenly apart (computed in f64).
[[nodiscard]] Tensor linspace(double first, double last, std::int64_t count, DType dtype = f32,
                              Loc loc = std::source_location::current());

}  // namespace dyad
