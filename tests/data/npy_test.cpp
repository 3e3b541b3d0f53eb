#include "dyad/data/npy.h"

#include <gmock/gmock.h>

#include <cstring>

#include "tests/data/files.h"
#include "tests/shared/message_of.h"

namespace dyad::data {
namespace {

using dyad::testing::expect_every_truncation_fails;
using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

/// A file as NumPy writes it: format 1.0, header padded to 64 bytes.
std::string npy(const std::string& header, const std::string& data) {
  std::string text = header;
  text.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  text += '\n';
  return "\x93NUMPY\x01\x00"s + static_cast<char>(text.size() & 255) +
         static_cast<char>(text.size() >> 8) + text + data;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

std::string npy_error(const std::string& bytes) {
  const TempFile file("bad.npy", bytes);
  return message_of<IoError>([&] { (void)load_npy(file.path()); });
}

const std::string kFloats = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                                raw<float>({1, 2, 3, 4, 5, 6}));

TEST(Npy, ReadsAnArray) {
  const TempFile file("x.npy", kFloats);
  const Tensor x = load_npy(file.path());
  EXPECT_EQ(type_string(x), "f32[2, 3]");
  EXPECT_THAT(std::vector<float>(x.data<float>(), x.data<float>() + 6),
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, FortranOrderBecomesATransposedView) {
  const TempFile file("x.npy", npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }",
                                   raw<std::int32_t>({1, 4, 2, 5, 3, 6})));
  const Tensor x = load_npy(file.path());
  EXPECT_EQ(type_string(x), "i32[2, 3]");
  EXPECT_THAT(x.strides(), ElementsAre(1, 2));
}

TEST(Npy, BigEndianIsSwapped) {
  const TempFile file("x.npy",
                      npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", "\1\2\3\4"));
  const Tensor x = load_npy(file.path());
  EXPECT_THAT(std::vector<int>(x.data<std::int16_t>(), x.data<std::int16_t>() + 2),
              ElementsAre(0x0102, 0x0304));
}

TEST(Npy, ReadsEveryDTypeAndFormat) {
  const struct {
    const char* descr;
    int bytes;
    const char* type;
  } cases[] = {{"<f8", 8, "f64[]"},    {"<f4", 4, "f32[]"}, {"<f2", 2, "f16[]"},
               {"<i8", 8, "i64[]"},    {"<i4", 4, "i32[]"}, {"<i2", 2, "i16[]"},
               {"|i1", 1, "i8[]"},     {"|u1", 1, "u8[]"},  {"|b1", 1, "bool[]"},
               {"<u8", 8, "u64[]"},    {"<u4", 4, "u32[]"}, {"<u2", 2, "u16[]"},
               {"<c16", 16, "c128[]"}, {"<c8", 8, "c64[]"}};
  for (const auto& c : cases) {
    const TempFile file(
        "x.npy", npy("{\"shape\": (), \"descr\": \""s + c.descr + "\", \"fortran_order\": False}",
                     std::string(static_cast<std::size_t>(c.bytes), '\0')));
    EXPECT_EQ(type_string(load_npy(file.path())), c.type);
  }
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}\n";
  for (const char version : {'\2', '\3'}) {
    const TempFile file("x.npy", "\x93NUMPY"s + version + '\0' + static_cast<char>(header.size()) +
                                     "\0\0\0"s + header + "\x07");
    EXPECT_EQ(load_npy(file.path()).data<std::uint8_t>()[0], 7);
  }
}

TEST(Npy, EveryTruncationIsAnError) {
  expect_every_truncation_fails(kFloats, "x.npy", [](const auto& path) { (void)load_npy(path); });
}

TEST(Npy, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(npy_error("PK\3\4abcd"), HasSubstr("at byte 0: expected an npy file"));
  EXPECT_THAT(npy_error("\x93NUMPY\x09\0"s),
              HasSubstr("at byte 6: expected npy format 1, 2 or 3, found 9"));
  EXPECT_THAT(npy_error("\x93NUMPY\x02\0\xff\xff\xff\xff"s),
              HasSubstr("npy header of at most 1048576"));
  EXPECT_THAT(npy_error(npy("{'descr': '<m8', 'fortran_order': False, 'shape': (1,)}", "")),
              HasSubstr("expected a descr of f8, f4"));
  EXPECT_THAT(
      npy_error(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "")),
      HasSubstr("found one of records"));
  EXPECT_THAT(npy_error(npy("{'descr': '<f4', 'shape': (1,)}", "")),
              HasSubstr("expected 'descr', 'fortran_order' and 'shape'"));
  EXPECT_THAT(npy_error(npy("{'descr': '<f4', 'descr': '<f4'}", "")),
              HasSubstr("expected one each"));
  EXPECT_THAT(npy_error(npy("{'descr': '<f4', 'fortran_order': Maybe}", "")),
              HasSubstr("expected True or False"));
  EXPECT_THAT(npy_error(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "")),
              HasSubstr("expected a size in the shape"));
  EXPECT_THAT(npy_error(npy("__import__('os')", "")), HasSubstr("expected '{' in the npy header"));
  EXPECT_THAT(npy_error(kFloats + "x"), HasSubstr("expected the end after npy data"));
  EXPECT_THAT(npy_error(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\1\2")),
              HasSubstr("at byte 129: expected a bool (0 or 1), found 2"));
}

TEST(Npy, AbsurdSizesTakeNoMemory) {
  EXPECT_THAT(
      npy_error(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}", "")),
      HasSubstr("needs 8000000000000 bytes, but at most 0 can follow"));
  EXPECT_THAT(npy_error(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, "
                            "4294967296, 4294967296)}",
                            "")),
              HasSubstr("than can be addressed"));
  EXPECT_THAT(npy_error(npy("{'descr': '<f8', 'fortran_order': False, 'shape': "
                            "(99999999999999999999,)}",
                            "")),
              HasSubstr("expected a size"));
  EXPECT_THAT(npy_error(npy("{'descr': '|u1', 'fortran_order': False, 'shape': "
                            "(0, 9223372036854775807)}",
                            "")),
              HasSubstr("is too large"));
}

}  // namespace
}  // namespace dyad::data
