#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/base/utf8.h"
#include "dyad/core/text.h"
#include "tests/ir/ops_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kText = R"(graph {
  %x = placeholder : f32[batch, 784] @train.cpp:3
  %w = variable : f32[784, 10] @train.cpp:4
  %0 = matmul(%x, %w) : f32[batch, 10] @train.cpp:5
  %1 = constant 2.5 : f32[] @train.cpp:6
  %2 = add(%0, %1) : f32[batch, 10] @train.cpp:6
  %3 = constant [1.0, -0.0, nan] : f32[3]
  %4 = sum(%2) {axes = [1], keepdim = false} : f32[batch] @"my file.cpp":7
  %5, %6 = topk(%4) : f32[batch], i64[batch]
  %7 = linear(%3, %3, none) : f32[3]
  return %4, %6
}
)";

std::string round_trip(std::string_view text) { return to_string(*parse_graph(text)); }

std::string error_of(std::string_view text) {
  return message_of<GraphError>([&] { static_cast<void>(parse_graph(text)); });
}

/// The text of a graph of these statements.
std::string graph_of(std::string_view statements) {
  return "graph {\n  %x = placeholder : f32[n, 3]\n" + std::string(statements) + "\n  return\n}\n";
}

TEST(GraphText, ReadsAndPrintsTheSame) { EXPECT_EQ(round_trip(kText), kText); }

TEST(GraphText, ReadsBackToAnEqualGraph) {
  const auto graph = parse_graph(kText);
  verify(*graph);
  EXPECT_TRUE(same_graph(*graph, *parse_graph(to_string(*graph))));
  EXPECT_EQ(to_string(graph->nodes()[2]->loc()), "train.cpp:5");
  EXPECT_EQ(graph->outputs().size(), 2u);
}

TEST(GraphText, WithoutLines) {
  const auto graph = parse_graph("graph { %x = placeholder : f32[3] @a.cpp:1 return %x }");
  EXPECT_EQ(to_string(*graph, {.lines = false}),
            "graph {\n  %x = placeholder : f32[3]\n  return %x\n}\n");
}

TEST(GraphText, TypesAreInferredAndNamesAreFree) {
  const auto graph = parse_graph(R"(graph {  // what a test of a pass may look like
    %"the input" = placeholder "x" : f32[n, 3]
    %rows = sum(%"the input") {axes = [1]}
    %some.name = tanh(%rows)
    %found = nonzero(%some.name)
    return %found
  })");
  EXPECT_EQ(to_string(*graph), R"(graph {
  %x = placeholder : f32[n, 3]
  %0 = sum(%x) {axes = [1], keepdim = false} : f32[n]
  %1 = tanh(%0) : f32[n]
  %2 = nonzero(%1) : i64[u0, 1]
  return %2
}
)");
}

TEST(GraphText, NamesThatAreNoIdentifiers) {
  const std::string text = R"(graph {
  %0 = placeholder "the \"input\"\x09" : f32[3]
  %1 = placeholder "1" : f32[3]
  %2 = add(%0, %1) : f32[3]
  return %2
}
)";
  EXPECT_EQ(round_trip(text), text);
}

TEST(GraphText, SizesAreExpressions) {
  const std::string text = R"(graph {
  %x = placeholder : f32[2*time + 1, floordiv(time, 2), 'no name', max(a, b)]
  %0 = tanh(%x) : f32[2*time + 1, floordiv(time, 2), 'no name', max(a, b)]
  return %0
}
)";
  EXPECT_EQ(round_trip(text), text);
}

TEST(GraphText, WhatAGraphTakesForGranted) {
  const std::string text = R"(graph {
  assume (2*time + 1) from -3 to 512 @train.cpp:3
  assume (max(a, b)) from 1
  %x = placeholder : f32[2*time, 'no name', max(a, b)]
  return %x
}
)";
  EXPECT_EQ(round_trip(text), text);
  EXPECT_EQ(to_string(*clone(*parse_graph(text, {}))), text);
  EXPECT_THAT(error_of("graph {\n  assume (n) from 3 to 2\n  return\n}"),
              HasSubstr("line 2, column 10: assume(n): no size is from 3 to 2"));
  EXPECT_THAT(error_of("graph {\n  assume n from 3\n  return\n}"),
              HasSubstr("expected '(' but found 'n'"));
  EXPECT_THAT(error_of("graph {\n  assume (n) to 3\n  return\n}"), HasSubstr("expected 'from'"));
}

