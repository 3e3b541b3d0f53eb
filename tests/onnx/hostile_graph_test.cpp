// Models whose graph is none: names that mean nothing or two things, cycles, nesting without end,
// functions and loops that come to far more than the file holds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/core/create.h"
#include "hostile.h"
#include "model_bytes.h"

namespace dyad::testing {
namespace {

using namespace bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string with_nodes(const Names& nodes, const std::string& result = "y") {
  return model({.nodes = nodes,
                .inputs = {value("x", kFloat, {3})},
                .outputs = {value(result, kFloat, {3})}});
}

TEST(HostileGraph, NamesThatNothingGives) {
  EXPECT_THAT(
      refusal(with_nodes({node("Relu", {"z"}, {"y"})})),
      AllOf(HasSubstr("\"y\" (Relu 21)"), HasSubstr("nothing before it gives its input \"z\"")));
  EXPECT_THAT(refusal(with_nodes({node("Relu", {"x"}, {"z"})})),
              HasSubstr("no node gives the output \"y\""));
  const std::string branch =
      graph({.nodes = {node("Relu", {"nowhere"}, {"b"})}, .outputs = {value("b")}});
  EXPECT_THAT(
      refusal(model(
          {.nodes = {node("If", {"c"}, {"y"},
                          {of_graph("then_branch", branch), of_graph("else_branch", branch)})},
           .inputs = {value("c", kBool)},
           .outputs = {value("y")}})),
      HasSubstr("\"nowhere\""));
}

TEST(HostileGraph, Cycles) {
  EXPECT_THAT(refusal(with_nodes({node("Add", {"x", "b"}, {"a"}), node("Add", {"x", "a"}, {"b"}),
                                  node("Relu", {"a"}, {"y"})})),
              HasSubstr("each of these nodes needs a result of the next, and the last one of the "
                        "first: \"a\" (Add), \"b\" (Add)"));
  EXPECT_THAT(refusal(with_nodes({node("Add", {"x", "y"}, {"y"})})), HasSubstr(": \"y\" (Add)"));
  Names ring;
  for (int i = 0; i < 100'000; ++i) {
    ring.push_back(
        node("Abs", {"t" + std::to_string((i + 1) % 100'000)}, {"t" + std::to_string(i)}));
  }
  ring.push_back(node("Abs", {"t0"}, {"y"}));
  EXPECT_THAT(refusal(with_nodes(ring)), HasSubstr("and 99992 more"));
}

TEST(HostileGraph, NamesThatMeanTwoThings) {
  EXPECT_THAT(refusal(with_nodes({node("Relu", {"x"}, {"y"}), node("Abs", {"x"}, {"y"})})),
              HasSubstr("another node gives \"y\" too"));
  EXPECT_THAT(refusal(with_nodes({node("Relu", {"x"}, {"x"}), node("Abs", {"x"}, {"y"})})),
              HasSubstr("\"x\""));
  EXPECT_THAT(refusal(with_nodes({node("TopK", {"x", "k"}, {"y", "y"})})), HasSubstr("\"k\""));
  const std::string two = model({.nodes = {node("Relu", {"x"}, {"y"})},
                                 .inputs = {value("x", kFloat, {3}), value("x", kFloat, {2})},
                                 .outputs = {value("y", kFloat, {3})}});
  EXPECT_THAT(refusal(two), HasSubstr("\"x\""));
  const std::string weights = model({.nodes = {node("Relu", {"w"}, {"y"})},
                                     .outputs = {value("y")},
                                     .tensors = {tensor_proto("w", {1}), tensor_proto("w", {2})}});
  EXPECT_THAT(refusal(weights), HasSubstr("two initializers are called \"w\""));
}

TEST(HostileGraph, ModelsWithoutTheirParts) {
  EXPECT_THAT(refusal(number(1, 10)), HasSubstr("holds no graph"));
  EXPECT_THAT(refusal(part(7, graph({}))), HasSubstr("which operator sets it imports"));
  EXPECT_THAT(refusal(std::string(100, '\x0B')),
              HasSubstr("is no ONNX model, or is cut or damaged"));
  EXPECT_THAT(refusal(model({.nodes = {node("", {"x"}, {"y"})}})), HasSubstr("cannot be run"));
  EXPECT_THAT(refusal(with_nodes({node("Relu", {}, {"y"})})), HasSubstr("Relu"));
  EXPECT_THAT(refusal(with_nodes({node("Add", {"x"}, {"y"})})), HasSubstr("Add"));
  EXPECT_THAT(refusal(with_nodes({node("If", {"x"}, {"y"})})),
              HasSubstr("it has no subgraph then_branch"));
  EXPECT_TRUE(try_model(with_nodes({node("Relu", {"x"}, {"y", "", "z"})})).error.size() > 0);
}

std::string nested_if(int depth) {
  std::string inner =
      graph({.nodes = {node("Relu", {"x"}, {"y"})}, .outputs = {value("y", kFloat, {3})}});
  for (int i = 0; i < depth; ++i) {
    inner = graph(
        {.nodes = {node("If", {"c"}, {"y"},
                        {of_graph("then_branch", inner),
                         of_graph("else_branch", graph({.nodes = {node("Abs", {"x"}, {"y"})},
                                                        .outputs = {value("y", kFloat, {3})}}))})},
         .outputs = {value("y", kFloat, {3})}});
  }
  return inner;
}

std::string model_of_nested(int depth, bool known) {
  std::string whole = nested_if(depth) + part(11, value("x", kFloat, {3}));
  whole += known ? part(5, truth("c", true)) : part(11, value("c", kBool));
  return model(whole);
}

TEST(HostileGraph, SubgraphsInSubgraphs) {
  for (const bool known : {false, true}) {
    EXPECT_EQ(try_model(model_of_nested(20, known)).error, "");
    EXPECT_THAT(refusal(model_of_nested(200, known)), HasSubstr("nested more than 100 deep"));
  }
}

TEST(HostileGraph, TypesInTypes) {
  std::string type = part(1, number(1, kFloat));
  for (int i = 0; i < 5000; ++i) type = part(i % 2 == 0 ? 4 : 9, part(1, type));
  EXPECT_THAT(refusal(model({.inputs = {part(1, "x") + part(2, type)}})),
              HasSubstr("nested more than 100 deep"));
}

TEST(HostileGraph, FunctionsThatCallThemselves) {
  const auto calls = [](const std::string& name) { return node(name, {"x"}, {"y"}, {}, "own"); };
  const std::string main = graph({.nodes = {calls("f")},
                                  .inputs = {value("x", kFloat, {3})},
                                  .outputs = {value("y", kFloat, {3})}});
  EXPECT_THAT(refusal(model(main, {function("f", {"x"}, {"y"}, {calls("f")})})),
              HasSubstr("function \"f\" calls itself, or calls are nested too deeply"));
  EXPECT_THAT(refusal(model(main, {function("f", {"x"}, {"y"}, {calls("g")}),
                                   function("g", {"x"}, {"y"}, {calls("f")})})),
              HasSubstr("calls itself"));
}

/// Each function calls the next one twice.
TEST(HostileGraph, FunctionsThatDouble) {
  Names functions;
  for (int i = 0; i < 60; ++i) {
    const std::string next = i == 59 ? "" : "f" + std::to_string(i + 1);
    const std::string domain = next.empty() ? "" : "own", op = next.empty() ? "Relu" : next;
    functions.push_back(
        function("f" + std::to_string(i), {"x"}, {"y"},
                 {node(op, {"x"}, {"t"}, {}, domain), node(op, {"t"}, {"y"}, {}, domain)}));
  }
  const std::string main = graph({.nodes = {node("f0", {"x"}, {"y"}, {}, "own")},
                                  .inputs = {value("x", kFloat, {3})},
                                  .outputs = {value("y", kFloat, {3})}});
  EXPECT_THAT(refusal(model(main, functions)),
              AllOf(HasSubstr("the model comes to more than"), HasSubstr("LoadLimits::nodes")));
  EXPECT_THAT(refusal(model(main, functions), {.limits = {.nodes = 1000}}),
              HasSubstr("more than 1000 nodes"));
}

std::string loop(std::int64_t steps, const Names& body, const Names& states = {"s"}) {
  GraphParts parts{.nodes = body,
                   .inputs = {value("i", kInt64), value("c", kBool)},
                   .outputs = {value("c", kBool)}};
  for (const std::string& state : states) {
    parts.inputs.push_back(value(state, kInt64));
    parts.outputs.push_back(value(state + "2", kInt64));
  }
  return model(
      {.nodes = {node("Loop", {"steps", "go", "zero"}, {"y"}, {of_graph("body", graph(parts))})},
       .outputs = {value("y", kInt64)},
       .tensors = {scalar("steps", steps), truth("go", true), scalar("zero", 0)}});
}

TEST(HostileGraph, LoopsOfConstants) {
  EXPECT_EQ(try_model(loop(10, {node("Add", {"s", "i"}, {"s2"})})).error, "");
  EXPECT_THAT(try_model(loop(std::int64_t{1} << 62, {node("Add", {"s", "i"}, {"s2"})})).error,
              HasSubstr("the model comes to more than"));
  // The state doubles in size at each step.
  EXPECT_NE(try_model(loop(1000, {node("Concat", {"s", "s"}, {"s2"}, {of_int("axis", 0)})})).error,
            "");
}

/// A sequence that grows by an element at each step.
TEST(HostileGraph, SequencesThatGrow) {
  const std::string sequence = part(2, part(4, part(1, part(1, number(1, kInt64)))));
  const std::string body =
      graph({.nodes = {node("SequenceInsert", {"s", "i"}, {"s2"})},
             .inputs = {value("i", kInt64), value("c", kBool), part(1, "s") + sequence},
             .outputs = {value("c", kBool), part(1, "s2") + sequence}});
  const std::string whole =
      model({.nodes = {node("SequenceEmpty", {}, {"empty"}, {of_int("dtype", kInt64)}),
                       node("Loop", {"steps", "go", "empty"}, {"all"}, {of_graph("body", body)}),
                       node("SequenceLength", {"all"}, {"y"})},
             .outputs = {value("y", kInt64)},
             .tensors = {scalar("steps", 1 << 30), truth("go", true)}});
  EXPECT_THAT(refusal(whole), HasSubstr("LoadLimits::constants allows more"));
}

/// A loop whose state is a sequence s, so that its steps are written out; they give s2.
std::string loop_of_sequence(const Names& nodes, const Names& tensors = {}) {
  const auto sequence = [](const std::string& name) {
    return part(1, name) + part(2, part(4, part(1, part(1, number(1, kFloat)))));
  };
  const std::string body = graph({.nodes = nodes,
                                  .inputs = {value("i", kInt64), value("c", kBool), sequence("s")},
                                  .outputs = {value("c", kBool), sequence("s2")},
                                  .tensors = tensors});
  return model({.nodes = {node("SequenceConstruct", {"x"}, {"one"}),
                          node("Loop", {"steps", "go", "one"}, {"all"}, {of_graph("body", body)}),
                          node("SequenceLength", {"all"}, {"y"})},
                .inputs = {value("x", kFloat, {3})},
                .outputs = {value("y", kInt64)},
                .tensors = {scalar("steps", 10'000), truth("go", true)}});
}

constexpr const char* kTooManyBytes = "bytes of nodes when its functions and loops are written out";

/// What a step looks at counts, not only the nodes that it builds.
TEST(HostileGraph, StepsThatLookAtMuch) {
  GraphParts branch{.outputs = {value("b", kInt64)}};
  for (int i = 0; i < 10'000; ++i) {
    branch.nodes.push_back(node("Neg", {"s"}, {i == 0 ? "b" : "b" + std::to_string(i)}));
  }
  const std::string taken =
      graph({.nodes = {node("Add", {"s", "i"}, {"t"})}, .outputs = {value("t", kInt64)}});
  EXPECT_THAT(refusal(loop(1 << 30, {node("If", {"go"}, {"s2"},
                                          {of_graph("then_branch", taken),
                                           of_graph("else_branch", graph(branch))})})),
              HasSubstr(kTooManyBytes));
  GraphParts states{.inputs = {value("i", kInt64), value("c", kBool)},
                    .outputs = {value("c", kBool)}};
  Names inputs{"steps", "go"};
  for (int i = 0; i < 10'000; ++i) {
    states.inputs.push_back(value("s" + std::to_string(i), kInt64));
    states.outputs.push_back(states.inputs.back());
    inputs.push_back("zero");
  }
  EXPECT_THAT(
      refusal(model({.nodes = {node("Loop", inputs, {"y"}, {of_graph("body", graph(states))})},
                     .outputs = {value("y", kInt64)},
                     .tensors = {scalar("steps", 1 << 30), truth("go", true), scalar("zero", 0)}})),
      HasSubstr(kTooManyBytes));
  const Names wide(10'000, "x");
  EXPECT_THAT(refusal(loop_of_sequence({node("Concat", wide, {"t"}, {of_int("axis", 0)}),
                                        node("SequenceInsert", {"s", "x"}, {"s2"})})),
              HasSubstr(kTooManyBytes));
  EXPECT_EQ(try_model(loop_of_sequence({node("SequenceInsert", {"s", "x"}, {"s2"})})).error, "");
}

TEST(HostileGraph, CallsThatLookAtMuch) {
  const auto calls_of = [](const std::string& called) {
    const auto often = [](const std::string& op) {
      Names calls;
      for (int i = 0; i < 100; ++i) {
        calls.push_back(node(op, {"x"}, {i == 0 ? "y" : "t" + std::to_string(i)}, {}, "own"));
      }
      return calls;
    };
    return model(graph({.nodes = often("g"),
                        .inputs = {value("x", kFloat, {3})},
                        .outputs = {value("y", kFloat, {3})}}),
                 {called, function("g", {"x"}, {"y"}, often("f"))});
  };
  const Names body{node("Abs", {"x"}, {"y"})};
  std::string imports, attributes;
  Names inputs{"x"};
  for (int i = 0; i < 5'000; ++i) {
    const std::string name = "n" + std::to_string(i);
    imports += part(9, opset(name, 1));
    attributes += part(11, of_int(name, 1));
    inputs.push_back(name);
  }
  EXPECT_EQ(try_model(calls_of(function("f", {"x"}, {"y"}, body))).error, "");
  EXPECT_THAT(refusal(calls_of(function("f", {"x"}, {"y"}, body) + imports)),
              HasSubstr(kTooManyBytes));
  EXPECT_THAT(refusal(calls_of(function("f", {"x"}, {"y"}, body) + attributes)),
              HasSubstr(kTooManyBytes));
  EXPECT_THAT(refusal(calls_of(function("f", inputs, {"y"}, body))), HasSubstr(kTooManyBytes));
}

/// A tensor of 400 kB that each of 10,000 steps puts into a sequence is there once.
TEST(HostileGraph, TensorsOfSteps) {
  const std::string tensor = tensor_proto("w", kFloat, {100'000}, std::string(400'000, '\0'));
  const std::string insert = node("SequenceInsert", {"s", "w"}, {"s2"});
  EXPECT_EQ(try_model(loop_of_sequence(
                          {node("Constant", {}, {"w"}, {of_tensor("value", tensor)}), insert}))
                .error,
            "");
  EXPECT_EQ(try_model(loop_of_sequence({insert}, {tensor})).error, "");
}

/// Derivatives of derivatives come to more nodes each time.
TEST(HostileGraph, ManyDerivatives) {
  Names nodes;
  for (int i = 0; i < 1000; ++i) {
    const std::string k = std::to_string(i);
    nodes.push_back(node("Exp", {i == 0 ? "x" : "e" + std::to_string(i - 1)}, {"e" + k}));
  }
  for (int i = 0; i < 1000; ++i) {
    nodes.push_back(node("Gradient", {"x"}, {"y" + std::to_string(i)},
                         {part(1, "xs") + part(9, "x") + number(20, 8), of_text("y", "e999")},
                         "ai.onnx.preview.training"));
  }
  EXPECT_THAT(refusal(with_nodes(nodes, "y0") + part(8, opset("ai.onnx.preview.training", 1))),
              HasSubstr("the model comes to more than"));
}

/// Each of many nodes needs the elements of a value that follows from all before it.
TEST(HostileGraph, ManyNodesThatAsk) {
  constexpr int kNodes = 20'000;
  GraphParts parts{.inputs = {value("x", kFloat, {3}), value("s", kInt64, {1})},
                   .outputs = {value("y1", kFloat, {3})},
                   .tensors = {tensor_proto("none", {0})}};
  const auto name = [](const char* letter, int i) { return letter + std::to_string(i); };
  for (int i = 1; i <= kNodes; ++i) {
    parts.nodes.push_back(node("Add", {i == 1 ? "s" : name("s", i - 1), "none"}, {name("s", i)}));
    parts.nodes.push_back(node("Reshape", {"x", name("s", i)}, {name("y", i)}));
  }
  EXPECT_EQ(try_model(model(parts)).error, "");
  EXPECT_THAT(onnx::parse(model(parts)).value_inputs(), ElementsAre("s"));
  // Each asks for an input of its own: all are known when the model was read once.
  GraphParts many{.inputs = {value("x", kFloat, {3})}, .outputs = {value("y1", kFloat, {3})}};
  std::vector<Feed> feeds{{"x", dyad::tensor({1.0f, 2.0f, 3.0f})}};
  for (int i = 1; i <= 2000; ++i) {
    many.inputs.push_back(value(name("s", i), kInt64, {1}));
    many.nodes.push_back(node("Reshape", {"x", name("s", i)}, {name("y", i)}));
    feeds.emplace_back(name("s", i), dyad::tensor(std::vector<std::int64_t>{3}));
  }
  const onnx::Model asked = onnx::parse(model(many));
  EXPECT_EQ(asked.value_inputs().size(), 2000u);
  EXPECT_THAT(asked.run(feeds)[0].to_vector<float>(), ElementsAre(1, 2, 3));
}

/// The same inside of a branch, where what comes from outside cannot be asked for.
TEST(HostileGraph, ManyNodesThatAskInBranches) {
  GraphParts branch{.nodes = {node("Cast", {"x"}, {"p"}, {of_int("to", kInt64)})},
                    .outputs = {value("b", kFloat, {3})}};
  for (int i = 0; i < 10'000; ++i) {
    const std::string k = std::to_string(i);
    branch.nodes.push_back(node("Abs", {"x"}, {i == 0 ? "b" : "a" + k}));
    branch.nodes.push_back(node("ReduceSum", {"x", "p"}, {"r" + k}));
  }
  const std::string both = graph(branch);
  EXPECT_EQ(
      try_model(
          model({.nodes = {node("If", {"c"}, {"y"},
                                {of_graph("then_branch", both), of_graph("else_branch", both)})},
                 .inputs = {value("x", kFloat, {3}), value("c", kBool)},
                 .outputs = {value("y", kFloat, {3})}}))
          .error,
      "");
}

/// A rule makes a chain of as many nodes as it has inputs: what they say of sizes is followed.
TEST(HostileGraph, NodesOfManyInputs) {
  const Names inputs(50'000, "x");
  for (const int dtype : {kInt64, kFloat}) {
    for (const char* op : {"Max", "Sum"}) {
      if (dtype == kInt64 && std::string(op) == "Sum") continue;  // of floats alone
      EXPECT_EQ(try_model(model({.nodes = {node(op, inputs, {"y"})},
                                 .inputs = {value("x", dtype, {1})},
                                 .outputs = {value("y", dtype, {1})}}))
                    .error,
                "");
    }
  }
}

TEST(HostileGraph, ManyNodesAndLongNames) {
  Names nodes;
  std::string last = "x";
  for (int i = 0; i < 50'000; ++i) {
    const std::string next = i == 49'999 ? "y" : "n" + std::to_string(i);
    nodes.push_back(node(i % 2 == 0 ? "Neg" : "Abs", {last}, {next}));
    last = next;
  }
  EXPECT_EQ(try_model(with_nodes(nodes)).error, "");
  // With steps that take quadratic time this would be minutes.
  const Tensor y =
      onnx::parse(with_nodes(nodes)).run({{"x", dyad::tensor({-1.0f, 2.0f, -3.0f})}})[0];
  EXPECT_THAT(y.to_vector<float>(), ElementsAre(1, 2, 3));
  const std::string name(10'000'000, 'a');
  EXPECT_EQ(try_model(with_nodes({node("Relu", {"x"}, {name}), node("Relu", {name}, {"y"})})).error,
            "");
  EXPECT_THAT(refusal(with_nodes({node("Relu", {name}, {"y"})})), HasSubstr("aaa"));
  EXPECT_THAT(refusal(with_nodes({node(name, {"x"}, {"y"})})), HasSubstr("cannot be run"));
}

TEST(HostileGraph, NamesThatAreNoText) {
  const std::string name = "\xff\xfe\x01\x1b[31m\xc3";
  EXPECT_THAT(refusal(with_nodes({node("Relu", {name}, {"y"})})),
              HasSubstr("\\xff\\xfe\\x01\\x1b[31m"));
  EXPECT_THAT(refusal(with_nodes({node(name, {"x"}, {"y"})})), HasSubstr("cannot be run"));
  EXPECT_EQ(try_model(with_nodes({node("Relu", {"x"}, {name}), node("Relu", {name}, {"y"})})).error,
            "");
}

/// An input of one axis of this name.
std::string open_value(const std::string& name, const std::string& axis) {
  return part(1, name) + part(2, part(1, number(1, kFloat) + part(2, part(1, part(2, axis)))));
}

std::string chosen(const std::string& op, const std::string& input, const std::string& output) {
  const std::string branch =
      graph({.nodes = {node(op, {input}, {"b"})}, .outputs = {value("b", kInt64, {-1, -1})}});
  return node("If", {"c"}, {output},
              {of_graph("then_branch", branch), of_graph("else_branch", branch)});
}

/// Names of axes that are those of sizes which a run tells; there are as many as numbers.
TEST(HostileGraph, NamesOfSizesThatDataTell) {
  for (const char* name : {"u2000000000", "u2147483647", "u2147483648", "u9223372036854775807",
                           "u1073741823", "u00", "u0", "?"}) {
    SCOPED_TRACE(name);
    const onnx::Model read = onnx::parse(
        model({.nodes = {node("NonZero", {"x"}, {"p"}), chosen("NonZero", "y", "q"),
                         node("NonZero", {"y"}, {"r"})},
               .inputs = {open_value("x", name), value("y", kFloat, {3}), value("c", kBool)},
               .outputs = {value("p", kInt64), value("q", kInt64), value("r", kInt64)}}));
    const auto out = read.run({{"x", dyad::tensor({1.0f, 0.0f, 0.0f, 2.0f})},
                               {"y", dyad::tensor({0.0f, 5.0f, 0.0f})},
                               {"c", dyad::tensor(true)}});
    EXPECT_THAT(out[0].to_vector<std::int64_t>(), ElementsAre(0, 3));
    EXPECT_THAT(out[1].to_vector<std::int64_t>(), ElementsAre(1));
    EXPECT_THAT(out[2].to_vector<std::int64_t>(), ElementsAre(1));
  }
}

/// Each of many branches has sizes of its own, beside many of the graph around it.
TEST(HostileGraph, ManyBranchesWithSizesOfTheirOwn) {
  Names nodes;
  for (int i = 0; i < 3000; ++i) {
    nodes.push_back(node("NonZero", {"x"}, {"p" + std::to_string(i)}));
    nodes.push_back(chosen("NonZero", "x", "q" + std::to_string(i)));
  }
  EXPECT_EQ(try_model(model({.nodes = nodes,
                             .inputs = {value("x", kFloat, {3}), value("c", kBool)},
                             .outputs = {value("q2999", kInt64)}}))
                .error,
            "");
}

/// Sizes that are sums multiply: written out, the product would have 2^40 terms.
TEST(HostileGraph, SizesThatMultiplyOut) {
  GraphParts parts{.outputs = {value("y")}};
  std::string flat = "one";
  parts.tensors = {tensor_proto("one", kFloat, {1, 1}, std::string(4, '\0')),
                   tensor_proto("minus", {-1, 1}), tensor_proto("minus2", {1, -1})};
  for (int i = 0; i < 40; ++i) {
    const std::string k = std::to_string(i);
    for (const std::string& name : {"a" + k, "b" + k}) {
      parts.inputs.push_back(open_value(name, "d" + name));
    }
    parts.nodes.push_back(node("Concat", {"a" + k, "b" + k}, {"ab" + k}, {of_int("axis", 0)}));
    parts.nodes.push_back(node("Reshape", {flat, "minus"}, {"f" + k}));
    parts.nodes.push_back(node("Mul", {"f" + k, "ab" + k}, {"m" + k}));
    parts.nodes.push_back(node("Reshape", {"m" + k, "minus2"}, {"r" + k}));
    flat = "r" + k;
  }
  parts.nodes.push_back(node("Relu", {flat}, {"y"}));
  static_cast<void>(try_model(model(parts)));
}

}  // namespace
}  // namespace dyad::testing
