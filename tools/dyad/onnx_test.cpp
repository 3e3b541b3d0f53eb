#include "tools/dyad/onnx_test.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace dyad::tool {

int run_onnx_test(const OnnxTestOptions& options) {
  using Outcome = onnx::CaseResult::Outcome;
  nlohmann::json list = nlohmann::json::array();
  int passed = 0, failed = 0, skipped = 0;
  for (const std::string& path : options.paths) {
    for (const std::string& folder : onnx::find_cases(path)) {
      const onnx::CaseResult result = onnx::run_case(folder, options.tolerance);
      const char* name = "passed";
      if (result.outcome == Outcome::passed) {
        ++passed;
      } else if (result.outcome == Outcome::failed) {
        ++failed;
        name = "failed";
        fmt::print("{}: {}\n", result.name, result.reason);
      } else {
        ++skipped;
        name = "skipped";
      }
      list.push_back({{"case", result.name}, {"result", name}, {"reason", result.reason}});
    }
  }
  if (!options.json.empty()) std::ofstream(options.json) << list.dump(1) << '\n';
  fmt::print("{} passed, {} failed, {} skipped\n", passed, failed, skipped);
  return failed == 0 ? 0 : 1;
}

}  // namespace dyad::tool
