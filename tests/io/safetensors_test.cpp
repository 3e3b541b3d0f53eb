#include "dyad/io/safetensors.h"

#include <gmock/gmock.h>

#include <cstring>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/printing.h"
#include "dyad/core/tensor_impl.h"
#include "tests/data/files.h"
#include "tests/shared/message_of.h"
#include "values_of.h"

namespace dyad::io {
namespace {

using dyad::testing::bytes_of_file;
using dyad::testing::expect_every_truncation_fails;
using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

// Written by the Python package safetensors 0.8.0.
constexpr const char* kFixture = "tests/io/fixtures/weights.safetensors";

/// A file with this header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data = 0) {
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i));
  return length + header + std::string(data, '\0');
}

std::string error_of(const std::string& bytes, const LoadOptions& options = {}) {
  const TempFile file("bad.safetensors", bytes);
  return message_of<IoError>([&] { (void)load_safetensors(file.path(), options); });
}

void expect_fixture(const Safetensors& file) {
  EXPECT_EQ(file.metadata.at("format"), "pt");
  ASSERT_EQ(file.tensors.size(), 5u);
  EXPECT_EQ(type_string(file.tensors.at("layer.weight")), "f32[2, 3]");
  EXPECT_THAT(values_of<float>(file.tensors.at("layer.weight")),
              ElementsAre(0, 0.25f, 0.5f, 0.75f, 1, 1.25f));
  EXPECT_THAT(values_of<std::int64_t>(file.tensors.at("b")),
              ElementsAre(-1, std::int64_t{1} << 40));
  EXPECT_EQ(type_string(file.tensors.at("half")), "bf16[1]");
  EXPECT_EQ(to_float(file.tensors.at("half").data<BFloat16>()[0]), 1.5f);
  EXPECT_THAT(values_of<bool>(file.tensors.at("on")), ElementsAre(true, false));
}

TEST(Safetensors, ReadsWhatPythonWrote) { expect_fixture(read_safetensors(kFixture)); }

TEST(Safetensors, MapsWhatPythonWrote) {
  const Safetensors file = read_safetensors(kFixture, {.map = true});
  expect_fixture(file);
}

TEST(Safetensors, WritesTheBytesThatPythonWrites) {
  const Safetensors file = read_safetensors(kFixture);
  const TempFile copy("copy.safetensors");
  save_safetensors(copy.path(), file.tensors, file.metadata);
  EXPECT_EQ(copy.read(), bytes_of_file(kFixture));
}

TEST(Safetensors, KeepsNamesOrderAndWideElementsAligned) {
  Tensor narrow = make_empty(u8, {3}), wide = make_empty(f64, {1});
  std::memcpy(narrow.raw_data(), "\1\2\3", 3);
  *wide.data<double>() = 0.1;
  const TempFile file("mixed.safetensors");
  save_safetensors(file.path(), {{"narrow", narrow}, {"wïde \"x\"", wide}}, {{"a", "b\n"}});
  for (const bool map : {false, true}) {
    const Safetensors loaded = read_safetensors(file.path(), {.map = map});
    EXPECT_EQ(loaded.tensors.begin()->first, "narrow");
    EXPECT_EQ(*loaded.tensors.at("wïde \"x\"").data<double>(), 0.1);
    EXPECT_THAT(values_of<std::uint8_t>(loaded.tensors.at("narrow")), ElementsAre(1, 2, 3));
    EXPECT_EQ(loaded.metadata.at("a"), "b\n");
  }
}

TEST(Safetensors, KeepsEveryDTypeThatTheFormatHas) {
  TensorDict tensors;
  for (const DType dtype : {u64, u32, u16, c64, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0}) {
    tensors.add(std::string(name_of(dtype)), tensor({{1, 2}, {4, 0.5}}, dtype));
  }
  const TempFile file("dtypes.safetensors");
  save_safetensors(file.path(), tensors);
  const TensorDict loaded = load_safetensors(file.path());
  for (const auto& [name, x] : tensors) {
    EXPECT_EQ(type_string(loaded.at(name)), type_string(x));
    EXPECT_EQ(to_string(loaded.at(name)), to_string(x));
  }
  for (const DType dtype : {c128, i4, u2, f4e2m1}) {
    const Tensor x = tensor({1, 0}, dtype);
    EXPECT_THROW(save_safetensors(file.path(), {{"x", x}}), DTypeError);
  }
  const Tensor word = tensor("a");
  EXPECT_THROW(save_safetensors(file.path(), {{"x", word}}), DTypeError);
  EXPECT_THAT(message_of<ValueError>([&] { save_safetensors(file.path(), {{"x", Tensor()}}); }),
              HasSubstr("save_safetensors: tensor 'x' is undefined"));
}

