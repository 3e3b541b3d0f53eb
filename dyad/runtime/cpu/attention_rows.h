#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/op_kernel.h"

namespace dyad::runtime::cpu {

/// A tensor [b, h, l, width] whose rows, each without gaps, are read where they lie; one that has
/// none is copied.
class AttentionRows {
 public:
  explicit AttentionRows(const Tensor& tensor);

  [[nodiscard]] const Tensor& tensor() const noexcept { return tensor_; }
  [[nodiscard]] DType dtype() const noexcept { return tensor_.impl()->dtype; }
  [[nodiscard]] bool is_half() const noexcept { return element_ == 2; }
  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  /// Elements from one row to the next.
  [[nodiscard]] std::int64_t row() const noexcept { return row_; }
  [[nodiscard]] std::int64_t row_bytes() const noexcept { return row_ * element_; }
  /// From one row to the next in what is computed in: those of half precision, in f32, are dense.
  [[nodiscard]] std::int64_t computed_row() const noexcept { return is_half() ? width_ : row_; }
  /// Fetches row i of a head, if there is one, as no CPU does by itself of rows that lie apart.
  void fetch(std::int64_t b, std::int64_t h, std::int64_t i) const noexcept {
    constexpr std::int64_t kLine = 64;
    for (std::int64_t at_byte = 0; at_byte < width_ * element_ && i < length_; at_byte += kLine) {
      __builtin_prefetch(at(b, h, i) + at_byte);
    }
  }
  /// Where row i of a head begins.
  [[nodiscard]] std::byte* at(std::int64_t b, std::int64_t h, std::int64_t i) const noexcept {
    return tensor_.impl()->data + (b * batch_ + h * head_ + i * row_) * element_;
  }

 private:
  Tensor tensor_;
  std::int64_t batch_, head_, row_, length_, width_;
  std::int64_t element_;  ///< bytes
};

/// Rows of one head at a time in what a thread computes in: where they lie or, of half precision,
/// as f32 in memory of this object.
template <class T>
class HeadRows {
 public:
  explicit HeadRows(const AttentionRows& all) : all_(all) {}

  /// The first of `count` rows from number `first` on; good until it is asked for others.
  const T* at(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) {
    if (!all_.is_half()) return reinterpret_cast<const T*>(all_.at(b, h, first));
    if constexpr (std::is_same_v<T, float>) {
      const bool goes_on = b == b_ && h == h_ && first == first_;
      if (!goes_on) held_ = 0;
      b_ = b;
      h_ = h;
      first_ = first;
      const std::int64_t width = all_.width();
      if (wide_.size() < static_cast<std::size_t>(count * width)) {
        wide_.resize(static_cast<std::size_t>(count * width));
      }
      constexpr std::int64_t kAhead = 8;
      for (; held_ < count; ++held_) {
        all_.fetch(b, h, first + held_ + kAhead);
        widen(all_.dtype(), all_.at(b, h, first + held_), wide_.data() + held_ * width, width);
      }
      return wide_.data();
    }
    return nullptr;
  }
  [[nodiscard]] std::int64_t row() const noexcept { return all_.computed_row(); }
  [[nodiscard]] std::int64_t width() const noexcept { return all_.width(); }

 private:
  const AttentionRows& all_;
  std::vector<float> wide_;
  std::int64_t b_ = -1, h_ = -1, first_ = -1, held_ = 0;
};

/// Rows of results, which lie as those of an AttentionRows: computed there or, of half precision,
/// in memory of this object, and rounded at the end.
template <class T>
class HeadResults {
 public:
  explicit HeadResults(const AttentionRows& all) : all_(all) {}

  /// Room for `count` rows from number `first` on; of half precision what was there before is gone.
  T* begin(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t count) {
    b_ = b;
    h_ = h;
    first_ = first;
    count_ = count;
    if (all_.is_half()) {
      wide_.resize(static_cast<std::size_t>(count * all_.width()));
      begin_ = wide_.data();
    } else {
      begin_ = reinterpret_cast<T*>(all_.at(b, h, first));
    }
    return begin_;
  }
  /// That room.
  T* data() noexcept { return begin_; }
  [[nodiscard]] std::int64_t row() const noexcept { return all_.computed_row(); }
  void finish() const {
    if (!all_.is_half()) return;
    if constexpr (std::is_same_v<T, float>) {
      for (std::int64_t i = 0; i < count_; ++i) {
        narrow(all_.dtype(), wide_.data() + i * all_.width(), all_.at(b_, h_, first_ + i),
               all_.width());
      }
    }
  }

 private:
  const AttentionRows& all_;
  std::vector<T> wide_;
  T* begin_ = nullptr;
  std::int64_t b_ = 0, h_ = 0, first_ = 0, count_ = 0;
};

}  // namespace dyad::runtime::cpu
