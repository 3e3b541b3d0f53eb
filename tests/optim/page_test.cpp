// The code in docs/training.md is part of a program that is built and run.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace dyad::optim {
namespace {

/// The lines of a file without what they are indented by.
std::string lines_of(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    text += (begin == line.npos ? "" : line.substr(begin)) + "\n";
  }
  return text;
}

TEST(Page, ShowsPartsOfTheExample) {
  const std::string page = lines_of("docs/training.md"),
                    program = lines_of("examples/training.cpp");
  const std::string fence = "```cpp\n";
  int blocks = 0;
  for (std::size_t at = page.find(fence); at != page.npos; at = page.find(fence, at + 1)) {
    const std::size_t begin = at + fence.size();
    const std::string block = page.substr(begin, page.find("```\n", begin) - begin);
    EXPECT_NE(program.find(block), program.npos) << block;
    ++blocks;
  }
  EXPECT_EQ(blocks, 4);
}

}  // namespace
}  // namespace dyad::optim
