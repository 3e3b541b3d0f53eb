#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "dyad/core/shape.h"

namespace dyad {

/// Rows and columns: one number for both, or two.
struct Pair {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  constexpr Pair(std::int64_t both) : rows(both), columns(both) {}
  constexpr Pair(std::int64_t rows, std::int64_t columns) : rows(rows), columns(columns) {}
};

/// One number for all spatial axes of an image, or one for each: `2`, `{2, 1}`.
class PerAxis {
 public:
  template <std::integral T>
  PerAxis(T all) : values_{static_cast<std::int64_t>(all)} {}
  PerAxis(std::initializer_list<std::int64_t> values) : values_(values) {}
  PerAxis(const Ints& values) : values_(values) {}
  PerAxis(Pair pair) : values_{pair.rows, pair.columns} {}

  /// The numbers for so many axes: one is taken for all. A list of another length is given as it
  /// is.
  [[nodiscard]] Ints over(std::size_t axes) const {
    return values_.size() == 1 ? Ints(axes, values_[0]) : values_;
  }

 private:
  Ints values_;
};

/// What is added around an image: one number for all sides, one for both sides of each axis
/// (`{1, 2}`), or, twice as long, first those before and then those after each axis, as ONNX has
/// them (`{0, 0, 1, 1}`); or by name: "valid" (nothing) and "same" or "same_upper" (as much as lets
/// a stride of s give ceil(size / s) outputs; an odd one goes after) or "same_lower" (before).
class Padding {
 public:
  template <std::integral T>
  Padding(T all) : values_{static_cast<std::int64_t>(all)} {}
  Padding(std::initializer_list<std::int64_t> values) : values_(values) {}
  Padding(const Ints& values) : values_(values) {}
  Padding(Pair pair) : values_{pair.rows, pair.columns} {}
  Padding(const char* name) : name_(name) {}
  Padding(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const Ints& values() const noexcept { return values_; }

 private:
  Ints values_ = {0};
  std::string name_;
};

}  // namespace dyad
