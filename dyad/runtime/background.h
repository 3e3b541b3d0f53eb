#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "dyad/runtime/cancel.h"

namespace dyad::runtime {

/// Work for the process's one background thread, which runs at idle priority: it takes only the
/// time that nobody else wants. The thread starts with the first task. A forked process has none of
/// its parent's tasks: they are over there, undone; so are those that the end of the program finds.
class BackgroundTask {
 public:
  /// Puts `work` behind what waits already. `stop` tells it to end early; an exception ends it,
  /// too, and is told nobody: whoever needs what the work would have given does it then.
  explicit BackgroundTask(std::function<void(const CancelToken& stop)> work);
  /// Takes back work that has not begun; tells other work to end, and waits for that.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// Whether the work is done, or never will be.
  [[nodiscard]] bool over() const noexcept;
  /// Returns when it is over.
  void wait() noexcept;
  /// The same, but takes back work that has not begun.
  void settle() noexcept;
  /// Since the task was made.
  [[nodiscard]] std::chrono::steady_clock::duration age() const noexcept;

  struct Job;

 private:
  std::shared_ptr<Job> job_;
  std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
};

}  // namespace dyad::runtime
