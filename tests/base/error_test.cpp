#include "dyad/base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace dyad {
namespace {

std::string shown(const std::string& message) { return ValueError(message).message(); }

TEST(ErrorText, TextStaysAsItIs) {
  for (const char* const text : {"", "add: [2] and [3]\n\twhere", "größer als 東京 \U0001F600"}) {
    EXPECT_EQ(shown(text), text);
    EXPECT_STREQ(ValueError(text).what(), text);
  }
}

TEST(ErrorText, WhatIsNoTextIsWrittenOut) {
  EXPECT_EQ(shown(std::string("a\0b\x1b[31m\x7f", 9)), "a\\x00b\\x1b[31m\\x7f");
  EXPECT_EQ(shown("\xff\xfe|\xc3"), "\\xff\\xfe|\\xc3");
  EXPECT_EQ(shown("\xc3(|\xc0\x80"), "\\xc3(|\\xc0\\x80");
}

TEST(ErrorText, OfALongMessageTheMiddleIsLeftOut) {
  const std::string text = shown("begin " + std::string(1'000'000, 'a') + " end");
  EXPECT_EQ(text.find("begin aaa"), 0u);
  EXPECT_NE(text.find("a... (993010 bytes) ...a"), std::string::npos);
  EXPECT_TRUE(text.ends_with("a end"));
  EXPECT_LT(text.size(), 7100u);
  std::string wide;
  for (int i = 0; i < 10'000; ++i) wide += "東";
  EXPECT_EQ(shown(wide).find('\\'), std::string::npos);
}

}  // namespace
}  // namespace dyad
