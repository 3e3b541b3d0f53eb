#include <gtest/gtest.h>

#include <string>

#include "dyad/onnx/conformance.h"

// Models that ONNX Runtime's quantisation wrote, and its operators on quantised numbers: Dyad gives
// what ONNX Runtime gives (make_quantized_models.py writes both).

namespace dyad::testing {
namespace {

TEST(OnnxQuantized, ModelsGiveWhatTheirRuntimeGives) {
  const auto cases = onnx::find_cases("tests/onnx/data/quantized");
  EXPECT_GE(cases.size(), 27u);
  for (const std::string& path : cases) {
    const onnx::CaseResult result = onnx::run_case(path);
    EXPECT_EQ(result.outcome, onnx::CaseResult::Outcome::passed)
        << result.name << ": " << result.reason;
  }
}

}  // namespace
}  // namespace dyad::testing
