#include "dyad/data/batch_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

#include "dyad/base/error.h"
#include "dyad/core/generator_scope.h"

namespace dyad::data {
namespace {

/// The finalizer of splitmix64 (Steele, Lea and Flood, 2014): spreads nearby seeds apart.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Evenly in [0, bound): std::uniform_int_distribution differs between libraries, this does not
/// (Lemire, 2019).
std::uint64_t below(std::mt19937_64& generator, std::uint64_t bound) {
  for (;;) {
    const auto product = static_cast<unsigned __int128>(generator()) * bound;
    const auto low = static_cast<std::uint64_t>(product);
    if (low >= bound || low >= (-bound) % bound) return static_cast<std::uint64_t>(product >> 64);
  }
}

}  // namespace

std::vector<std::int64_t> epoch_order(std::int64_t samples, bool shuffle, std::uint64_t seed,
                                      std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (!shuffle) return order;
  std::mt19937_64 generator(mixed(mixed(seed) + static_cast<std::uint64_t>(epoch)));
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[below(generator, i)]);
  }
  return order;
}

/// The threads of one epoch. Batches first, first + 1, ... up to end are made in any order and
/// taken in that order; at most `ahead` wait to be taken.
class BatchStream::Workers {
 public:
  using Make = std::function<std::vector<Tensor>(std::int64_t batch)>;

  Workers(Make make, std::int64_t first, std::int64_t end, int threads, std::int64_t ahead)
      : make_(std::move(make)), next_(first), taken_(first), end_(end), ahead_(ahead) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      end_ = next_;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  std::vector<Tensor> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !slots_.empty() && slots_.front().ready; });
    Slot slot = std::move(slots_.front());
    slots_.pop_front();
    ++taken_;
    lock.unlock();
    changed_.notify_all();
    if (slot.error) std::rethrow_exception(slot.error);
    return std::move(slot.batch);
  }

 private:
  struct Slot {
    bool ready = false;
    std::vector<Tensor> batch;
    std::exception_ptr error;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return next_ >= end_ || next_ < taken_ + ahead_; });
      if (next_ >= end_) return;
      const std::int64_t batch = next_++;
      slots_.emplace_back();
      lock.unlock();
      Slot slot{.ready = true, .batch = {}, .error = {}};
      try {
        slot.batch = make_(batch);
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      slots_[static_cast<std::size_t>(batch - taken_)] = std::move(slot);
      changed_.notify_all();
    }
  }

  Make make_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t next_;   ///< the batch that a worker makes next
  std::int64_t taken_;  ///< the batch that take() gives next: slots_ begins with it
  std::int64_t end_;
  std::int64_t ahead_;
  std::deque<Slot> slots_;
  std::vector<std::thread> threads_;
};

BatchStream::BatchStream(std::int64_t samples, Fetch fetch, const LoaderOptions& options, Loc loc)
    : samples_(samples),
      fetch_(std::make_shared<const Fetch>(std::move(fetch))),
      options_(options) {
  const auto check = [&](bool good, std::string_view name, std::int64_t value,
                         std::string_view rule) {
    if (!good) {
      throw ValueError(fmt::format("DataLoader: {} must be {}, found {}", name, rule, value),
                       loc.user());
    }
  };
  check(samples >= 0, "the dataset's size", samples, "at least 0");
  check(options.batch_size >= 1, "batch_size", options.batch_size, "at least 1");
  check(options.workers >= 0 && options.workers <= 256, "workers", options.workers, "0 to 256");
  check(options.prefetch >= 1, "prefetch", options.prefetch, "at least 1");
  position_.seed = options.seed;
}

BatchStream::~BatchStream() = default;
BatchStream::BatchStream(BatchStream&&) noexcept = default;
BatchStream& BatchStream::operator=(BatchStream&&) noexcept = default;

std::int64_t BatchStream::batches() const noexcept {
  const std::int64_t full = samples_ / options_.batch_size;
  return full + (!options_.drop_last && samples_ % options_.batch_size != 0 ? 1 : 0);
}

void BatchStream::begin_epoch() {
  workers_.reset();
  if (!fresh_) {
    ++position_.epoch;
    position_.batch = 0;
  }
  fresh_ = false;
  order_ = std::make_shared<const std::vector<std::int64_t>>(
      epoch_order(samples_, options_.shuffle, position_.seed, position_.epoch));
}

bool BatchStream::next(std::vector<Tensor>& batch) {
  if (position_.batch >= batches()) {
    workers_.reset();
    return false;
  }
  const std::uint64_t stream =
      mixed(mixed(position_.seed) + static_cast<std::uint64_t>(position_.epoch));
  const auto make = [order = order_, fetch = fetch_, size = options_.batch_size,
                     stream](std::int64_t index) {
    // A stream for each batch: which worker makes it, and when, does not matter.
    Generator numbers(mixed(stream + static_cast<std::uint64_t>(index)));
    const GeneratorScope scope(numbers);
    const std::span<const std::int64_t> all(*order);
    const auto begin = static_cast<std::size_t>(index * size);
    return (*fetch)(
        all.subspan(begin, std::min(static_cast<std::size_t>(size), all.size() - begin)));
  };
  if (options_.workers > 0 && !workers_) {
    workers_ = std::make_unique<Workers>(make, position_.batch, batches(), options_.workers,
                                         std::int64_t{options_.workers} * options_.prefetch);
  }
  const std::int64_t index = position_.batch++;  // past a batch that throws, too
  batch = workers_ ? workers_->take() : make(index);
  return true;
}

void BatchStream::set_position(const LoaderPosition& position, Loc loc) {
  constexpr std::int64_t kLastEpoch = std::numeric_limits<std::int64_t>::max();
  if (position.epoch < 0 || position.epoch == kLastEpoch || position.batch < 0 ||
      position.batch > batches()) {
    throw ValueError(
        fmt::format("DataLoader: position of epoch {}, batch {} is outside of a loader with {} "
                    "batches an epoch; was it saved with another dataset or batch_size?",
                    position.epoch, position.batch, batches()),
        loc.user());
  }
  workers_.reset();
  position_ = position;
  fresh_ = position.batch < batches() || batches() == 0;
}

}  // namespace dyad::data
