#include "tools/dyad/onnx_test.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "dyad/io/atomic_file.h"
#include "dyad/onnx/conformance.h"

namespace dyad::tool {
namespace {

struct OnnxTestOptions {
  std::vector<std::string> paths;
  onnx::Tolerance tolerance;
  std::string json;  ///< a file, or none
};

/// 0 when none failed.
int run_onnx_test(const OnnxTestOptions& options) {
  using Outcome = onnx::CaseResult::Outcome;
  nlohmann::json list = nlohmann::json::array();
  int passed = 0, failed = 0, skipped = 0;
  for (const std::string& path : options.paths) {
    for (const std::string& folder : onnx::find_cases(path, Loc())) {
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
        fmt::print("{}: skipped: {}\n", result.name, result.reason);
      }
      list.push_back({{"case", result.name}, {"result", name}, {"reason", result.reason}});
    }
  }
  if (!options.json.empty()) {
    io::write_file(options.json,
                   list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n",
                   Loc());
  }
  fmt::print("{} passed, {} failed, {} skipped\n", passed, failed, skipped);
  return failed == 0 ? 0 : 1;
}

}  // namespace

Command add_onnx_test(CLI::App& program) {
  auto options = std::make_shared<OnnxTestOptions>();
  CLI::App& command = add_command(
      program, "onnx-test",
      "Run cases in the layout of ONNX's backend tests and compare the results with theirs");
  add_option(command,
             {.name = "path",
              .help = "Folders: a case (model.onnx, test_data_set_*/input_*.pb, output_*.pb) or a "
                      "tree of cases",
              .required = true},
             &options->paths);
  add_option(command,
             {.name = "--rtol",
              .help = "Allowed: |got - want| <= atol + rtol * |want|",
              .from_zero = true,
              .shows_default = true},
             &options->tolerance.relative);
  add_option(command, {.name = "--atol", .help = "", .from_zero = true, .shows_default = true},
             &options->tolerance.absolute);
  add_option(command,
             {.name = "--json",
              .help = "File for a list of {\"case\", \"result\", \"reason\"}",
              .value = "FILE"},
             &options->json);
  add_footer(
      command,
      "Prints the first difference of each case that fails, why cases were skipped (they need "
      "something that Dyad\ndoes not have, or hold no data), then how many passed, failed "
      "and were skipped. NaN equals NaN, infinity only\nitself. A file tolerance.txt "
      "(\"rtol atol\") in a case goes before --rtol and --atol. A path without a case is a "
      "failure.\n\n"
      "Examples:\n"
      "  dyad onnx-test my_model/                          one case\n"
      "  dyad onnx-test onnx/backend/test/data/node --json results.json");
  return {&command, [options] { return run_onnx_test(*options); }};
}

}  // namespace dyad::tool
