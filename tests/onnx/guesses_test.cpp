// What is taken for granted of sizes that only a run tells: where it is not so, the result is that
// of the graph for these values, or an error, whatever of the model is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "checker.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/session.h"
#include "dyad/exec/vmap.h"
#include "dyad/onnx/export.h"
#include "dyad/onnx/load.h"
#include "dyad/onnx/network.h"
#include "dyad/onnx/verify.h"
#include "dyad/ops/ops.h"
#include "model_bytes.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

using namespace bytes;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// An input of rank 1 whose size has a name.
std::string list_of(std::string_view name, std::string_view size, int dtype = kFloat) {
  return part(1, name) +
         part(2, part(1, number(1, dtype) + part(2, part(1, part(2, std::string(size))))));
}

std::vector<float> elements(const Tensor& x) { return to(x, f32).to_vector<float>(); }

/// The first `count` of `size` are true.
Tensor first_of(std::int64_t size, std::int64_t count) { return arange(size, i64) < count; }

constexpr std::int64_t kSize = 8;

/// x and y of which p and q keep some.
std::vector<Feed> two_counts(std::int64_t a, std::int64_t b) {
  return {{"x", arange(kSize, f32)},
          {"p", first_of(kSize, a)},
          {"y", arange(kSize, f32) * 10},
          {"q", first_of(kSize, b)}};
}

GraphParts parts_of_two_counts(const Names& nodes, const Names& outputs) {
  GraphParts parts{
      .nodes = {node("Compress", {"x", "p"}, {"a"}), node("Compress", {"y", "q"}, {"b"})},
      .inputs = {list_of("x", "n"), list_of("p", "n", kBool), list_of("y", "n"),
                 list_of("q", "n", kBool)}};
  parts.nodes.insert(parts.nodes.end(), nodes.begin(), nodes.end());
  for (const std::string& output : outputs) parts.outputs.push_back(part(1, output));
  return parts;
}

onnx::Model model_of_two_counts(const Names& nodes, const Names& outputs,
                                const onnx::LoadOptions& options = {}) {
  return onnx::parse(bytes::model(parts_of_two_counts(nodes, outputs)), options);
}

/// What the model gives of equal counts, and of one that broadcasts; of others it is an error.
void expect_of_two_counts(const onnx::Model& model, float equal, float broadcast) {
  EXPECT_THAT(elements(model.run(two_counts(3, 3))[0]), ElementsAre(equal));
  EXPECT_THAT(elements(model.run(two_counts(1, 5))[0]), ElementsAre(broadcast));
  EXPECT_THROW((void)model.run(two_counts(2, 5)), Error);
}

TEST(Guesses, AreCheckedWhereSizesAloneAreRead) {
  for (const std::string reader : {"Shape", "Size", "ConstantOfShape"}) {
    Names nodes{node("Add", {"a", "b"}, {"s"}) + part(3, "both")};
    nodes.push_back(node(reader == "Size" ? "Size" : "Shape", {"s"}, {"sizes"}));
    const bool makes = reader == "ConstantOfShape";
    if (makes) nodes.push_back(node("ConstantOfShape", {"sizes"}, {"zeros"}));
    const onnx::Model model = model_of_two_counts(nodes, {makes ? "zeros" : "sizes"});
    EXPECT_THAT(model.value_inputs(), IsEmpty());
    const auto run = [&](std::int64_t a, std::int64_t b) {
      const Tensor made = model.run(two_counts(a, b))[0];
      return makes ? static_cast<float>(made.numel().number()) : elements(made).at(0);
    };
    EXPECT_EQ(run(3, 3), 3) << reader;
    EXPECT_EQ(run(1, 5), 5) << reader;
    EXPECT_EQ(run(5, 1), 5) << reader;
    EXPECT_THAT(bare_message_of<OnnxError>([&] { (void)run(2, 5); }),
                HasSubstr("\"both\" (Add 21): add(a: f32[2], b: f32[5])"));
  }
}

TEST(Guesses, AreCheckedByEveryResultOfTheGraph) {
  const onnx::Model model = model_of_two_counts(
      {node("Add", {"a", "b"}, {"s"}), node("Shape", {"s"}, {"sizes"}), node("Neg", {"a"}, {"c"})},
      {"s", "sizes", "c"});
  const Graph graph = model.graph();
  Session session(graph);
  for (const Tensor& output : graph.outputs()) {
    EXPECT_EQ(session.run({output}, two_counts(3, 3)).size(), 1u);
    EXPECT_THAT(bare_message_of<ShapeError>([&] { (void)session.run({output}, two_counts(1, 5)); }),
                HasSubstr("but must have"));
  }
}

