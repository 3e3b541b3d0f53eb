#include "dyad/runtime/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/runtime/cores.h"
#include "dyad/runtime/planned_team.h"
#include "dyad/runtime/team.h"

namespace dyad {
namespace {

/// The process's thread budget: how many threads a team may have, and which cores teams have now.
struct Budget {
  int cores;
  std::atomic<int> threads;
  runtime::Cores free;

  Budget() noexcept : cores(runtime::available_cores()), threads(cores), free(cores) {
    const int asked = runtime::detail::environment_threads();
    if (asked > 0) threads = std::min(asked, cores);
  }
};

Budget& budget() noexcept {
  static Budget instance;
  return instance;
}

thread_local bool in_region = false;
thread_local int scope_threads = 0;    // owned by the ThreadScopes of the thread; 0: none
thread_local int planned_threads = 0;  // owned by its PlannedTeams; 0: none
thread_local int library_cores = 0;    // owned by its LibraryTeam; 0: none

/// Cores that a cgroup's quota amounts to; 0 when it sets none.
int quota_cores(const std::string& folder) {
  double quota = 0, period = 0;
  if (std::ifstream v2(folder + "/cpu.max"); v2) {
    std::string first;
    if (!(v2 >> first >> period) || first == "max") return 0;
    quota = std::atof(first.c_str());
  } else {
    std::ifstream quota_file(folder + "/cpu.cfs_quota_us"),
        period_file(folder + "/cpu.cfs_period_us");
    if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  }
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

/// The tightest quota of the process's cgroup and those above it; 0 when there is none.
int cgroup_cores() {
  int cores = 0;
  const auto take = [&](const std::string& folder) {
    const int found = quota_cores(folder);
    if (found > 0) cores = cores == 0 ? found : std::min(cores, found);
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers.find("cpu") == std::string::npos) continue;
    const std::string root =
        controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controllers;
    std::string path = line.substr(second + 1);
    while (path.size() > 1) {
      take(root + path);
      path.resize(path.rfind('/'));
    }
    take(root);
  }
  return cores;
}

}  // namespace

void set_num_threads(int threads, Loc loc) {
  if (threads < 1) {
    throw ValueError(
        "set_num_threads(" + std::to_string(threads) + "): a kernel needs at least 1 thread",
        loc.user());
  }
  Budget& b = budget();
  b.threads.store(std::min(threads, b.cores), std::memory_order_relaxed);
}

int get_num_threads() noexcept {
  return scope_threads > 0 ? scope_threads : budget().threads.load(std::memory_order_relaxed);
}

ThreadScope::ThreadScope(int threads, Loc loc) : before_(scope_threads) {
  if (threads < 1) {
    throw ValueError(
        "a scope of " + std::to_string(threads) + " threads: a kernel needs at least 1 thread",
        loc.user());
  }
  scope_threads = std::min(threads, budget().cores);
}

ThreadScope::~ThreadScope() { scope_threads = before_; }

namespace runtime {

int available_cores() noexcept {
  int cores = 1;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) cores = std::max(1, CPU_COUNT(&mask));
  try {
    const int quota = cgroup_cores();
    if (quota > 0) cores = std::min(cores, quota);
  } catch (const std::exception&) {
    // Without a readable cgroup file the affinity mask is all there is to know.
  }
  return cores;
}

bool in_parallel_region() noexcept { return in_region; }

int team_size() noexcept { return in_region ? 1 : get_num_threads(); }

int planned_team_size() noexcept { return planned_threads > 0 ? planned_threads : team_size(); }

PlannedTeam::PlannedTeam(int threads) noexcept : before_(std::exchange(planned_threads, threads)) {}

PlannedTeam::~PlannedTeam() { planned_threads = before_; }

// One inside of another has what that one took.
LibraryTeam::LibraryTeam(int threads)
    : cores_(threads > 1 && !in_region && library_cores == 0 ? budget().free.take(threads) : 0),
      before_(detail::set_library_threads(threads)) {
  library_cores += cores_;
}

LibraryTeam::~LibraryTeam() {
  detail::set_library_threads(before_);
  if (cores_ > 0) budget().free.give_back(cores_);
  library_cores -= cores_;
}

TakenCores::TakenCores(int most) noexcept
    : taken_(library_cores > 0 ? 0 : budget().free.take_up_to(most)),
      count_(library_cores > 0 ? std::min(most, library_cores) : taken_) {}

TakenCores::~TakenCores() {
  if (taken_ > 0) budget().free.give_back(taken_);
}

namespace detail {

TeamJob::TeamJob(std::int64_t begin, std::int64_t end, std::int64_t chunk, std::int64_t threads,
                 RangeFunction function, void* context) noexcept
    : begin_(begin),
      end_(end),
      chunk_(chunk),
      chunks_((end - begin + chunk - 1) / chunk),
      function_(function),
      context_(context),
      share_count_(static_cast<int>(std::clamp<std::int64_t>(threads, 1, kMostShares))) {
  for (int i = 0; i < share_count_; ++i) {
    const auto first = static_cast<std::uint64_t>(begin_of(i)),
               last = static_cast<std::uint64_t>(begin_of(i + 1));
    shares_[i].left = first << 32 | last;
  }
}

std::int64_t TeamJob::take(Share& share, bool from_front) noexcept {
  const std::atomic_ref left(share.left);
  std::uint64_t now = left.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t first = now >> 32, end = now & 0xFFFFFFFF;
    if (first >= end) return -1;
    const std::uint64_t less = from_front ? (first + 1) << 32 | end : first << 32 | (end - 1);
    if (left.compare_exchange_weak(now, less, std::memory_order_relaxed))
      return static_cast<std::int64_t>(from_front ? first : end - 1);
  }
}

void TeamJob::run(std::int64_t chunk) {
  const std::int64_t lo = begin_ + chunk * chunk_;
  function_(context_, lo, std::min(end_, lo + chunk_));
}

TeamJob::Clock::duration TeamJob::work_on_own(int share) {
  const Clock::time_point start = Clock::now();
  std::int64_t taken = 0;
  for (std::int64_t i = take(shares_[share], true); i >= 0; i = take(shares_[share], true)) {
    run(i);
    ++taken;
  }
  return taken == 0 ? Clock::duration{0} : (Clock::now() - start) / taken;
}

void TeamJob::work_on_others(int share, Clock::duration of_a_chunk) {
  using namespace std::chrono_literals;
  constexpr Clock::duration kToWake = 20us, kLongest = 500us;
  const std::atomic_ref left(shares_[share].left);
  auto first = static_cast<std::uint64_t>(begin_of(share));
  Clock::duration patience = std::min(2 * of_a_chunk, kToWake);
  Clock::time_point since = Clock::now();
  for (;;) {
    const std::uint64_t now = left.load(std::memory_order_relaxed);
    if (now >> 32 >= (now & 0xFFFFFFFF)) return;
    if (now >> 32 != first) {
      first = now >> 32;
      patience = std::min(2 * of_a_chunk, kLongest);
      since = Clock::now();
    } else if (Clock::now() - since < patience) {
      std::this_thread::yield();
    } else if (const std::int64_t chunk = take(shares_[share], false); chunk >= 0) {
      run(chunk);
    }
  }
}

void TeamJob::work(int thread) noexcept {
  in_region = true;
  try {
    const Clock::duration of_a_chunk = work_on_own(thread % share_count_);
    for (int i = 1; i < share_count_; ++i) {
      work_on_others((thread + i) % share_count_, of_a_chunk);
    }
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = std::current_exception();
    for (int i = 0; i < share_count_; ++i) {
      std::atomic_ref(shares_[i].left).store(0, std::memory_order_relaxed);
    }
  }
  in_region = false;
}

void run_team(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction function,
              void* context) {
  constexpr std::int64_t kChunksPerThread = 4;
  const std::int64_t units = end - begin;
  const TakenCores cores(static_cast<int>(
      std::min<std::int64_t>(get_num_threads(), units / std::max<std::int64_t>(1, grain))));
  const std::int64_t threads = cores.count();
  if (threads == 0) {
    function(context, begin, end);
    return;
  }
  const std::int64_t even = (units + threads * kChunksPerThread - 1) / (threads * kChunksPerThread);
  TeamJob job(begin, end, std::max(even, grain), threads, function, context);
  run_on_team(job, static_cast<int>(std::min(threads, job.chunks())));
  job.rethrow();
}

}  // namespace detail
}  // namespace runtime
}  // namespace dyad
