#include "dyad/onnx/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "checker.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_constants.h"
#include "dyad/ir/literal.h"
#include "dyad/nn/nn.h"
#include "dyad/onnx/unsupported.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct TanhMlp {
  nn::Linear up{8, 64}, down{64, 2};
  Tensor operator()(const Tensor& x) const { return down(tanh(up(x))); }
};

std::string written(const TanhMlp& model, std::int64_t width = 8) {
  Graph graph;
  (void)graph.define([&] { return model(placeholder("x", f32, {"batch", width})); });
  return onnx::to_bytes(graph, {.outputs = {"y"}, .weights = nn::state_dict(model)});
}

TEST(Load, AModelGivesTheSameBitsAsWhatItWasWrittenFrom) {
  const TanhMlp mlp;
  const onnx::Model model = onnx::parse(written(mlp));
  EXPECT_THAT(model.inputs(), ElementsAre("x"));
  EXPECT_THAT(model.outputs(), ElementsAre("y"));
  EXPECT_EQ(model.opset(), 21);
  EXPECT_EQ(model.producer(), "dyad");
  for (const std::int64_t batch : {1, 3, 0}) {
    const Tensor x = normal({batch, 8});
    EXPECT_EQ(packed_elements(model.run({{"x", x}})[0]), packed_elements(mlp(x)));
  }
  EXPECT_EQ(type_string(model.graph().outputs()[0]), "f32[batch, 2]");
}

TEST(Load, AModelTellsWhichSizesItIsFor) {
  Graph graph;
  graph.assume("n", 2, 512);
  graph.assume(2 * Dim("n"), 4);
  (void)graph.define([] {
    const Tensor x = placeholder("x", f32, {"n", 3});
    return x.size(0) <= 512 ? tanh(x) : x * 2.0f;
  });
  const onnx::Model model = onnx::parse(onnx::to_bytes(graph));
  EXPECT_EQ(model.metadata().at("dyad.assume.n"), "from 2 to 512");
  EXPECT_EQ(model.metadata().at("dyad.assume.2*n"), "4 or more");
  const Tensor x = normal({5, 3});
  EXPECT_EQ(packed_elements(model.run({{"x", x}})[0]), packed_elements(tanh(x)));
}

TEST(Load, WeightsAreVariablesThatTrain) {
  const TanhMlp mlp;
  const onnx::Model model = onnx::parse(written(mlp));
  EXPECT_TRUE(model.weights().contains("up.weight"));
  const Tensor x = normal({4, 8});
  const Tensor before = model.run({{"x", x}})[0];
  Tensor weight = model.weights().at("down.bias");
  weight.add_(1);
  const Tensor after = model.run({{"x", x}})[0];
  mlp.down.bias.detach().add_(1);
  EXPECT_EQ(packed_elements(after), packed_elements(mlp(x)));
  EXPECT_NE(packed_elements(after), packed_elements(before));
}

TEST(Load, ExternalDataIsMappedFromTheModelsFolder) {
  const TanhMlp mlp;
  const std::string path = temporary("external.onnx");
  onnx::save(path, mlp, {{"x", f32, {"batch", 8}}}, {.external_data = true});
  const Tensor x = normal({2, 8});
  EXPECT_EQ(packed_elements(onnx::load(path).run({{"x", x}})[0]), packed_elements(mlp(x)));
  std::filesystem::remove(path + ".data");
  EXPECT_THAT(message_of<IoError>([&] { (void)onnx::load(path); }),
              HasSubstr("external.onnx.data"));
}

TEST(Load, ABranchOfTheHostComesBackAsIf) {
  const auto function = [](const Tensor& x) { return mean(x) > 0.0 ? x * 2 : x - 1; };
  const std::string path = temporary("branch.onnx");
  onnx::save(path, function, {{"x", f32, {"n"}}});
  const onnx::Model model = onnx::load(path);
  for (const double shift : {1.0, -1.0}) {
    const Tensor x = normal({5}, shift, 0.1);
    EXPECT_EQ(packed_elements(model.run({{"x", x}})[0]), packed_elements(function(x)));
  }
}

TEST(Load, SaysWhatIsNoModel) {
  EXPECT_THAT(message_of<OnnxError>([] { (void)onnx::parse(""); }),
              HasSubstr("'model' is no ONNX model, or is cut or damaged"));
  EXPECT_THAT(message_of<OnnxError>([] { (void)onnx::parse("not a model"); }),
              HasSubstr("no ONNX model"));
  EXPECT_THAT(message_of<IoError>([] { (void)onnx::load("/nowhere/model.onnx"); }),
              HasSubstr("/nowhere/model.onnx"));
}

