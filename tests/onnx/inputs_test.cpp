#include "dyad/onnx/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "checker.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/core/text.h"
#include "dyad/io/npy.h"
#include "dyad/ir/literal.h"
#include "dyad/onnx/benchmark.h"
#include "dyad/onnx/description.h"
#include "dyad/onnx/export.h"
#include "dyad/onnx/value_file.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// What the command line is made of: descriptions, inputs from files or at random, files of results,
// benchmarks.

namespace dyad::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

/// Token ids, which look up 7 rows, a mask, and an image; `batch` and `time` are open.
std::string three_inputs() {
  const std::string path = temporary("three_inputs.onnx");
  const Tensor table = arange(21).to(f32).reshape({7, 3});
  onnx::save(path,
             [&](const Tensor& ids, const Tensor& mask, const Tensor& image) {
               const Tensor rows = index_select(table, 0, ids);
               return sum(rows * unsqueeze(to(mask, f32), 2)) + mean(image);
             },
             {{"ids", i64, {"batch", "time"}},
              {"mask", boolean, {"batch", "time"}},
              {"image", f32, {"batch", 2, 2}}},
             {.outputs = {"y"}});
  return path;
}

template <class E>
std::string refusal(const onnx::InputOptions& options) {
  const onnx::Model model = onnx::load(three_inputs());
  return bare_message_of<E>([&] { (void)onnx::make_inputs(model, options); });
}

TEST(Inputs, AreDrawnToFitTheModel) {
  const onnx::Model model = onnx::load(three_inputs());
  const onnx::Inputs made =
      onnx::make_inputs(model, {.sizes = {{"time", 50}, {"batch", 4}}, .seed = 3});
  ASSERT_EQ(made.values.size(), 3u);
  EXPECT_THAT(made.sizes, ElementsAre(Pair("batch", 4), Pair("time", 50)));
  const Tensor &ids = made.values[0].value.tensor(), &image = made.values[2].value.tensor();
  EXPECT_EQ(type_string(ids), "i64[4, 50]");
  EXPECT_EQ(type_string(made.values[1].value.tensor()), "bool[4, 50]");
  EXPECT_EQ(type_string(image), "f32[4, 2, 2]");
  EXPECT_EQ(min(ids).item<std::int64_t>(), 0);
  EXPECT_EQ(max(ids).item<std::int64_t>(), 6);
  EXPECT_NO_THROW((void)model.run_values(made.values));

  const auto again = [&](std::uint64_t seed) {
    return packed_elements(
        onnx::make_inputs(model, {.sizes = {{"time", 50}, {"batch", 4}}, .seed = seed})
            .values[2]
            .value.tensor());
  };
  EXPECT_EQ(again(3), packed_elements(image));
  EXPECT_NE(again(4), packed_elements(image));
}

TEST(Inputs, SizesFollowFromWhatIsGiven) {
  const onnx::Model model = onnx::load(three_inputs());
  const std::string path = temporary("mask.npy");
  io::save_npy(path, tensor({true, false, true}).reshape({3, 1}));
  const onnx::Inputs made = onnx::make_inputs(model, {.files = {{"mask", path}}, .seed = 0});
  EXPECT_EQ(type_string(made.values[0].value.tensor()), "i64[3, 1]");
  EXPECT_EQ(type_string(made.values[2].value.tensor()), "f32[3, 2, 2]");
  const onnx::Inputs ones = onnx::make_inputs(model, {.seed = 0});
  EXPECT_EQ(type_string(ones.values[0].value.tensor()), "i64[1, 1]");
}

TEST(Inputs, DrawingLeavesTheGeneratorWhereItWas) {
  manual_seed(5);
  const auto expected = packed_elements(normal({3}));
  manual_seed(5);
  (void)onnx::make_inputs(onnx::load(three_inputs()), {.seed = 9});
  EXPECT_EQ(packed_elements(normal({3})), expected);
}