TEST(Guesses, AreCheckedWhereDataTellOtherSizesAfterwards) {
  const onnx::Model model = model_of_two_counts(
      {node("Add", {"a", "b"}, {"s"}), node("Shape", {"s"}, {"sizes"}),
       node("NonZero", {"sizes"}, {"places"}), node("NonZero", {"x"}, {"others"})},
      {"sizes", "places", "others"});
  const Graph graph = model.graph();
  Session session(graph);
  EXPECT_EQ(elements(session.run(graph.outputs(), two_counts(3, 3))[0]).at(0), 3);
  EXPECT_THROW((void)session.run(graph.outputs(), two_counts(1, 5)), ShapeError);
  EXPECT_THROW((void)session.run(graph.outputs(), two_counts(2, 5)), ShapeError);
}

TEST(Guesses, AreNoNodesOfTheModelThatIsWritten) {
  const onnx::Model model = model_of_two_counts(
      {node("Add", {"a", "b"}, {"s"}), node("Shape", {"s"}, {"sizes"})}, {"s", "sizes"});
  const std::string path = temporary("guesses.onnx");
  onnx::save(path, model.graph());
  const onnx::Model again = onnx::load(path);
  for (const std::int64_t count : {3, 5}) {
    const std::vector<Feed> feeds = two_counts(count, count);
    const std::vector<Tensor> expected = model.run(feeds), made = again.run(feeds);
    ASSERT_EQ(made.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(elements(made[i]), elements(expected[i]));
  }
  EXPECT_THAT(bare_message_of<OnnxError>([&] { (void)again.run(two_counts(2, 5)); }),
              HasSubstr("add(a: f32[2], b: f32[5])"));
}

TEST(Guesses, InABranchAreCheckedWhenItIsTaken) {
  const auto branch = [](const Names& nodes) {
    return graph({.nodes = nodes, .outputs = {value("r", kFloat, {-1})}});
  };
  GraphParts parts =
      parts_of_two_counts({node("If", {"c"}, {"both"},
                                {of_graph("then_branch", branch({node("Add", {"a", "b"}, {"r"})})),
                                 of_graph("else_branch", branch({node("Neg", {"a"}, {"r"})}))}),
                           node("Shape", {"both"}, {"sizes"})},
                          {"sizes"});
  parts.inputs.push_back(value("c", kBool));
  const onnx::Model model = onnx::parse(bytes::model(parts));
  const auto run = [&](std::int64_t a, std::int64_t b, bool c) {
    std::vector<Feed> feeds = two_counts(a, b);
    feeds.push_back({"c", tensor(c)});
    return elements(model.run(feeds)[0]);
  };
  EXPECT_THAT(run(3, 3, true), ElementsAre(3));
  EXPECT_THAT(run(1, 5, true), ElementsAre(5));
  EXPECT_THAT(run(1, 5, false), ElementsAre(1));
  EXPECT_THAT(run(2, 5, false), ElementsAre(2));
  EXPECT_THROW((void)run(2, 5, true), Error);
}

TEST(Guesses, InALoopAreChecked) {
  const std::string body = graph(
      {.nodes = {node("Add", {"before", "b"}, {"after"}), node("Identity", {"on"}, {"still"})},
       .inputs = {value("i", kInt64), value("on", kBool), value("before", kFloat, {-1})},
       .outputs = {value("still", kBool), value("after", kFloat, {-1})}});
  GraphParts parts =
      parts_of_two_counts({node("Loop", {"steps", "", "a"}, {"state"}, {of_graph("body", body)}),
                           node("Shape", {"state"}, {"sizes"})},
                          {"sizes"});
  parts.tensors = {scalar("steps", 2)};
  const onnx::Model model = onnx::parse(bytes::model(parts));
  expect_of_two_counts(model, 3, 5);
}

TEST(Guesses, ThatAreTheSameInEveryStepOfALoopAreChecked) {
  const std::string body = graph(
      {.nodes = {node("Add", {"a", "b"}, {"s"}),
                 node("ReduceSum", {"s"}, {"m"}, {of_int("keepdims", 0)}),
                 node("Add", {"before", "m"}, {"after"}), node("Identity", {"on"}, {"still"})},
       .inputs = {value("i", kInt64), value("on", kBool), value("before", kFloat)},
       .outputs = {value("still", kBool), value("after", kFloat)}});
  GraphParts parts = parts_of_two_counts(
      {node("Loop", {"steps", "", "zero"}, {"total"}, {of_graph("body", body)})}, {"total"});
  parts.tensors = {scalar("steps", 2), tensor_proto("zero", kFloat, {}, std::string(4, '\0'))};
  const onnx::Model model = onnx::parse(bytes::model(parts));
  expect_of_two_counts(model, 66, 200);
}

TEST(Guesses, InABranchOfALoopAreChecked) {
  const std::string taken = graph(
      {.nodes = {node("Add", {"before", "b"}, {"r"})}, .outputs = {value("r", kFloat, {-1})}});
  const std::string other = graph(
      {.nodes = {node("Identity", {"before"}, {"r"})}, .outputs = {value("r", kFloat, {-1})}});
  const std::string body =
      graph({.nodes = {node("If", {"c"}, {"after"},
                            {of_graph("then_branch", taken), of_graph("else_branch", other)}),
                       node("Identity", {"on"}, {"still"})},
             .inputs = {value("i", kInt64), value("on", kBool), value("before", kFloat, {-1})},
             .outputs = {value("still", kBool), value("after", kFloat, {-1})}});
  GraphParts parts =
      parts_of_two_counts({node("Loop", {"steps", "", "a"}, {"state"}, {of_graph("body", body)}),
                           node("Shape", {"state"}, {"sizes"})},
                          {"sizes"});
  parts.inputs.push_back(value("c", kBool));
  parts.tensors = {scalar("steps", 2)};
  const onnx::Model model = onnx::parse(bytes::model(parts));
  EXPECT_THAT(model.value_inputs(), IsEmpty());
  const auto run = [&](std::int64_t a, std::int64_t b, bool c) {
    std::vector<Feed> feeds = two_counts(a, b);
    feeds.push_back({"c", tensor(c)});
    return elements(model.run(feeds)[0]);
  };
  EXPECT_THAT(run(3, 3, true), ElementsAre(3));
  EXPECT_THAT(run(1, 5, true), ElementsAre(5));
  EXPECT_THAT(run(1, 5, false), ElementsAre(1));
  EXPECT_THROW((void)run(2, 5, true), Error);
}

TEST(Guesses, AreCheckedByGradients) {
  GraphParts parts =
      parts_of_two_counts({node("Add", {"a", "b"}, {"s"}), node("Mul", {"s", "w"}, {"r"})}, {"r"});
  parts.tensors = {tensor_proto("w", kFloat, {1}, std::string("\0\0\x80\x3f", 4))};
  const onnx::Model model = onnx::parse(bytes::model(parts));
  Graph graph = model.graph();
  const Tensor slope = graph.define(
      [&] { return gradients(sum(graph.outputs()[0]), {model.weights().at("w")})[0]; });
  Session session(graph);
  EXPECT_THAT(elements(session.run({slope}, two_counts(3, 3))[0]), ElementsAre(33));
  EXPECT_THROW((void)session.run({slope}, two_counts(1, 5)), ShapeError);
}

/// v, the least of some integers, is a size and a number.
onnx::Model model_of_least(const onnx::LoadOptions& options = {}) {
  return onnx::parse(
      bytes::model({.nodes = {node("ReduceMin", {"ints"}, {"v"}, {of_int("keepdims", 0)}),
                              node("Range", {"zero", "v", "one"}, {"range"}),
                              node("Less", {"v", "zero"}, {"y"})},
                    .inputs = {list_of("ints", "n", kInt64)},
                    .outputs = {value("y", kBool)},
                    .tensors = {scalar("zero", 0), scalar("one", 1)}}),
      options);
}

TEST(Guesses, ElementsOfDataThatAreSizesAreNotNegative) {
  const onnx::Model model = model_of_least();
  EXPECT_THAT(model.value_inputs(), IsEmpty());
  EXPECT_THAT(elements(model.run({{"ints", tensor({4, 2, 7}, i64)}})[0]), ElementsAre(0));
  EXPECT_THAT(elements(model.run({{"ints", tensor({4, -3, 7}, i64)}})[0]), ElementsAre(1));
  const Graph graph = model.graph();
  EXPECT_THROW((void)Session(graph).run(graph.outputs(), {{"ints", tensor({4, -3, 7}, i64)}}),
               ValueError);
}

TEST(Guesses, ANetworkChecksThem) {
  const onnx::Model model = model_of_two_counts(
      {node("Add", {"a", "b"}, {"s"}), node("Shape", {"s"}, {"sizes"})}, {"sizes"});
  const onnx::Network network(model);
  const auto run = [&](std::int64_t a, std::int64_t b) {
    std::vector<Tensor> inputs;
    for (const Feed& feed : two_counts(a, b)) inputs.push_back(feed.value);
    return elements(network.run(inputs)[0]);
  };
  EXPECT_THAT(run(3, 3), ElementsAre(3));
  EXPECT_THROW((void)run(1, 5), ShapeError);
  const auto compiled =
      compile([&](const Tensor& x, const Tensor& p, const Tensor& y, const Tensor& q) {
        const std::vector<Tensor> inputs{x, p, y, q};
        return network.run(inputs)[0];
      });
  const auto run_compiled = [&](std::int64_t a, std::int64_t b) {
    const std::vector<Feed> fed = two_counts(a, b);
    return elements(compiled(fed[0].value, fed[1].value, fed[2].value, fed[3].value));
  };
  for (int again = 0; again < 3; ++again) {
    EXPECT_THAT(run_compiled(3, 3), ElementsAre(3));
    EXPECT_THAT(run_compiled(4, 4), ElementsAre(4));
  }
  EXPECT_THROW((void)run_compiled(1, 5), ShapeError);
}

TEST(Guesses, ANetworkInAVectorisedFunctionChecksThem) {
  const onnx::Network network(
      onnx::parse(bytes::model({.nodes = {node("Add", {"x", "z"}, {"y"})},
                                .inputs = {list_of("x", "n"), list_of("z", "m")},
                                .outputs = {value("y", kFloat, {-1})}})));
  const auto each = vmap([&](const Tensor& x, const Tensor& z) {
    const std::vector<Tensor> inputs{x, z};
    return network.run(inputs)[0];
  });
  EXPECT_THAT(elements(each(ones({2, 3}), ones({2, 3}))), Each(2));
  EXPECT_THROW((void)each(ones({2, 3}), ones({2, 4})), ShapeError);
}

TEST(Guesses, NodesAreComparedWhereTheyDoNotHold) {
  const std::string path = temporary("guesses.onnx");
  std::ofstream(path, std::ios::binary) << bytes::model(parts_of_two_counts(
      {node("Add", {"a", "b"}, {"s"}), node("Shape", {"s"}, {"sizes"})}, {"sizes"}));
  const TensorDict values = onnx::node_values(path, two_counts(1, 3));
  EXPECT_THAT(elements(values.at("s")), ElementsAre(0, 10, 20));
  EXPECT_THAT(elements(values.at("sizes")), ElementsAre(3));
}

// --- Graphs for sizes, and for values ------------------------------------------------------------

TEST(Guesses, OfInputsThatAreShortWhenTheirSizesAreKnown) {
  // Three integers are data here: their number is open.
  const onnx::Model model = onnx::parse(
      bytes::model({.nodes = {node("Add", {"x", "z"}, {"s"}),
                              node("ReduceMax", {"ints"}, {"v"}, {of_int("keepdims", 0)}),
                              node("Range", {"zero", "v", "one"}, {"range"})},
                    .inputs = {list_of("x", "n"), list_of("z", "m"), list_of("ints", "k", kInt64)},
                    .outputs = {value("s", kFloat, {-1}), value("range", kInt64, {-1})},
                    .tensors = {scalar("zero", 0), scalar("one", 1)}}));
  EXPECT_THAT(model.value_inputs(), IsEmpty());
  for (const std::int64_t m : {3, 1}) {
    const auto out =
        model.run({{"x", arange(3, f32)}, {"z", ones({m})}, {"ints", tensor({1, 4, 2}, i64)}});
    EXPECT_THAT(elements(out[0]), ElementsAre(1, 2, 3)) << m;
    EXPECT_THAT(elements(out[1]), ElementsAre(0, 1, 2, 3)) << m;
  }
}

TEST(Guesses, OfABranchThatIsNotTaken) {
  const auto branch = [](const Names& nodes) {
    return graph({.nodes = nodes,
                  .outputs = {value("r", kFloat, {-1})},
                  .tensors = {tensor_proto("one", kFloat, {}, std::string("\0\0\x80\x3f", 4))}});
  };
  const onnx::Model model = onnx::parse(bytes::model(
      {.nodes = {node("If", {"c"}, {"y"},
                      {of_graph("then_branch", branch({node("Add", {"a", "b"}, {"r"})})),
                       of_graph("else_branch", branch({node("Sub", {"a", "one"}, {"r"})}))})},
       .inputs = {list_of("a", "n"), list_of("b", "m"), value("c", kBool)},
       .outputs = {value("y", kFloat, {-1})}}));
  const auto run = [&](std::int64_t m, bool c) {
    return elements(model.run({{"a", arange(3, f32)}, {"b", ones({m})}, {"c", tensor(c)}})[0]);
  };
  EXPECT_THAT(run(3, true), ElementsAre(1, 2, 3));
  EXPECT_THAT(run(1, true), ElementsAre(1, 2, 3));
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(run(4, false), ElementsAre(-1, 0, 1));
    EXPECT_THROW((void)run(4, true), OnnxError);
  }
}

