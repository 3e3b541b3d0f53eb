#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "dyad/data/batch_stream.h"
#include "dyad/data/dataset.h"

namespace dyad::data {

namespace detail {

template <class D>
auto batch_of(const D& dataset) {
  if constexpr (BatchDataset<D>) {
    return dataset.batch(std::span<const std::int64_t>());
  } else {
    return dataset.get(0);
  }
}

template <Dataset D>
inline constexpr std::size_t arity =
    std::tuple_size_v<decltype(batch_of(std::declval<const D&>()))>;

template <class Tuple>
std::vector<Tensor> to_vector(Tuple&& tuple) {
  return std::apply([](auto&&... x) { return std::vector<Tensor>{Tensor(std::move(x))...}; },
                    std::forward<Tuple>(tuple));
}

template <Dataset D>
BatchStream::Fetch make_fetch(D dataset) {
  return [dataset = std::make_shared<const D>(std::move(dataset))](
             std::span<const std::int64_t> indices) {
    if constexpr (BatchDataset<D>) {
      return to_vector(dataset->batch(indices));
    } else {
      std::array<std::vector<Tensor>, arity<D>> columns;
      for (const std::int64_t index : indices) {
        std::vector<Tensor> sample = to_vector(dataset->get(index));
        for (std::size_t i = 0; i < arity<D>; ++i) columns[i].push_back(std::move(sample[i]));
      }
      std::vector<Tensor> batch;
      for (const std::vector<Tensor>& column : columns) batch.push_back(stack_samples(column));
      return batch;
    }
  };
}

}  // namespace detail

/// Batches of a dataset, made ahead by worker threads: `for (auto [x, y] : loader)` is one epoch.
/// Order and contents depend on the data, the options and the position alone, not on the number of
/// workers: random numbers that a dataset draws (to crop or flip) come from a stream of each batch,
/// a function of `seed` and the position, and leave the default generator where it is. What a
/// worker throws is thrown where its batch would have come; who goes on gets the next batch. A loop
/// that is left early leaves its epoch: the next one begins a new epoch.
template <std::size_t N>
class DataLoader {
 public:
  using Batch = std::array<Tensor, N>;

  /// ValueError for options out of range.
  template <Dataset D>
    requires(detail::arity<D> == N)
  explicit DataLoader(const D& dataset, const LoaderOptions& options = {},
                      Loc loc = std::source_location::current())
      : stream_(static_cast<std::int64_t>(dataset.size()), detail::make_fetch(dataset), options,
                loc) {}

  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    const Batch& operator*() const noexcept { return batch_; }
    Iterator& operator++() {
      advance();
      return *this;
    }
    void operator++(int) { advance(); }
    bool operator==(std::default_sentinel_t) const noexcept { return stream_ == nullptr; }

   private:
    friend class DataLoader;
    explicit Iterator(BatchStream& stream) : stream_(&stream) { advance(); }
    void advance() {
      std::vector<Tensor> tensors;
      if (stream_->next(tensors)) {
        std::move(tensors.begin(), tensors.end(), batch_.begin());
      } else {
        stream_ = nullptr;
      }
    }
    BatchStream* stream_;
    Batch batch_;
  };

  /// Begins the next epoch, or goes on in the one that set_position named.
  [[nodiscard]] Iterator begin() {
    stream_.begin_epoch();
    return Iterator(stream_);
  }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// Batches of one epoch.
  [[nodiscard]] std::int64_t size() const noexcept { return stream_.batches(); }

  /// Where the loader is: inside the loop, after the batch of this turn. With it a loader of the
  /// same data and options goes on with the same batches.
  [[nodiscard]] const LoaderPosition& position() const noexcept { return stream_.position(); }
  /// ValueError when this loader has no such position.
  void set_position(const LoaderPosition& position, Loc loc = std::source_location::current()) {
    stream_.set_position(position, loc);
  }

 private:
  BatchStream stream_;
};

template <Dataset D>
DataLoader(D, const LoaderOptions& = {}, Loc = Loc()) -> DataLoader<detail::arity<D>>;

}  // namespace dyad::data
