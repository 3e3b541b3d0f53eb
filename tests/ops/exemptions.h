#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dyad::testing {

/// What operators may lack, and why: tests/ops/exemptions.txt. `count N`, then lines
/// `WHAT OPERATOR... : reason`; an operator may be a pattern with one star.
class Exemptions {
 public:
  Exemptions();
  [[nodiscard]] bool holds(const std::string& what, std::string_view op) const;
  /// Compares what lacks `what` with the list: all of it is there, and nothing else is.
  void check(const std::string& what, const std::set<std::string>& lacking);

  [[nodiscard]] const std::map<std::string, std::vector<std::string>>& entries() const noexcept {
    return entries_;
  }
  /// How many operators the list says it exempts, and how many check() found that it does.
  [[nodiscard]] int count() const noexcept { return count_; }
  [[nodiscard]] int exempted() const noexcept { return exempted_; }

 private:
  std::map<std::string, std::vector<std::string>> entries_;
  int count_ = -1;
  int exempted_ = 0;
};

}  // namespace dyad::testing
