// What models say that other tools write: whole numbers to the last bit, nodes in any order, sizes
// that nodes compute, constants in loops.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/nn/nn.h"
#include "dyad/onnx/load.h"
#include "dyad/onnx/network.h"
#include "dyad/ops/ops.h"
#include "hostile.h"
#include "model_bytes.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

using namespace bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

// --- Whole numbers -------------------------------------------------------------------------------

TEST(ImportIntegers, BoxesWithoutALimit) {
  const onnx::Model model = onnx::parse(
      bytes::model({.nodes = {node("NonMaxSuppression", {"b", "s", "most"}, {"y"})},
                    .inputs = {value("b", kFloat, {1, 3, 4}), value("s", kFloat, {1, 1, 3})},
                    .outputs = {value("y", kInt64, {-1, 3})},
                    .tensors = {tensor_proto("most", {kMost})}}));
  const Tensor boxes = tensor({{{0.f, 0.f, 1.f, 1.f}, {0.f, 2.f, 1.f, 3.f}, {0.f, 4.f, 1.f, 5.f}}});
  const Tensor scores = tensor({{{0.1f, 0.3f, 0.2f}}});
  EXPECT_THAT(model.run({{"b", boxes}, {"s", scores}})[0].to_vector<std::int64_t>(),
              ElementsAre(0, 0, 1, 0, 0, 2, 0, 0, 0));
}

TEST(ImportIntegers, ALoopWithoutALimit) {
  // Its state grows, so that it is written out.
  const std::string body = graph({.nodes = {node("Concat", {"y", "y"}, {"y2"}, {of_int("axis", 0)}),
                                            node("Less", {"i", "two"}, {"go"})},
                                  .inputs = {value("i", kInt64), value("c", kBool), value("y")},
                                  .outputs = {value("go", kBool), value("y2")},
                                  .tensors = {scalar("two", 2)}});
  const onnx::Model model = onnx::parse(
      bytes::model({.nodes = {node("Loop", {"most", "true", "x"}, {"z"}, {of_graph("body", body)})},
                    .inputs = {value("x", kFloat, {-1})},
                    .outputs = {value("z", kFloat, {-1})},
                    .tensors = {scalar("most", kMost), truth("true", true)}}));
  EXPECT_EQ(model.run({{"x", tensor({1.f, 2.f})}})[0].shape(), Shape({16}));
}

TEST(ImportIntegers, DiagonalsOutsideTheMatrix) {
  const Tensor x = ones({2, 3});
  for (const std::int64_t k : {kMost, kMost - 1, kLeast, kLeast + 1}) {
    for (const std::int64_t upper : {0, 1}) {
      const onnx::Model model = onnx::parse(
          bytes::model({.nodes = {node("Trilu", {"x", "k"}, {"y"}, {of_int("upper", upper)})},
                        .inputs = {value("x", kFloat, {2, 3})},
                        .outputs = {value("y", kFloat, {2, 3})},
                        .tensors = {scalar("k", k)}}));
      const bool all = (k < 0) == (upper == 1);
      EXPECT_EQ(sum(model.run({{"x", x}})[0]).item(), all ? 6 : 0) << k << " " << upper;
    }
    EXPECT_EQ(sum(triu(x, k)).item(), k < 0 ? 6 : 0);
    EXPECT_EQ(sum(tril(x, k)).item(), k < 0 ? 0 : 6);
  }
}

TEST(ImportIntegers, LargeRanges) {
  const auto range = [](std::int64_t begin, std::int64_t end, std::int64_t step) {
    const onnx::Model model = onnx::parse(bytes::model(
        {.nodes = {node("Range", {"a", "b", "c"}, {"r"}), node("Add", {"r", "x"}, {"y"})},
         .inputs = {value("x", kInt64)},
         .outputs = {value("y", kInt64, {-1})},
         .tensors = {scalar("a", begin), scalar("b", end), scalar("c", step)}}));
    return model.run({{"x", tensor(std::int64_t{0})}})[0].to_vector<std::int64_t>();
  };
  constexpr std::int64_t kLarge = (std::int64_t{1} << 60) + 1;
  EXPECT_THAT(range(kLarge, kLarge + 3, 1), ElementsAre(kLarge, kLarge + 1, kLarge + 2));
  EXPECT_THAT(range(kMost - 3, kMost, 2), ElementsAre(kMost - 3, kMost - 1));
  EXPECT_THAT(range(kLeast, kMost, kMost), ElementsAre(kLeast, -1, kMost - 1));
  EXPECT_THAT(range(kLeast + 2, kLeast, -1), ElementsAre(kLeast + 2, kLeast + 1));
  EXPECT_THAT(range(5, 5, 1), IsEmpty());
}

