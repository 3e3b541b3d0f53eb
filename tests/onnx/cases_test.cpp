#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/core/create.h"
#include "dyad/core/text.h"
#include "dyad/onnx/conformance.h"
#include "dyad/onnx/load.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// Models that make_cases.py writes, with the results of ONNX Runtime: control flow, sequences,
// strings, operators of old versions.

namespace dyad::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kCases = "tests/onnx/cases";

class OnnxCases : public ::testing::Test {
 protected:
  OnnxCases() { setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0); }
  static onnx::Model model(const std::string& name) {
    return onnx::load(std::string(kCases) + "/" + name + "/model.onnx");
  }
};

TEST_F(OnnxCases, GiveWhatOnnxRuntimeGives) {
  const std::vector<std::string> cases = onnx::find_cases(kCases);
  EXPECT_GE(cases.size(), 70u);
  for (const std::string& folder : cases) {
    const onnx::CaseResult result = onnx::run_case(folder);
    EXPECT_EQ(result.outcome, onnx::CaseResult::Outcome::passed)
        << result.name << ": " << result.reason;
  }
}

TEST_F(OnnxCases, ALoopIsANodeWhereItCanBeOne) {
  EXPECT_THAT(model("loop_until_data_says").graph().to_string(), HasSubstr("while_loop"));
  EXPECT_THAT(model("loop_stacks_until_data_says").graph().to_string(), HasSubstr("while_loop"));
  EXPECT_THAT(model("loop_without_bound_stacks").graph().to_string(), HasSubstr("while_loop"));
  EXPECT_THAT(model("loop_reads_from_outside").graph().to_string(), HasSubstr("scan"));
  EXPECT_THAT(model("if_by_data_in_a_graph").graph().to_string(), HasSubstr("cond"));
  EXPECT_THAT(model("if_by_data_in_a_graph").value_inputs(), ElementsAre());
}

TEST_F(OnnxCases, OtherwiseInputsDecide) {
  EXPECT_THAT(model("loop_grows_its_state").value_inputs(), ElementsAre("count"));
  EXPECT_THAT(model("if_gives_other_shapes").value_inputs(), ElementsAre("x"));
  EXPECT_THAT(model("sequence_in_a_loop").value_inputs(), ElementsAre("xs"));
  EXPECT_THAT(bare_message_of<GraphError>([&] { (void)model("sequence_in_a_loop").graph(); }),
              HasSubstr("what the graph looks like depends on the values of \"xs\"; fill them "
                        "in with specialize(), or run() the model"));
}

TEST_F(OnnxCases, SizesAreTakenForEqualWhereTheyMustBe) {
  for (const char* name :
       {"sizes_that_must_agree", "sizes_of_two_names", "sizes_in_a_branch",
        "sizes_that_data_decide_meet", "image_and_its_half", "sizes_in_floats"}) {
    EXPECT_THAT(model(name).value_inputs(), IsEmpty()) << name;
  }
  const onnx::Model sum = model("sizes_that_must_agree");
  const Tensor three = tensor({1.0f, 2.0f, 3.0f}), one = tensor({4.0f}), two = tensor({5.0f, 6.0f});
  EXPECT_THAT(sum.run({{"a", three}, {"b", three}})[0].to_vector<float>(), ElementsAre(2, 4, 6));
  // Other graphs, for these sizes alone.
  EXPECT_THAT(sum.run({{"a", one}, {"b", three}})[0].to_vector<float>(), ElementsAre(5, 6, 7));
  EXPECT_THAT(sum.run({{"a", three}, {"b", one}})[0].to_vector<float>(), ElementsAre(5, 6, 7));
  EXPECT_THAT(bare_message_of<Error>([&] { (void)sum.run({{"a", three}, {"b", two}}); }),
              HasSubstr("\"y\" (Add 17): add(a: f32[3], b: f32[2]): shapes [3] and [2] do not "
                        "broadcast"));
}

TEST_F(OnnxCases, SizesThatDataDecideAreSizesOfTheGraph) {
  EXPECT_THAT(model("sizes_counted_by_data").value_inputs(), IsEmpty());
  const onnx::Model meet = model("sizes_that_data_decide_meet");
  const Tensor x = tensor({1.0f, -1.0f, 2.0f}), y = tensor({3.0f, 4.0f, 5.0f});
  EXPECT_THAT(meet.run({{"x", x}, {"y", y}})[0].to_vector<float>(), ElementsAre(3, 10));
}

