#include "dyad/codegen/line_table.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/codegen/line_section.h"

namespace dyad::codegen {
namespace {

LineTable table_of(const std::string& section) {
  return LineTable::read(std::as_bytes(std::span(section)));
}

/// "ADDRESS FILE:LINE" of each entry.
std::vector<std::string> texts(const LineTable& table, std::uint64_t address, std::uint64_t size) {
  std::vector<std::string> found;
  for (const SourceLine& line : table.lines(address, size)) {
    found.push_back(std::to_string(line.address - address) + " " + line.file + ":" +
                    std::to_string(line.line));
  }
  return found;
}

TEST(LineTable, HasAnEntryWhereTheLineChanges) {
  const LineTable table = table_of(line_section());
  EXPECT_EQ(texts(table, 0x1000, 0x119),
            (std::vector<std::string>{"0 /somewhere/model.cpp:7", "4 /somewhere/model.cpp:9",
                                      "21 /somewhere/model.cpp:3", "277 plain.cpp:303"}));
  EXPECT_EQ(texts(table, 0x2000, 100), (std::vector<std::string>{"0 other.cpp:1"}));
}

TEST(LineTable, CutsLinesToTheCode) {
  const LineTable table = table_of(line_section());
  EXPECT_EQ(texts(table, 0x1006, 16),
            (std::vector<std::string>{"0 /somewhere/model.cpp:9", "15 /somewhere/model.cpp:3"}));
  EXPECT_EQ(texts(table, 0x1006, 15), (std::vector<std::string>{"0 /somewhere/model.cpp:9"}));
  EXPECT_EQ(texts(table, 0xff0, 0x11), (std::vector<std::string>{"16 /somewhere/model.cpp:7"}));
  EXPECT_TRUE(texts(table, 0xff0, 0x10).empty());
  EXPECT_TRUE(texts(table, 0x1119, 0xee7).empty());
  EXPECT_TRUE(texts(table, 0x1000, 0).empty());
}

TEST(LineTable, WhatTheCompilerDoesNotWriteGivesNoLines) {
  const std::string whole = line_section();
  const auto lines_with = [&](std::size_t at, const std::string& bytes) {
    std::string changed = whole;
    changed.replace(at, bytes.size(), bytes);
    return table_of(changed).lines(0x1000, 0x119).size();
  };
  EXPECT_EQ(lines_with(0, ""), 4u);
  EXPECT_TRUE(table_of("").lines(0, 1 << 30).empty());
  // Cut anywhere but between the units.
  const std::size_t first_unit = 4 + static_cast<unsigned char>(whole[0]);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(table_of(whole.substr(0, size)).lines(0x1000, 0x119).size(),
              size == first_unit ? 4u : 0u);
  const std::vector<std::pair<std::size_t, std::string>> changes = {
      {4, "\x05"},                 // another version
      {10, "\x04"},                // long instructions
      {14, std::string(1, '\0')},  // a line range of 0
      {15, "\x0e"},                // another opcode
      {16, "\x01"},                // an operand too many
      {50, "\x02"},                // a folder that is not there
  };
  EXPECT_EQ(whole.substr(40, 11), std::string("model.cpp\0\x01", 11));
  for (const auto& [at, bytes] : changes) EXPECT_EQ(lines_with(at, bytes), 0u) << at;
}

}  // namespace
}  // namespace dyad::codegen