// --- Constants -----------------------------------------------------------------------------------

TEST(ImportConstants, ANetworkWithLargeOnesCompiles) {
  std::vector<float> numbers(17, 0.5f);
  const std::string constant =
      node("Constant", {}, {"c"}, {of_tensor("value", floats("", {17}, numbers))});
  const onnx::Network network(
      onnx::parse(bytes::model({.nodes = {constant, node("Add", {"x", "c"}, {"y"})},
                                .inputs = {value("x", kFloat, {-1, 17})},
                                .outputs = {value("y", kFloat, {-1, 17})}})));
  const auto fast = compile([&](const Tensor& x) { return network(x) + tensor(numbers); });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(sum(fast(ones({2, 17}))).item(), 68);
}

TEST(ImportConstants, ThoseOfRulesAreNoWeights) {
  // zeros of as many elements as x, of integers, outside and inside of a branch
  const auto filled = [](std::string_view name) {
    return node("ConstantOfShape", {"s"}, {std::string(name)},
                {of_tensor("value", tensor_proto("", {3}))});
  };
  const std::string branch = graph({.nodes = {filled("f")}, .outputs = {value("f", kInt64, {-1})}});
  const std::string other =
      graph({.nodes = {node("Neg", {"g"}, {"h"})}, .outputs = {value("h", kInt64, {-1})}});
  const onnx::Model model = onnx::parse(bytes::model(
      {.nodes = {node("Shape", {"x"}, {"s"}), filled("g"),
                 node("If", {"c"}, {"y"},
                      {of_graph("then_branch", branch), of_graph("else_branch", other)})},
       .inputs = {value("x", kFloat, {-1}), value("c", kBool)},
       .outputs = {value("y", kInt64, {-1})}}));
  EXPECT_THAT(model.graph().variables(), IsEmpty());
  EXPECT_TRUE(model.weights().empty());
  onnx::Network network(model);
  EXPECT_THAT(nn::named_parameters(network), IsEmpty());
  EXPECT_THAT(network(ones({2}), tensor(true)).to_vector<std::int64_t>(), ElementsAre(3, 3));
  EXPECT_THAT(network(ones({2}), tensor(false)).to_vector<std::int64_t>(), ElementsAre(-3, -3));
}

// --- Signals -------------------------------------------------------------------------------------

TEST(ImportSignals, OneWithoutPartsIsReal) {
  const auto spectra = [](const Numbers& dims) {
    const onnx::Model model =
        onnx::parse(bytes::model({.nodes = {node("STFT", {"x", "step", "", "length"}, {"y"})},
                                  .inputs = {value("x", kFloat, dims)},
                                  .outputs = {value("y", kFloat, {-1, -1, -1, 2})},
                                  .tensors = {scalar("step", 4), scalar("length", 16)}}));
    Shape shape;
    for (const std::int64_t size : dims) shape.push_back(size);
    return model.run({{"x", reshape(sin(arange(64) * 0.3), shape)}})[0];
  };
  const Tensor plain = spectra({2, 32}), parts = spectra({2, 32, 1});
  EXPECT_EQ(plain.shape(), Shape({2, 5, 9, 2}));
  EXPECT_EQ(max(abs(plain - parts)).item(), 0);
}

// --- The order of nodes --------------------------------------------------------------------------

TEST(ImportOrder, NodesThatStandBeforeWhatTheyRead) {
  // The branches read what stands after them, and have an order of their own.
  const std::string then =
      graph({.nodes = {node("Neg", {"p"}, {"q"}), node("Add", {"late", "x"}, {"p"})},
             .outputs = {value("q", kFloat, {2})}});
  const std::string other = graph({.outputs = {value("late", kFloat, {2})}});
  const std::string twice =
      function("Twice", {"a"}, {"c"}, {node("Add", {"b", "b"}, {"c"}), node("Abs", {"a"}, {"b"})});
  const onnx::Model model = onnx::parse(
      bytes::model({.nodes = {node("Twice", {"z"}, {"y"}, {}, "own"),
                              node("If", {"c"}, {"z"},
                                   {of_graph("then_branch", then), of_graph("else_branch", other)}),
                              node("Exp", {"x"}, {"late"})},
                    .inputs = {value("x", kFloat, {2}), value("c", kBool)},
                    .outputs = {value("y", kFloat, {2})}},
                   {twice}));
  const Tensor x = zeros({2});
  EXPECT_THAT(model.run({{"x", x}, {"c", tensor(true)}})[0].to_vector<float>(), ElementsAre(2, 2));
  EXPECT_THAT(model.run({{"x", x}, {"c", tensor(false)}})[0].to_vector<float>(), ElementsAre(2, 2));
}