TEST_F(OnnxCases, SequencesGoInAndComeOut) {
  const onnx::Model joins = model("sequence_as_a_result");
  const Tensor x = tensor({1.0f, 2.0f}), y = tensor({3.0f});
  const auto results =
      joins.run_values({{"x", x}, {"more", onnx::ModelValue(std::vector<onnx::ModelValue>{y, y})}});
  ASSERT_EQ(results.size(), 1u);
  ASSERT_TRUE(results[0].is_sequence());
  ASSERT_EQ(results[0].sequence().size(), 3u);
  EXPECT_THAT(results[0].sequence()[0].tensor().to_vector<float>(), ElementsAre(-1, -2));
  EXPECT_THAT(results[0].sequence()[2].tensor().to_vector<float>(), ElementsAre(3));
  EXPECT_THAT(bare_message_of<Error>([&] { (void)joins.run({{"x", x}}); }),
              HasSubstr("input 0 must be a sequence"));
}

TEST_F(OnnxCases, MapsAreTwoTensors) {
  const onnx::Model named = model("ml_scores_with_names");
  EXPECT_THAT(named.outputs(), ElementsAre("y.keys", "y.values", "z.keys", "z.values"));
  const Tensor scores = tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}});
  const std::vector<Tensor> results = named.run({{"x", scores}});
  EXPECT_THAT(to_strings(results[0]), ElementsAre("a", "b", "c"));
  EXPECT_THAT(results[1].to_vector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(results[2].to_vector<std::int64_t>(), ElementsAre(1, 2, 5));
  const onnx::Model counted = model("ml_words_counted");
  EXPECT_THAT(counted.inputs(), ElementsAre("x.keys", "x.values", "k.keys", "k.values"));
}

TEST_F(OnnxCases, WhatCannotBeRunIsListedWhole) {
  const auto message = [](const std::string& name) {
    return bare_message_of<OnnxError>(
        [&] { (void)onnx::load("tests/onnx/refused/" + name + "/model.onnx"); });
  };
  EXPECT_EQ(message("operators"),
            "'model.onnx': 3 nodes cannot be run:\n"
            "  com.example.Magic 2, \"first\": Dyad has no such operator\n"
            "  Mystery 17, \"inner\": Dyad has no such operator\n"
            "  org.example.Wonder 0, the node of \"y\": the model does not import its domain");
  EXPECT_EQ(
      message("attributes"),
      "'model.onnx': 3 nodes cannot be run:\n"
      "  com.example.Magic 2, \"unknown\": Dyad has no such operator\n"
      "  Resize 17, \"large\": coordinate_transformation_mode tf_half_pixel_for_nn is for the "
      "nearest element, by floor or round_prefer_floor\n"
      "  ai.onnx.ml.Normalizer 3, \"norm\": its norm is 'L3'");
  EXPECT_EQ(message("behind_sizes"),
            "'model.onnx': \"large\" (Resize 17): coordinate_transformation_mode "
            "tf_half_pixel_for_nn is for the nearest element, by floor or round_prefer_floor");
  EXPECT_EQ(message("map_said_to_be_a_tensor"),
            "'model.onnx': the output \"y\" is a map, but its type says otherwise");
  EXPECT_EQ(
      message("empty_optional"),
      "'model.onnx': \"get\" (OptionalGetElement 18): the optional is empty; it has no element "
      "to give");
  EXPECT_EQ(message("position"),
            "'model.onnx': \"at\" (SequenceAt 17): position 3 is outside the sequence, which has 2 "
            "elements");
  EXPECT_EQ(
      message("random_condition"),
      "'model.onnx': \"if\" (If 17): input 0 holds values that only a run can tell; they must be "
      "constants, or follow from the sizes or the values of the model's inputs");
  EXPECT_EQ(
      message("pattern"),
      "'model.onnx': \"match\" (RegexFullMatch 20): the regular expression '(a' has a group that "
      "does not end at character 2");
  EXPECT_EQ(
      message("tree_of_itself"),
      "'model.onnx': \"tree\" (TreeEnsembleRegressor 3): a node of its trees is below itself");
}

}  // namespace
}  // namespace dyad::testing
