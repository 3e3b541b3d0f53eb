#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "checker.h"
#include "dyad/onnx/conformance.h"
#include "scoreboard.h"

// ONNX's own backend tests, which its Python package carries as files: what passed once passes, and
// docs/onnx-scoreboard.md says what does.

namespace dyad::testing {
namespace {

constexpr const char* kPassing = "tests/onnx/data/backend_passing.txt";
constexpr const char* kPage = "docs/onnx-scoreboard.md";

/// The folder of the package's cases; empty without the package.
std::string cases_of_package() {
  const char* const chosen = std::getenv("DYAD_PYTHON");
  const std::string command =
      std::string(chosen ? chosen : "python3") +
      " -c 'import os, onnx; assert onnx.__version__ == \"1.22.0\"; "
      "print(os.path.join(os.path.dirname(onnx.__file__), \"backend/test/data\"))' 2>/dev/null";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  char line[4096] = {};
  const bool found = std::fgets(line, sizeof line, pipe) != nullptr;
  pclose(pipe);
  std::string path = found ? line : "";
  while (path.ends_with('\n')) path.pop_back();
  return path;
}

/// With DYAD_UPDATE_DOCS=1 in the environment list and page are written anew.
TEST(OnnxBackend, WhatPassedStillPassesAndThePageSaysIt) {
  setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0);
  const std::string data = cases_of_package();
  if (data.empty()) {
    GTEST_SKIP() << "needs the Python package onnx 1.22.0 (./dev setup installs it; DYAD_PYTHON "
                    "names the Python that has it)";
  }
  const std::vector<BackendCase> cases = backend_cases();
  ASSERT_EQ(cases.size(), 1905u);
  std::map<std::string, onnx::CaseResult> results;
  for (const BackendCase& each : cases) {
    results[each.path()] = onnx::run_case(data + "/" + each.path());
  }
  const std::string page = scoreboard_page(cases, results);
  if (std::getenv("DYAD_UPDATE_DOCS") != nullptr) {
    std::ofstream(kPage) << page;
    std::ofstream list(kPassing);
    for (const auto& [name, result] : results) {
      if (result.outcome == onnx::CaseResult::Outcome::passed) list << name << '\n';
    }
  }
  std::stringstream written;
  written << std::ifstream(kPage).rdbuf();
  EXPECT_EQ(written.str(), page) << kPage << " is not current: ./dev onnx-scoreboard writes it";
  std::ifstream list(kPassing);
  std::size_t count = 0;
  for (std::string name; std::getline(list, name); ++count) {
    const auto found = results.find(name);
    ASSERT_NE(found, results.end()) << name;
    EXPECT_EQ(found->second.outcome, onnx::CaseResult::Outcome::passed)
        << name << ": " << found->second.reason;
  }
  EXPECT_GE(count, 1890u);
}

/// A message of a picture [1, 3, 224, 224] whose elements grow evenly from 0 to 1, as ONNX's runner
/// feeds these models.
std::string even_picture() {
  const std::size_t count = 3 * 224 * 224;
  std::vector<float> elements(count);
  for (std::size_t i = 0; i < count; ++i) {
    elements[i] = static_cast<float>(static_cast<double>(i) / static_cast<double>(count));
  }
  // dims, data_type FLOAT, and raw_data with its length.
  std::string bytes = "\x08\x01\x08\x03\x08\xe0\x01\x08\xe0\x01\x10\x01\x4a";
  for (std::size_t size = count * sizeof(float); size > 0; size >>= 7) {
    bytes += static_cast<char>((size & 0x7f) | (size >> 7 > 0 ? 0x80 : 0));
  }
  return bytes.append(reinterpret_cast<const char*>(elements.data()), count * sizeof(float));
}

/// AlexNet, DenseNet, Inception, ResNet, ShuffleNet, SqueezeNet, VGG and ZFNet, with weights that
/// the model fills in.
TEST(OnnxBackend, LightModelsGiveTheirOutputs) {
  namespace fs = std::filesystem;
  const std::string data = cases_of_package();
  if (data.empty()) GTEST_SKIP() << "needs the Python package onnx 1.22.0 (./dev setup)";
  int count = 0;
  for (const auto& entry : fs::directory_iterator(data + "/light")) {
    if (entry.path().extension() != ".onnx") continue;
    const fs::path folder = fs::path(temporary(entry.path().stem().string()));
    const fs::path set = folder / "test_data_set_0";
    fs::create_directories(set);
    const auto overwrite = fs::copy_options::overwrite_existing;
    fs::copy_file(entry.path(), folder / "model.onnx", overwrite);
    fs::copy_file(entry.path().parent_path() / (entry.path().stem().string() + "_output_0.pb"),
                  set / "output_0.pb", overwrite);
    std::ofstream(set / "input_0.pb", std::ios::binary) << even_picture();
    const onnx::CaseResult result = onnx::run_case(folder.string());
    EXPECT_EQ(result.outcome, onnx::CaseResult::Outcome::passed)
        << result.name << ": " << result.reason;
    ++count;
  }
  EXPECT_EQ(count, 9);
}

}  // namespace
}  // namespace dyad::testing