struct Convolutions {
  nn::Conv2d first{3, 64, 3, {.padding = 1}}, second{64, 64, 3, {.padding = 1}};
  nn::Linear up{64, 512}, down{512, 200};
  Tensor operator()(const Tensor& x) const {
    return down(relu(up(mean(relu(second(relu(first(x)))), {2, 3}))));
  }
};

/// The large constants of a graph by their types.
std::map<std::string, std::vector<std::byte>> constants_of(const Graph& graph) {
  std::map<std::string, std::vector<std::byte>> found;
  visit_constants(*graph.impl(), [&](const Tensor& constant) {
    if (constant.numel() >= 4096) found[type_string(constant)] = packed_elements(constant);
  });
  return found;
}

TEST(Load, WeightsThatKernelsPackAreHeldOnceUntilSomebodyAsksForThem) {
  const Convolutions net;
  const std::string bytes = [&] {
    Graph graph;
    (void)graph.define([&] { return net(placeholder("x", f32, {"batch", 3, 12, 12})); });
    return onnx::to_bytes(graph, {.outputs = {"y"}, .weights = nn::state_dict(net)});
  }();
  const std::size_t before = memory_stats().away;
  const auto expected = constants_of(onnx::parse(bytes, {.trainable = false}).graph());
  const Tensor x = normal({2, 3, 12, 12});
  std::vector<std::byte> first;
  {
    const onnx::Model model = onnx::parse(bytes, {.trainable = false});
    EXPECT_EQ(memory_stats().away, before) << "nothing ran yet";
    const auto run = [&](const Tensor& on) { return packed_elements(model.run({{"x", on}})[0]); };
    first = run(x);
#if !DYAD_PLAIN_LOOPS  // which pack nothing
    // The large weights: the second convolution's, and those of both products.
    EXPECT_EQ(memory_stats().away - before, 4u * (64u * 64 * 9 + 64u * 512 + 512u * 200));
#endif
    EXPECT_EQ(run(x), first);
    // Other sizes and numbers of threads: other plans, other layouts.
    for (const int threads : {1, 2}) {
      const ThreadScope scope(threads);
      (void)run(normal({5, 3, 12, 12}));
      (void)run(normal({40, 3, 12, 12}));
    }
    EXPECT_EQ(run(x), first);
    EXPECT_EQ(constants_of(model.graph()), expected) << "every bit is there again";
    EXPECT_EQ(memory_stats().away, before);
    EXPECT_EQ(run(x), first);
    EXPECT_EQ(memory_stats().away, before) << "whoever asked may read them";
    const std::string written_again = onnx::to_bytes(model.graph(), {.outputs = {"y"}});
    const onnx::Model again = onnx::parse(written_again, {.trainable = false});
    const Tensor given = again.run({{"x", x}})[0];
    EXPECT_TRUE(allclose(given, net(x), 1e-4, 1e-4).item<bool>());
    EXPECT_EQ(constants_of(again.graph()),
              constants_of(onnx::parse(written_again, {.trainable = false}).graph()));
  }
  EXPECT_EQ(memory_stats().away, before) << "no model is left";
}

TEST(Load, WeightsThatAnOperatorReadsAsTheyAreStay) {
  const Tensor w = normal({256, 256});
  Graph graph;
  (void)graph.define([&] { return matmul(embedding(placeholder("tokens", i64, {"n"}), w), w); });
  const std::size_t before = memory_stats().away;
  const onnx::Model model =
      onnx::parse(onnx::to_bytes(graph, {.weights = {{"w", w}}}), {.trainable = false});
  const Tensor tokens = tensor({3, 200, 0, 255, 17}, i64);
  const Tensor expected = matmul(embedding(tokens, w), w);
  for (int run = 0; run < 3; ++run) {
    EXPECT_TRUE(allclose(model.run({{"tokens", tokens}})[0], expected, 1e-4, 1e-4).item<bool>());
    EXPECT_EQ(memory_stats().away, before);
  }
}

/// Cut at every byte: an error, or a smaller model that is one.
TEST(Load, ACutFileIsAnErrorAtEveryByte) {
  const std::string bytes = written(TanhMlp{.up{3, 2}, .down{2, 1}}, 3);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      (void)onnx::parse(std::string_view(bytes).substr(0, size));
      ADD_FAILURE() << "accepted " << size << " of " << bytes.size() << " bytes";
    } catch (const OnnxError&) {
    }
  }
}

/// Every byte changed in turn, in three ways: an error of Dyad's, or a model.
TEST(Load, ADamagedFileIsAnErrorOrAModel) {
  const std::string good = written(TanhMlp{.up{3, 2}, .down{2, 1}}, 3);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      try {
        (void)onnx::parse(bytes);
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace dyad::testing
