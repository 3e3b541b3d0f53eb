#pragma once

#include <map>
#include <string>
#include <vector>

#include "dyad/onnx/conformance.h"

namespace dyad::testing {

/// A case of ONNX's backend tests, as tests/onnx/data/backend_cases.tsv describes it.
struct BackendCase {
  std::string name;
  std::string kind;      ///< the folder: node, simple, pytorch-operator...
  std::string op;        ///< the operator that it is a case of
  std::string tier;      ///< A, B or C
  std::string runtimes;  ///< what ONNX Runtime makes of it: pass, mismatch, load_fail...

  /// `node/test_abs`
  [[nodiscard]] std::string path() const { return kind + "/" + name; }
};
[[nodiscard]] std::vector<BackendCase> backend_cases();

/// docs/onnx-scoreboard.md for these results, by path.
[[nodiscard]] std::string scoreboard_page(const std::vector<BackendCase>& cases,
                                          const std::map<std::string, onnx::CaseResult>& results);

}  // namespace dyad::testing
