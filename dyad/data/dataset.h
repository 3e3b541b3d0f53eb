#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::data {

/// A dataset that makes one sample at a time: `get(i)` gives a std::array (or tuple) of tensors.
template <class D>
concept SampleDataset = requires(const D& dataset, std::int64_t i) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
  std::tuple_size<decltype(dataset.get(i))>::value;
};

/// A dataset that makes a whole batch: `batch(indices)` gives a std::array (or tuple) of tensors.
/// For samples that cannot simply be stacked, such as sequences to pad.
template <class D>
concept BatchDataset = requires(const D& dataset, std::span<const std::int64_t> indices) {
  { dataset.size() } -> std::convertible_to<std::int64_t>;
  std::tuple_size<decltype(dataset.batch(indices))>::value;
};

/// What a DataLoader reads. Its members are called from several threads at once.
template <class D>
concept Dataset = SampleDataset<D> || BatchDataset<D>;

/// Samples of one shape and dtype side by side along a new first axis; ShapeError or DTypeError
/// naming the sample that differs.
[[nodiscard]] Tensor stack_samples(std::span<const Tensor> samples);

/// The rows of a concrete, contiguous tensor that `indices` name.
[[nodiscard]] Tensor take_rows(const Tensor& x, std::span<const std::int64_t> indices);

namespace detail {
/// `tensors` made fit for take_rows; ShapeError when their first sizes differ.
std::vector<Tensor> checked_columns(std::vector<Tensor> tensors, Loc loc);
}  // namespace detail

/// Samples that lie along the first axis of N tensors.
template <std::size_t N>
class TensorDataset {
 public:
  /// The tensors are shared, not copied.
  template <std::convertible_to<Tensor>... T>
    requires(sizeof...(T) == N)
  TensorDataset(T... tensors)
      : columns_(detail::checked_columns({Tensor(std::move(tensors))...}, Loc())) {}

  [[nodiscard]] std::int64_t size() const { return columns_[0].shape()[0].number(); }
  [[nodiscard]] std::array<Tensor, N> batch(std::span<const std::int64_t> indices) const {
    std::array<Tensor, N> rows;
    for (std::size_t i = 0; i < N; ++i) rows[i] = take_rows(columns_[i], indices);
    return rows;
  }

 private:
  std::vector<Tensor> columns_;
};

template <class... T>
TensorDataset(T...) -> TensorDataset<sizeof...(T)>;

}  // namespace dyad::data
