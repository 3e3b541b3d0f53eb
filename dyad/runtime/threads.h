#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "dyad/base/loc.h"

namespace dyad {

/// How many threads a kernel may use from now on, in the whole process. Teams never exceed the
/// cores that the process may use. ValueError when `threads` is below 1.
void set_num_threads(int threads, Loc loc = std::source_location::current());
/// What set_num_threads asked for, at most the cores that the process may use; at first all of them
/// (affinity mask and cgroup quota count; OMP_NUM_THREADS lowers it). In a ThreadScope, its number.
[[nodiscard]] int get_num_threads() noexcept;

/// While it lives, kernels that this thread starts use that many threads, at most the cores that
/// the process may use, whatever set_num_threads says. ValueError below 1.
class ThreadScope {
 public:
  explicit ThreadScope(int threads, Loc loc = std::source_location::current());
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

}  // namespace dyad

namespace dyad::runtime {

/// Cores that the process may use: its affinity mask, capped by the CPU quota of its cgroups.
[[nodiscard]] int available_cores() noexcept;

/// True in the body of a parallel_for: whatever runs there stays on its thread.
[[nodiscard]] bool in_parallel_region() noexcept;

/// Threads that a team started here and now would have: get_num_threads, or 1 inside a region.
[[nodiscard]] int team_size() noexcept;

/// What one unit of a loop costs: bytes moved and operations done.
struct Cost {
  double bytes = 0;
  double flops = 0;
};

/// Whether a library call of so many operations gains by a second thread.
[[nodiscard]] constexpr bool worth_a_team(double flops) noexcept { return flops >= 500e3; }

/// The fewest units worth a thread of their own, when there are `units` in all: a loop of less than
/// twice as many stays on one thread, because forking and joining costs more than it gains. What
/// these cost, and how fast the machine moves bytes and computes, is measured once in a process,
/// when a loop asks that could be worth it.
[[nodiscard]] std::int64_t grain_for(Cost per_unit, std::int64_t units) noexcept;

namespace detail {
using RangeFunction = void (*)(void* context, std::int64_t lo, std::int64_t hi);
void run_team(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction function,
              void* context);
}  // namespace detail

/// Calls `body(lo, hi)` for ranges that together cover [begin, end), each at least `grain` long
/// (but the last), on the threads of one team, and returns when all are done. The team has as many
/// threads as there are cores that no other team has. Ranges that are shorter than twice the grain,
/// calls inside a region, and calls while others have all cores but one run in one piece on the
/// calling thread. The first exception that a range throws is thrown again
/// here; ranges not yet begun are dropped then.
template <class Body>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, Body&& body) {
  if (begin >= end) return;
  if (end - begin < 2 * grain || team_size() == 1) {
    body(begin, end);
    return;
  }
  using Function = std::remove_reference_t<Body>;
  detail::run_team(
      begin, end, grain,
      [](void* context, std::int64_t lo, std::int64_t hi) {
        (*static_cast<Function*>(context))(lo, hi);
      },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

/// Cores, held while a library runs its own parallel regions: waits until other teams have left
/// that many, and tells the library's run-time how many threads to use in the meantime.
class LibraryTeam {
 public:
  /// `threads` is what the library's plan was made for.
  explicit LibraryTeam(int threads);
  ~LibraryTeam();
  LibraryTeam(const LibraryTeam&) = delete;
  LibraryTeam& operator=(const LibraryTeam&) = delete;

 private:
  int cores_;
  int before_;
};

}  // namespace dyad::runtime
