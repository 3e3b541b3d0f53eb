#include "tests/models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checker.h"
#include "dyad/core/create.h"
#include "dyad/exec/control_flow.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"

// Whole models: the onnx package finds the file valid, and ONNX Runtime agrees with eager execution
// at two sizes of every open axis.

namespace dyad::testing {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

/// Saves a model, has it checked at the given sizes, and gives the report.
template <class Model>
std::optional<json> saved_and_checked(Model& model, std::initializer_list<onnx::Input> inputs,
                                      std::initializer_list<Sizes> sizes, double low = -1,
                                      double high = 1, onnx::SaveOptions options = {}) {
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, inputs, options);
  ModelFile file{.path = path, .cases = {}};
  const auto function = [&](std::span<const Tensor> tensors) {
    return onnx::detail::call_with(model, tensors, {}, std::index_sequence<>{});
  };
  for (const Sizes& each : sizes) {
    file.cases.push_back(eager_case({inputs.begin(), inputs.size()}, each, function, low, high));
  }
  auto report = check(file);
  if (report) {
    EXPECT_EQ((*report)["error"], "");
  }
  return report;
}

std::vector<std::string> ops_of(const json& report) {
  std::vector<std::string> ops;
  for (const json& node : report["nodes"]) ops.push_back(node["op"]);
  return ops;
}

TEST(Models, Mlp) {
  Mlp model;
  nn::eval(model);
  const auto report =
      saved_and_checked(model, {{"x", f32, {"batch", 12}}}, {{{"batch", 1}}, {{"batch", 7}}});
  SKIP_WITHOUT(report);
  EXPECT_EQ((*report)["opset"], 21);
  EXPECT_EQ((*report)["ir_version"], 10);
  EXPECT_EQ((*report)["inputs"]["x"], json::parse(R"(["FLOAT", ["batch", 12]])"));
  EXPECT_EQ((*report)["outputs"]["output0"], json::parse(R"(["FLOAT", ["batch", 5]])"));
  EXPECT_EQ((*report)["weights"]["hidden.weight"]["shape"], json::parse("[16, 12]"));
  EXPECT_TRUE((*report)["weights"].contains("out.bias"));
  EXPECT_THAT(ops_of(*report), ::testing::ElementsAre("Gemm", "Relu", "Gemm", "LogSoftmax"));
  for (const json& node : (*report)["nodes"]) {
    EXPECT_THAT(std::string(node["source"]), HasSubstr("models.h:"));
  }
}

TEST(Models, Cnn) {
  Cnn model;
  const Tensor seen = random_tensor(f32, {8, 1, 9, 10}, -1, 1, 3);
  static_cast<void>(model.norm(model.first(seen)));  // running statistics of its own
  nn::eval(model);
  const auto report = saved_and_checked(model, {{"image", f32, {"batch", 1, 9, 10}}},
                                        {{{"batch", 1}}, {{"batch", 3}}});
  SKIP_WITHOUT(report);
  EXPECT_THAT(ops_of(*report), Contains("BatchNormalization"));
}

/// Its own height and width stay open too.
struct Convolutional {
  nn::Conv2d first{2, 3, 3};
  Tensor operator()(const Tensor& x) const {
    const Tensor y = max_pool2d(relu(first(x)), 2);
    return mean(reshape(y, {y.size(0), y.size(1), y.size(2) * y.size(3)}), {2});
  }
};

TEST(Models, ConvolutionsOfImagesOfAnySize) {
  const Convolutional model;
  saved_and_checked(
      model, {{"x", f32, {"n", 2, "height", "width"}}},
      {{{"n", 1}, {"height", 8}, {"width", 7}}, {{"n", 2}, {"height", 5}, {"width", 12}}});
}

TEST(Models, LstmOverAnOpenTimeAxis) {
  const Lstm model;
  const auto report =
      saved_and_checked(model, {{"x", f32, {"time", "batch", 6}}},
                        {{{"time", 4}, {"batch", 2}}, {{"time", 11}, {"batch", 1}}});
  SKIP_WITHOUT(report);
  EXPECT_THAT(ops_of(*report), Contains("Scan"));
  EXPECT_EQ((*report)["outputs"]["output0"], json::parse(R"(["FLOAT", ["time", "batch", 3]])"));
  EXPECT_TRUE((*report)["weights"].contains("cell.weight_ih"));
}

TEST(Models, TransformerEncoder) {
  const Encoder model;
  const auto report =
      saved_and_checked(model, {{"tokens", i64, {"batch", "time"}}},
                        {{{"batch", 2}, {"time", 5}}, {{"batch", 3}, {"time", 9}}}, 0, 20);
  SKIP_WITHOUT(report);
  EXPECT_THAT(ops_of(*report), Contains("LayerNormalization"));
  EXPECT_THAT(ops_of(*report), Contains("Gelu"));
  EXPECT_EQ((*report)["outputs"]["output0"], json::parse(R"(["FLOAT", ["batch", "time", 16]])"));
}

