#include "dyad/base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dyad {
namespace {

TEST(Log, SinkGetsEveryLineUntilRestored) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel level, std::string_view text) {
    lines.push_back(std::to_string(static_cast<int>(level)) + std::string(text));
  });
  log(LogLevel::debug, "a");
  log(LogLevel::error, "b");
  set_log_sink({});
  log(LogLevel::debug, "c");
  EXPECT_EQ(lines, (std::vector<std::string>{"0a", "3b"}));
}

}  // namespace
}  // namespace dyad
