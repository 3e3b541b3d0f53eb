#include "dyad/base/intrusive_ptr.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace dyad {
namespace {

struct Base : RefCounted<Base> {
  explicit Base(std::atomic<int>& deaths) : deaths_(deaths) {}
  virtual ~Base() { ++deaths_; }
  std::atomic<int>& deaths_;
};
struct Derived : Base {
  using Base::Base;
};

TEST(Ref, LastOwnerDestroys) {
  std::atomic<int> deaths = 0;
  Ref<Base> a = make_ref<Base>(deaths);
  EXPECT_EQ(a->use_count(), 1);
  {
    const Ref<Base> b = a;
    EXPECT_EQ(a->use_count(), 2);
    EXPECT_TRUE(a == b);
  }
  EXPECT_EQ(a->use_count(), 1);
  const Ref<Base> c = std::move(a);
  EXPECT_FALSE(a);
  EXPECT_EQ(c->use_count(), 1);
  EXPECT_EQ(deaths, 0);
  a = c;
  a = *&a;
  a = nullptr;
  EXPECT_EQ(c->use_count(), 1);
  EXPECT_EQ(deaths, 0);
}

TEST(Ref, AssignmentReleasesTheOldObject) {
  std::atomic<int> deaths = 0;
  Ref<Base> a = make_ref<Base>(deaths);
  a = make_ref<Base>(deaths);
  EXPECT_EQ(deaths, 1);
  a = Ref<Base>();
  EXPECT_EQ(deaths, 2);
}

TEST(Ref, DerivedConverts) {
  std::atomic<int> deaths = 0;
  {
    const Ref<Derived> derived = make_ref<Derived>(deaths);
    const Ref<Base> base = derived;
    EXPECT_EQ(base->use_count(), 2);
  }
  EXPECT_EQ(deaths, 1);
}

// Each object is let go by two threads at about the same time; each dies once.
TEST(Ref, ThreadsReleaseTogether) {
  constexpr int kObjects = 20000;
  std::atomic<int> deaths = 0;
  std::vector<Ref<Base>> first, second;
  for (int i = 0; i < kObjects; ++i) {
    first.push_back(make_ref<Base>(deaths));
    second.push_back(first.back());
  }
  std::atomic<int> ready = 0;
  const auto drop = [&ready](std::vector<Ref<Base>>& mine) {
    ++ready;
    while (ready < 2) {
    }
    for (Ref<Base>& ref : mine) {
      const Ref<Base> copy = ref;
      ref = nullptr;
    }
  };
  std::thread a([&] { drop(first); }), b([&] { drop(second); });
  a.join();
  b.join();
  EXPECT_EQ(deaths, kObjects);
}

}  // namespace
}  // namespace dyad
