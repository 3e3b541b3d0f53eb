#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

#include "dyad/runtime/threads.h"

namespace dyad::runtime::detail {

/// One parallel loop: threads claim chunks of it until none is left, so that a thread that the
/// system takes off its core holds up no more than one chunk.
class TeamJob {
 public:
  TeamJob(std::int64_t begin, std::int64_t end, std::int64_t chunk, RangeFunction function,
          void* context) noexcept
      : begin_(begin),
        end_(end),
        chunk_(chunk),
        chunks_((end - begin + chunk - 1) / chunk),
        function_(function),
        context_(context) {}

  /// Works on chunks until none is left. Called by every thread of the team.
  void work() noexcept;
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }
  [[nodiscard]] std::int64_t chunks() const noexcept { return chunks_; }

 private:
  std::int64_t begin_, end_, chunk_, chunks_;
  RangeFunction function_;
  void* context_;
  std::atomic<std::int64_t> next_{0};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

/// Runs `job.work()` on `threads` threads, the calling one among them. One call at a time.
void run_on_team(TeamJob& job, int threads);
/// Tells the run-time that libraries share with us how many threads this thread's next regions
/// have; returns what it was told before.
int set_library_threads(int threads) noexcept;
/// The limit that the environment sets for the run-time (OMP_NUM_THREADS), or 0.
[[nodiscard]] int environment_threads() noexcept;

}  // namespace dyad::runtime::detail
