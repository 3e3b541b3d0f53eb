// Line tables of generated code, damaged in every place: each gives no lines, or lines within the
// code that was asked for, of files that it names.

#include "dyad/codegen/line_table.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <span>
#include <string>

#include "tests/bad_input/allocations.h"
#include "tests/bad_input/damage.h"
#include "tests/codegen/line_section.h"

namespace dyad::codegen {
namespace {

TEST(DamagedLineTable, GivesNoLinesOrSome) {
  int without = 0, with = 0;
  testing::for_each_damage(line_section(), [&](const std::string& bytes, const std::string& how) {
    SCOPED_TRACE(how);
    const testing::LargestAllocation largest;
    const LineTable table = LineTable::read(std::as_bytes(std::span(bytes)));
    const auto lines = table.lines(0x1000, 0x2000);
    ++(lines.empty() ? without : with);
    std::uint64_t last = 0;
    for (const SourceLine& line : lines) {
      EXPECT_GE(line.address, 0x1000u);
      EXPECT_LT(line.address, 0x3000u);
      EXPECT_GT(line.address, last);
      EXPECT_LE(line.line, static_cast<std::uint32_t>(INT_MAX));
      EXPECT_LT(line.file.size(), bytes.size());
      last = line.address;
    }
    EXPECT_LE(largest.bytes(), 1u << 16);
  });
  EXPECT_GT(without, 1000);
  EXPECT_GT(with, 100);
}

}  // namespace
}  // namespace dyad::codegen
