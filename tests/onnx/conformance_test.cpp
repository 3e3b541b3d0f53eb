#include "dyad/onnx/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "dyad/base/error.h"
#include "model_bytes.h"
#include "tests/shared/message_of.h"

// Cases in the layout of ONNX's backend tests: what passes, what does not, and what is said of it.

namespace dyad::testing {
namespace {

namespace fs = std::filesystem;
using namespace bytes;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Floats = std::vector<float>;
using Outcome = onnx::CaseResult::Outcome;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::string message(const Floats& values) {
  std::string raw(values.size() * sizeof(float), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return tensor_proto("", kFloat, {static_cast<std::int64_t>(values.size())}, raw);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Tests run at the same time: each has a folder of its own.
std::string folder_of_test() {
  return ::testing::TempDir() + "conformance/" +
         ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
}

/// A folder with a case whose model gives its input, or has an operator that nobody knows.
std::string folder_of(const std::string& name, const std::vector<Floats>& inputs,
                      const std::vector<Floats>& outputs, const std::string& op = "Identity") {
  const std::string folder = folder_of_test() + name;
  fs::remove_all(folder);
  fs::create_directories(folder + "/test_data_set_0");
  write(folder + "/model.onnx", model({.nodes = {node(op, {"x"}, {"y"})},
                                       .inputs = {value("x", kFloat, {-1})},
                                       .outputs = {value("y", kFloat, {-1})}}));
  const auto add = [&](const std::string& kind, const std::vector<Floats>& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      write(folder + "/test_data_set_0/" + kind + "_" + std::to_string(i) + ".pb",
            message(tensors[i]));
    }
  };
  add("input", inputs);
  add("output", outputs);
  return folder;
}

/// The reason of a failure; empty for what passes.
std::string failure(const std::string& folder, onnx::Tolerance tolerance = {}) {
  const onnx::CaseResult result = onnx::run_case(folder, tolerance);
  EXPECT_NE(result.outcome, Outcome::skipped);
  EXPECT_EQ(result.outcome == Outcome::passed, result.reason.empty());
  return result.reason;
}
std::string difference(const Floats& got, const Floats& want, onnx::Tolerance tolerance = {}) {
  return failure(folder_of("values", {got}, {want}), tolerance);
}

TEST(Conformance, ValuesWithinTheTolerance) {
  EXPECT_EQ(difference({1, 2}, {1.0005f, 2}), "");
  EXPECT_EQ(difference({1, 2}, {1, 2.01f}),
            "\"y\" element 1 of f32[2] is 2.0, not 2.009999990463257");
  EXPECT_EQ(difference({1, 2}, {1, 2.01f}, {.relative = 0, .absolute = 0.02}), "");
  EXPECT_NE(difference({1, 2}, {1.0005f, 2}, {.relative = 0, .absolute = 0}), "");
}

TEST(Conformance, NanIsNanAndInfinityOnlyItself) {
  EXPECT_EQ(difference({kNan, kInf, -kInf}, {kNan, kInf, -kInf}), "");
  EXPECT_EQ(difference({kNan}, {1}), "\"y\" element 0 of f32[1] is nan, not 1.0");
  EXPECT_EQ(difference({1}, {kNan}), "\"y\" element 0 of f32[1] is 1.0, not nan");
  EXPECT_EQ(difference({1}, {kInf}), "\"y\" element 0 of f32[1] is 1.0, not inf");
  EXPECT_EQ(difference({kInf}, {1}), "\"y\" element 0 of f32[1] is inf, not 1.0");
  EXPECT_EQ(difference({-kInf}, {kInf}), "\"y\" element 0 of f32[1] is -inf, not inf");
  EXPECT_EQ(difference({kNan}, {kInf}), "\"y\" element 0 of f32[1] is nan, not inf");
}

TEST(Conformance, TypesAreComparedExactly) {
  EXPECT_EQ(difference({1, 2}, {1, 2, 3}), "\"y\" is f32[2], not f32[3]");
  const std::string folder = folder_of("dtype", {{1, 2}}, {{1, 2}});
  write(folder + "/test_data_set_0/output_0.pb", tensor_proto("", Numbers{1, 2}));
  EXPECT_EQ(failure(folder), "\"y\" is f32[2], not i64[2]");
  write(folder + "/test_data_set_0/input_0.pb", tensor_proto("", Numbers{1, 2}));
  EXPECT_EQ(failure(folder),
            "placeholder \"x\": f32[n] was given i64[2]: the dtype must be f32 but is i64; convert "
            "it with .to(f32)");
}

TEST(Conformance, AFileSaysTheTolerance) {
  const std::string folder = folder_of("tolerance", {{1}}, {{1.1f}});
  EXPECT_NE(failure(folder), "");
  write(folder + "/tolerance.txt", "0.2 0\n");
  EXPECT_EQ(failure(folder, {.relative = 0, .absolute = 0}), "");
  for (const char* text : {"", "0.2", "rtol 0.2", "0.2 -1", "0.2 0 0"}) {
    write(folder + "/tolerance.txt", text);
    EXPECT_THAT(failure(folder), StartsWith("tolerance.txt holds other text than two numbers"))
        << text;
  }
}

TEST(Conformance, NothingPassesUncompared) {
  EXPECT_EQ(failure(folder_of("no_results", {{1}}, {})),
            "test_data_set_0 holds no output_0.pb to compare with");
  EXPECT_EQ(failure(folder_of("more_results", {{1}}, {{1}, {2}})),
            "test_data_set_0 holds output_1.pb, which the model does not have");
  EXPECT_EQ(failure(folder_of("more_inputs", {{1}, {1}}, {{1}})),
            "test_data_set_0 holds input_1.pb, which the model does not have");
  const std::string gap = folder_of("gap", {{1}}, {{1}});
  fs::rename(gap + "/test_data_set_0/output_0.pb", gap + "/test_data_set_0/output_1.pb");
  EXPECT_EQ(failure(gap), "test_data_set_0 has 1 files output_*.pb, but output_0.pb is missing");
  const std::string damaged = folder_of("damaged", {{1}}, {{1}});
  write(damaged + "/test_data_set_0/input_0.pb", "xx");
  EXPECT_THAT(failure(damaged), HasSubstr("/damaged/test_data_set_0/input_0.pb': "));
}

TEST(Conformance, WhatCannotBeRunIsSkipped) {
  const onnx::CaseResult unknown = onnx::run_case(folder_of("unknown", {{1}}, {{1}}, "Nothing"));
  EXPECT_EQ(unknown.outcome, Outcome::skipped);
  EXPECT_THAT(unknown.reason, EndsWith("Nothing 21, the node of \"y\": Dyad has no such operator"));
  const std::string bare = folder_of("bare", {}, {});
  fs::remove_all(bare + "/test_data_set_0");
  const onnx::CaseResult nothing = onnx::run_case(bare);
  EXPECT_EQ(nothing.outcome, Outcome::skipped);
  EXPECT_EQ(nothing.reason, "there is no test_data_set_* beside the model");
}

TEST(Conformance, CasesAreFoundInTrees) {
  const std::string root = folder_of_test() + "tree";
  fs::remove_all(root);
  fs::create_directories(root + "/empty");
  EXPECT_EQ(bare_message_of<IoError>([&] { (void)onnx::find_cases(root); }),
            "'" + root + "' holds no case: there is no model.onnx in it or below");
  const std::string b = folder_of("tree/deep/b", {{1}}, {{1}}), a = folder_of("tree/a", {}, {});
  EXPECT_THAT(onnx::find_cases(root), ElementsAre(a, b));
  EXPECT_THAT(onnx::find_cases(b + "/"), ElementsAre(b + "/"));
  EXPECT_EQ(onnx::run_case(b + "/").name, "b");
}

}  // namespace
}  // namespace dyad::testing