TEST(Safetensors, WritesViewsInLogicalOrder) {
  const Tensor x = load_safetensors(kFixture).at("layer.weight");
  const TempFile file("view.safetensors");
  save_safetensors(file.path(), {{"t", make_view(x, {3, 2}, {1, 3}, 0)}});
  EXPECT_THAT(values_of<float>(load_safetensors(file.path()).at("t")),
              ElementsAre(0, 0.75f, 0.25f, 1, 0.5f, 1.25f));
}

TEST(Safetensors, MappedTensorsMayBeWrittenWithoutTouchingTheFile) {
  const TempFile file("map.safetensors", bytes_of_file(kFixture));
  const Safetensors loaded = read_safetensors(file.path(), {.map = true});
  loaded.tensors.at("layer.bias").data<float>()[0] = 7;
  EXPECT_EQ(file.read(), bytes_of_file(kFixture));
  // Replacing the file leaves what is mapped as it was.
  save_safetensors(file.path(), {});
  EXPECT_THAT(values_of<float>(loaded.tensors.at("layer.bias")), ElementsAre(7, -0.25f));
}

TEST(Safetensors, EveryTruncationIsAnError) {
  for (const bool map : {false, true}) {
    expect_every_truncation_fails(
        bytes_of_file(kFixture), "weights.safetensors",
        [&](const auto& path) { (void)load_safetensors(path, {.map = map}); });
  }
}

TEST(Safetensors, EveryFlippedBitIsReadOrAnError) {
  const std::string bytes = bytes_of_file(kFixture);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      const TempFile file("damaged.safetensors", damaged);
      try {
        (void)load_safetensors(file.path());
      } catch (const IoError& error) {
        EXPECT_THAT(error.what(), HasSubstr(file.path()));
      }
    }
  }
}

TEST(Safetensors, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(error_of(file_of("nonsense")),
              HasSubstr("at byte 9: expected JSON in the header, found something else"));
  EXPECT_THAT(error_of(file_of("[1]")), HasSubstr("expected an object, found an array"));
  EXPECT_THAT(
      error_of(file_of(R"({"x":{"dtype":"F7","shape":[],"data_offsets":[0,1]}})", 1)),
      HasSubstr("expected a dtype of F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, "
                "C64, F8_E4M3, F8_E4M3FNUZ, F8_E5M2, F8_E5M2FNUZ, F8_E8M0 or BOOL of "
                "tensor 'x', found 'F7'"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
              HasSubstr("tensor 'x': f32[2] takes 8 bytes, but its offsets 0 to 4 span 4"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 6)),
              HasSubstr("expected 4 bytes of data after the header, as it says, found 6"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})", 8)),
              HasSubstr("expected its data to begin at offset 0, found 4 to 8"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                               R"("y":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                               6)),
              HasSubstr("tensor 'y': expected its data to begin at offset 4, found 2 to 6"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"U8","shape":[4]}})")),
              HasSubstr("expected 'dtype', 'shape' and 'data_offsets' of tensor 'x', found less"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"U8","dtype":"U8"}})")),
              HasSubstr("expected one each of 'dtype'"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})")),
              HasSubstr("expected a size >= 0 of tensor 'x', found the number -1"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{}})")),
              HasSubstr("'x' comes twice"));
  EXPECT_THAT(error_of(file_of(R"({"__metadata__":{"a":1}})")),
              HasSubstr("expected a string for metadata, found the number 1"));
  EXPECT_THAT(
      error_of(file_of(R"({"x":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})") + "\2"),
      HasSubstr("tensor 'x', at byte 63: expected a bool (0 or 1), found 2"));
}

TEST(Safetensors, AbsurdSizesTakeNoMemory) {
  EXPECT_THAT(error_of("\xff\xff\xff\xff\xff\xff\xff\x7f{}"s),
              HasSubstr("expected a header of at most 2 bytes, found 9223372036854775807"));
  const std::string huge = "18446744073709551615";
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"F32","shape":[)" + huge +
                               R"(],"data_offsets":[0,)" + huge + "]}}")),
              HasSubstr("bytes of data after the header, as it says, found 0"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],)"
                               R"("data_offsets":[0,0]}})")),
              HasSubstr("is larger than can be addressed"));
  EXPECT_THAT(error_of(file_of(std::string(1000000, '['))), HasSubstr("found an array"));
  EXPECT_THAT(error_of(file_of(R"({"x":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],)"
                               R"("data_offsets":[0,1]}})",
                               1)),
              HasSubstr("expected at most 8 axes, found 9"));
}

TEST(Safetensors, NamesThatTheFormatCannotHold) {
  const Tensor x = make_empty(f32, {});
  const TempFile file("names.safetensors");
  EXPECT_THAT(message_of<ValueError>([&] { save_safetensors(file.path(), {{"__metadata__", x}}); }),
              HasSubstr("'__metadata__' cannot name a tensor"));
  EXPECT_THAT(message_of<ValueError>([&] { save_safetensors(file.path(), {{"\xff", x}}); }),
              HasSubstr("names and metadata must be UTF-8"));
  EXPECT_EQ(file.read(), "");
}

}  // namespace
}  // namespace dyad::io
