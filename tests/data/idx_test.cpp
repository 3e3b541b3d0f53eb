#include "dyad/data/idx.h"

#include <gmock/gmock.h>

#include "tests/data/files.h"
#include "tests/data/gzip.h"
#include "tests/shared/message_of.h"

namespace dyad::data {
namespace {

using dyad::testing::expect_every_truncation_fails;
using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

// i32[2, 2]: 1, -2, 3, 4 as big-endian words.
const std::string kWords =
    "\0\0\x0c\x02\0\0\0\x02\0\0\0\x02\0\0\0\x01\xff\xff\xff\xfe\0\0\0\x03\0\0\0\x04"s;

TEST(Idx, ReadsBigEndianWords) {
  const TempFile file("words", kWords);
  const Tensor x = load_idx(file.path());
  EXPECT_EQ(type_string(x), "i32[2, 2]");
  EXPECT_THAT(std::vector<int>(x.data<std::int32_t>(), x.data<std::int32_t>() + 4),
              ElementsAre(1, -2, 3, 4));
}

TEST(Idx, ReadsGzip) {
  const TempFile file("words.gz", gzip(kWords));
  const Tensor x = load_idx(file.path());
  EXPECT_EQ(type_string(x), "i32[2, 2]");
  EXPECT_EQ(x.data<std::int32_t>()[1], -2);
}

TEST(Idx, ReadsEveryElementType) {
  const struct {
    char code;
    int bytes;
    const char* type;
  } cases[] = {{8, 1, "u8[1]"},   {9, 1, "i8[1]"},   {11, 2, "i16[1]"},
               {12, 4, "i32[1]"}, {13, 4, "f32[1]"}, {14, 8, "f64[1]"}};
  for (const auto& c : cases) {
    const TempFile file("one", "\0\0"s + c.code + "\x01\0\0\0\x01"s + std::string(c.bytes, '\0'));
    EXPECT_EQ(type_string(load_idx(file.path())), c.type);
  }
}

TEST(Idx, EveryTruncationIsAnError) {
  expect_every_truncation_fails(kWords, "words", [](const auto& path) { (void)load_idx(path); });
  expect_every_truncation_fails(gzip(kWords), "words.gz",
                                [](const auto& path) { (void)load_idx(path); });
}

TEST(Idx, SaysWhatIsWrongAndWhere) {
  const auto error = [](const std::string& bytes) {
    const TempFile file("bad", bytes);
    return message_of<IoError>([&] { (void)load_idx(file.path()); });
  };
  EXPECT_THAT(error("\0\0\x0c"s),
              HasSubstr("at byte 0: expected 4 bytes of IDX magic number, found the end after 3"));
  EXPECT_THAT(error("PNG!"),
              HasSubstr("at byte 0: expected an IDX file (two zero bytes), found 80 78"));
  EXPECT_THAT(error("\0\0\x07\x01"s), HasSubstr("at byte 2: expected an IDX element type"));
  EXPECT_THAT(
      error(kWords.substr(0, 20)),
      HasSubstr("at byte 12: IDX data of i32[2, 2] needs 16 bytes, but at most 8 can follow"));
  EXPECT_THAT(error(kWords + "x"), HasSubstr("at byte 28: expected the end after IDX data"));
}

TEST(Idx, AbsurdSizesTakeNoMemory) {
  const auto error = [](const std::string& bytes) {
    const TempFile file("absurd", bytes);
    return message_of<IoError>([&] { (void)load_idx(file.path()); });
  };
  const std::string most = "\xff\xff\xff\xff"s;
  EXPECT_THAT(error("\0\0\x0e\x01"s + most), HasSubstr("at most 0 can follow"));
  EXPECT_THAT(error("\0\0\x0e\x03"s + most + most + most), HasSubstr("than can be addressed"));
  EXPECT_THAT(error("\0\0\x08\xff"s + std::string(255 * 4, '\x01')),
              HasSubstr("at most 8 axes, found 255"));
  // A claim that deflate could not have packed into so few bytes.
  EXPECT_THAT(error(gzip("\0\0\x08\x02\0\xff\0\0\0\xff\0\0"s)), HasSubstr("can follow"));
}

TEST(Idx, NoMemoryForEmptyAxesBesideHugeOnes) {
  const TempFile file("empty", "\0\0\x0e\x03\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"s);
  EXPECT_EQ(load_idx(file.path()).shape()[0].number(), 0);
  const TempFile last("last", "\0\0\x0e\x03\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0"s);
  EXPECT_EQ(load_idx(last.path()).to_vector<double>().size(), 0u);
}

TEST(Idx, DamagedGzipIsAnError) {
  std::string packed = gzip(kWords);
  packed[packed.size() - 6] ^= 1;  // in the checksum
  const TempFile file("damaged.gz", packed);
  EXPECT_THAT(message_of<IoError>([&] { (void)load_idx(file.path()); }),
              HasSubstr("gzip stream is damaged"));
}

TEST(Idx, FilesThatCannotBeOpened) {
  EXPECT_THAT(message_of<IoError>([] { (void)load_idx("/no/such/file"); }),
              HasSubstr("'/no/such/file': cannot be opened: No such file or directory"));
  EXPECT_THAT(message_of<IoError>([] { (void)load_idx(::testing::TempDir()); }),
              HasSubstr("expected a regular file"));
}

TEST(Idx, NamesTheCallersLine) {
  const std::string message = message_of<IoError>([] { (void)load_idx("/no/such/file"); });
  EXPECT_THAT(message, HasSubstr("at idx_test.cpp:" + std::to_string(__LINE__ - 1)));
}

}  // namespace
}  // namespace dyad::data
