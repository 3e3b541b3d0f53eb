#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <typeinfo>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"

// Wrong calls: the same error, type and text, whether executed at once or put into a graph.

namespace dyad {
namespace {

using ::testing::HasSubstr;

struct WrongCall {
  std::string name;
  std::vector<Tensor> inputs;
  std::function<Tensor(const std::vector<Tensor>&)> call;
  std::string error;                  ///< the type, as typeid names it
  std::vector<std::string> expected;  ///< parts of the text
};

void PrintTo(const WrongCall& c, std::ostream* out) { *out << c.name; }

template <class E>
std::string type() {
  return typeid(E).name();
}

struct Thrown {
  std::string type, message, where;
};

Thrown thrown_by(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return {typeid(error).name(), error.message(), to_string(error.where())};
  }
  return {"nothing", "", ""};
}

class WrongCalls : public ::testing::TestWithParam<WrongCall> {};

TEST_P(WrongCalls, TheSameErrorEagerlyAndInAGraph) {
  const WrongCall& c = GetParam();
  const Thrown eager = thrown_by([&] { (void)c.call(c.inputs); });
  EXPECT_EQ(eager.type, c.error) << eager.message;
  for (const std::string& part : c.expected) EXPECT_THAT(eager.message, HasSubstr(part));
  EXPECT_THAT(eager.where, HasSubstr("calls_test.cpp:"));

  const Thrown graph = thrown_by([&] {
    Graph g;
    (void)g.define([&] {
      std::vector<Tensor> placeholders;
      for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        placeholders.push_back(
            placeholder("in" + std::to_string(i), c.inputs[i].dtype(), c.inputs[i].shape()));
      }
      return c.call(placeholders);
    });
  });
  EXPECT_EQ(graph.type, eager.type);
  EXPECT_EQ(graph.message, eager.message);
  EXPECT_EQ(graph.where, eager.where);
}

using In = const std::vector<Tensor>&;

INSTANTIATE_TEST_SUITE_P(Table, WrongCalls,
                         ::testing::Values(WrongCall{"matmul_columns",
                                                     {zeros({3, 4}), zeros({5, 2})},
                                                     [](In t) { return matmul(t[0], t[1]); },
                                                     type<ShapeError>(),
                                                     {"matmul(a: f32[3, 4], b: f32[5, 2])", "4",
                                                      "5"}},
                                           WrongCall{"add_shapes",
                                                     {zeros({2, 3}), zeros({2, 4})},
                                                     [](In t) { return t[0] + t[1]; },
                                                     type<ShapeError>(),
                                                     {"add(a: f32[2, 3], b: f32[2, 4])"}},
                                           WrongCall{"matmul_dtypes",
                                                     {zeros({2, 2}), zeros({2, 2}, i64)},
                                                     [](In t) { return matmul(t[0], t[1]); },
                                                     type<DTypeError>(),
                                                     {"matmul(a: f32[2, 2], b: i64[2, 2])"}},
                                           WrongCall{"sum_axis",
                                                     {zeros({2, 3})},
                                                     [](In t) { return sum(t[0], {2}); },
                                                     type<IndexError>(),
                                                     {"sum(", "2"}},
                                           WrongCall{"argmax_axis",
                                                     {zeros({2, 3})},
                                                     [](In t) { return argmax(t[0], -3); },
                                                     type<IndexError>(),
                                                     {"argmax(", "-3"}},
                                           WrongCall{"reshape_count",
                                                     {zeros({2, 3})},
                                                     [](In t) { return reshape(t[0], {4, 2}); },
                                                     type<ShapeError>(),
                                                     {"reshape(", "[4, 2]"}},
                                           WrongCall{"permute_twice",
                                                     {zeros({2, 3})},
                                                     [](In t) { return permute(t[0], {0, 0}); },
                                                     type<ValueError>(),
                                                     {"permute("}},
                                           WrongCall{"concat_sizes",
                                                     {zeros({2, 3}), zeros({2, 4})},
                                                     [](In t) { return concat({t[0], t[1]}, 0); },
                                                     type<ShapeError>(),
                                                     {"concat("}},
                                           WrongCall{"expand_size",
                                                     {zeros({2, 3})},
                                                     [](In t) { return expand(t[0], {2, 4}); },
                                                     type<ShapeError>(),
                                                     {"expand("}},
                                           WrongCall{"conv_channels",
                                                     {zeros({1, 3, 8, 8}), zeros({4, 2, 3, 3})},
                                                     [](In t) { return conv2d(t[0], t[1]); },
                                                     type<ShapeError>(),
                                                     {"conv("}},
                                           WrongCall{"embedding_indices",
                                                     {zeros({4}), zeros({10, 3})},
                                                     [](In t) { return embedding(t[0], t[1]); },
                                                     type<DTypeError>(),
                                                     {"f32[4]"}},
                                           WrongCall{"where_condition",
                                                     {zeros({2}), zeros({2}), zeros({2})},
                                                     [](In t) { return where(t[0], t[1], t[2]); },
                                                     type<DTypeError>(),
                                                     {"where(", "bool"}},
                                           WrongCall{"cross_entropy_labels",
                                                     {zeros({4, 10}), zeros({5}, i64)},
                                                     [](In t) { return cross_entropy(t[0], t[1]); },
                                                     type<ShapeError>(),
                                                     {"cross_entropy("}},
                                           WrongCall{"layer_norm_weight",
                                                     {zeros({4, 10}), zeros({9})},
                                                     [](In t) { return layer_norm(t[0], t[1]); },
                                                     type<ShapeError>(),
                                                     {"layer_norm("}}),
                         [](const auto& info) { return info.param.name; });

