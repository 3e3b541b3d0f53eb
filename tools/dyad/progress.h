#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace dyad::tool {

/// Progress of a training run: one line that rewrites itself in a terminal, a plain line for each
/// epoch in a pipe.
class Progress {
 public:
  /// `label` names the run; `steps` are all its steps.
  Progress(std::string label, std::int64_t steps);

  /// After each step: the loss and how many samples it took.
  void step(double loss, std::int64_t samples);
  /// After each epoch: the share of held-back samples that are classified rightly.
  void epoch(int number, int epochs, double accuracy);
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::string line() const;
  void draw(bool now);

  std::string label_;
  std::int64_t steps_;
  std::int64_t done_ = 0;
  std::int64_t samples_ = 0;
  double loss_ = 0;
  double accuracy_ = -1;
  bool terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_{};
};

/// What happens now, in one line of standard error that rewrites itself; nothing unless that is a
/// terminal.
class StageLine {
 public:
  StageLine();
  ~StageLine() { clear(); }
  StageLine(const StageLine&) = delete;
  StageLine& operator=(const StageLine&) = delete;
  /// `part` of a stage is done, 0 to 1.
  void show(std::string_view stage, double part);
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::string stage_;
  std::chrono::steady_clock::time_point drawn_{};
};

/// True when standard output is a terminal that is read by a person.
[[nodiscard]] bool is_terminal();

}  // namespace dyad::tool
