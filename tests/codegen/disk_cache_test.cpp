#include "dyad/codegen/disk_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace dyad::codegen {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  static std::vector<std::byte> object(std::size_t size, int seed) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed);
    return bytes;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    return found;
  }

  std::string folder_ = testing::TempDir() + "dyad-disk-cache-test" + std::to_string(getpid());
  const KernelHash a_ = hash_bytes("a"), b_ = hash_bytes("b"), c_ = hash_bytes("c");
};

TEST_F(DiskCacheTest, AnObjectIsFoundUnderEachOfItsRecipes) {
  const DiskCache cache(folder_, "cpu", 1 << 20);
  const KernelHash both[] = {a_, b_};
  cache.store(both, object(1000, 1));
  const DiskCache another(folder_, "cpu", 1 << 20);
  EXPECT_EQ(another.find(a_), object(1000, 1));
  EXPECT_EQ(another.find(b_), object(1000, 1));
  EXPECT_TRUE(another.find(c_).empty());
  EXPECT_TRUE(DiskCache(folder_, "other cpu", 1 << 20).find(a_).empty());
}

TEST_F(DiskCacheTest, DamagedForeignAndOpenFilesAreIgnoredAndReplaced) {
  const DiskCache cache(folder_, "cpu", 1 << 20);
  const auto store = [&] { cache.store({&a_, 1}, object(1000, 1)); };
  store();
  const fs::path file = files().at(0);
  const auto damage = [&](auto&& how) {
    how();
    EXPECT_TRUE(cache.find(a_).empty());
    store();
    EXPECT_EQ(cache.find(a_), object(1000, 1));
  };
  damage([&] { fs::resize_file(file, 500); });
  damage([&] { fs::resize_file(file, 3); });
  damage([&] {
    std::ofstream(file) << "not a kernel, but long enough to have a header in front of it";
  });
  damage([&] {
    std::fstream f(file, std::ios::in | std::ios::out);
    f.seekp(200);
    f.put('x');
  });
  damage([&] { chmod(file.c_str(), 0666); });
}

TEST_F(DiskCacheTest, AFolderThatOthersMayWriteToIsNotUsed) {
  ASSERT_TRUE(DiskCache(folder_, "cpu", 1 << 20).enabled());
  for (const auto& entry : fs::directory_iterator(folder_)) chmod(entry.path().c_str(), 0777);
  EXPECT_FALSE(DiskCache(folder_, "cpu", 1 << 20).enabled());
  EXPECT_FALSE(DiskCache("/proc/nowhere", "cpu", 1 << 20).enabled());
  EXPECT_FALSE(DiskCache(folder_, "", 1 << 20).enabled());
}

TEST_F(DiskCacheTest, TheOldestGoWhenItGrowsTooLarge) {
  const DiskCache cache(folder_, "cpu", 10'000);
  for (int i = 0; i < 30; ++i) {
    const KernelHash hash = hash_bytes(std::to_string(i));
    cache.store({&hash, 1}, object(900, i));
  }
  std::uint64_t bytes = 0;
  for (const auto& f : files()) bytes += fs::file_size(f);
  EXPECT_LE(bytes, 10'000u);
  EXPECT_EQ(cache.find(hash_bytes("29")), object(900, 29));
  EXPECT_TRUE(cache.find(hash_bytes("0")).empty());
}

TEST_F(DiskCacheTest, ManyWritersAndReadersSeeWholeObjectsOrNone) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const DiskCache cache(folder_, "cpu", 1 << 20);
      const KernelHash both[] = {a_, b_};
      for (int i = 0; i < 50; ++i) {
        if (t % 2 == 0) cache.store(both, object(5000, 7));
        const auto found = cache.find(a_);
        EXPECT_TRUE(found.empty() || found == object(5000, 7));
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(files().size(), 2u);
}

}  // namespace
}  // namespace dyad::codegen
