// Weights in other files: only those in the model's folder, only as far as these go, and no more of
// them in memory than is touched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/ops/ops.h"
#include "hostile.h"
#include "model_bytes.h"

namespace dyad::testing {
namespace {

using namespace bytes;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

using Entries = std::vector<std::pair<std::string, std::string>>;

class HostileExternal : public ::testing::Test {
 protected:
  HostileExternal()
      : outside_(fs::path(::testing::TempDir()) / "hostile_external" / std::to_string(::getpid())),
        folder_(outside_ / "model") {
    fs::create_directories(folder_);
    write(outside_ / "secret.bin", std::string(64, '\1'));
    write(folder_ / "weights.bin", std::string(64, '\0'));
  }
  ~HostileExternal() override { fs::remove_all(outside_); }

  static void write(const fs::path& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  /// The text of the error of a model whose weight w[4] these entries describe; empty when it is
  /// read.
  std::string error_of(const Entries& entries, const Numbers& dims = {4}) {
    write(folder_ / "m.onnx", model({.nodes = {node("Abs", {"w"}, {"y"})},
                                     .outputs = {value("y", kFloat, {4})},
                                     .tensors = {external("w", dims, entries)}}));
    try {
      (void)onnx::load((folder_ / "m.onnx").string()).run({});
      return "";
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      return error.what();
    }
  }

  fs::path outside_, folder_;
};

TEST_F(HostileExternal, PathsThatLeaveTheFolder) {
  EXPECT_EQ(error_of({{"location", "weights.bin"}}), "");
  EXPECT_EQ(error_of({{"location", "./weights.bin"}, {"offset", "48"}, {"length", "16"}}), "");
  fs::create_symlink(outside_ / "secret.bin", folder_ / "link.bin");
  fs::create_directory_symlink(outside_, folder_ / "up");
  for (const std::string& path :
       {std::string("../secret.bin"), std::string("a/../../secret.bin"),
        std::string("model/../../secret.bin"), std::string("./../secret.bin"),
        (outside_ / "secret.bin").string(), std::string("/etc/passwd"),
        std::string("/proc/self/environ"), std::string("link.bin"), std::string("up/secret.bin"),
        std::string("up/../../secret.bin")}) {
    EXPECT_THAT(
        error_of({{"location", path}}),
        AllOf(HasSubstr("tensor \"w\" is in the file '" + path + "'"),
              HasSubstr(
                  "is outside the model's folder; external data is read from that folder alone")));
  }
  // A link within the folder stays within.
  fs::create_symlink("weights.bin", folder_ / "inside.bin");
  EXPECT_EQ(error_of({{"location", "inside.bin"}}), "");
}

TEST_F(HostileExternal, FilesThatAreNone) {
  fs::create_directory(folder_ / "a_folder");
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const char* const name : {"a_folder", "pipe", ".", "missing.bin"}) {
    EXPECT_NE(error_of({{"location", name}}), "") << name;
  }
  EXPECT_NE(error_of({{"location", std::string("weights.bin\0x", 13)}}), "");
  EXPECT_NE(error_of({{"location", std::string(100'000, 'a')}}), "");
  EXPECT_NE(error_of({{"location", "\xff\xfe"}}), "");
  EXPECT_THAT(error_of({}), HasSubstr("its external data has no location"));
  EXPECT_THAT(error_of({{"location", ""}}), HasSubstr("its external data has no location"));
  write(folder_ / "empty.bin", "");
  EXPECT_THAT(error_of({{"location", "empty.bin"}}), HasSubstr("'empty.bin', which has 0"));
  EXPECT_EQ(error_of({{"location", "empty.bin"}}, {0}), "");
}

TEST_F(HostileExternal, PlacesThatAreNotInTheFile) {
  const auto at = [&](const std::string& offset, const std::string& length) {
    return error_of({{"location", "weights.bin"}, {"offset", offset}, {"length", length}});
  };
  EXPECT_THAT(at("52", "16"),
              HasSubstr("its data is at 52 + 16 bytes of 'weights.bin', which has 64"));
  EXPECT_THAT(at("18446744073709551615", "16"), HasSubstr("which has 64"));
  EXPECT_THAT(at("18446744073709551600", "16"), HasSubstr("which has 64"));
  for (const char* const text : {"-1", "1e9", "0x10", " 1", "", "99999999999999999999", "1\n"}) {
    EXPECT_THAT(at(text, "16"), HasSubstr("offset of its external data is")) << text;
    EXPECT_THAT(at("0", text), HasSubstr("length of its external data is")) << text;
  }
  EXPECT_THAT(at("0", "15"), HasSubstr("its sizes ask for 16 bytes, but it holds 15"));
  EXPECT_THAT(at("0", "1000000000000"), HasSubstr("but it holds 1000000000000"));
  EXPECT_THAT(error_of({{"location", "weights.bin"}}, {1LL << 40}), HasSubstr("which has 64"));
  // Places that are no multiple of the size of an element are read all the same.
  EXPECT_EQ(at("3", "16"), "");
}

/// Elements of 4 bits and truths are no pages of the file: they take memory of their own.
TEST_F(HostileExternal, TensorsThatLieOverOneAnother) {
  constexpr int kInt4 = 22;
  constexpr std::int64_t kBytes = 1 << 20;
  write(folder_ / "large.bin", std::string(kBytes, '\1'));
  for (const auto& [dtype, dims, offset] :
       {std::tuple(kInt4, 2 * kBytes, "0"), {kBool, kBytes, "0"}, {kFloat, kBytes / 4 - 1, "1"}}) {
    GraphParts parts{
        .nodes = {node("Abs", {"x"}, {"y"})}, .inputs = {value("x")}, .outputs = {value("y")}};
    for (int i = 0; i < 500; ++i) {
      parts.tensors.push_back(external("w" + std::to_string(i), {dims},
                                       {{"location", "large.bin"}, {"offset", offset}}, dtype));
    }
    write(folder_ / "m.onnx", model(parts));
    const MemoryGrowth growth;
    try {
      (void)onnx::load((folder_ / "m.onnx").string());
      ADD_FAILURE() << "read";
    } catch (const OnnxError& error) {
      EXPECT_THAT(error.what(), HasSubstr("tensors in 'large.bin' lie over one another"));
    }
    EXPECT_LE(growth.bytes(), std::size_t{64} << 20);
  }
}

/// A byte other than 0 and 1 is no bool of C++.
TEST_F(HostileExternal, Truths) {
  write(folder_ / "truths.bin", std::string("\0\1\2\xff", 4));
  write(folder_ / "m.onnx",
        model({.nodes = {node("Not", {"w"}, {"n"}), node("Not", {"n"}, {"y"})},
               .outputs = {value("y", kBool, {4})},
               .tensors = {external("w", {4}, {{"location", "truths.bin"}}, kBool)}}));
  const Tensor truths = onnx::load((folder_ / "m.onnx").string()).run({})[0];
  EXPECT_THAT(truths.to_vector<float>(), ElementsAre(0, 1, 1, 1));
}

TEST_F(HostileExternal, AModelInMemoryHasNoFolder) {
  EXPECT_THAT(refusal(model({.nodes = {node("Abs", {"w"}, {"y"})},
                             .outputs = {value("y")},
                             .tensors = {external("w", {4}, {{"location", "weights.bin"}})}})),
              HasSubstr("a model in memory has no folder; load it by its path"));
}

/// 512 MB of weights, of which a run looks at a few: pages of the others never come in.
TEST_F(HostileExternal, OnlyWhatIsTouchedTakesMemory) {
  constexpr std::int64_t kRows = 1 << 17, kColumns = 1 << 10;
  write(folder_ / "large.bin", "");
  fs::resize_file(folder_ / "large.bin", kRows * kColumns * 4);
  write(folder_ / "m.onnx",
        model({.nodes = {node("Gather", {"w", "i"}, {"y"})},
               .inputs = {value("i", kInt64, {-1})},
               .outputs = {value("y", kFloat, {-1, kColumns})},
               .tensors = {external("w", {kRows, kColumns}, {{"location", "large.bin"}})}}));
  for (const bool trainable : {true, false}) {
    const MemoryGrowth growth;
    const onnx::Model large = onnx::load((folder_ / "m.onnx").string(), {.trainable = trainable});
    const std::vector<Tensor> rows = large.run({{"i", arange(7, i64) * 10'000}});
    EXPECT_EQ(rows[0].shape()[0].number(), 7);
    EXPECT_LE(growth.bytes(), std::size_t{64} << 20);
  }
}

}  // namespace
}  // namespace dyad::testing
