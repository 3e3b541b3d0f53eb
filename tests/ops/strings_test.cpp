#include <gtest/gtest.h>

#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/text.h"
#include "dyad/exec/compile.h"
#include "dyad/ops/ops.h"

namespace dyad::testing {
namespace {

using Words = std::vector<std::string>;

class Strings : public Interpreted {};

TEST_F(Strings, AreMovedAsNumbersAre) {
  const Tensor x = tensor({{"a", "b", "c"}, {"d", "e", "f"}});
  EXPECT_EQ(to_strings(transpose(x, 0, 1)), (Words{"a", "d", "b", "e", "c", "f"}));
  EXPECT_EQ(to_strings(reshape(x, {3, 2})), (Words{"a", "b", "c", "d", "e", "f"}));
  EXPECT_EQ(to_strings(slice(x, 1, 1)), (Words{"b", "c", "e", "f"}));
  EXPECT_EQ(to_strings(select(x, 0, 1)), (Words{"d", "e", "f"}));
  EXPECT_EQ(to_strings(concat({x, slice(x, 0, 1)}, 0)),
            (Words{"a", "b", "c", "d", "e", "f", "d", "e", "f"}));
  EXPECT_EQ(to_strings(index_select(x, 1, tensor({2, 0}, i64))), (Words{"c", "a", "f", "d"}));
  EXPECT_EQ(to_strings(gather(x, 0, tensor({{1, 0, 1}}, i64))), (Words{"d", "b", "f"}));
  EXPECT_EQ(to_strings(clone(transpose(x, 0, 1))), (Words{"a", "d", "b", "e", "c", "f"}));
  EXPECT_EQ(to_strings(expand(slice(x, 1, 0, 1), {2, 2})), (Words{"a", "a", "d", "d"}));
}

TEST_F(Strings, CompareByTheirText) {
  const Tensor x = tensor({"a", "bb", ""}), y = tensor({"a", std::string("b") + "c", ""});
  EXPECT_EQ((x == y).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ((x != y).to_vector<bool>(), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(to_strings(where(x == y, x, y)), (Words{"a", "bc", ""}));
}

TEST_F(Strings, InAGraph) {
  auto pick = compile([](Tensor x, Tensor y) {
    return where(x == y, x, concat({slice(x, 0, 1), slice(x, 0, 0, 1)}, 0));
  });
  const Tensor x = tensor({"a", "b", "c"}), y = tensor({"a", "z", "c"});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(to_strings(pick(x, y)), (Words{"a", "c", "c"}));
}

TEST_F(Strings, HaveNoArithmetic) {
  const Tensor x = tensor({"a", "b"});
  EXPECT_THROW((void)(x + x), DTypeError);
  EXPECT_THROW((void)x.to(f32), DTypeError);
  try {
    (void)(x == tensor({1, 2}));
    FAIL();
  } catch (const DTypeError& error) {
    EXPECT_EQ(error.message(),
              "eq(a: string[2], b: i32[2]): b is no string, and strings meet strings only");
  }
}

}  // namespace
}  // namespace dyad::testing