std::string weight(float w) {
  return tensor_proto("w", kFloat, {1}, {reinterpret_cast<const char*>(&w), 4});
}

TEST(Guesses, WeightsThatAreWrittenAreReadByEveryGraph) {
  GraphParts parts =
      parts_of_two_counts({node("Add", {"a", "b"}, {"s"}), node("Mul", {"s", "w"}, {"r"})}, {"r"});
  parts.tensors = {weight(2)};
  const onnx::Model model = onnx::parse(bytes::model(parts));
  EXPECT_THAT(elements(model.run(two_counts(1, 2))[0]), ElementsAre(0, 20));
  model.weights().at("w").fill_(3);
  EXPECT_THAT(elements(model.run(two_counts(2, 2))[0]), ElementsAre(0, 33));
  EXPECT_THAT(elements(model.run(two_counts(1, 2))[0]), ElementsAre(0, 30));
}

TEST(Guesses, TheWeightsOfASpecialisedModelAreReadByEveryGraph) {
  // Axes that are an input; sizes that are taken for equal; a weight, and one of few elements.
  const float three = 3;
  const std::string sparse =
      part(1, tensor_proto("v", kFloat, {1}, {reinterpret_cast<const char*>(&three), 4})) +
      part(2, tensor_proto("", {0})) + numbers(3, {1});
  const std::string parts =
      graph({.nodes = {node("Add", {"x", "z"}, {"s"}), node("Mul", {"s", "w"}, {"t"}),
                       node("Add", {"t", "v"}, {"u"}), node("ReduceSum", {"u", "axes"}, {"y"})},
             .inputs = {list_of("x", "n"), list_of("z", "m"), value("axes", kInt64, {1})},
             .outputs = {value("y", kFloat, {-1})},
             .tensors = {weight(2)}}) +
      part(15, sparse);
  const onnx::Model model = onnx::parse(bytes::model(parts));
  EXPECT_THAT(model.value_inputs(), ElementsAre("axes"));
  const onnx::Model special = model.specialize({{"axes", tensor({0}, i64)}});
  const auto run = [&](std::int64_t m) {
    return elements(special.run({{"x", ones({3})}, {"z", ones({m})}})[0]);
  };
  EXPECT_THAT(run(3), ElementsAre(3 * (2 * 2 + 3)));
  special.weights().at("w").fill_(5);
  special.weights().at("v").fill_(1);
  EXPECT_THAT(run(3), ElementsAre(3 * (2 * 5 + 1)));
  EXPECT_THAT(run(1), ElementsAre(3 * (2 * 5 + 1)));
}