TEST(Models, HostBranch) {
  const Branching model;
  const std::initializer_list<onnx::Input> inputs{{"x", f32, {"batch", 4}}};
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, inputs);
  ModelFile file{.path = path, .cases = {}};
  const auto function = [&](std::span<const Tensor> t) { return std::vector{model.forward(t[0])}; };
  for (const std::int64_t batch : {1, 6}) {
    for (const double low : {-2.0, 1.0}) {  // either way
      file.cases.push_back(
          eager_case({inputs.begin(), 1}, {{"batch", batch}}, function, low, low + 1));
    }
  }
  const auto report = check(file);
  SKIP_WITHOUT(report);
  EXPECT_EQ((*report)["error"], "");
  EXPECT_THAT(ops_of(*report), Contains("If"));
}

TEST(Models, WritesInPlaceToViews) {
  const auto model = [](const Tensor& x, const Tensor& mask) {
    Tensor y = x * 2;
    y[1].copy_(y[0] + 1);
    y.slice(1, 1, kEnd, 2).fill_(7);
    y.slice(0, -2, kEnd).t().select(0, 0).sub_(3);
    y.reshape({-1})[2].mul_(y[-1][3]);
    Tensor keep = mask.clone();
    keep.select(1, 2).fill_(1);
    return std::pair(y, where(keep, y, x));
  };
  saved_and_checked(model, {{"x", f32, {"n", 5}}, {"mask", boolean, {"n", 5}}},
                    {{{"n", 3}}, {{"n", 6}}}, 0, 1);
}

TEST(Models, PartsReplaced) {
  const auto model = [](const Tensor& x, const Tensor& part, const Tensor& row) {
    const Tensor a = slice_scatter(x, part, 1, 1, 6, 2), b = select_scatter(x, row, -2, -1);
    return std::tuple(a, b, slice_scatter(x, slice(x, 0, 2, 2), 0, 2, 2));
  };
  saved_and_checked(model, {{"x", f32, {"n", 6}}, {"part", f32, {"n", 3}}, {"row", f32, {6}}},
                    {{{"n", 2}}, {{"n", 5}}});
}

TEST(Models, WhileLoop) {
  const Tensor growth = random_tensor(f32, {3}, 1.2, 1.5, 5);
  const auto model = [&](const Tensor& x) {
    // Captured tensors, and a result that a state has already.
    const auto [last, steps, same] =
        while_loop([&](const Tensor& y, const Tensor& n,
                       const Tensor&) { return logical_and(sum(y) < 50, n < 100); },
                   [&](const Tensor& y, const Tensor& n, const Tensor& z) {
                     return std::tuple(y * growth + z, n + 1, z);
                   },
                   std::tuple(x, tensor(0, i64), x * 2));
    return std::tuple(last, steps, same);
  };
  saved_and_checked(model, {{"x", f32, {"n", 3}}}, {{{"n", 1}}, {{"n", 4}}}, 0.1, 1);
  // No step at all.
  saved_and_checked(model, {{"x", f32, {"n", 3}}}, {{{"n", 2}}}, 40, 50);
}

/// Loops that keep their states, and scans from their last step to the first.
TEST(Models, GradientsThroughLoopsOnData) {
  const Tensor w = tensor({1.5f, 0.75f, 1.25f});
  const auto model = [&](const Tensor& input) {
    Tensor x = input, weight = w;
    if (input.is_concrete()) x = input.clone().requires_grad(), weight = w.clone().requires_grad();
    const Tensor last =
        while_loop([](const Tensor& y) { return sum(y) < 50; },
                   [&](const Tensor& y) {
                     return while_loop([](const Tensor& z) { return max(z) < 2; },
                                       [&](const Tensor& z) { return z * weight + 1; }, y) *
                                weight +
                            tanh(x);
                   },
                   x);
    const Tensor loss = sum(square(last)) + sum(x * x * weight * weight);
    const std::vector<Tensor> first = grad(loss, {x, weight}, {.create_graph = true});
    const std::vector<Tensor> second = grad(sum(first[0]) * sum(first[1]), {x, weight});
    return std::vector{last, first[0], first[1], second[0], second[1]};
  };
  const auto report =
      saved_and_checked(model, {{"x", f32, {"n", 3}}}, {{{"n", 1}}, {{"n", 4}}}, 0.1, 1);
  SKIP_WITHOUT(report);
  EXPECT_THAT(ops_of(*report), Contains("Loop"));
  saved_and_checked(model, {{"x", f32, {"n", 3}}}, {{{"n", 2}}}, 40, 50);  // no step at all
}

