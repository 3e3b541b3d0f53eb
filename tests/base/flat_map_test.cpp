#include "dyad/base/flat_map.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>

namespace dyad {
namespace {

TEST(FlatMap, DoesWhatAMapDoes) {
  FlatMap<int, std::string> flat;
  std::map<int, std::string> map;
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const int key = static_cast<int>(random() % 300);
    const std::string value = std::to_string(i);
    if (i % 2 == 0) {
      flat.insert_or_assign(key, value);
      map.insert_or_assign(key, value);
    } else {
      const auto [at, added] = flat.try_emplace(key, value);
      const auto [known, inserted] = map.try_emplace(key, value);
      EXPECT_EQ(added, inserted);
      EXPECT_EQ(at->second, known->second);
    }
  }
  ASSERT_EQ(flat.size(), map.size());
  EXPECT_TRUE(std::equal(flat.begin(), flat.end(), map.begin(), [](const auto& a, const auto& b) {
    return a.first == b.first && a.second == b.second;
  }));
  for (int key = -1; key <= 300; ++key) {
    EXPECT_EQ(flat.contains(key), map.contains(key));
    if (map.contains(key)) {
      EXPECT_EQ(flat.at(key), map.at(key));
    } else {
      EXPECT_THROW(static_cast<void>(flat.at(key)), std::out_of_range);
    }
  }
}

TEST(FlatMap, HoldsWhatCanOnlyBeMoved) {
  FlatMap<int, std::unique_ptr<int>> map;
  EXPECT_EQ(map.find(1), map.end());
  for (int key : {3, 1, 2}) map.insert_or_assign(key, std::make_unique<int>(key));
  const auto [at, added] = map.try_emplace(2, nullptr);
  EXPECT_FALSE(added);
  EXPECT_EQ(*at->second, 2);
  FlatMap<int, std::unique_ptr<int>> moved = std::move(map);
  EXPECT_EQ(*moved.at(1), 1);
}

}  // namespace
}  // namespace dyad