TEST(Guesses, AModelIsSpecialisedOnceItsWeightsAreInLayoutsOfKernels) {
  std::vector<float> numbers(256 * 256);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 7) - 3;
  const onnx::Model model = onnx::parse(
      bytes::model({.nodes = {node("Add", {"x", "z"}, {"s"}), node("Reshape", {"s", "rows"}, {"t"}),
                              node("MatMul", {"t", "w"}, {"u"})},
                    .inputs = {list_of("x", "n"), list_of("z", "m")},
                    .outputs = {value("u", kFloat, {-1, 256})},
                    .tensors = {tensor_proto("rows", {-1, 256}),
                                tensor_proto("w", kFloat, {256, 256},
                                             {reinterpret_cast<const char*>(numbers.data()),
                                              numbers.size() * 4})}}),
      {.trainable = false});
  const auto run = [&](const onnx::Model& m) {
    return elements(m.run({{"x", ones({512})}, {"z", ones({512})}})[0]);
  };
  const std::vector<float> first = run(model);
  EXPECT_EQ(run(model.specialize({})), first);
  EXPECT_EQ(run(model), first);
}

// --- Limits --------------------------------------------------------------------------------------

std::vector<Feed> large_counts(std::int64_t size, std::int64_t b) {
  return {
      {"x", ones({size})}, {"p", first_of(size, 1)}, {"y", ones({size})}, {"q", first_of(size, b)}};
}

