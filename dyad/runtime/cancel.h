#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "dyad/base/error.h"
#include "dyad/base/loc.h"

namespace dyad {

/// A request, from any thread, that a run stop. Copies share one flag. Runs check it between
/// kernels, before anything is written to a variable, so that half a step is never applied.
class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}

  void cancel() const noexcept { flag_->store(true, std::memory_order_release); }
  [[nodiscard]] bool cancelled() const noexcept { return flag_->load(std::memory_order_acquire); }
  /// Makes the token usable for another run.
  void reset() const noexcept { flag_->store(false, std::memory_order_release); }
  /// CancelledError if `cancel` was called; `declared` is the node that would have run next.
  void check(Loc where = {}, Loc declared = {}) const {
    if (cancelled()) throw CancelledError("the run was cancelled", where, declared);
  }

 private:
  std::shared_ptr<std::atomic<bool>> flag_;
};

/// Makes the tokens of runs, any number of which may go on at once, and cancels those in progress.
class CancelSource {
 public:
  /// The token of a run that begins now.
  [[nodiscard]] CancelToken begin() {
    const std::scoped_lock lock(mutex_);
    if (token_.cancelled()) token_ = CancelToken();
    return token_;
  }
  /// Cancels the runs in progress; those that begin later are not.
  void cancel() noexcept {
    const std::scoped_lock lock(mutex_);
    token_.cancel();
  }

 private:
  std::mutex mutex_;
  CancelToken token_;
};

}  // namespace dyad