TEST(GraphText, EveryKindOfAttribute) {
  const std::string text = R"(graph {
  %x = placeholder : f32[3]
  %0 = every@3(%x) {flag = true, count = -7, rate = 1e-05, note = "a \"b\"\n", dtype = bf16, size = n + 1, axes = [0, -1], shape = [n, 3], value = i64[2] [1, -2]} : f32[3]
  %1 = every@3(%x) {flag = false, count = 0, rate = nan, note = "", dtype = f32, size = 0, axes = [], shape = [], value = none} : f32[3]
  return %0, %1
}
)";
  EXPECT_EQ(round_trip(text), text);
}

TEST(GraphText, ElementsOfEachDType) {
  const std::string text = R"(graph {
  %0 = constant [0.1, inf, nan, nan:0x7ff8000000000001] : f64[4]
  %1 = constant [0.1, 1e-45, 3.4028235e+38, -inf, nan, nan:0xffc00001] : f32[6]
  %2 = constant [0.5, 65504.0, 5.9604645e-08, nan, nan:0x7e01] : f16[5]
  %3 = constant [0.5, 3.3895314e+38, nan] : bf16[3]
  %4 = constant [-9223372036854775808, 9223372036854775807] : i64[2]
  %5 = constant [-2147483648, 2147483647] : i32[2]
  %6 = constant [-32768, 32767] : i16[2]
  %7 = constant [[-128, 127]] : i8[1, 2]
  %8 = constant 255 : u8[]
  %9 = constant [true, false] : bool[2]
  %10 = constant [] : f32[0, 3]
  return
}
)";
  std::string flat = text;
  flat.replace(flat.find("[[-128, 127]]"), 13, "[-128, 127]");
  EXPECT_EQ(round_trip(flat), flat);
}

