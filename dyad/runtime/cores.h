#pragma once

#include <atomic>
#include <mutex>

namespace dyad::runtime {

/// The cores of a process, of which each parallel region in progress has as many as it has threads:
/// regions of several callers go on side by side while there are enough. Taking some is one atomic
/// operation where nobody waits.
class Cores {
 public:
  explicit Cores(int count) noexcept : count_(count), free_(count) {}

  /// Takes as many as are free, at most so many; returns how many. 0 where that is less than two,
  /// or somebody waits for some.
  [[nodiscard]] int take_up_to(int most) noexcept;
  /// Takes so many (at most all), and waits until they are free; returns how many. Callers that
  /// wait come before those that ask later.
  [[nodiscard]] int take(int wanted);
  /// For what take or take_up_to returned.
  void give_back(int taken) noexcept;

 private:
  /// As many as are free, at most `most`; 0 where that is less than `least`.
  [[nodiscard]] int take_free(int least, int most) noexcept;

  int count_;
  std::atomic<int> free_, waiting_{0};
  std::mutex queue_;  ///< held by the caller whose turn it is to wait
};

/// Those of the process that a region of this thread has, given back when it is over: of those that
/// its LibraryTeam holds, if there is one.
class TakenCores {
 public:
  explicit TakenCores(int most) noexcept;
  ~TakenCores();
  TakenCores(const TakenCores&) = delete;
  TakenCores& operator=(const TakenCores&) = delete;
  /// As Cores::take_up_to.
  [[nodiscard]] int count() const noexcept { return count_; }

 private:
  int taken_;
  int count_;
};

}  // namespace dyad::runtime
