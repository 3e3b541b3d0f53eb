#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace dyad {

/// A vector of trivially copyable elements that keeps the first N in itself.
template <class T, std::size_t N>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() noexcept = default;
  InlineVector(std::initializer_list<T> values) { assign(values.begin(), values.size()); }
  InlineVector(std::span<const T> values) { assign(values.data(), values.size()); }
  InlineVector(std::size_t count, T value) { resize(count, value); }
  /// Of integers, one: arguments that are lists of axes or counts are also given as a number.
  template <std::integral U>
    requires(std::is_same_v<T, std::int64_t> && !std::is_same_v<U, bool>)
  InlineVector(U value) noexcept : size_(1) {
    inline_[0] = static_cast<std::int64_t>(value);
  }
  template <std::input_iterator It>
  InlineVector(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  InlineVector(const InlineVector& other) { copy(other); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) copy(other);
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~InlineVector() = default;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] T* data() noexcept { return heap_ ? heap_.get() : inline_; }
  [[nodiscard]] const T* data() const noexcept { return heap_ ? heap_.get() : inline_; }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  T& front() noexcept { return data()[0]; }
  const T& front() const noexcept { return data()[0]; }
  T& back() noexcept { return data()[size_ - 1]; }
  const T& back() const noexcept { return data()[size_ - 1]; }

  void push_back(T value) {
    grow(size_ + 1);
    data()[size_++] = value;
  }
  void pop_back() noexcept { --size_; }
  void clear() noexcept { size_ = 0; }
  void resize(std::size_t count, T value = T()) {
    grow(count);
    if (count > size_) std::fill(data() + size_, data() + count, value);
    size_ = static_cast<std::uint32_t>(count);
  }
  void insert(std::size_t at, T value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(std::size_t at) noexcept {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }

  operator std::span<const T>() const noexcept { return {data(), size_}; }
  [[nodiscard]] bool operator==(const InlineVector& other) const {  // T's == may throw
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  void assign(const T* values, std::size_t count) {
    grow(count);
    std::copy(values, values + count, data());
    size_ = static_cast<std::uint32_t>(count);
  }
  void copy(const InlineVector& other) {
    if (heap_ || other.heap_) {
      assign(other.data(), other.size_);
    } else {
      size_ = other.size_;
      copy_inline(other);
    }
  }
  void take(InlineVector& other) noexcept {
    heap_ = std::move(other.heap_);
    capacity_ = std::exchange(other.capacity_, static_cast<std::uint32_t>(N));
    size_ = std::exchange(other.size_, 0);
    if (!heap_) copy_inline(other);
  }
  /// All of them, also those not in use: a copy of fixed size is a few instructions.
  void copy_inline(const InlineVector& other) noexcept {
    std::memcpy(inline_, other.inline_, sizeof inline_);
  }
  void grow(std::size_t count) {
    if (count <= capacity_) return;
    const auto capacity = static_cast<std::uint32_t>(std::max(count, std::size_t{capacity_} * 2));
    auto heap = std::make_unique<T[]>(capacity);
    std::copy(data(), data() + size_, heap.get());
    heap_ = std::move(heap);
    capacity_ = capacity;
  }

  std::unique_ptr<T[]> heap_;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = N;
  T inline_[N];
};

using Ints = InlineVector<std::int64_t, 6>;

}  // namespace dyad