TEST(ImportOrder, ALongChainBackwards) {
  Names nodes;
  constexpr int kLength = 100'000;
  for (int i = kLength; i-- > 0;) {
    nodes.push_back(node("Abs", {i == 0 ? "x" : "t" + std::to_string(i - 1)},
                         {i == kLength - 1 ? "y" : "t" + std::to_string(i)}));
  }
  const Attempt attempt = try_model(bytes::model(
      {.nodes = nodes, .inputs = {value("x", kFloat, {1})}, .outputs = {value("y", kFloat, {1})}}));
  EXPECT_TRUE(attempt.loaded) << attempt.error;
}

// --- Sizes ---------------------------------------------------------------------------------------

std::string sizes_model(Names nodes, Names tensors, const Numbers& out) {
  nodes.insert(nodes.begin(), node("Shape", {"x"}, {"s"}));
  return bytes::model({.nodes = std::move(nodes),
                       .inputs = {value("x", kFloat, {-1, 4})},
                       .outputs = {value("y", kFloat, out)},
                       .tensors = std::move(tensors)});
}

/// What a model of open sizes gives for 3 and for 5 rows, without being built for each.
void expect_sizes(const std::string& bytes, const std::function<Shape(std::int64_t)>& shape) {
  const onnx::Model model = onnx::parse(bytes);
  EXPECT_THAT(model.value_inputs(), IsEmpty());
  for (const std::int64_t n : {3, 5}) {
    EXPECT_EQ(model.run({{"x", ones({n, 4})}})[0].shape(), shape(n));
  }
}

TEST(ImportSizes, ThatAreMinusOneNowhere) {
  // expand() as PyTorch writes it: a size of -1 would be one that stays.
  expect_sizes(
      sizes_model(
          {node("Shape", {"s"}, {"rank"}),
           node("ConstantOfShape", {"rank"}, {"ones"}, {of_tensor("value", tensor_proto("", {1}))}),
           node("Mul", {"ones", "minus"}, {"none"}), node("Equal", {"s", "none"}, {"stays"}),
           node("Where", {"stays", "ones", "s"}, {"wanted"}),
           node("Expand", {"one", "wanted"}, {"y"})},
          {scalar("minus", -1), floats("one", {1, 1}, {7})}, {-1, 4}),
      [](std::int64_t n) { return Shape({n, 4}); });
}

TEST(ImportSizes, TheLeastAndTheMost) {
  for (const bool least : {true, false}) {
    expect_sizes(
        sizes_model(
            {node("Concat", {"s", "k"}, {"all"}, {of_int("axis", 0)}),
             node(least ? "ReduceMin" : "ReduceMax", {"all"}, {"m"}, {of_int("keepdims", 1)}),
             node("Expand", {"one", "m"}, {"y"})},
            {tensor_proto("k", {4}), floats("one", {1}, {7})}, {-1}),
        [&](std::int64_t n) {
          return Shape({least ? std::min<std::int64_t>(n, 4) : std::max<std::int64_t>(n, 4)});
        });
  }
}

TEST(ImportSizes, TruthsDecideOnBranches) {
  // if n >= 0 and not n < -2: x, else something of another rank
  const std::string then = graph({.nodes = {node("Neg", {"x"}, {"a"})}, .outputs = {value("a")}});
  const std::string other =
      graph({.nodes = {node("ReduceSum", {"x"}, {"b"})}, .outputs = {value("b")}});
  expect_sizes(sizes_model({node("Gather", {"s", "zero"}, {"n"}),
                            node("GreaterOrEqual", {"n", "zero"}, {"p"}),
                            node("Less", {"n", "low"}, {"q"}), node("Not", {"q"}, {"r"}),
                            node("And", {"p", "r"}, {"t"}), node("Or", {"q", "t"}, {"u"}),
                            node("If", {"u"}, {"y"},
                                 {of_graph("then_branch", then), of_graph("else_branch", other)})},
                           {scalar("zero", 0), scalar("low", -2)}, {-1, 4}),
               [](std::int64_t n) { return Shape({n, 4}); });
}

