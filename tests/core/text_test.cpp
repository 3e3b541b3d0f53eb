#include "dyad/core/text.h"

#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/printing.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::bare_message_of;

TEST(Text, EachTextIsHeldOnce) {
  const Text a = text_element("a"), b = text_element(std::string("a"));
  EXPECT_EQ(a.address, b.address);
  EXPECT_NE(a.address, text_element("b").address);
  EXPECT_EQ(text_element("").address, nullptr);
  EXPECT_EQ(text_element("").view(), "");
}

TEST(Text, TensorsThereAndBack) {
  const Tensor x = tensor({{"a", "bb"}, {"", "it's"}});
  EXPECT_EQ(type_string(x), "string[2, 2]");
  EXPECT_EQ(to_strings(x), (std::vector<std::string>{"a", "bb", "", "it's"}));
  const std::vector<std::string> values{"p", "q", "r", "s", "t", "u"};
  const Tensor y = strings(values, {2, -1});
  EXPECT_EQ(type_string(y), "string[2, 3]");
  EXPECT_EQ(to_strings(y), values);
  EXPECT_THROW((void)strings(values, {4}), ShapeError);
  EXPECT_THROW((void)to_strings(tensor({1, 2})), DTypeError);
}

TEST(Text, PrintsAsNumPy) {
  EXPECT_EQ(to_string(tensor({{"a", "bb"}, {"", "it's"}})), "[['a' 'bb']\n ['' \"it's\"]]");
  EXPECT_EQ(to_string(tensor("word")), "word");
  EXPECT_EQ(to_string(tensor({"a\\b\n"})), "['a\\\\b\\n']");
}

TEST(Text, NumbersAreNone) {
  const std::string text =
      "tensor: numbers and strings have no conversion to one another; write one kind";
  EXPECT_EQ(
      bare_message_of<DTypeError>([] { (void)tensor({detail::Literal("a"), detail::Literal(1)}); }),
      text);
  EXPECT_EQ(bare_message_of<DTypeError>([] { (void)tensor({"a", "b"}, f32); }), text);
  EXPECT_EQ(bare_message_of<DTypeError>([] { (void)tensor({1, 2}, DType::string); }), text);
}

}  // namespace
}  // namespace dyad
