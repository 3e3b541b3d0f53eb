#include "dyad/data/csv.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/data/files.h"
#include "tests/shared/message_of.h"

namespace dyad::data {
namespace {

using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

std::vector<float> values_of(const CsvTable& table) {
  const float* data = table.values.data<float>();
  return {data, data + table.values.shape()[0].number() * table.values.shape()[1].number()};
}

CsvTable load(const std::string& text, const CsvOptions& options = {}) {
  const TempFile file("table.csv", text);
  return load_csv(file.path(), options);
}

std::string csv_error(const std::string& text, const CsvOptions& options = {}) {
  return message_of<IoError>([&] { (void)load(text, options); });
}

TEST(Csv, ReadsNumbers) {
  const CsvTable table = load("1,2.5,-3e2\n4,+5,0.1\n");
  EXPECT_EQ(type_string(table.values), "f32[2, 3]");
  EXPECT_THAT(values_of(table), ElementsAre(1, 2.5f, -300, 4, 5, 0.1f));
}

TEST(Csv, ReadsHeadersQuotesBlanksAndLineEnds) {
  const CsvTable table =
      load("\xEF\xBB\xBF\"x, y\"; z \r\n \"1\" ;2\r\n\r\n3;4", {.delimiter = ';', .header = true});
  EXPECT_THAT(table.columns, ElementsAre("x, y", "z"));
  EXPECT_THAT(values_of(table), ElementsAre(1, 2, 3, 4));
}

TEST(Csv, ReadsExactIntegers) {
  const CsvTable table = load("9007199254740993\n", {.dtype = i64});
  EXPECT_EQ(table.values.data<std::int64_t>()[0], 9007199254740993);
  EXPECT_THAT(csv_error("1.5\n", {.dtype = i64}),
              HasSubstr("expected a number of i64, found '1.5'"));
}

TEST(Csv, MissingFieldsAreErrorsOrNaN) {
  EXPECT_THAT(csv_error("1,2\n3,\n"),
              HasSubstr("line 2, column 2: expected a number of f32, found ''"));
  const CsvTable table = load("1,2\n3,\n", {.missing_as_nan = true});
  EXPECT_TRUE(std::isnan(values_of(table)[3]));
}

TEST(Csv, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(csv_error("a,b\n1,2\n"),
              HasSubstr("line 1, column 1: expected a number of f32, found 'a' (if the first line "
                        "names the columns, set header)"));
  EXPECT_THAT(csv_error("1,2\n3\n"), HasSubstr("line 2: expected 2 fields as before, found 1"));
  EXPECT_THAT(csv_error("x,y\n1\n", {.header = true}), HasSubstr("line 2: expected 2 fields"));
  EXPECT_THAT(csv_error("1\n\"2\n"), HasSubstr("line 2: expected a closing quote"));
  EXPECT_THAT(csv_error("\"1\"2,3\n"),
              HasSubstr("line 1: expected ',' after a closing quote, found '2'"));
  EXPECT_THAT(csv_error("1,\x01\0\n"s), HasSubstr("found '\\x01\\x00'"));
  EXPECT_THAT(csv_error("", {.header = true}),
              HasSubstr("expected names of columns, found the end"));
}

TEST(Csv, AnEmptyFileIsAnEmptyTable) {
  EXPECT_EQ(type_string(load("").values), "f32[0, 0]");
  EXPECT_EQ(type_string(load("a,b\n", {.header = true}).values), "f32[0, 2]");
}

TEST(Csv, OtherDTypesAreErrors) {
  EXPECT_THAT(message_of<DTypeError>([] { (void)load("1\n", {.dtype = f16}); }),
              HasSubstr("dtype must be f32, f64 or i64, found f16"));
}

TEST(Csv, ALineWithoutEndIsRefusedBeforeMemoryIs) {
  EXPECT_THAT(csv_error(std::string((16u << 20) + 1, '1')), HasSubstr("line 1: expected at most"));
}

TEST(Csv, NoTruncationBreaksIt) {
  const std::string text = "x,\"y\"\r\n1,2.5\r\n\"3\",-4e-1\r\n";
  for (std::size_t length = 0; length < text.size(); ++length) {
    const TempFile file("cut.csv", text.substr(0, length));
    try {
      const CsvTable table = load_csv(file.path(), {.header = true});
      EXPECT_LE(table.values.shape()[0].number(), 2);
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), HasSubstr(file.path()));
    }
  }
}

}  // namespace
}  // namespace dyad::data