TEST(Inputs, SayWhatWouldBeRight) {
  const std::string all =
      "\"ids\" (i64[batch, time]), \"mask\" (bool[batch, time]), \"image\" (f32[batch, 2, 2])";
  EXPECT_EQ(refusal<GraphError>({}), "'three_inputs.onnx': 3 inputs are not given: " + all +
                                         "; give a file for each, or a seed to draw them from");
  EXPECT_EQ(refusal<GraphError>({.values = {{"imaje", zeros({1, 2, 2})}}}),
            "'three_inputs.onnx': there is no input \"imaje\"; its inputs are " + all);
  EXPECT_EQ(refusal<GraphError>({.sizes = {{"length", 3}}, .seed = 0}),
            "'three_inputs.onnx': no input has a size with the name length; there are batch, time");
  EXPECT_EQ(refusal<ShapeError>({.values = {{"image", zeros({1, 2, 3})}}, .seed = 0}),
            "'three_inputs.onnx': input \"image\" (f32[batch, 2, 2]) is given f32[1, 2, 3]; it "
            "needs the sizes that are numbers");
  EXPECT_EQ(refusal<ShapeError>({.values = {{"image", zeros({2, 2})}}, .seed = 0}),
            "'three_inputs.onnx': input \"image\" (f32[batch, 2, 2]) is given f32[2, 2]; it needs "
            "3 axes");
  EXPECT_EQ(refusal<DTypeError>({.values = {{"image", zeros({1, 2, 2}, f64)}}, .seed = 0}),
            "'three_inputs.onnx': input \"image\" (f32[batch, 2, 2]) is given f64[1, 2, 2]; it "
            "needs elements of f32");
  EXPECT_EQ(refusal<ShapeError>(
                {.values = {{"image", zeros({4, 2, 2})}}, .sizes = {{"batch", 3}}, .seed = 0}),
            "'three_inputs.onnx': size batch is 3 as asked for, but 4 as axis 0 of input "
            "\"image\"");
  EXPECT_EQ(refusal<GraphError>({.values = {{"image", zeros({4, 2, 2})}, {"image", zeros({1})}}}),
            "'three_inputs.onnx': input \"image\" is given twice");
  EXPECT_THAT(refusal<IoError>({.files = {{"image", "/nowhere/x.npy"}}}),
              HasSubstr("/nowhere/x.npy"));
}

TEST(ValueFile, WritesDtypesThatNumPyDoesNotHave) {
  const std::string folder = ::testing::TempDir();
  const Tensor numbers = tensor({1.0, -2.0, 0.5});
  for (const auto& [dtype, stored] : std::vector<std::pair<DType, DType>>{
           {f32, f32}, {f16, f16}, {bf16, f32}, {f8e4m3fn, f32}, {f64, f64}}) {
    const auto paths = onnx::save_value(folder, "a/b", to(numbers, dtype));
    EXPECT_THAT(paths, ElementsAre(folder + "a_b.npy"));
    const Tensor read = onnx::load_value(paths[0]).tensor();
    EXPECT_EQ(read.dtype(), stored);
    EXPECT_EQ(to(read, f64).to_vector<double>(), numbers.to_vector<double>());
  }
  const Tensor bits = to(tensor({1, -2, 3}), i4);
  EXPECT_EQ(onnx::load_value(onnx::save_value(folder, "bits", bits)[0]).tensor().dtype(), i8);
  const Tensor flags = tensor({true, false});
  EXPECT_EQ(onnx::load_value(onnx::save_value(folder, "flags", flags)[0]).tensor().dtype(),
            boolean);
}

TEST(ValueFile, WritesSequencesAndTexts) {
  const std::string folder = ::testing::TempDir();
  const std::vector<onnx::ModelValue> parts{ones({2}), zeros({3})};
  EXPECT_THAT(onnx::save_value(folder, "parts", onnx::ModelValue(parts)),
              ElementsAre(folder + "parts_0.npy", folder + "parts_1.npy"));
  EXPECT_THAT(onnx::save_value(folder, "nothing", {}), IsEmpty());
  const std::vector<std::string> texts{"a", "b"};
  const auto paths = onnx::save_value(folder, "words", strings(texts, {2, 1}));
  ASSERT_THAT(paths, ElementsAre(folder + "words.pb"));
  const Tensor read = onnx::load_value(paths[0]).tensor();
  EXPECT_EQ(type_string(read), "string[2, 1]");
  EXPECT_EQ(to_strings(read), texts);
}

TEST(ValueFile, NoTwoResultsInOneFile) {
  const std::string folder = ::testing::TempDir();
  const std::vector<onnx::ModelValue> parts{ones({2})};
  EXPECT_THAT(onnx::save_values(folder, {{"same/y", ones({1})},
                                         {"same_y", zeros({1})},
                                         {"same.y", ones({1})},
                                         {"same:y", ones({1})},
                                         {"list", onnx::ModelValue(parts)},
                                         {"list_0", ones({1})}}),
              ElementsAre(folder + "same_y.npy", folder + "same_y.2.npy", folder + "same.y.npy",
                          folder + "same_y.3.npy", folder + "list_0.npy", folder + "list_0.2.npy"));
  EXPECT_EQ(onnx::load_value(folder + "same_y.2.npy").tensor().to_vector<float>(),
            std::vector<float>{0});
}

