#include "dyad/passes/join_parts.h"

#include <string>

#include "passes_for_tests.h"

namespace dyad::passes {
namespace {

constexpr const char* kParts = R"(graph {
  %x = placeholder : f32[4, 6]
  %y = placeholder : f32[4, 2]
  %m, %v = topk(%x) {k = 2, axis = 1, largest = true, sorted = true} : f32[4, 2], i64[4, 2]
  %a = pad(%m) {low = [0, 2], high = [0, 0], value = 0.0} : f32[4, 4]
  %b = pad(%m) {low = [0, 0], high = [0, 2], value = 0.0} : f32[4, 4]
  %s = add(%a, %b) : f32[4, 4]
  return %s
})";

TEST(JoinParts, PartsThatFillATensorStandSideBySideInTheirOrder) {
  EXPECT_TRUE(is_graph(join_parts(*parse(kParts)), R"(graph {
    %x = placeholder : f32[4, 6]
    %y = placeholder : f32[4, 2]
    %m, %v = topk(%x) {k = 2, axis = 1, largest = true, sorted = true} : f32[4, 2], i64[4, 2]
    %c = concat(%m, %m) {axis = 1} : f32[4, 4]
    %zero = constant 0.0 : f32[]
    %s = add(%c, %zero) : f32[4, 4]
    return %s
  })"));
}

/// The graph with `from` replaced stays as it is.
void expect_unchanged(const std::string& from, const std::string& to) {
  std::string text = kParts;
  text.replace(text.find(from), from.size(), to);
  EXPECT_TRUE(is_graph(join_parts(*parse(text)), text)) << from;
}

TEST(JoinParts, SumsThatAreNoneStay) {
  expect_unchanged("low = [0, 2], high = [0, 0], value = 0.0",
                   "low = [0, 1], high = [0, 1], value = 0.0");
  expect_unchanged("low = [0, 2], high = [0, 0], value = 0.0",
                   "low = [0, 2], high = [0, 0], value = 1.0");
  expect_unchanged("add(%a, %b)", "mul(%a, %b)");
  expect_unchanged("return %s", "return %s, %a");
}

TEST(JoinParts, PartsOfDifferentNodesStayBecauseTheyMayLieDifferently) {
  expect_unchanged("pad(%m) {low = [0, 0]", "pad(%y) {low = [0, 0]");
}

}  // namespace
}  // namespace dyad::passes
