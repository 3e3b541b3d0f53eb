#include "dyad/codegen/built_in.h"

#include <gtest/gtest.h>

namespace dyad::codegen {
namespace {

TEST(BuiltIn, FunctionsAreFoundByKey) {
  const int a = 0, b = 0, c = 0;
  const BuiltInFunction table[] = {{{1, 5}, &a}, {{2, 3}, &b}, {{2, 9}, &c}};
  EXPECT_EQ(find_function(table, {1, 5}), &a);
  EXPECT_EQ(find_function(table, {2, 3}), &b);
  EXPECT_EQ(find_function(table, {2, 9}), &c);
  EXPECT_EQ(find_function(table, {2, 4}), nullptr);
  EXPECT_EQ(find_function(table, {3, 0}), nullptr);
  EXPECT_EQ(find_function({}, {1, 5}), nullptr);
}

}  // namespace
}  // namespace dyad::codegen
