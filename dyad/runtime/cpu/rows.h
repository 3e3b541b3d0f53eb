#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "dyad/core/shape.h"

namespace dyad::runtime::cpu {

/// Walks the rows of a rectangular space in row-major order, keeping one element offset for each of
/// N operands.
template <std::size_t N>
class RowWalk {
 public:
  /// `sizes` are the axes outside the row; `strides[k]` those of operand k along them. Starts at
  /// row number `first`.
  RowWalk(std::span<const std::int64_t> sizes, std::array<Ints, N> strides, std::int64_t first)
      : sizes_(sizes), strides_(std::move(strides)), index_(sizes.size(), 0) {
    for (std::size_t axis = sizes.size(); axis-- > 0 && first > 0;) {
      index_[axis] = first % sizes[axis];
      first /= sizes[axis];
      for (std::size_t k = 0; k < N; ++k) offsets_[k] += index_[axis] * strides_[k][axis];
    }
  }

  [[nodiscard]] std::int64_t operator[](std::size_t operand) const noexcept {
    return offsets_[operand];
  }
  [[nodiscard]] std::span<const std::int64_t> index() const noexcept { return index_; }

  void next() noexcept {
    for (std::size_t axis = sizes_.size(); axis-- > 0;) {
      for (std::size_t k = 0; k < N; ++k) offsets_[k] += strides_[k][axis];
      if (++index_[axis] < sizes_[axis]) return;
      for (std::size_t k = 0; k < N; ++k) offsets_[k] -= sizes_[axis] * strides_[k][axis];
      index_[axis] = 0;
    }
  }

 private:
  std::span<const std::int64_t> sizes_;
  std::array<Ints, N> strides_;
  Ints index_;
  std::array<std::int64_t, N> offsets_{};
};

/// The product of sizes: 1 for none.
[[nodiscard]] inline std::int64_t product(std::span<const std::int64_t> sizes) noexcept {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

/// `values` without the entry at `axis`.
[[nodiscard]] inline Ints without(std::span<const std::int64_t> values, std::size_t axis) {
  Ints result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != axis) result.push_back(values[i]);
  }
  return result;
}

}  // namespace dyad::runtime::cpu
