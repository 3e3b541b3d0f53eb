#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>

#include "dyad/runtime/threads.h"

namespace dyad::runtime::detail {

/// One parallel loop. Every thread has a share of its chunks, the same one whenever the loop is the
/// same: what it wrote in its caches it finds there again. Who is through takes chunks from the
/// ends of others' shares, so that a thread that the system takes off its core holds up no more
/// than one chunk; but not at once, for a thread that only lags takes its chunks itself, and what
/// is taken from it once lies in another core's caches from then on.
class TeamJob {
 public:
  /// Of fewer than 2^32 chunks.
  TeamJob(std::int64_t begin, std::int64_t end, std::int64_t chunk, std::int64_t threads,
          RangeFunction function, void* context) noexcept;

  /// Works on chunks until none is left. Called by every thread of the team, with its number.
  void work(int thread) noexcept;
  void rethrow() {
    if (error_) std::rethrow_exception(error_);
  }
  [[nodiscard]] std::int64_t chunks() const noexcept { return chunks_; }

 private:
  static constexpr int kMostShares = 64;
  /// The first chunk that nobody has taken in the high half, the end in the low one; on a line of
  /// its own. Those of shares that a job does not have are never written.
  struct alignas(64) Share {
    std::uint64_t left;
  };
  using Clock = std::chrono::steady_clock;
  /// The first chunk of a share when nobody has taken any.
  [[nodiscard]] std::int64_t begin_of(int share) const noexcept {
    return chunks_ * share / share_count_;
  }
  /// The number of a chunk that is this thread's now; -1 where none is left.
  static std::int64_t take(Share& share, bool from_front) noexcept;
  void run(std::int64_t chunk);
  /// Returns what a chunk takes, 0 where there was none.
  Clock::duration work_on_own(int share);
  /// Takes chunks of a share whose thread takes none for longer than it should.
  void work_on_others(int share, Clock::duration of_a_chunk);

  std::int64_t begin_, end_, chunk_, chunks_;
  RangeFunction function_;
  void* context_;
  int share_count_;
  Share shares_[kMostShares];
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

/// Runs `job.work(number)` on `threads` threads, the calling one among them.
void run_on_team(TeamJob& job, int threads);
/// Tells the run-time that libraries share with us how many threads this thread's next regions
/// have; returns what it was told before.
int set_library_threads(int threads) noexcept;
/// The limit that the environment sets for the run-time (OMP_NUM_THREADS), or 0.
[[nodiscard]] int environment_threads() noexcept;

}  // namespace dyad::runtime::detail
