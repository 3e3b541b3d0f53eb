#include "dyad/runtime/background.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "dyad/base/log.h"

namespace dyad::runtime {

struct BackgroundTask::Job {
  std::function<void(const CancelToken&)> work;
  CancelToken stop;
  std::atomic<bool> over = false;
};

namespace {

using JobPtr = std::shared_ptr<BackgroundTask::Job>;

void lower_priority() noexcept {
  const sched_param none{};
  if (sched_setscheduler(0, SCHED_IDLE, &none) == 0) return;
  constexpr int kLowest = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kLowest);
}

/// The thread and what waits for it.
class Queue {
 public:
  void add(const JobPtr& job) {
    const std::scoped_lock lock(mutex_);
    if (ended_ || (!started_ && !start())) {
      job->over = true;
      return;
    }
    waiting_.push_back(job);
    changed_.notify_all();
  }

  void wait(const JobPtr& job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return job->over.load(); });
  }

  void take_back(const JobPtr& job) {
    std::function<void(const CancelToken&)> dropped;  // outside of the lock
    const std::scoped_lock lock(mutex_);
    const auto at = std::ranges::find(waiting_, job);
    if (at == waiting_.end()) return;
    waiting_.erase(at);
    dropped.swap(job->work);
    job->over = true;
    changed_.notify_all();
  }

  /// No work is begun any more; returns when the thread has ended.
  void end() noexcept {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(ended_, true)) return;
      drop_waiting();
      if (running_) running_->stop.cancel();
      changed_.notify_all();
    }
    if (started_) pthread_join(thread_, nullptr);
  }

  /// Waits for the end of the work in progress and begins no other until `resume`: the thread then
  /// holds no lock that the forked process would miss.
  void pause() {
    std::unique_lock lock(mutex_);
    ++paused_;
    changed_.wait(lock, [&] { return !running_; });
    lock.release();
  }
  void resume() {
    --paused_;
    changed_.notify_all();
    mutex_.unlock();
  }
  /// In the forked process, where there is no thread.
  void drop_waiting() noexcept {
    for (const JobPtr& job : waiting_) job->over = true;
    waiting_.clear();
  }

 private:
  bool start() {
    // Signals are for the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    started_ = pthread_create(
                   &thread_, nullptr,
                   [](void* queue) -> void* {
                     static_cast<Queue*>(queue)->serve();
                     return nullptr;
                   },
                   this) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started_;
  }

  void serve() {
    pthread_setname_np(pthread_self(), "dyad-background");
    lower_priority();
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || (!waiting_.empty() && paused_ == 0); });
      if (ended_) return;
      running_ = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      try {
        running_->work(running_->stop);
      } catch (...) {
        log(LogLevel::debug, "work in the background threw; who needs its result meets the error");
      }
      running_->work = nullptr;
      lock.lock();
      running_->over = true;
      running_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<JobPtr> waiting_;
  JobPtr running_;
  pthread_t thread_{};
  bool started_ = false, ended_ = false;
  int paused_ = 0;  // forks in progress
};

/// Never destroyed: tasks may live longer than the program's static objects. A forked process has
/// another one, because nobody will unlock or signal the old one there.
Queue*& queue() {
  static Queue* instance = [] {
    pthread_atfork([] { queue()->pause(); }, [] { queue()->resume(); },
                   [] {
                     queue()->drop_waiting();
                     queue() = new Queue;
                   });
    static_cast<void>(std::atexit([] { queue()->end(); }));
    return new Queue;
  }();
  return instance;
}

std::atomic<bool> used = false;

/// Ends the thread before the static objects that its work uses are destroyed: what belongs to the
/// main thread goes before all of them, whenever they were made.
struct EndOfMainThread {
  bool is_main = getpid() == static_cast<pid_t>(syscall(SYS_gettid));
  ~EndOfMainThread() {
    if (is_main && used) queue()->end();
  }
};
thread_local EndOfMainThread end_of_main_thread;
[[maybe_unused]] const bool kWatched = end_of_main_thread.is_main;

}  // namespace

BackgroundTask::BackgroundTask(std::function<void(const CancelToken& stop)> work)
    : job_(std::make_shared<Job>()) {
  job_->work = std::move(work);
  used = true;
  queue()->add(job_);
}

BackgroundTask::~BackgroundTask() {
  job_->stop.cancel();
  settle();
}

bool BackgroundTask::over() const noexcept { return job_->over; }

void BackgroundTask::wait() noexcept {
  if (!over()) queue()->wait(job_);
}

void BackgroundTask::settle() noexcept {
  queue()->take_back(job_);
  wait();
}

std::chrono::steady_clock::duration BackgroundTask::age() const noexcept {
  return std::chrono::steady_clock::now() - made_;
}

}  // namespace dyad::runtime
