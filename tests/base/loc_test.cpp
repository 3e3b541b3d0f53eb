#include "dyad/base/loc.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "dyad/base/error.h"
#include "dyad/base/no_loc_scope.h"

namespace dyad {
namespace {

Loc here(Loc loc = std::source_location::current()) { return loc; }

TEST(Loc, CapturesTheCaller) {
  const Loc loc = here();
  EXPECT_EQ(loc.line(), static_cast<unsigned>(__LINE__ - 1));
  EXPECT_EQ(to_string(loc), "loc_test.cpp:" + std::to_string(__LINE__ - 2));
  EXPECT_NE(std::string(loc.function()).find("TestBody"), std::string::npos);
}

TEST(Loc, UnknownPlaces) {
  EXPECT_FALSE(Loc());
  EXPECT_EQ(to_string(Loc()), "<unknown>");
  EXPECT_EQ(Loc().line(), 0u);
}

TEST(Loc, InternedRecordsAreShared) {
  const Loc a = Loc::intern("models/net.py", 12, "forward");
  EXPECT_EQ(a, Loc::intern(std::string("models/") + "net.py", 12, "forward"));
  EXPECT_FALSE(a == Loc::intern("models/net.py", 13, "forward"));
  EXPECT_FALSE(a == Loc::intern("models/net.py", 12, "backward"));
  EXPECT_EQ(to_string(a), "net.py:12");
  EXPECT_EQ(a.file(), "models/net.py");
  EXPECT_EQ(a.function(), "forward");
}

TEST(LocScope, OutermostWins) {
  const Loc inner = Loc::intern("layer.cpp", 1), outer = Loc::intern("user.cpp", 2);
  EXPECT_EQ(inner.user(), inner);
  {
    const LocScope unknown{Loc()};  // an unknown place hides nothing
    const LocScope scope(outer);
    EXPECT_EQ(inner.user(), outer);
    {
      const LocScope nested(inner);
      EXPECT_EQ(inner.user(), outer);
    }
    EXPECT_EQ(inner.user(), outer);
    std::thread([&] { EXPECT_EQ(inner.user(), inner); }).join();
  }
  EXPECT_EQ(inner.user(), inner);
}

TEST(LocScope, HasNoEffectInsideOfANoLocScope) {
  const Loc inner = Loc::intern("layer.cpp", 1), outer = Loc::intern("user.cpp", 2);
  const LocScope scope(outer, "layer");
  {
    const NoLocScope none;
    EXPECT_EQ(inner.user(), inner);
    EXPECT_EQ(LocScope::function(), "");
    const LocScope own(inner, "pass");
    EXPECT_EQ(Loc().user(), inner);
    EXPECT_EQ(LocScope::function(), "pass");
  }
  EXPECT_EQ(inner.user(), outer);
  EXPECT_EQ(LocScope::function(), "layer");
}

TEST(LocScope, EndsWithAnException) {
  try {
    const LocScope scope(Loc::intern("user.cpp", 3));
    throw ShapeError("x");
  } catch (const ShapeError&) {
  }
  EXPECT_FALSE(Loc().user());
}

TEST(Error, NamesPlaces) {
  const Loc where = Loc::intern("train.cpp", 41), declared = Loc::intern("net.cpp", 7);
  EXPECT_STREQ(ShapeError("bad", where).what(), "bad\n  at train.cpp:41");
  EXPECT_STREQ(ShapeError("bad", where, declared).what(),
               "bad\n  at train.cpp:41\n  declared at net.cpp:7");
  EXPECT_STREQ(ShapeError("bad", where, where).what(), "bad\n  at train.cpp:41");
  EXPECT_STREQ(ShapeError("bad").what(), "bad");
  EXPECT_EQ(ShapeError("bad", where).message(), "bad");
  EXPECT_THROW(throw ShapeError("bad"), Error);
}

}  // namespace
}  // namespace dyad
