#include "dyad/runtime/call_cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace dyad::testing {
namespace {

using runtime::CallCache;
using runtime::CallKey;

/// Keys of one set, as many as asked for.
std::vector<CallKey> keys_of_one_set(const OpInfo& op, std::size_t count) {
  std::vector<CallKey> keys{{.op = &op}};
  for (std::uint64_t access = 1; keys.size() < count; ++access) {
    const CallKey key{.op = &op, .access = access};
    if (key.set() == keys[0].set()) keys.push_back(key);
  }
  return keys;
}

TEST(CallCache, CallsOfOneSetDoNotDriveEachOtherOut) {
  const OpInfo op{.name = "op"};
  const auto cache = std::make_unique<CallCache>();
  const std::vector<CallKey> keys = keys_of_one_set(op, CallCache::kWays + 1);
  for (std::size_t i = 0; i < CallCache::kWays; ++i)
    cache->place_for(keys[i], nullptr) = {.key = keys[i], .alone = static_cast<std::int64_t>(i)};
  for (std::size_t i = 0; i < CallCache::kWays; ++i) {
    const CallCache::Entry* const found = cache->find(keys[i], nullptr);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->alone, static_cast<std::int64_t>(i));
    EXPECT_EQ(&cache->place_for(keys[i], nullptr), found);
  }
  EXPECT_EQ(cache->find(keys.back(), nullptr), nullptr);
}

TEST(CallCache, ANewCallTakesThePlaceOfTheOldest) {
  const OpInfo op{.name = "op"};
  const auto cache = std::make_unique<CallCache>();
  const std::vector<CallKey> keys = keys_of_one_set(op, CallCache::kWays + 1);
  for (const CallKey& key : keys) cache->place_for(key, nullptr) = {.key = key};
  EXPECT_EQ(cache->find(keys[0], nullptr), nullptr);
  for (std::size_t i = 1; i < keys.size(); ++i) EXPECT_NE(cache->find(keys[i], nullptr), nullptr);
}

}  // namespace
}  // namespace dyad::testing
