#include "exemptions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cases.h"

namespace dyad::testing {
namespace {

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  return name.size() >= head.size() + tail.size() && name.starts_with(head) && name.ends_with(tail);
}

}  // namespace

Exemptions::Exemptions() {
  std::ifstream file("tests/ops/exemptions.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string what, name;
    words >> what;
    if (what == "count") {
      words >> count_;
      continue;
    }
    const std::size_t colon = line.find(" : ");
    if (colon == std::string::npos || colon + 4 > line.size()) {
      ADD_FAILURE() << "exemptions.txt: a reason is missing: " << line;
      continue;
    }
    std::istringstream names(line.substr(what.size(), colon - what.size()));
    while (names >> name) entries_[what].push_back(name);
  }
}

bool Exemptions::holds(const std::string& what, std::string_view op) const {
  const auto found = entries_.find(what);
  return found != entries_.end() &&
         std::ranges::any_of(found->second, [&](const auto& p) { return matches(p, op); });
}

void Exemptions::check(const std::string& what, const std::set<std::string>& lacking) {
  std::set<std::string> used;
  for (const std::string& name : lacking) {
    for (const std::string& pattern : entries_[what]) {
      if (matches(pattern, name)) used.insert(pattern);
    }
    if (holds(what, name)) ++exempted_;
    EXPECT_TRUE(holds(what, name)) << name << " lacks " << what;
  }
  if (only_some_cases()) return;
  for (const std::string& pattern : entries_[what]) {
    EXPECT_TRUE(used.contains(pattern))
        << "exemptions.txt: nothing that " << pattern << " names lacks " << what;
  }
}

}  // namespace dyad::testing