/// Every byte, quotes and backslashes in a row, escapes that are none, and what UTF-8 must not be.
std::vector<std::string> strange_texts() {
  std::vector<std::string> texts{"",
                                 "\"",
                                 "\\",
                                 "\\\"",
                                 "\\n",
                                 "\\x41",
                                 "a\nb\t",
                                 "// no comment",
                                 "#",
                                 std::string("\0", 1),
                                 "Stra\u00dfe \U0001F600",
                                 "\xe4",
                                 "\xc3\xa4\xc3",
                                 "\xe0\x80\x80",
                                 "\xed\xa0\x80",
                                 "\xf4\x90\x80\x80",
                                 "'",
                                 "' : f32[3]"};
  for (int byte = 0; byte < 256; ++byte) texts.push_back({'a', static_cast<char>(byte), '1'});
  return texts;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

TEST(GraphText, TextsReadBackByteForByte) {
  const std::vector<std::string> texts = strange_texts();
  auto graph = make_ref<GraphImpl>();
  graph->add_constant(strings(texts, {static_cast<std::int64_t>(texts.size())}, Loc()), Loc());
  for (const std::string& text : texts) {
    graph->add_constant(strings(std::span(&text, 1), {}, Loc()), Loc());
    EveryAttrs attrs;
    attrs.note = text;
    const Value x = graph->add_placeholder(
        text, Type(f32, {text.empty() ? Dim(3) : Dim::symbol(text)}), Loc::intern(text, 7));
    graph->append(op("every"), Attrs::copy_of(attrs_info<EveryAttrs>, &attrs), {x}, {x.type()},
                  Loc::intern(text, 8));
    graph->add_variable(text, values({1}, {1}), Loc());
  }
  const std::string written = to_string(*graph);
  EXPECT_TRUE(is_utf8(written));
  const auto read = parse_graph(written);
  EXPECT_TRUE(same_graph(*graph, *read));
  EXPECT_EQ(to_string(*read), written);
  ASSERT_EQ(read->placeholders().size(), texts.size());
  EXPECT_EQ(to_strings(read->nodes()[0]->attrs_as<ConstantAttrs>().value), texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Node& every = *read->nodes()[2 + 4 * i + 1];
    EXPECT_EQ(every.attrs_as<EveryAttrs>().note, texts[i]) << i;
    const Node& placeholder = *every.inputs()[0].node;
    EXPECT_EQ(placeholder.attrs_as<PlaceholderAttrs>().name, texts[i]) << i;
    EXPECT_TRUE(placeholder.types()[0].shape()[0].same_as(texts[i].empty() ? Dim(3)
                                                                           : Dim::symbol(texts[i])))
        << i;
  }
}

TEST(GraphText, LargeConstantsStandInTheDataSection) {
  auto graph = make_ref<GraphImpl>();
  std::vector<float> elements(100);
  for (int i = 0; i < 100; ++i)
    elements[static_cast<std::size_t>(i)] = 0.1f * static_cast<float>(i);
  graph->add_constant(values(elements, {10, 10}), Loc());
  graph->add_constant(values(elements, {100}), Loc());
  const std::string text = to_string(*graph);
  EXPECT_THAT(text, HasSubstr("%0 = constant #"));
  EXPECT_THAT(text, HasSubstr("data {\n  #"));
  const auto first_key = text.find('#');
  EXPECT_EQ(text.substr(first_key, 10), text.substr(text.find('#', first_key + 1), 10));
  const auto read = parse_graph(text);
  EXPECT_TRUE(same_graph(*graph, *read));
  EXPECT_EQ(to_string(*read), text);
}

TEST(GraphText, AViewIsWrittenInLogicalOrder) {
  auto graph = make_ref<GraphImpl>();
  const Tensor base = values({1, 2, 3, 4, 5, 6}, {2, 3});
  graph->add_constant(make_view(base, {3, 2}, {1, 3}, 0), Loc());
  EXPECT_THAT(to_string(*graph), HasSubstr("constant [1.0, 4.0, 2.0, 5.0, 3.0, 6.0] : f32[3, 2]"));
}

TEST(GraphText, VariablesAreZerosOrGivenByName) {
  const std::string text = "graph { %w = variable : f32[2, 2] return }";
  const auto zeros = parse_graph(text);
  EXPECT_EQ(zeros->variables()[0].node->attrs_as<VariableAttrs>().tensor.to_vector<float>(),
            std::vector<float>(4, 0.f));
  const Tensor w = values({1, 2, 3, 4}, {2, 2});
  const auto given = parse_graph(text, {{"w", w}});
  EXPECT_TRUE(given->find_variable(w));
  EXPECT_NO_THROW(static_cast<void>(parse_graph("graph { %w = variable return }", {{"w", w}})));
  EXPECT_THAT(
      message_of<GraphError>([&] {
        static_cast<void>(parse_graph("graph { %w = variable : f64[2] return }", {{"w", w}}));
      }),
      HasSubstr("gives: f32[2, 2]"));
}

TEST(GraphText, RegionsAreNestedAndShareVariables) {
  const Tensor w = values({1, 2}, {2}), other = values({3, 4}, {2});
  const auto region = [&](const Tensor& captured) {
    auto g = make_ref<GraphImpl>();
    const Value x = g->add_placeholder("x", Type(f32, {2}), Loc());
    const Value v = g->add_variable("w", captured, Loc());
    g->outputs() = {g->append_checked(op("add"), no_attrs(), {x, v}, Loc())->output()};
    return g;
  };
  auto graph = make_ref<GraphImpl>();
  const Value v = graph->add_variable("w", w, Loc());
  Node* node = graph->append_checked(op("branch"), no_attrs(), {v}, Loc::intern("a.cpp", 2));
  node->add_region(region(w));
  node->add_region(region(other));
  const std::string text = to_string(*graph);
  EXPECT_EQ(text, R"(graph {
  %w = variable : f32[2]
  %0 = branch(%w) : f32[2] @a.cpp:2
    region {
      %x = placeholder : f32[2]
      %w = variable : f32[2]
      %0 = add(%x, %w) : f32[2]
      return %0
    }
    region {
      %x = placeholder : f32[2]
      %w = variable of "w'2" : f32[2]
      %0 = add(%x, %w) : f32[2]
      return %0
    }
  return
}
)");
  const auto read = parse_graph(text);
  EXPECT_TRUE(same_graph(*graph, *read));
  EXPECT_EQ(to_string(*read), text);
  const auto tensor_in = [](const GraphImpl& g) {
    return g.variables()[0].node->attrs_as<VariableAttrs>().tensor;
  };
  const auto regions = read->nodes()[1]->regions();
  EXPECT_TRUE(tensor_in(*regions[0]).is_same(tensor_in(*read)));
  EXPECT_FALSE(tensor_in(*regions[1]).is_same(tensor_in(*read)));
}

