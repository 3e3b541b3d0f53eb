#pragma once

namespace dyad::runtime {

/// Threads that the plans made here will run with: team_size, or what a PlannedTeam says.
[[nodiscard]] int planned_team_size() noexcept;

/// While it lives, this thread plans for runs with so many threads, whatever its own team is: plans
/// that one thread makes for another.
class PlannedTeam {
 public:
  explicit PlannedTeam(int threads) noexcept;
  ~PlannedTeam();
  PlannedTeam(const PlannedTeam&) = delete;
  PlannedTeam& operator=(const PlannedTeam&) = delete;

 private:
  int before_;
};

}  // namespace dyad::runtime