TEST(Models, NestedControlFlow) {
  const auto model = [](const Tensor& x, const Tensor& xs) {
    return scan(
               [&](const Tensor& carry, const Tensor& x_t) {
                 const Tensor next = cond(
                     sum(x_t) > 0, [&] { return carry + x_t * x; },
                     [&] {
                       return while_loop([](const Tensor& y) { return max(y) > 0.5; },
                                         [](const Tensor& y) { return y * 0.5; }, carry);
                     });
                 return std::pair(next, next * 2);
               },
               x, xs)
        .second;
  };
  saved_and_checked(model, {{"x", f32, {"n"}}, {"xs", f32, {"time", "n"}}},
                    {{{"n", 3}, {"time", 6}}, {{"n", 2}, {"time", 9}}});
}

TEST(Models, SizesThatAreComputed) {
  const auto model = [](const Tensor& x, const Tensor& y) {
    const Dim n = x.size(0), m = y.size(0);
    const Tensor joined = concat({x, y}, 0);                        // n + m
    const Tensor table = expand(unsqueeze(joined, 0), {m, n + m});  // [m, n + m]
    const Tensor halves = slice(joined, 0, 0, (n + m) / 2);
    const Tensor tail = slice(joined, 0, n, n + m);
    return std::tuple(table, halves, tail, pad(x, {m}, {n % 3}), full({2 * n + 1}, 2.5),
                      arange(max(n, m)) + arange(max(n, m)), x * to(size_tensor(n * m), f32));
  };
  saved_and_checked(model, {{"x", f32, {"n"}}, {"y", f32, {"m"}}},
                    {{{"n", 3}, {"m", 4}}, {{"n", 8}, {"m", 2}}});
}

TEST(Models, InputsWithComputedSizes) {
  const auto model = [](const Tensor& x) {
    const Dim n = (x.size(0) - 1) / 2;
    return reshape(slice(x, 0, 1), {n, 2}) + full({n, 1}, 1);
  };
  saved_and_checked(model, {{"x", f32, {Dim("n") * 2 + 1}}}, {{{"n", 3}}, {{"n", 1}}});
}

TEST(Models, SeveralInputsAndResults) {
  const auto model = [](const Tensor& a, const Tensor& b) {
    const Tensor c = a + b;
    return std::vector{c, c, a, c * 2};
  };
  onnx::SaveOptions options;
  options.outputs = {"sum", "again", "first", "twice"};
  const std::string path = temporary("model.onnx");
  onnx::save(path, model, {{"a", f32, {"n"}}, {"b", f32, {"n"}}}, options);
  const auto report = check(ModelFile{.path = path, .cases = {}});
  SKIP_WITHOUT(report);
  EXPECT_EQ((*report)["error"], "");
  std::vector<std::string> names;
  for (const auto& [name, type] : (*report)["outputs"].items()) names.push_back(name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("sum", "again", "first", "twice"));
}

/// ONNX Runtime's Attention, which opset 23 has, takes no mask of one row for all queries.
TEST(Models, AttentionWithOneMaskForAllQueries) {
  const auto model = [](const Tensor& q, const Tensor& k) {
    const Tensor seen = reshape(select(k, 2, 0) > 0, {k.size(0), 1, 1, k.size(1)});
    const Tensor key = unsqueeze(k, 1);
    return scaled_dot_product_attention(unsqueeze(q, 1), key, key, {.mask = seen});
  };
  for (const int opset : {17, 23}) {
    const auto report = saved_and_checked(
        model, {{"q", f32, {"n", "l", 8}}, {"k", f32, {"n", "s", 8}}},
        {{{"n", 3}, {"l", 4}, {"s", 5}}, {{"n", 1}, {"l", 6}, {"s", 2}}}, -1, 1, {.opset = opset});
    SKIP_WITHOUT(report);
  }
}

TEST(Models, EveryOpset) {
  Cnn model;
  nn::eval(model);
  Encoder encoder;
  std::vector<ModelFile> files;
  for (int opset = 17; opset <= 23; ++opset) {
    onnx::SaveOptions options;
    options.opset = opset;
    files.push_back({.path = temporary("cnn" + std::to_string(opset) + ".onnx"), .cases = {}});
    onnx::save(files.back().path, model, {{"image", f32, {"batch", 1, 9, 10}}}, options);
    files.push_back({.path = temporary("encoder" + std::to_string(opset) + ".onnx"), .cases = {}});
    const std::initializer_list<onnx::Input> tokens{{"tokens", i64, {"batch", "time"}}};
    onnx::save(files.back().path, encoder, tokens, options);
    const auto function = [&](std::span<const Tensor> t) { return std::vector{encoder(t[0])}; };
    files.back().cases.push_back(
        eager_case({tokens.begin(), 1}, {{"batch", 2}, {"time", 4}}, function, 0, 20));
  }
  const auto reports = check(files);
  SKIP_WITHOUT(reports);
  for (std::size_t i = 0; i < files.size(); ++i) {
    EXPECT_EQ((*reports)[i]["error"], "") << files[i].path;
    EXPECT_EQ((*reports)[i]["opset"], 17 + static_cast<int>(i / 2));
  }
}

}  // namespace
}  // namespace dyad::testing
