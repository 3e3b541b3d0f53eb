#include "dyad/base/reflect.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

namespace dyad::reflect {
namespace {

using ::testing::ElementsAre;

/// Neither copyable nor trivial, like the members of real models.
struct Part {
  explicit Part(int size) : size(size) {}
  Part(Part&&) = default;
  virtual ~Part() = default;
  int size;
};

struct Nothing {};

struct Whole {
  Part first{1};
  std::vector<int> list;
  std::unique_ptr<int> pointer;
  std::string text = "x";
  double last = 0.5;
};

TEST(Reflect, CountsAndNamesMembers) {
  EXPECT_EQ(member_count<Nothing>, 0u);
  EXPECT_EQ(member_count<Whole>, 5u);
  EXPECT_THAT(member_names<Whole>, ElementsAre("first", "list", "pointer", "text", "last"));
}

TEST(Reflect, TypesLocalToAFunctionToo) {
  struct Local {
    Part part{2};
    bool on = true;
  };
  EXPECT_THAT(member_names<Local>, ElementsAre("part", "on"));
}

TEST(Reflect, VisitsMembersInOrder) {
  Whole whole;
  std::vector<std::string> names;
  for_each_member(whole, [&](std::string_view name, auto& member) {
    names.emplace_back(name);
    if constexpr (std::is_same_v<decltype(member), double&>) member = 2;
  });
  EXPECT_THAT(names, ElementsAre("first", "list", "pointer", "text", "last"));
  EXPECT_EQ(whole.last, 2);
}

}  // namespace
}  // namespace dyad::reflect