TEST(ValueFile, ATensorIsNoSequence) {
  const std::string path = ::testing::TempDir() + "tensor.pb";
  // A tensor of one f32: dims, data_type, raw_data.
  std::ofstream(path, std::ios::binary) << std::string("\x08\x01\x10\x01\x4a\x04\0\0\0\0", 10);
  EXPECT_EQ(type_string(onnx::load_value(path).tensor()), "f32[1]");
  EXPECT_THROW((void)onnx::load_value(path, Type::Kind::sequence), OnnxError);
}

TEST(Inputs, ASequenceMustBeOne) {
  const onnx::Model model = onnx::load("tests/onnx/cases/sequence_in_a_loop/model.onnx");
  EXPECT_THAT(bare_message_of<GraphError>(
                  [&] { (void)onnx::make_inputs(model, {.values = {{"xs", ones({2})}}}); }),
              HasSubstr("needs a sequence, as a message of ONNX, but is given f32[2]"));
}

TEST(ValueFile, ErrorsNameTheFile) {
  const std::string path = ::testing::TempDir() + "damaged.pb";
  std::ofstream(path) << "xx";
  EXPECT_EQ(bare_message_of<OnnxError>([&] { (void)onnx::load_value(path); }),
            "'" + path + "': tensor \"\" has the element type 0, which Dyad does not have");
}

TEST(Description, TellsWhatIsInAModel) {
  const onnx::ModelDescription made = onnx::describe(three_inputs());
  EXPECT_EQ(made.producer, "dyad");
  EXPECT_EQ(made.opsets.at(""), 21);
  ASSERT_EQ(made.inputs.size(), 3u);
  EXPECT_EQ(made.inputs[0].text, "i64[batch, time]");
  EXPECT_EQ(made.inputs[0].rows, 7);
  EXPECT_FALSE(made.inputs[2].rows.has_value());
  EXPECT_EQ(made.outputs[0].text, "f32[]");
  EXPECT_THAT(made.unsupported, IsEmpty());
  bool has_table = false;
  for (const auto& parameter : made.parameters) {
    has_table |= parameter.type == "f32[7, 3]" && parameter.elements == 21 && parameter.bytes == 84;
  }
  EXPECT_TRUE(has_table);
  std::int64_t gathers = 0;
  for (const auto& use : made.operators) gathers += use.op == "Gather" ? use.count : 0;
  EXPECT_EQ(gathers, 1);
}

/// Every byte changed in turn: an error of Dyad's, or a description.
TEST(Description, OfADamagedFile) {
  const std::string good = [] {
    std::ifstream file(three_inputs(), std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }();
  const std::string path = temporary("damaged.onnx");
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(~bytes[at]);
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      (void)onnx::describe(path);
    } catch (const Error&) {
    }
  }
}

TEST(Benchmark, AddsUp) {
  std::vector<std::string> stages;
  onnx::BenchmarkOptions options;
  options.inputs.sizes = {{"batch", 2}};
  options.runs = 4;
  options.progress = [&](std::string_view stage, double part) {
    EXPECT_GE(part, 0);
    EXPECT_LE(part, 1);
    if (stages.empty() || stages.back() != stage) stages.emplace_back(stage);
  };
  const onnx::Benchmark made = onnx::benchmark(three_inputs(), options);
  EXPECT_THAT(stages, ElementsAre("loading", "compiling", "first run", "timing", "profiling"));
  EXPECT_THAT(made.sizes, ElementsAre(Pair("batch", 2), Pair("time", 1)));
  EXPECT_EQ(made.runs, 4);
  EXPECT_LE(made.min_ms, made.median_ms);
  EXPECT_LE(made.median_ms, made.p90_ms);
  EXPECT_GT(made.load_ms, 0);
  EXPECT_GT(made.compile_ms, 0);
  EXPECT_GT(made.tensor_peak_bytes, 0u);
  double share = 0;
  bool has_gather = false;
  for (const auto& use : made.operators) {
    share += use.share;
    has_gather |= use.onnx == "Gather" && use.kernel == "index_select" && use.calls == 1;
  }
  EXPECT_NEAR(share, 1, 1e-9);
  EXPECT_TRUE(has_gather);
  EXPECT_FALSE(made.slowest.empty());
}

}  // namespace
}  // namespace dyad::testing
