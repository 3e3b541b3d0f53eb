#pragma once

#include <string>
#include <vector>

#include "dyad/onnx/conformance.h"

namespace dyad::tool {

struct OnnxTestOptions {
  std::vector<std::string> paths;
  onnx::Tolerance tolerance;
  std::string json;  ///< a file, or none
};

/// Runs cases, prints each failure, closes with `N passed, N failed, N skipped`. 0 when none
/// failed.
int run_onnx_test(const OnnxTestOptions& options);

}  // namespace dyad::tool
