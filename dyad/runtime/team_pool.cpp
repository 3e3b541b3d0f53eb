#ifndef _OPENMP

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "dyad/runtime/team.h"

// A pool of plain threads for builds whose checkers cannot see through an OpenMP run-time.
namespace dyad::runtime::detail {
namespace {

class Pool {
 public:
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void run(TeamJob& job, int threads) {
    const int helpers = threads - 1;
    while (static_cast<int>(workers_.size()) < helpers) {
      workers_.emplace_back([this, index = static_cast<int>(workers_.size())] { serve(index); });
    }
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      helpers_ = pending_ = helpers;
      ++round_;
    }
    wake_.notify_all();
    job.work(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return pending_ == 0; });
    job_ = nullptr;
  }

 private:
  void serve(int index) {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || (round_ != seen && job_ != nullptr); });
      if (stop_) return;
      seen = round_;
      if (index >= helpers_) continue;
      TeamJob& job = *job_;
      lock.unlock();
      job.work(index + 1);
      lock.lock();
      if (--pending_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> workers_;
  TeamJob* job_ = nullptr;
  std::uint64_t round_ = 0;
  int helpers_ = 0, pending_ = 0;
  bool stop_ = false;
};

}  // namespace

void run_on_team(TeamJob& job, int threads) {
  thread_local Pool pool;  // each caller has threads of its own, as of OpenMP
  pool.run(job, threads);
}

int set_library_threads(int) noexcept { return 1; }

int environment_threads() noexcept { return 0; }

}  // namespace dyad::runtime::detail

#endif
