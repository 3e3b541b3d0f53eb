#include "dyad/core/text_pattern.h"

#include <gtest/gtest.h>

#include <regex>

#include "dyad/base/error.h"

namespace dyad {
namespace {

TEST(TextPattern, MatchesAsTheStandardLibraryDoes) {
  const std::string expressions[] = {
      "abc",           "a*",         "a+b?",       "(a|b)*c", "[a-c]{2,3}",
      "a{2}",          "a{1,}b",     "^a$",        "(?:ab)+", "[^a]b",
      "\\d+\\.\\d*",   "\\w\\W\\s?", ".a.",        "a||b",    "()",
      "(a|ab)(c|bcd)", "[\\w.]+@x",  "(a*)*b",     "a{0}b",   "[a\\-c]",
      "(a|b|c){2}",    "x?x?x?xxx",  "\\ba.*b\\b", "a\\Bb.*", ".*\\b"};
  const std::string texts[] = {"",      "a",   "b",   "ab",    "abc", "aabb", "cab", "abab",
                               "1.5",   "12.", "a b", "a-",    "aa",  "aaa",  "bac", "abcd",
                               "a.b@x", "-",   "xxx", "xxxxx", "bb",  "c",    "a!"};
  for (const std::string& expression : expressions) {
    const TextPattern pattern(expression);
    const std::regex standard(expression);
    for (const std::string& text : texts) {
      EXPECT_EQ(pattern.matches_all(text), std::regex_match(text, standard))
          << expression << " on '" << text << "'";
    }
  }
}

TEST(TextPattern, TakesTimeInProportion) {
  const std::string many(20000, 'a');
  EXPECT_FALSE(TextPattern("(a*)*b").matches_all(many));
  EXPECT_TRUE(TextPattern("(a|aa)+").matches_all(many));
}

TEST(TextPattern, CharactersAreCodePoints) {
  EXPECT_TRUE(TextPattern("..").matches_all("\xC3\xA9\xE2\x82\xAC"));  // é€
  EXPECT_TRUE(TextPattern("[\xC3\xA0-\xC3\xBF]").matches_all("\xC3\xA9"));
  EXPECT_FALSE(TextPattern(".").matches_all("\n"));
}

TEST(TextPattern, RefusesWhatIsNoExpression) {
  const auto message = [](const std::string& expression) -> std::string {
    try {
      const TextPattern pattern(expression);
    } catch (const ValueError& error) {
      return std::string(error.message());
    }
    return "";
  };
  EXPECT_EQ(message("a)"), "the regular expression 'a)' has an unmatched ')' at character 1");
  EXPECT_EQ(message("(a"),
            "the regular expression '(a' has a group that does not end at character 2");
  EXPECT_EQ(message("*a"), "the regular expression '*a' has nothing to repeat at character 1");
  EXPECT_EQ(message("[a"), "the regular expression '[a' has an unfinished part at character 2");
  EXPECT_EQ(message("\\1"),
            "the regular expression '\\1' has an escape that has no meaning here at character 2");
  EXPECT_EQ(message("(?=a)"),
            "the regular expression '(?=a)' has a group of another kind than (...) "
            "and (?:...) at character 2");
  EXPECT_EQ(message("a{2001}"),
            "the regular expression 'a{2001}' has a count of more than 1000 at character 7");
  EXPECT_NE(message("((a{900}){900}){900}"), "");
  EXPECT_NE(message(std::string(1000, '(')), "");
}

TEST(TextPattern, LettersHaveAnotherCase) {
  EXPECT_EQ(with_case("Hello, W\xC3\xB6rld 1", true), "HELLO, W\xC3\x96RLD 1");
  EXPECT_EQ(with_case("\xC3\x89T\xC3\x89 \xD0\x9F\xCE\xA9\xC4\x80", false),
            "\xC3\xA9t\xC3\xA9 \xD0\xBF\xCF\x89\xC4\x81");
  EXPECT_EQ(utf8(code_points("a\xE2\x82\xAC\xF0\x9F\x98\x80")), "a\xE2\x82\xAC\xF0\x9F\x98\x80");
}

}  // namespace
}  // namespace dyad
