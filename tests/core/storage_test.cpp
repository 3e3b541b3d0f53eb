#include "dyad/core/storage.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/allocator.h"

namespace dyad {
namespace {

bool aligned(const void* data, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(data) % to == 0;
}

TEST(Storage, BlocksAreAlignedDistinctAndWritable) {
  std::vector<Ref<Storage>> blocks;
  for (const std::size_t bytes :
       {0ul,       1ul,       63ul,      64ul,      65ul,      1000ul,   1024ul,  1025ul,
        1280ul,    1281ul,    4096ul,    4097ul,    32704ul,   32768ul,  32769ul, 100000ul,
        1835008ul, 1835009ul, 2097151ul, 2097152ul, 2097153ul, 5000000ul}) {
    for (int copy = 0; copy < 3; ++copy) {
      auto storage = Storage::allocate(bytes);
      EXPECT_TRUE(aligned(storage->data(), 64));
      EXPECT_EQ(storage->bytes(), bytes);
      std::memset(storage->data(), static_cast<int>(blocks.size()), bytes);
      blocks.push_back(std::move(storage));
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t at = 0; at < blocks[i]->bytes(); ++at) {
      ASSERT_EQ(blocks[i]->data()[at], static_cast<std::byte>(i));
    }
  }
}

TEST(Storage, AbsurdSizesAreAMemoryError) {
  try {
    (void)Storage::allocate(std::size_t{1} << 60);
    FAIL();
  } catch (const MemoryError& error) {
    EXPECT_NE(error.message().find("no memory for 1152921504606846976 bytes"), std::string::npos);
    EXPECT_NE(error.message().find("the machine has"), std::string::npos);
  }
}

TEST(Storage, AdoptedMemoryIsGivenBackOnce) {
  int given_back = 0;
  std::vector<float> values(4, 2.0f);
  {
    const Ref<Storage> first = Storage::adopt(values.data(), 16, [&] { ++given_back; });
    const Ref<Storage> second = first;
    EXPECT_EQ(static_cast<void*>(second->data()), values.data());
    EXPECT_EQ(second->use_count(), 2);
  }
  EXPECT_EQ(given_back, 1);
  (void)Storage::adopt(values.data(), 16, nullptr);
}

TEST(Storage, VersionsCountWrites) {
  const auto storage = Storage::allocate(8);
  EXPECT_EQ(storage->version(), 0u);
  storage->bump_version();
  EXPECT_EQ(storage->version(), 1u);
}

TEST(Storage, StatisticsFollowUse) {
  const MemoryStats before = memory_stats();
  {
    const auto large = Storage::allocate(3 << 20), small = Storage::allocate(100);
    const MemoryStats now = memory_stats();
    EXPECT_GE(now.in_use, before.in_use + (3 << 20) + 100);
    EXPECT_GE(now.peak, now.in_use);
    EXPECT_GE(now.reserved, now.in_use);
    EXPECT_EQ(now.allocations, before.allocations + 2);
  }
  EXPECT_EQ(memory_stats().in_use, before.in_use);
  reset_peak_memory();
  EXPECT_LE(memory_stats().peak, before.in_use + 65536);
}

#if !DYAD_PLAIN_LOOPS
TEST(Storage, LargeBlocksAreHugePageAlignedAndReused) {
  release_cached_memory();
  void* data = nullptr;
  {
    const auto storage = Storage::allocate(10 << 20);
    EXPECT_TRUE(aligned(storage->data(), 2 << 20));
    data = storage->data();
  }
  const std::size_t calls = memory_stats().system_calls;
  const auto again = Storage::allocate((10 << 20) - 4096);
  EXPECT_EQ(again->data(), data);
  EXPECT_EQ(memory_stats().system_calls, calls);
}

TEST(Storage, CacheIsGivenBack) {
  {
    const auto storage = Storage::allocate(64 << 20);
  }
  const std::size_t cached = memory_stats().reserved;
  release_cached_memory();
  EXPECT_LE(memory_stats().reserved + (64 << 20), cached);
}

TEST(Storage, BlocksOfAllSizesTakeOverFreePages) {
  const auto use = [](std::size_t count, std::size_t bytes) {
    std::vector<Ref<Storage>> blocks;
    for (std::size_t i = 0; i < count; ++i) blocks.push_back(Storage::allocate(bytes));
  };
  release_cached_memory();
  use(8, 1 << 20);
  const std::size_t reserved = memory_stats().reserved;
  use(1, 8 << 20);  // the pages of all eight
  EXPECT_EQ(memory_stats().reserved, reserved);
  use(8, 1 << 20);
  EXPECT_EQ(memory_stats().reserved, reserved);
  use(128, 64 << 10);  // what was cut for others
  use(6, 1280 << 10);
  EXPECT_EQ(memory_stats().reserved, reserved);
  release_cached_memory();
  EXPECT_LE(memory_stats().reserved + (8 << 20), reserved);
}

TEST(Storage, BlocksLieApart) {
  struct Block {
    Ref<Storage> storage;
    unsigned char byte;
  };
  const auto exercise = [](std::uint64_t seed) {
    std::vector<Block> blocks;
    for (int i = 0; i < 3000; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      if (blocks.size() > 40 || (!blocks.empty() && (seed >> 60 & 1) != 0)) {
        std::swap(blocks[(seed >> 40) % blocks.size()], blocks.back());
        const auto [storage, byte] = std::move(blocks.back());
        blocks.pop_back();
        const auto* bytes = reinterpret_cast<const unsigned char*>(storage->data());
        for (const std::size_t at : {std::size_t{0}, storage->bytes() / 2, storage->bytes() - 1})
          ASSERT_EQ(bytes[at], byte);
        continue;
      }
      const std::size_t size = std::size_t{1} << (12 + (seed >> 33) % 10);  // 4 kB to 2 MB
      Block block{Storage::allocate(size + (seed >> 20) % size), static_cast<unsigned char>(i)};
      std::memset(block.storage->data(), block.byte, block.storage->bytes());
      blocks.push_back(std::move(block));
      if (i % 1000 == 999) release_cached_memory();
    }
  };
  std::thread other(exercise, 2);
  exercise(1);
  other.join();
}

TEST(Storage, CacheStaysWithinWhatWasNeeded) {
  release_cached_memory();
  reset_peak_memory();
  // Sizes that no earlier block fits, freed one by one: the most in use is one block.
  for (std::size_t mb = 20; mb < 400; mb = mb * 4 / 3) {
    const auto storage = Storage::allocate(mb << 20);
  }
  const MemoryStats stats = memory_stats();
  EXPECT_LT(stats.reserved, stats.peak + stats.peak / 4 + (80u << 20));
}

TEST(Storage, LargeBlocksTakeOverThePagesOfOthers) {
  constexpr std::size_t kMb = 1 << 20;
  release_cached_memory();
  const auto fill = [](const Ref<Storage>& storage, int byte) {
    std::memset(storage->data(), byte, storage->bytes());
  };
  const auto use = [&](std::vector<std::size_t> megabytes) {
    std::vector<Ref<Storage>> blocks;
    for (const std::size_t mb : megabytes)
      fill(blocks.emplace_back(Storage::allocate(mb * kMb)), 7);
  };
  use({6, 10, 22});
  const std::size_t reserved = memory_stats().reserved;
  {
    const auto joined = Storage::allocate(34 * kMb);  // more than any: the first two and a part
    EXPECT_EQ(memory_stats().reserved, reserved);
    for (const std::size_t at : {std::size_t{0}, 6 * kMb, 16 * kMb, 34 * kMb - 1})
      EXPECT_EQ(joined->data()[at], std::byte{7}) << at;  // nobody cleared them
    fill(joined, 8);
  }
  use({4, 6, 14, 14});  // from pieces of what was put together
  EXPECT_EQ(memory_stats().reserved, reserved);
  {
    const auto larger = Storage::allocate(60 * kMb);  // more than there is
    fill(larger, 9);
    EXPECT_EQ(memory_stats().reserved, reserved + 22 * kMb);
  }
}

TEST(Storage, SizesThatComeBackGetBlocksOfTheirOwn) {
  release_cached_memory();
  reset_peak_memory();
  // They are a small part of what the program needs.
  const auto much = Storage::allocate(96 << 20);
  const auto step = [] {
    {
      const auto a = Storage::allocate(4 << 20), b = Storage::allocate(4 << 20);
    }
    const auto c = Storage::allocate(8 << 20);
  };
  for (int i = 0; i < 80; ++i) step();
  const std::size_t calls = memory_stats().system_calls;
  for (int i = 0; i < 8; ++i) step();
  EXPECT_EQ(memory_stats().system_calls, calls);
}

TEST(Storage, ABlockThatIsTooLargeIsPartedWhereMuchIsInUse) {
  release_cached_memory();
  reset_peak_memory();
  constexpr std::size_t kMb = 1 << 20;
  const auto much = Storage::allocate(64 * kMb);
  const std::size_t before = memory_stats().in_use;
  {
    const auto large = Storage::allocate(8 * kMb);
  }
  const auto smaller = Storage::allocate(6 * kMb), rest = Storage::allocate(2 * kMb);
  EXPECT_NEAR(static_cast<double>(memory_stats().in_use - before), 8.0 * kMb, 0.2 * kMb);
  EXPECT_EQ(rest->data(), smaller->data() + 6 * kMb);
}

TEST(Storage, FullCachesGiveTheirPagesHoweverOftenASizeComesBack) {
  constexpr std::size_t kMb = 1 << 20;
  release_cached_memory();
  reset_peak_memory();
  const auto use = [](std::size_t count, std::size_t bytes) {
    std::vector<Ref<Storage>> blocks;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& block = blocks.emplace_back(Storage::allocate(bytes));
      for (std::size_t at = 0; at < bytes; at += 2 * kMb) block->data()[at] = std::byte{7};
    }
  };
  // Both do not fit into what may be cached: what the one leaves becomes the other.
  for (int i = 0; i < 80; ++i) {
    use(1, 192 * kMb);
    use(2, 96 * kMb);
  }
  const auto large = Storage::allocate(192 * kMb);
  for (std::size_t at = 0; at < large->bytes(); at += 2 * kMb) {
    ASSERT_EQ(large->data()[at], std::byte{7}) << at / kMb << " MB: cleared by the system";
  }
}
#endif

TEST(Storage, ThreadsPassBlocksToEachOther) {
  constexpr int kThreads = 4, kRounds = 20000;
  const std::size_t before = memory_stats().in_use;
  std::mutex mutex;
  std::vector<Ref<Storage>> shared(64);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < kThreads; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < kRounds; ++i) {
        const std::size_t bytes = random() % (i % 100 == 0 ? 3000000 : 20000);
        Ref<Storage> mine = Storage::allocate(bytes);
        if (bytes >= 8) {
          std::memcpy(mine->data(), &bytes, 8);
          std::memcpy(mine->data() + bytes - 8, &bytes, 8);
        }
        const std::lock_guard lock(mutex);
        std::swap(mine, shared[random() % shared.size()]);
        if (mine && mine->bytes() >= 8) {
          std::size_t seen = 0;
          std::memcpy(&seen, mine->data() + mine->bytes() - 8, 8);
          ASSERT_EQ(seen, mine->bytes());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  shared.clear();
  EXPECT_EQ(memory_stats().in_use, before);
}

TEST(Storage, ReferenceCountsHoldUnderThreads) {
  int given_back = 0;
  {
    const Ref<Storage> storage = Storage::adopt(nullptr, 0, [&] { ++given_back; });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([storage] {
        for (int k = 0; k < 50000; ++k) {
          Ref<Storage> copy = storage;
          Ref<Storage> moved = std::move(copy);
          copy = moved;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(given_back, 0);
  }
  EXPECT_EQ(given_back, 1);
}

// Made before the thread's first allocation, so destroyed after the thread's own lists.
struct Late {
  Ref<Storage> storage;
  std::size_t* in_use;
  ~Late() {
    storage = Storage::allocate(200);
    storage = nullptr;
    *in_use = memory_stats().in_use;
  }
};

TEST(Storage, OutlivesTheThreadThatMadeIt) {
  const std::size_t before = memory_stats().in_use;
  std::size_t at_end = 0;
  Ref<Storage> kept;
  std::thread([&] {
    thread_local Late late{nullptr, &at_end};
    late.storage = Storage::allocate(100);
    kept = Storage::allocate(100);
  }).join();
  EXPECT_GT(at_end, before);
  EXPECT_EQ(memory_stats().in_use, at_end);
  kept = nullptr;
  EXPECT_EQ(memory_stats().in_use, before);
}

/// Whole pages of a block that are in memory.
int resident_pages(const Storage& storage) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(storage.data()) + page - 1) / page * page;
  const auto end =
      (reinterpret_cast<std::uintptr_t>(storage.data()) + storage.bytes()) / page * page;
  std::vector<unsigned char> pages((end - begin) / page);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()), 0);
  return static_cast<int>(std::ranges::count_if(pages, [](auto p) { return (p & 1) != 0; }));
}

TEST(Storage, ContentsThatCanBeMadeAgainAreAwayWhileNobodyHoldsThem) {
  constexpr std::size_t kBytes = 300'000;
  const std::size_t before = memory_stats().away;
  for (const bool adopted : {false, true}) {
    std::vector<char> other(kBytes);
    Ref<Storage> storage =
        adopted ? Storage::adopt(other.data(), kBytes, [] {}) : Storage::allocate(kBytes);
    std::memset(storage->data(), 7, kBytes);
    int remade = 0;
    const auto remake = [&remade](void* into) {
      std::memset(into, 7, kBytes);
      ++remade;
    };
    storage->set_remake(remake);  // nobody allowed it
    {
      const ContentsHold hold(storage);
    }
    EXPECT_FALSE(storage->is_away());

    storage->allow_shedding();
    {
      const ContentsHold hold(storage);
    }
    EXPECT_FALSE(storage->is_away()) << "nothing makes them again";
    {
      const ContentsHold first(storage);
      storage->set_remake(remake);
      const ContentsHold second(storage);
      EXPECT_TRUE(second.holds());
    }
    EXPECT_TRUE(storage->is_away());
    EXPECT_EQ(memory_stats().away, before + kBytes);
    EXPECT_EQ(resident_pages(*storage), 0);
    {
      ContentsHold hold(storage);
      EXPECT_EQ(remade, 1);
      EXPECT_EQ(memory_stats().away, before);
      for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(storage->data()[i], std::byte{7}) << i;
      const ContentsHold moved(std::move(hold));
      EXPECT_FALSE(storage->is_away());
    }
    EXPECT_TRUE(storage->is_away());
    if (adopted) {
      storage->keep_contents();
      EXPECT_EQ(remade, 2);
      {
        const ContentsHold hold(storage);
      }
      EXPECT_FALSE(storage->is_away());
      EXPECT_EQ(storage->data()[kBytes - 1], std::byte{7});
    }
    storage = nullptr;
    EXPECT_EQ(memory_stats().away, before);
  }
}

TEST(Storage, ContentsThatCannotBeMadeAgainAreAnErrorAndStayAway) {
  const Ref<Storage> storage = Storage::allocate(100'000);
  storage->allow_shedding();
  bool fails = true;
  {
    const ContentsHold hold(storage);
    storage->set_remake([&](void* into) {
      if (fails) throw MemoryError("no memory");
      std::memset(into, 1, 100'000);
    });
  }
  EXPECT_THROW(ContentsHold{storage}, MemoryError);
  EXPECT_TRUE(storage->is_away());
  fails = false;
  const ContentsHold hold(storage);
  EXPECT_EQ(storage->data()[50'000], std::byte{1});
}

TEST(Pool, GivesDistinctAlignedBlocks) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) {
    void* block = detail::pool_allocate(176);
    EXPECT_TRUE(aligned(block, 64));
    std::memset(block, i, 176);
    blocks.push_back(block);
  }
  for (int i = 0; i < 1000; ++i) {
    const auto* bytes = static_cast<const unsigned char*>(blocks[static_cast<std::size_t>(i)]);
    EXPECT_EQ(bytes[0], static_cast<unsigned char>(i));
    EXPECT_EQ(bytes[175], static_cast<unsigned char>(i));
  }
  for (void* block : blocks) detail::pool_free(block, 176);
}

}  // namespace
}  // namespace dyad
