#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "dyad/onnx/conformance.h"
#include "dyad/onnx/load.h"

// What surrounds the networks of detectors, as PyTorch's exporters write it
// (make_detection_models.py): data decide on sizes, which meet, and images may have any.

namespace dyad::testing {
namespace {

using ::testing::IsEmpty;

class OnnxDetection : public ::testing::Test {
 protected:
  OnnxDetection() : cases_(onnx::find_cases("tests/onnx/data/detection")) {
    setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0);
  }
  std::vector<std::string> cases_;
};

TEST_F(OnnxDetection, ModelsGiveWhatOnnxRuntimeGives) {
  EXPECT_GE(cases_.size(), 20u);
  for (const std::string& folder : cases_) {
    const onnx::CaseResult result = onnx::run_case(folder);
    EXPECT_EQ(result.outcome, onnx::CaseResult::Outcome::passed)
        << result.name << ": " << result.reason;
  }
}

TEST_F(OnnxDetection, AModelIsOneGraphForAllSizesAndData) {
  for (const std::string& folder : cases_) {
    EXPECT_THAT(onnx::load(folder + "/model.onnx").value_inputs(), IsEmpty()) << folder;
  }
}

}  // namespace
}  // namespace dyad::testing
