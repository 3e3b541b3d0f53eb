#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "dyad/base/error.h"
#include "dyad/base/loc.h"

namespace dyad {

/// A request, from any thread, that a run stop. Copies share it. Runs check it between kernels,
/// before anything is written to a variable, so that half a step is never applied.
class CancelToken {
 public:
  CancelToken() : requests_(std::make_shared<std::atomic<std::uint64_t>>(0)) {}

  void cancel() const noexcept { requests_->fetch_add(1, std::memory_order_release); }
  [[nodiscard]] bool cancelled() const noexcept {
    return requests_->load(std::memory_order_acquire) != before_;
  }
  /// Makes the token usable for another run.
  void reset() const noexcept { requests_->store(before_, std::memory_order_release); }
  /// CancelledError if `cancel` was called; `declared` is the node that would have run next.
  void check(Loc where = {}, Loc declared = {}) const {
    if (cancelled()) throw CancelledError("the run was cancelled", where, declared);
  }

 private:
  friend class CancelSource;
  /// Of what somebody else keeps.
  explicit CancelToken(std::atomic<std::uint64_t>& requests)
      : requests_(std::shared_ptr<void>(), &requests),
        before_(requests.load(std::memory_order_acquire)) {}

  std::shared_ptr<std::atomic<std::uint64_t>> requests_;
  std::uint64_t before_ = 0;  ///< requests that are not for this run
};

/// Makes the tokens of runs, any number of which may go on at once, and cancels those in progress.
/// Runs that begin only read it, so that threads do not meet here. It outlives its tokens.
class CancelSource {
 public:
  /// The token of a run that begins now.
  [[nodiscard]] CancelToken begin() { return CancelToken(requests_); }
  /// Cancels the runs in progress; those that begin later are not.
  void cancel() noexcept { requests_.fetch_add(1, std::memory_order_release); }

 private:
  std::atomic<std::uint64_t> requests_ = 0;
};

}  // namespace dyad
