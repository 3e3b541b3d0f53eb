#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad::data {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;  ///< another order in each epoch, a function of seed and epoch alone
  std::uint64_t seed = 0;
  bool drop_last = false;  ///< leave out a last batch that is not full
  int workers = 1;         ///< threads that make batches ahead; 0: made when asked for
  int prefetch = 2;        ///< batches made ahead by each worker
};

/// Where a loader is: everything that later batches depend on beside the data.
struct LoaderPosition {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t batch = 0;  ///< the next one of the epoch

  [[nodiscard]] bool operator==(const LoaderPosition&) const noexcept = default;
};

/// What drives a DataLoader: orders the samples, has batches made by worker threads and hands them
/// out in order, the same whatever the number of workers. Used from one thread.
class BatchStream {
 public:
  /// Makes the batch of these samples; called from several threads at once. `default_generator()`
  /// is one of the batch, a function of seed, epoch and the number of the batch alone.
  using Fetch = std::function<std::vector<Tensor>(std::span<const std::int64_t>)>;

  /// ValueError for options out of range.
  BatchStream(std::int64_t samples, Fetch fetch, const LoaderOptions& options, Loc loc);
  ~BatchStream();
  BatchStream(BatchStream&&) noexcept;
  BatchStream& operator=(BatchStream&&) noexcept;

  /// Batches of one epoch.
  [[nodiscard]] std::int64_t batches() const noexcept;
  /// Begins an epoch: the next one, or the rest of the one that set_position named.
  void begin_epoch();
  /// The next batch; false at the end of the epoch. What a worker threw for that batch is thrown
  /// here; the next call goes on with the batch after it.
  bool next(std::vector<Tensor>& batch);

  [[nodiscard]] const LoaderPosition& position() const noexcept { return position_; }
  /// The next begin_epoch goes on from here. ValueError when there is no such batch.
  void set_position(const LoaderPosition& position, Loc loc);

 private:
  class Workers;

  std::int64_t samples_;
  std::shared_ptr<const Fetch> fetch_;
  LoaderOptions options_;
  LoaderPosition position_;
  bool fresh_ = true;  ///< the epoch in position_ is not begun yet, or is to be gone on with
  std::shared_ptr<const std::vector<std::int64_t>> order_;
  std::unique_ptr<Workers> workers_;
};

/// 0, 1, ... samples - 1 in the order of that epoch: the same on every machine.
[[nodiscard]] std::vector<std::int64_t> epoch_order(std::int64_t samples, bool shuffle,
                                                    std::uint64_t seed, std::int64_t epoch);

}  // namespace dyad::data
