// Each target reads its corpus: what a fuzzer made of small files, and every file that was once
// read wrongly. ./dev fuzz makes more of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/targets.h"

namespace dyad::fuzz {
namespace {

namespace fs = std::filesystem;

// Each graph runs once, so kernels are interpreted, from the first one of the program on.
[[maybe_unused]] const bool kInterpreted =
    setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0) == 0;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Corpus : public ::testing::TestWithParam<Target> {};

TEST_P(Corpus, IsReadOrRefused) {
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::directory_iterator(fs::path("tests/fuzz/corpus") / GetParam().name)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  EXPECT_GE(files.size(), 3u);
  for (const fs::path& file : files) {
    try {
      GetParam().run(read(file));
    } catch (const std::exception& error) {
      ADD_FAILURE() << file << ": " << error.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Corpus, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dyad::fuzz