TEST(BadInput, IndicesOutOfRangeAreFoundWhenTheyAreUsed) {
  const Tensor table = zeros({10, 3}), indices = tensor({std::int64_t{1}, std::int64_t{10}});
  const Thrown eager = thrown_by([&] { (void)embedding(indices, table); });
  EXPECT_EQ(eager.type, type<IndexError>());
  EXPECT_THAT(eager.message, HasSubstr("10"));
  Graph g;
  const Tensor rows = g.define([&] { return embedding(placeholder("i", i64, {"n"}), table); });
  Session session(g);
  try {
    (void)session.run({rows}, {{"i", indices}});
    FAIL() << "nothing was thrown";
  } catch (const IndexError& error) {
    EXPECT_EQ(error.message(), eager.message);
    EXPECT_THAT(to_string(error.where()), HasSubstr("calls_test.cpp"));
    EXPECT_THAT(to_string(error.declared()), HasSubstr("calls_test.cpp"));
  }
}

TEST(BadInput, FeedsAreCheckedAgainstTheirPlaceholders) {
  Graph g;
  const Tensor out = g.define([] { return placeholder("x", f32, {"n", 4}) * 2; });
  Session session(g);
  const auto message = [&](const std::vector<Feed>& feeds) {
    return thrown_by([&] { (void)session.run({out}, feeds); });
  };
  const Thrown missing = message({});
  EXPECT_EQ(missing.type, type<GraphError>());
  EXPECT_THAT(missing.message, HasSubstr("x"));
  const Thrown extra = message({{"x", zeros({2, 4})}, {"z", zeros({1})}});
  EXPECT_EQ(extra.type, type<GraphError>());
  EXPECT_THAT(extra.message, HasSubstr("z"));
  const Thrown dtype = message({{"x", zeros({2, 4}, i64)}});
  EXPECT_EQ(dtype.type, type<DTypeError>());
  EXPECT_THAT(dtype.message, HasSubstr("i64[2, 4]"));
  const Thrown shape = message({{"x", zeros({2, 5})}});
  EXPECT_EQ(shape.type, type<ShapeError>());
  EXPECT_THAT(shape.message, HasSubstr("f32[2, 5]"));
}

TEST(BadInput, ATensorOfAnotherGraph) {
  Graph a, b;
  const Tensor x = a.define([] { return placeholder("x", f32, {2}) * 2; });
  const Thrown thrown =
      thrown_by([&] { (void)b.define([&] { return placeholder("y", f32, {2}) + x; }); });
  EXPECT_EQ(thrown.type, type<GraphError>());
  EXPECT_THAT(thrown.message, HasSubstr("another graph"));
}

TEST(BadInput, ASymbolicValueWhereDataIsNeeded) {
  Graph g;
  const Tensor x = g.define([] { return placeholder("x", f32, {}) * 2; });
  EXPECT_EQ(thrown_by([&] { (void)x.item(); }).type, type<GraphError>());
  EXPECT_EQ(thrown_by([&] { (void)x.data<float>(); }).type, type<GraphError>());
  EXPECT_EQ(thrown_by([&] { (void)x.to_vector<float>(); }).type, type<GraphError>());
}

TEST(BadInput, AnUndefinedTensor) {
  EXPECT_EQ(thrown_by([&] { (void)(Tensor() + 1); }).type, type<ValueError>());
  EXPECT_EQ(thrown_by([&] { (void)tanh(Tensor()); }).type, type<ValueError>());
}

}  // namespace
}  // namespace dyad
