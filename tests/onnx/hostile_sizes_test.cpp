// Models of a hundred bytes that ask for any amount of memory, and tensors that are not what they
// say.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "dyad/core/create.h"
#include "hostile.h"
#include "model_bytes.h"

namespace dyad::testing {
namespace {

using namespace bytes;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kGreatest = std::numeric_limits<std::int64_t>::max();

std::string with_tensors(const Names& nodes, const Names& tensors) {
  return model({.nodes = nodes, .outputs = {value("y")}, .tensors = tensors});
}
std::string with_weight(const std::string& weight) {
  return with_tensors({node("Abs", {"w"}, {"y"})}, {weight});
}

TEST(HostileSizes, TensorsThatAreNotWhatTheySay) {
  const std::string four(4, '\0');
  EXPECT_THAT(refusal(with_weight(tensor_proto("w", kFloat, {1LL << 32, 1LL << 32}, four))),
              HasSubstr("tensor \"w\": its sizes multiply to more than 64 bits hold"));
  EXPECT_THAT(refusal(with_weight(tensor_proto("w", kFloat, {kGreatest}, four))),
              HasSubstr("its sizes multiply to more than memory can hold"));
  EXPECT_THAT(refusal(with_weight(tensor_proto("w", kFloat, {-1}, four))),
              HasSubstr("a size is -1; sizes are 0 or more"));
  EXPECT_THAT(refusal(with_weight(tensor_proto("w", kFloat, {2'500'000'000}, four))),
              HasSubstr("its sizes ask for 10000000000 bytes, but it holds 4"));
  EXPECT_THAT(refusal(with_weight(tensor_proto("w", kFloat, {2}, four))),
              HasSubstr("its sizes ask for 8 bytes, but it holds 4"));
  EXPECT_THAT(refusal(with_weight(tensor_proto("w", 99, {1}, four))),
              HasSubstr("tensor \"w\" has the element type 99, which Dyad does not have"));
  EXPECT_THAT(refusal(with_weight(tensor_proto("w", 0, {1}, four))), HasSubstr("element type 0"));
  EXPECT_THAT(refusal(with_weight(number(1, 3) + number(2, kFloat) + part(8, "w"))),
              HasSubstr("its sizes ask for 3 elements, but it holds 0"));
  Numbers many(2000, 1);
  EXPECT_EQ(try_model(with_weight(tensor_proto("w", kFloat, many, four))).error, "");
}

std::string sparse(const std::string& values, const std::string& positions, const Numbers& dims) {
  const std::string whole = graph({.nodes = {node("Abs", {"v"}, {"y"})}, .outputs = {value("y")}});
  return model(whole + part(15, part(1, values) + part(2, positions) + numbers(3, dims)));
}

TEST(HostileSizes, DilatedWindows) {
  const std::string picture = tensor_proto("p", kFloat, {1, 1, 1, 1}, std::string(4, '\0'));
  const auto pool = [&](std::int64_t kernel) {
    return with_tensors({node("AveragePool", {"p"}, {"y"},
                              {of_ints("kernel_shape", {kernel, 1}), of_ints("dilations", {2, 1}),
                               of_ints("pads", {8190, 0, 8190, 0})})},
                        {picture});
  };
  EXPECT_EQ(try_model(pool(4096)).error, "");
  EXPECT_THAT(refusal(pool(4095)), HasSubstr("must be less than the kernel's reach, 8189"));
  EXPECT_THAT(refusal(pool(0)), HasSubstr("kernel must be one number from 1"));
}

/// Lists that say one number for each axis, with more or fewer of them, and axes that there are
/// not.
TEST(HostileSizes, ListsThatDoNotFitTheAxes) {
  const std::string image = tensor_proto("x", kFloat, {1, 1, 2, 2}, std::string(16, '\0')),
                    weight = tensor_proto("w", kFloat, {1, 1, 1, 1}, std::string(4, '\0')),
                    none = tensor_proto("none", kFloat, {}, std::string(4, '\0'));
  const auto of_lists = [&](std::string_view op, const std::vector<Numbers>& lists,
                            const Names& inputs, const Names& attributes = {}) {
    Names names = inputs, tensors{image, weight, none};
    for (std::size_t i = 0; i < lists.size(); ++i) {
      const std::string name = "list" + std::to_string(i);
      std::ranges::replace(names, std::string(1, static_cast<char>('0' + i)), name);
      tensors.push_back(tensor_proto(name, lists[i]));
    }
    return with_tensors({node(op, names, {"y"}, attributes)}, tensors);
  };
  const auto padded = [&](const Numbers& pads, const Numbers& axes) {
    return of_lists("Pad", {pads, axes}, {"x", "0", "none", "1"});
  };
  EXPECT_EQ(try_model(padded({0, 1, 2, 3}, {-1, 0})).error, "");
  EXPECT_THAT(refusal(of_lists("Pad", {Numbers(10, 1)}, {"x", "0"})),
              HasSubstr("its pads are 10 numbers, not two for each of 4 axes"));
  EXPECT_THAT(refusal(padded({1, 1, 1, 1}, {0})),
              HasSubstr("its pads are 4 numbers, not two for each of 1 axes"));
  EXPECT_THAT(refusal(padded({1, 1}, {4})), HasSubstr("axis 4 is none of the 4 axes of its input"));
  EXPECT_THAT(refusal(padded({1, 1}, {-5})), HasSubstr("axis -5 is none of the 4 axes"));

  const auto cut = [&](const Numbers& ends, const Numbers& axes, const Numbers& steps) {
    return of_lists("Slice", {{0, 0}, ends, axes, steps}, {"x", "0", "1", "2", "3"});
  };
  EXPECT_EQ(try_model(cut({1, 1}, {0, -1}, {1, 1})).error, "");
  for (const std::string& model :
       {cut({1}, {0, 1}, {1, 1}), cut({1, 1}, {0}, {1, 1}), cut({1, 1}, {0, 1}, {1})}) {
    EXPECT_THAT(refusal(model), HasSubstr("are not one for each axis that it cuts"));
  }
  EXPECT_THAT(refusal(cut({1, 1}, {0, -5}, {1, 1})), HasSubstr("axis -5 is none of the 4 axes"));

  const auto transposed = [&](const Numbers& strides, const Numbers& sizes) {
    return of_lists("ConvTranspose", {}, {"x", "w"},
                    {of_ints("strides", strides), of_ints("output_shape", sizes)});
  };
  EXPECT_EQ(try_model(transposed({1, 1}, {2, 2})).error, "");
  for (const std::string& model : {transposed({1}, {2, 2}), transposed({1, 1}, {2})}) {
    EXPECT_THAT(refusal(model), HasSubstr("must fit the 2 spatial axes of its input"));
  }

  const std::string scatter =
      node("TensorScatter", {"x", "x"}, {"y"}, {of_int("axis", -5), of_text("mode", "circular")});
  const std::string cache =
      number(1, 11) +
      part(7, graph({.nodes = {scatter}, .outputs = {value("y")}, .tensors = {image}})) +
      part(8, opset("", 24));
  EXPECT_THAT(refusal(cache), HasSubstr("axis -5 is none of the 4 axes"));
}

TEST(HostileSizes, BlocksOfPackedNumbers) {
  const auto product = [](std::int64_t block, std::int64_t columns) {
    const std::string a = tensor_proto("a", kFloat, {1, 1}, std::string(4, '\0')),
                      b = tensor_proto("b", kByte, {1, 1, 1}, std::string(1, '\0'));
    const std::string matmul =
        node("MatMulNBits", {"a", "b", "a"}, {"y"},
             {of_int("block_size", block), of_int("N", 1), of_int("K", columns)}, "com.microsoft");
    const std::string whole =
        graph({.nodes = {matmul}, .outputs = {value("y")}, .tensors = {a, b}});
    return number(1, 10) + part(7, whole) + part(8, opset("", 21)) +
           part(8, opset("com.microsoft", 1));
  };
  EXPECT_EQ(try_model(product(2, 1)).error, "");
  EXPECT_THAT(refusal(product(0, 1)),
              HasSubstr("block_size, N and K must be from 1 to 2147483648, but are 0, 1 and 1"));
  EXPECT_THAT(refusal(product(1, kGreatest)), HasSubstr("block_size, N and K must be from 1"));
}

TEST(HostileSizes, SparseTensors) {
  const std::string v = tensor_proto("v", kFloat, {1}, std::string(4, '\1'));
  EXPECT_EQ(try_model(sparse(v, tensor_proto("i", {2}), {3})).error, "");
  EXPECT_THAT(refusal(sparse(v, tensor_proto("i", {3}), {3})),
              HasSubstr("tensor \"v\": position 3 of a sparse tensor is outside 0 to 2"));
  EXPECT_THAT(refusal(sparse(v, tensor_proto("i", {-1}), {3})), HasSubstr("position -1"));
  EXPECT_THAT(refusal(sparse(v, tensor_proto("i", {0, 1}), {3})), HasSubstr("i64[2]"));
  EXPECT_THAT(refusal(sparse(v, tensor_proto("i", {0}), {1 << 30})),
              AllOf(HasSubstr("1073741824 elements"), HasSubstr("LoadLimits::constants")));
  EXPECT_THAT(refusal(sparse(v, tensor_proto("i", {0}), {1LL << 40, 1LL << 40})),
              HasSubstr("64 bits"));
  EXPECT_THAT(refusal(sparse(v, tensor_proto("i", {0}), {0})), HasSubstr("position 0"));
  EXPECT_THAT(refusal(sparse(v, tensor_proto("i", kInt64, {1, 2}, std::string(16, '\0')), {3})),
              HasSubstr("[n, 1]"));
  const std::string texts = number(1, 1) + number(2, 8) + part(6, "text") + part(8, "v");
  EXPECT_THAT(refusal(sparse(texts, tensor_proto("i", {0}), {3})),
              HasSubstr("numbers, not strings"));
}

/// Each of many is as large as one may be.
TEST(HostileSizes, ManySparseTensors) {
  GraphParts attributes{.inputs = {value("x")}, .outputs = {value("y0")}};
  std::string initializers = graph(
      {.nodes = {node("Abs", {"x"}, {"y"})}, .inputs = {value("x")}, .outputs = {value("y")}});
  for (int i = 0; i < 50; ++i) {
    const std::string name = "v" + std::to_string(i);
    const std::string tensor = part(1, tensor_proto(name, kFloat, {1}, std::string(4, '\1'))) +
                               part(2, tensor_proto("i", {2})) + numbers(3, {15'000'000});
    initializers += part(15, tensor);
    attributes.nodes.push_back(node("Constant", {}, {"y" + std::to_string(i)},
                                    {part(1, "sparse_value") + part(22, tensor) + number(20, 11)}));
  }
  EXPECT_THAT(refusal(model(initializers)), HasSubstr("LoadLimits::constants"));
  EXPECT_THAT(refusal(model(attributes)), HasSubstr("LoadLimits::constants"));
}

std::string text_tensor(const std::string& name, const std::string& text) {
  return number(1, 1) + number(2, 8) + part(6, text) + part(8, name);
}

/// A tensor of strings is small, whatever its texts are.
TEST(HostileSizes, TextsThatGrow) {
  Names doubled;
  for (int i = 0; i < 60; ++i) {
    const std::string last = i == 0 ? "t" : "t" + std::to_string(i);
    doubled.push_back(
        node("StringConcat", {last, last}, {i == 59 ? "y" : "t" + std::to_string(i + 1)}));
  }
  const onnx::LoadOptions small{.limits = {.constants = 16 << 20, .run_memory = 16 << 20}};
  EXPECT_THAT(try_model(with_tensors(doubled, {text_tensor("t", "text")}), small).error,
              HasSubstr("no memory for"));
  // 10,000 elements are one text of a MB, which is never copied for all of them.
  const auto of_many = [](const std::string& last) {
    return model(
        {.nodes = {node("Expand", {"t", "s"}, {"e"}), last},
         .inputs = {value("x")},
         .outputs = {value("y")},
         .tensors = {text_tensor("t", std::string(1 << 20, 'a')), tensor_proto("s", {10'000})}});
  };
  EXPECT_EQ(try_model(of_many(node("StringConcat", {"e", "e"}, {"y"}))).error, "");
  EXPECT_EQ(
      try_model(of_many(node("StringSplit", {"e"}, {"y", "z"}, {of_text("delimiter", "a")}))).error,
      "");
}

/// A table with a row for each node of a tree, and a column for each target.
TEST(HostileSizes, TreesOfManyTargets) {
  const auto forest = [](std::int64_t targets) {
    Names attributes{part(1, "nodes_modes") + part(9, "LEAF") + number(20, 8),
                     part(1, "nodes_values") + part(7, std::string(4, '\0')) + number(20, 6),
                     part(1, "target_weights") + part(7, std::string(4, '\0')) + number(20, 6),
                     of_int("n_targets", targets)};
    for (const char* const name :
         {"nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_truenodeids",
          "nodes_falsenodeids", "target_treeids", "target_nodeids", "target_ids"}) {
      attributes.push_back(of_ints(name, {0}));
    }
    return with_tensors({node("TreeEnsembleRegressor", {"x"}, {"y"}, attributes, "ai.onnx.ml")},
                        {tensor_proto("x", kFloat, {1, 1}, std::string(4, '\0'))});
  };
  EXPECT_EQ(try_model(forest(1000)).error, "");
  EXPECT_THAT(refusal(forest(1 << 25)),
              HasSubstr("it has 33554432 targets for 1 nodes; they must be at least 1, and at most "
                        "1048576 for all nodes together"));
}

/// A node that makes a large tensor out of small constants.
struct Bomb {
  const char* name;
  std::string bytes;
};

std::vector<Bomb> bombs(std::int64_t n) {
  const std::string one = tensor_proto("one", kFloat, {1}, std::string(4, '\0'));
  const std::string picture = tensor_proto("p", kFloat, {1, 1, 1, 1}, std::string(4, '\0'));
  const std::string zero = scalar("zero", 0), unit = scalar("unit", 1), many = scalar("many", n);
  const std::string float_many =
      tensor_proto("scales", kFloat, {4}, std::string(12, '\0') + "\0\0\0\x50");
  return {
      {"ConstantOfShape",
       with_tensors({node("ConstantOfShape", {"s"}, {"y"})}, {tensor_proto("s", {n})})},
      {"ConstantOfShape of a product",
       with_tensors({node("ConstantOfShape", {"s"}, {"y"})}, {tensor_proto("s", {n, n, n})})},
      {"Expand", with_tensors({node("Expand", {"one", "s"}, {"e"}), node("Exp", {"e"}, {"y"})},
                              {one, tensor_proto("s", {n})})},
      {"Tile", with_tensors({node("Tile", {"one", "s"}, {"y"})}, {one, tensor_proto("s", {n})})},
      {"Range", with_tensors({node("Range", {"zero", "many", "unit"}, {"y"})}, {zero, many, unit})},
      {"Range down", with_tensors({node("Range", {"many", "zero", "unit"}, {"y"})},
                                  {zero, scalar("many", -n), unit})},
      {"Pad", with_tensors({node("Pad", {"one", "s"}, {"y"})}, {one, tensor_proto("s", {0, n})})},
      {"Pad by reflection",
       with_tensors({node("Pad", {"one", "s"}, {"y"}, {of_text("mode", "edge")})},
                    {one, tensor_proto("s", {n, n})})},
      {"Pad by less",
       with_tensors({node("Pad", {"one", "s"}, {"y"})}, {one, tensor_proto("s", {-n, n})})},
      {"OneHot", with_tensors({node("OneHot", {"zero", "many", "two"}, {"y"})},
                              {zero, many, tensor_proto("two", {0, 1})})},
      {"Resize", with_tensors({node("Resize", {"p", "", "", "s"}, {"y"})},
                              {picture, tensor_proto("s", {1, 1, n, n})})},
      {"Resize by scale",
       with_tensors({node("Resize", {"p", "", "scales"}, {"y"})}, {picture, float_many})},
      {"RandomNormal",
       with_tensors({node("RandomNormal", {}, {"y"}, {of_ints("shape", {n})})}, {})},
      {"Reshape",
       with_tensors({node("Reshape", {"one", "s"}, {"y"})}, {one, tensor_proto("s", {n, n})})},
      {"Reshape to nothing",
       with_tensors({node("Reshape", {"none", "s"}, {"y"}, {of_int("allowzero", 1)})},
                    {tensor_proto("none", kFloat, {0}, ""), tensor_proto("s", {0, n, n})})},
      {"HannWindow", with_tensors({node("HannWindow", {"many"}, {"y"})}, {many})},
      {"ConvTranspose",
       with_tensors({node("ConvTranspose", {"p", "p"}, {"y"},
                          {of_ints("pads", {0, 0, 0, 0}), of_ints("output_shape", {n, n})})},
                    {picture})},
      {"ConvTranspose of strides",
       with_tensors({node("ConvTranspose", {"p", "p"}, {"y"},
                          {of_ints("output_padding", {n, n}), of_ints("strides", {n, n})})},
                    {picture})},
      {"MaxPool",
       with_tensors({node("MaxPool", {"p"}, {"y"},
                          {of_ints("kernel_shape", {n, n}), of_ints("pads", {n, n, n, n})})},
                    {picture})},
      {"AveragePool",
       with_tensors({node("AveragePool", {"p"}, {"y"},
                          {of_ints("kernel_shape", {1, 1}), of_ints("pads", {n, n, n, n})})},
                    {picture})},
      {"AveragePool of dilated windows",
       with_tensors({node("AveragePool", {"p"}, {"y"},
                          {of_ints("kernel_shape", {n, 1}), of_ints("dilations", {2, 1}),
                           of_ints("pads", {n, n, n, n})})},
                    {picture})},
      {"AveragePool of windows that are dilated by much",
       with_tensors({node("AveragePool", {"p"}, {"y"},
                          {of_ints("kernel_shape", {3, 1}), of_ints("dilations", {kGreatest, 1}),
                           of_ints("pads", {n, n, n, n})})},
                    {picture})},
      {"DepthToSpace",
       with_tensors({node("DepthToSpace", {"p"}, {"y"}, {of_int("blocksize", 1LL << 32)})},
                    {picture})},
      {"MaxUnpool",
       with_tensors({node("MaxUnpool", {"p", "at", "s"}, {"y"}, {of_ints("kernel_shape", {2, 2})})},
                    {picture, tensor_proto("at", kInt64, {1, 1, 1, 1}, std::string(8, '\0')),
                     tensor_proto("s", {1, 1, n, n})})},
      {"Col2Im", with_tensors({node("Col2Im", {"c", "s", "b"}, {"y"})},
                              {tensor_proto("c", kFloat, {1, 1, 1}, std::string(4, '\0')),
                               tensor_proto("s", {n, n}), tensor_proto("b", {1, 1})})},
      {"DepthToSpace",
       with_tensors({node("DepthToSpace", {"p"}, {"y"}, {of_int("blocksize", n)})}, {picture})},
      {"SpaceToDepth",
       with_tensors({node("SpaceToDepth", {"p"}, {"y"}, {of_int("blocksize", n)})}, {picture})},
      {"Concat doubles",
       with_tensors(
           [] {
             Names nodes;
             for (int i = 0; i < 40; ++i) {
               const std::string from = i == 0 ? "one" : "c" + std::to_string(i - 1);
               const std::string to = i == 39 ? "y" : "c" + std::to_string(i);
               nodes.push_back(node("Concat", {from, from}, {to}, {of_int("axis", 0)}));
             }
             return nodes;
           }(),
           {one})},
      {"Split", with_tensors({node("SplitToSequence", {"one", "unit"}, {"q"}),
                              node("SequenceAt", {"q", "many"}, {"y"})},
                             {one, unit, many})},
      {"TopK",
       with_tensors({node("TopK", {"one", "k"}, {"y", "i"})}, {one, tensor_proto("k", {n})})},
      {"EyeLike",
       with_tensors({node("ConstantOfShape", {"s"}, {"c"}), node("EyeLike", {"c"}, {"y"})},
                    {tensor_proto("s", {n, 1})})},
      {"DFT", with_tensors({node("DFT", {"d", "many"}, {"y"})},
                           {tensor_proto("d", kFloat, {1, 1, 1}, std::string(4, '\0')), many})},
      {"Upsample of a view",
       with_tensors({node("Expand", {"one", "s"}, {"e"}), node("Reshape", {"e", "all"}, {"y"})},
                    {one, tensor_proto("s", {n, 1}), tensor_proto("all", {-1})})},
      {"CenterCropPad",
       with_tensors({node("CenterCropPad", {"one", "s"}, {"y"})}, {one, tensor_proto("s", {n})})},
      {"AffineGrid", with_tensors({node("AffineGrid", {"t", "s"}, {"y"})},
                                  {tensor_proto("t", kFloat, {1, 2, 3}, std::string(24, '\0')),
                                   tensor_proto("s", {1, 1, n, n})})},
      {"RoiAlign",
       with_tensors({node("RoiAlign", {"p", "r", "b"}, {"y"}, {of_int("sampling_ratio", n)})},
                    {picture, tensor_proto("r", kFloat, {1, 4}, std::string(16, '\0')),
                     tensor_proto("b", {0})})},
      {"RoiAlign of many",
       with_tensors({node("RoiAlign", {"p", "r", "b"}, {"y"}, {of_int("output_height", n)})},
                    {picture, tensor_proto("r", kFloat, {1, 4}, std::string(16, '\0')),
                     tensor_proto("b", {0})})},
      {"Multinomial", with_tensors({node("Multinomial", {"m"}, {"y"}, {of_int("sample_size", n)})},
                                   {tensor_proto("m", kFloat, {1, 1}, std::string(4, '\0'))})},
      {"Unsqueeze",
       with_tensors({node("Unsqueeze", {"one", "s"}, {"y"})}, {one, tensor_proto("s", {n})})},
      {"LRN", with_tensors({node("LRN", {"p"}, {"y"}, {of_int("size", n)})}, {picture})},
      {"Split of many",
       with_tensors({node("Split", {"one"}, {"y"}, {of_int("num_outputs", n)})}, {one})},
      {"MelWeightMatrix",
       with_tensors({node("MelWeightMatrix", {"many", "many", "many", "zf", "of"}, {"y"})},
                    {many, tensor_proto("zf", kFloat, {}, std::string(4, '\0')),
                     tensor_proto("of", kFloat, {}, std::string("\0\0\x80\x3f", 4))})},
  };
}

TEST(HostileSizes, FewBytesThatAskForAllMemory) {
  for (const std::int64_t n : {std::int64_t{1} << 31, std::int64_t{1} << 33, std::int64_t{1} << 40,
                               std::int64_t{1} << 60, kGreatest}) {
    for (const Bomb& bomb : bombs(n)) {
      SCOPED_TRACE(std::string(bomb.name) + " of " + std::to_string(n));
      if (std::getenv("DYAD_SHOW_HOSTILE"))
        std::printf("%s %ld: ", bomb.name, n), std::fflush(stdout);
      static_cast<void>(try_model(bomb.bytes, {.limits = {.run_memory = std::size_t{64} << 20}}));
    }
  }
}

TEST(HostileSizes, ARunThatAsksForTooMuchSaysSo) {
  const std::string bytes = bombs(std::int64_t{1} << 40)[0].bytes;
  const Attempt outcome = try_model(bytes);
  EXPECT_TRUE(outcome.loaded);
  EXPECT_THAT(outcome.error, HasSubstr("no memory for 4398046511104 bytes"));
  const Attempt limited =
      try_model(bombs(std::int64_t{1} << 31)[0].bytes, {.limits = {.run_memory = 1000}});
  EXPECT_TRUE(limited.loaded);
  EXPECT_THAT(limited.error, HasSubstr("of the limit that was set"));
}

/// Kernels have room for three spatial axes.
TEST(HostileSizes, WindowsOfMoreAxes) {
  const std::string columns = tensor_proto("c", kFloat, {1, 1, 1}, std::string(4, '\0'));
  const std::string ones = tensor_proto("s", {1, 1, 1, 1, 1});
  EXPECT_THAT(refusal(with_tensors({node("Col2Im", {"c", "s", "s"}, {"y"})}, {columns, ones})),
              HasSubstr("windows have one to three spatial axes, not 5"));
  const std::string bytes =
      tensor_proto("x", kByte, {1, 1, 1, 1, 1, 1, 1, 1}, std::string(1, '\1'));
  EXPECT_THAT(refusal(with_tensors({node("ConvInteger", {"x", "x"}, {"y"})}, {bytes})),
              HasSubstr("ConvInteger"));
}

TEST(HostileSizes, ScalesWithoutEnd) {
  for (const float scale : {1e31f, std::numeric_limits<float>::infinity()}) {
    std::string scales(8, '\0');
    const float both[] = {1, scale};
    std::memcpy(scales.data(), both, 8);
    for (const std::int64_t size : {2, -1}) {
      EXPECT_THAT(refusal(model({.nodes = {node("Resize", {"x", "", "s"}, {"y"})},
                                 .inputs = {value("x", kFloat, {1, size})},
                                 .outputs = {value("y")},
                                 .tensors = {tensor_proto("s", kFloat, {2}, scales)}})),
                  HasSubstr("scales make a size of 2^62 or more"));
    }
  }
}

TEST(HostileSizes, SizesOfInputs) {
  for (const std::int64_t n : {std::int64_t{1} << 62, kGreatest}) {
    GraphParts parts{.nodes = {node("Reshape", {"x", "s"}, {"y"})},
                     .outputs = {value("y")},
                     .tensors = {tensor_proto("s", {-1})}};
    const std::string dims = part(1, number(1, n)) + part(1, number(1, n));
    parts.inputs = {part(1, "x") + part(2, part(1, number(1, kFloat) + part(2, dims)))};
    EXPECT_NE(refusal(model(parts)), "");
  }
}

}  // namespace
}  // namespace dyad::testing