TEST(GraphText, AssignmentsAreKept) {
  const std::string text = R"(graph {
  %w = variable : f32[2]
  %0 = tanh(%w) : f32[2]
  %1 = assign(%w, %0) : f32[2]
  return %1
}
)";
  const auto graph = parse_graph(text);
  EXPECT_EQ(to_string(*graph), text);
  EXPECT_EQ(graph->current(graph->variables()[0]), graph->outputs()[0]);
  EXPECT_THAT(error_of(graph_of("  %1 = assign(%x, %x)")),
              HasSubstr("only a variable can be assigned"));
}

TEST(GraphText, ErrorsShowThePlace) {
  EXPECT_EQ(error_of("graph {\n  %x = placeholder : f32[3]\n  %y = tanh(%x, ]\n  return\n}"),
            "graph text, line 3, column 17: expected a value such as %x but found ']'\n"
            "    %y = tanh(%x, ]\n"
            "                  ^");
}

TEST(GraphText, Errors) {
  EXPECT_THAT(error_of(""), HasSubstr("line 1, column 1: expected 'graph' but found the end of the "
                                      "text"));
  EXPECT_THAT(error_of("graph { return } x"),
              HasSubstr("column 18: expected 'data' or the end of the text but found 'x'"));
  EXPECT_THAT(error_of("graph { }"), HasSubstr("expected a statement or 'return' but found '}'"));
  EXPECT_THAT(error_of(graph_of("  %y = no_such(%x)")),
              HasSubstr("line 3, column 8: there is no operator 'no_such'"));
  EXPECT_THAT(error_of(graph_of("  %y = tanh(%z)")),
              HasSubstr("line 3, column 13: there is no value %z above this line"));
  EXPECT_THAT(error_of(graph_of("  %x = tanh(%x)")), HasSubstr("%x is there already"));
  EXPECT_THAT(error_of(graph_of("  %y = placeholder \"x\" : f32[3]")),
              HasSubstr("the name \"x\" is used twice"));
  EXPECT_THAT(error_of(graph_of("  %y, %z = tanh(%x)")),
              HasSubstr("tanh has 1 outputs, but 2 names stand before '='"));
  EXPECT_THAT(error_of(graph_of("  %y = every(%x)")),
              HasSubstr("version 1 of every was written, but this library has version 3"));
  EXPECT_THAT(error_of(graph_of("  %y = sum(%x) {axis = [1]}")),
              HasSubstr("column 17: sum has no attribute 'axis' that is not set already; left are: "
                        "axes, keepdim"));
  EXPECT_THAT(error_of(graph_of("  %y = sum(%x) {axes = [1], axes = [0]}")),
              HasSubstr("left are: keepdim"));
  EXPECT_THAT(error_of(graph_of("  %y = sum(%x) {keepdim = 1}")),
              HasSubstr("expected true or false but found '1'"));
  EXPECT_THAT(error_of(graph_of("  %y = sum(%x) {axes = [99999999999999999999]}")),
              HasSubstr("the integer is out of range"));
  EXPECT_THAT(
      error_of(graph_of("  %y = tanh(%x) : f32[n, 4]")),
      HasSubstr("the type that is written is not what tanh(x: f32[n, 3]) gives: f32[n, 3]"));
  EXPECT_THAT(error_of(graph_of("  %y = matmul(%x, %x)")),
              HasSubstr("the type depends on how sizes compare; write it after a colon"));
  EXPECT_THAT(error_of(graph_of("  %c = constant [1, 2, 3] : f32[2]\n  %y = add(%x, %c)")),
              HasSubstr("line 3, column 22: expected ']' but found ','"));
  EXPECT_THAT(error_of(graph_of("  %c = constant [1, 2] : f32[2]\n  %y = add(%x, %c)")),
              HasSubstr("line 4, column 8: add(a: f32[n, 3], b: f32[2]): shapes [n, 3] and [2] do "
                        "not broadcast"));
  EXPECT_THAT(error_of(graph_of("  %c = constant 300 : u8[]")),
              HasSubstr("expected an element of u8 but found '300'"));
  EXPECT_THAT(error_of(graph_of("  %c = constant 1.5")),
              HasSubstr("constant needs one type of a tensor, such as ': f32[3, 4]'"));
  EXPECT_THAT(error_of(graph_of("  %c = constant 1.5 : f23[]")),
              HasSubstr("there is no dtype 'f23'; the dtypes are f64, f32"));
  EXPECT_THAT(error_of(graph_of("  %c = constant #abc : f32[17]")),
              HasSubstr("the data section has no #abc"));
  EXPECT_THAT(error_of(graph_of("  %c = constant #abc : f32[n]")),
              HasSubstr("elements need a type of numbers whose sizes are numbers, not f32[n]"));
  EXPECT_THAT(error_of(graph_of("  %c = constant #a : f32[2]") + "data { #a = \"AAAA\" }"),
              HasSubstr("#a has 3 bytes, but f32[2] takes 8"));
  EXPECT_THAT(error_of(graph_of("  %c = constant #a : f32[2]") + "data { #a = \"?\" }"),
              HasSubstr("this is not base64"));
  EXPECT_THAT(error_of(graph_of("  %y = placeholder : f32[2 3]")), HasSubstr("the size '2 3'"));
  EXPECT_THAT(error_of(graph_of("  %y = placeholder \"y : f32[2]")),
              HasSubstr("the quotes are not closed"));
  EXPECT_THAT(error_of(graph_of("  %y = placeholder \"\\q\" : f32[2]")),
              HasSubstr("the escapes are"));
}

