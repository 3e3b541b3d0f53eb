#include "dyad/core/generator.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "dyad/base/error.h"

namespace dyad {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers published with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, NumbersOfAKeyAreItsCounters) {
  const RandomKey key{(std::int64_t{7} << 32) | 5, (std::int64_t{1} << 32) - 1};
  EXPECT_EQ(random_words(key, 0), philox4x32({~0u, 0, 0, 0}, {5, 7}));
  EXPECT_EQ(random_words(key, 1), philox4x32({0, 1, 0, 0}, {5, 7}));
}

TEST(Generator, DealsOutPlacesOnce) {
  Generator generator(9);
  EXPECT_EQ(generator.next_key(10), (RandomKey{9, 0}));
  EXPECT_EQ(generator.next_key(0), (RandomKey{9, 10}));
  EXPECT_EQ(generator.next_key(5), (RandomKey{9, 10}));
  const RandomKey saved = generator.state();
  EXPECT_EQ(saved, (RandomKey{9, 15}));
  (void)generator.next_key(100);
  generator.set_state(saved);
  EXPECT_EQ(generator.next_key(1), (RandomKey{9, 15}));
  generator.manual_seed(9);
  EXPECT_EQ(generator.next_key(1), (RandomKey{9, 0}));
  EXPECT_THROW((void)generator.next_key(-1), ValueError);
}

TEST(Generator, DefaultIsSeededByHand) {
  manual_seed(1234);
  EXPECT_EQ(default_generator().next_key(3), (RandomKey{1234, 0}));
  manual_seed(~std::uint64_t{0});
  EXPECT_EQ(default_generator().next_key(3), (RandomKey{-1, 0}));
  manual_seed(0);
}

TEST(Generator, ThreadsNeverShareAPlace) {
  Generator generator;
  std::vector<std::vector<std::int64_t>> offsets(4);
  std::vector<std::thread> threads;
  for (auto& mine : offsets) {
    threads.emplace_back([&generator, &mine] {
      for (int i = 0; i < 2000; ++i) mine.push_back(generator.next_key(3).offset);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> all;
  for (const auto& mine : offsets) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 8000u);
  EXPECT_EQ(*all.rbegin(), 3 * 7999);
}

}  // namespace
}  // namespace dyad