TEST(Guesses, OfLargeTensorsBroadcastToo) {
  const onnx::Model model =
      model_of_two_counts({node("Add", {"a", "b"}, {"s"})}, {"s"}, {.limits = {.constants = 4096}});
  const Tensor made = model.run(large_counts(50'000, 40'000))[0];
  EXPECT_EQ(made.numel().number(), 40'000);
  EXPECT_EQ(sum(made).item(), 80'000);
}

TEST(Guesses, AGraphForValuesTakesNoMoreThanARun) {
  // A table of all pairs.
  GraphParts parts = parts_of_two_counts(
      {node("Add", {"a", "b"}, {"s"}), node("Unsqueeze", {"s", "last"}, {"column"}),
       node("Add", {"s", "column"}, {"table"})},
      {"table"});
  parts.tensors = {tensor_proto("last", {1})};
  const onnx::Model limited = onnx::parse(bytes::model(parts), {.limits = {.run_memory = 8 << 20}});
  EXPECT_EQ(limited.run(large_counts(1'000, 1'000))[0].numel().number(), 1'000'000);
  EXPECT_THROW((void)limited.run(large_counts(10'000, 10'000)), MemoryError);
}

TEST(Guesses, ASizeBeyondAllMemoryIsToTheEnd) {
  const onnx::Model model = onnx::parse(
      bytes::model({.nodes = {node("ReduceMax", {"ints"}, {"end"}, {of_int("keepdims", 1)}),
                              node("Slice", {"x", "zero", "end"}, {"y"})},
                    .inputs = {list_of("x", "n"), list_of("ints", "k", kInt64)},
                    .outputs = {value("y", kFloat, {-1})},
                    .tensors = {tensor_proto("zero", {0})}}));
  EXPECT_THAT(model.value_inputs(), IsEmpty());
  const auto run = [&](std::int64_t end) {
    return elements(model.run({{"x", arange(3, f32)}, {"ints", full({20}, 0, i64) + end}})[0]);
  };
  EXPECT_THAT(run(2), ElementsAre(0, 1));
  EXPECT_THAT(run(1'000'000'000'000), ElementsAre(0, 1, 2));
  EXPECT_THAT(run(std::int64_t{1} << 31), ElementsAre(0, 1, 2));
}

// --- Sizes in floats -----------------------------------------------------------------------------

TEST(SizesInFloats, ThatAreRoundedOnTheWay) {
  for (const auto& [over, by] : {std::pair{7, 7}, std::pair{9, 3}, std::pair{3, 6}}) {
    const float divisor = static_cast<float>(over), factor = static_cast<float>(by);
    const auto number_of = [](std::string_view name, float x) {
      return tensor_proto(name, kFloat, {}, {reinterpret_cast<const char*>(&x), 4});
    };
    const onnx::Model model = onnx::parse(bytes::model(
        {.nodes = {node("Shape", {"x"}, {"s"}), node("Cast", {"s"}, {"f"}, {of_int("to", kFloat)}),
                   node("Div", {"f", "over"}, {"d"}), node("Mul", {"d", "by"}, {"m"}),
                   node("Cast", {"m"}, {"size"}, {of_int("to", kInt64)}),
                   node("ConstantOfShape", {"size"}, {"y"})},
         .inputs = {list_of("x", "n")},
         .outputs = {value("y", kFloat, {-1})},
         .tensors = {number_of("over", divisor), number_of("by", factor)}}));
    for (const std::int64_t n : {1, 14, 31, 62, 93, 100}) {
      const float right = std::trunc(static_cast<float>(n) / divisor * factor);
      EXPECT_EQ(static_cast<float>(model.run({{"x", ones({n})}})[0].numel().number()), right)
          << n << " / " << over << " * " << by;
    }
  }
}

}  // namespace
}  // namespace dyad::testing