/// Positions of a table, as many as there are tokens: BERT and its like.
TEST(ImportSizes, TheFirstRowsOfATable) {
  const auto model = [](const Names& last) {
    Names nodes{node("Shape", {"x"}, {"s"}), node("Slice", {"table", "zero", "s", "zero"}, {"t"})};
    nodes.insert(nodes.end(), last.begin(), last.end());
    return onnx::parse(
        bytes::model({.nodes = nodes,
                      .inputs = {value("x", kFloat, {-1})},
                      .outputs = {value("y", kFloat, {-1})},
                      .tensors = {tensor_proto("zero", {0}), floats("table", {4}, {1, 2, 3, 4})}}));
  };
  for (const onnx::Model& m :
       {model({node("Add", {"x", "t"}, {"y"})}),
        model({node("Expand", {"t", "s"}, {"wide"}), node("Add", {"wide", "x"}, {"y"})})}) {
    EXPECT_THAT(m.value_inputs(), IsEmpty());
    EXPECT_THAT(m.run({{"x", ones({1})}})[0].to_vector<float>(), ElementsAre(2));
    EXPECT_THAT(m.run({{"x", ones({3})}})[0].to_vector<float>(), ElementsAre(2, 3, 4));
    EXPECT_THAT(m.run({{"x", ones({4})}})[0].to_vector<float>(), ElementsAre(2, 3, 4, 5));
    EXPECT_THROW(static_cast<void>(m.run({{"x", ones({5})}})), Error);
  }
}

// --- Messages ------------------------------------------------------------------------------------

TEST(ImportMessages, SizesThatDataDecideAndThatAreNotEqual) {
  const onnx::Model model = onnx::parse(
      bytes::model({.nodes = {node("NonZero", {"x"}, {"p"}), node("Reshape", {"p", "flat"}, {"q"}),
                              node("Cast", {"q"}, {"r"}, {of_int("to", kFloat)}),
                              node("Add", {"z", "r"}, {"y"}) + part(3, "both")},
                    .inputs = {value("x", kFloat, {-1}), value("z", kFloat, {3})},
                    .outputs = {value("y", kFloat, {3})},
                    .tensors = {tensor_proto("flat", {-1})}}));
  EXPECT_THAT(model.value_inputs(), IsEmpty());
  const auto run = [&](std::int64_t n) {
    return model.run({{"x", ones({n})}, {"z", ones({3})}})[0].to_vector<float>();
  };
  EXPECT_THAT(run(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(run(1), ElementsAre(1, 1, 1));  // which broadcasts
  EXPECT_THAT(bare_message_of<OnnxError>([&] { static_cast<void>(run(2)); }),
              HasSubstr("\"both\" (Add 21): add(a: f32[3], b: f32[2]): shapes [3] and [2] do not "
                        "broadcast"));
  EXPECT_THAT(run(3), ElementsAre(1, 2, 3));
}

TEST(ImportMessages, ErrorsOfARunNameTheNode) {
  const onnx::Model model =
      onnx::parse(bytes::model({.nodes = {node("Gather", {"x", "i"}, {"y"}) + part(3, "pick")},
                                .inputs = {value("x", kFloat, {3}), value("i", kInt64, {1})},
                                .outputs = {value("y", kFloat, {1})}}));
  std::string text;
  try {
    static_cast<void>(model.run({{"x", ones({3})}, {"i", tensor({std::int64_t{7}})}}));
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("model:1 (\"pick\")"));
}

TEST(ImportMessages, VersionsThatAreNotKnown) {
  const std::string nodes = graph({.nodes = {node("Relu", {"x"}, {"y"})},
                                   .inputs = {value("x", kFloat, {1})},
                                   .outputs = {value("y", kFloat, {1})}});
  const auto importing = [&](std::string_view domain, std::int64_t version) {
    return number(1, 10) + part(7, nodes) + part(8, opset("", 21)) +
           part(8, opset(domain, version));
  };
  EXPECT_THAT(refusal(importing("", 28)),
              HasSubstr("it imports version 28 of the operators of ai.onnx; versions up to 27 are "
                        "known"));
  EXPECT_THAT(refusal(importing("ai.onnx.ml", 6)), HasSubstr("ai.onnx.ml; versions up to 5"));
  EXPECT_TRUE(try_model(importing("", 27)).loaded);
  EXPECT_TRUE(try_model(importing("com.example", 99)).loaded);
}

}  // namespace
}  // namespace dyad::testing