TEST(GraphText, ATypeThatTheTextAloneCannotDecideIsTakenAsWritten) {
  const auto graph = parse_graph(graph_of("  %y = matmul(%x, %x) : f32[n, 3]"));
  EXPECT_NO_THROW(verify(*graph));
}

TEST(GraphText, HostileSizes) {
  EXPECT_THAT(error_of("graph { %w = variable : f32[100000000000] return }"),
              HasSubstr("the variables take more than 1 GiB; give their tensors by name"));
  EXPECT_THAT(error_of("graph { %w = constant #a : f32[100000000000] return }"),
              HasSubstr("has more elements than the text has"));
  EXPECT_THAT(error_of("graph { %w = variable : f32[4000000000000000000, 4000000000000000000] "
                       "return }"),
              HasSubstr("graph text, line 1"));
  EXPECT_THAT(error_of("graph { %w = placeholder : f32[99999999999999999999] return }"),
              HasSubstr("graph text, line 1, column 32"));
  EXPECT_THAT(error_of("graph { %x = placeholder : f32[(a + b)*(c + d)] return }"),
              HasSubstr("brackets in a size belong to floordiv, mod, max or min"));
}

TEST(GraphText, HostileNesting) {
  std::string regions = "graph { %x = placeholder : f32[3] ", end = "return }";
  for (int i = 0; i < 100000; ++i) {
    regions += "%y = branch(%x) : f32[3] region { %x = placeholder : f32[3] ";
    end += " return }";
  }
  EXPECT_THAT(error_of(regions + end), HasSubstr("regions are nested more than 64 deep"));
  std::string types = "graph { %x = placeholder : ";
  for (int i = 0; i < 100000; ++i) types += "seq(";
  EXPECT_THAT(error_of(types), HasSubstr("types are nested too deep"));
  std::string sizes = "graph { %x = placeholder : f32[";
  for (int i = 0; i < 100000; ++i) sizes += "max(a, ";
  EXPECT_THAT(error_of(sizes), HasSubstr("graph text, line 1"));
}

TEST(GraphText, DamagedTextIsReadOrRefused) {
  std::mt19937 random(7);
  const std::string pieces = "%x,=(){}[]:@#\"'0123456789 \nfgraph-+.*\x01\xff";
  const std::string whole = std::string(kText) + "data { #a = \"AAAA\" }";
  int read = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (int edits = 1 + static_cast<int>(random() % 4); edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char c = pieces[random() % pieces.size()];
      switch (random() % 3) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1 + random() % 9);
      }
    }
    try {
      verify(*parse_graph(text));
      ++read;
    } catch (const GraphError&) {
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_LT(read, 2900);
}

TEST(GraphText, ALongChain) {
  auto graph = make_ref<GraphImpl>();
  Value x = graph->add_placeholder("x", Type(f32, {3}), Loc());
  for (int i = 0; i < 200000; ++i) {
    x = graph->append(op("tanh"), no_attrs(), {x}, {x.type()}, Loc())->output();
  }
  EXPECT_TRUE(same_graph(*graph, *parse_graph(to_string(*graph))));
}

}  // namespace
}  // namespace dyad::testing
