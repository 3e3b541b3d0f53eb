#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

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

}  // namespace
}  // namespace dyad::testing
