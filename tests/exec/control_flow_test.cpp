#include "dyad/exec/control_flow.h"

#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_evaluator.h"
#include "exec_for_tests.h"
#include "same_in_graph.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::expect_same_in_graph;
using exec::Model;
using exec::same_bits;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;
class ControlFlowTest : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(9); }
};

TEST_F(ControlFlowTest, WhatIsTheSameInEveryStepRunsOnce) {
  const auto loops = [](const Tensors& in) {
    const Tensor &w = in[0], &v = in[1];
    const auto [h, ys] = scan(
        [&](const Tensor& h, const Tensor& x) {
          const Tensor next = tanh(matmul(x.unsqueeze(0), w / sum(w * w)).squeeze(0) + h);
          return std::pair(next, next);
        },
        zeros({8}), in[2]);
    const Tensor end = while_loop([&](const Tensor& s) { return sum(s) < sum(abs(v)); },
                                  [&](const Tensor& s) { return s + exp(v); }, h + sum(ys, {0}));
    return Tensors{sum(end)};
  };
  expect_same_in_graph(loops, {normal({8, 8}), normal({8}), normal({5, 8})});
  Graph g;
  g.define([&] {
    return loops({placeholder("w", f32, {8, 8}), placeholder("v", f32, {8}),
                  placeholder("xs", f32, {5, 8})});
  });
  const auto hoisted = [&](exec::ExecutableOptions options) {
    const exec::Executable executable(g.impl(), std::move(options));
    const std::string text = to_string(executable.lowered());
    return text.find("%hoisted0 = placeholder") != std::string::npos;
  };
  EXPECT_TRUE(hoisted({}));
  EXPECT_FALSE(hoisted({.passes_off = {"hoist"}}));
}

TEST_F(ControlFlowTest, CondRunsOneOfTwoFunctions) {
  const Tensor w = normal({3});
  const Model model = [&](const Tensors& in) -> Tensors {
    const Tensor y = cond(
        sum(in[0]) > 0, [&](const Tensor& x) { return x * in[1]; },
        [&](const Tensor& x) { return tanh(x) + in[2]; }, in[0]);
    return {sum(y * y), y};
  };
  const Tensor up = tensor({1.0f, 2.0f, -0.5f});
  expect_same_in_graph(model, {up, normal({3}), normal({3})});
  expect_same_in_graph(model, {-up, normal({3}), normal({3})});
}

TEST_F(ControlFlowTest, CondGivesPacksAndNests) {
  const Model model = [](const Tensors& in) -> Tensors {
    const auto [a, b] = cond(
        in[0] > 0,
        [&] {
          const Tensor inner =
              cond(in[1] > 0, [&] { return in[1] * in[0]; }, [&] { return in[1] / in[0]; });
          return std::pair(inner, in[0]);
        },
        [&] { return std::pair(in[0] * in[0], -in[1]); });
    return {a * b, a, b};
  };
  for (const float x : {2.0f, -2.0f}) {
    for (const float y : {3.0f, -3.0f}) expect_same_in_graph(model, {tensor(x), tensor(y)});
  }
}

TEST_F(ControlFlowTest, WhileLoopRepeatsWhileItsConditionHolds) {
  const Model model = [](const Tensors& in) -> Tensors {
    const auto [x, steps] = while_loop(
        [](const Tensor& x, const Tensor&) { return sum(x) < 100; },
        [&](const Tensor& x, const Tensor& n) { return std::tuple(x * in[1] + 1, n + 1); },
        std::tuple(in[0], tensor(std::int64_t{0})));
    return {sum(square(x)), x, steps};
  };
  expect_same_in_graph(model, {tensor({1.0f, 2.0f}), tensor({2.0f, 1.5f})});
  expect_same_in_graph(model, {tensor({1000.0f, 2.0f}), tensor({2.0f, 1.5f})});  // not once
}

/// As imported loops do: a row of each step, so many as data tell.
TEST_F(ControlFlowTest, WhileLoopsMayKeepWhatTheirStepsMake) {
  const Model model = [](const Tensors& in) -> Tensors {
    const Tensors made =
        exec::run_while([](std::span<const Tensor> s) { return Tensors{sum(s[0]) < 100}; },
                        [&](std::span<const Tensor> s) {
                          const Tensor next = s[0] * in[1] + 1;
                          return Tensors{next, next * s[0], sum(next) > 50};
                        },
                        {in.data(), 1}, {}, 2);
    return {sum(square(made[1])) + sum(made[0]), made[0], made[1], made[2]};
  };
  expect_same_in_graph(model, {tensor({1.0f, 2.0f}), tensor({2.0f, 1.5f})});
  expect_same_in_graph(model, {tensor({1000.0f, 2.0f}), tensor({2.0f, 1.5f})});  // not once
  const auto fast = compile([&](const Tensor& x, const Tensor& w) {
    const Tensors results = model({x, w});
    return std::tuple(results[0], results[2], results[3]);
  });
  for (const float first : {1.0f, 30.0f, 1000.0f, 1.0f}) {
    const Tensor x = tensor({first, 2.0f}), w = tensor({2.0f, 1.5f});
    const Tensors want = model({x, w});
    const auto [loss, rows, large] = fast(x, w);
    EXPECT_TRUE(same_bits(loss, want[0]));
    EXPECT_TRUE(same_bits(rows, want[2]));
    EXPECT_TRUE(same_bits(large, want[3]));
  }
  EXPECT_THAT(message_of<GraphError>([&] {
                static_cast<void>(exec::run_while(
                    [](std::span<const Tensor> s) { return Tensors{sum(s[0]) < 100}; },
                    [](std::span<const Tensor> s) { return Tensors{s[0] * 2}; },
                    std::vector{ones({2})}, {}, 1));
              }),
              HasSubstr("while_loop: the body gives 1 tensors, but the state and what is kept of a "
                        "step are 2"));
}

TEST_F(ControlFlowTest, WhatAScanSlicesMayBeUsedInItsStepsAndAroundThem) {
  const Model model = [](const Tensors& in) -> Tensors {
    const Tensor& x = in[0];
    const auto [last, ys] = scan(
        [&](const Tensor& s, const Tensors& rows) {
          const Tensor next = tanh(s * 0.3f + sum(x * rows[0], {0}) / 7 + rows[1] * x[2]);
          return std::pair(next, next * rows[2]);
        },
        x[1], Tensors{x, in[1], x});
    return {sum(ys * in[1]) + sum(last) + sum(square(x)) * 0.1f + sum(exp(x) * in[1]), ys};
  };
  for (int i = 0; i < 8; ++i) expect_same_in_graph(model, {normal({5, 3}), normal({5, 3})});
  for (const int length : {1, 2, 3}) {
    const Model short_one = [&](const Tensors& in) {
      return model({concat({in[0], in[1]}, 0), concat({in[1], in[0]}, 0)});
    };
    expect_same_in_graph(short_one, {normal({length, 3}), normal({3, 3})});
  }
}

TEST_F(ControlFlowTest, ScanCarriesAStateOverSlices) {
  const Model rnn = [](const Tensors& in) -> Tensors {
    const auto [h, ys] = scan(
        [&](const Tensor& h, const Tensor& x) {
          const Tensor next = tanh(matmul(h, in[2]) + matmul(x, in[3]));
          return std::pair(next, next * 2);
        },
        in[1], in[0]);
    return {sum(ys) + sum(h), h, ys};
  };
  expect_same_in_graph(rnn, {normal({6, 2, 3}), normal({2, 4}), normal({4, 4}), normal({3, 4})});
  expect_same_in_graph(rnn, {normal({1, 2, 3}), normal({2, 4}), normal({4, 4}), normal({3, 4})});
  expect_same_in_graph(rnn, {normal({0, 2, 3}), normal({2, 4}), normal({4, 4}), normal({3, 4})});
}

TEST_F(ControlFlowTest, GradientsOfWhatALoopUsesOftenAddUpInTheTapesOrder) {
  // A gated cell: the state is used three times in a step, and is a result too; its weights are
  // used twice, and outside of the loop before and after it.
  const Model gated = [](const Tensors& in) -> Tensors {
    const Tensor w = in[2] * 0.5;
    const Tensor before = matmul(in[1], w);
    const auto [h, ys] = scan(
        [&](const Tensor& h, const Tensor& x) {
          const Tensor gate = sigmoid(matmul(h, w) + x);
          const Tensor next = gate * h + (1 - gate) * tanh(matmul(h * gate, w));
          return std::pair(next, std::pair(next, h));
        },
        in[1] + before, in[0]);
    return {sum(ys.first * ys.second * in[0]) + sum(matmul(h, w)) + sum(before * in[1]), h};
  };
  for (const std::int64_t steps : {7, 2, 1, 0})
    expect_same_in_graph(gated, {normal({steps, 2, 4}), normal({2, 4}), normal({4, 4})});
  // The states after the last step alone, of which the second one does not depend on itself.
  const Model last = [](const Tensors& in) -> Tensors {
    const auto [states, ys] = scan(
        [&](const std::pair<Tensor, Tensor>& s, const Tensor& x) {
          return std::pair(std::pair(s.first * in[2] + x * s.first, s.first * x), s.second);
        },
        std::pair(in[1], in[1]), in[0]);
    return {sum(states.second) + sum(in[1] * in[2]), states.first};
  };
  expect_same_in_graph(last, {normal({5, 4}), normal({4}), normal({4})});
  const Model counted = [](const Tensors& in) -> Tensors {
    const auto [i, x] = while_loop(
        [&](const Tensor& i, const Tensor&) { return i < 5; },
        [&](const Tensor& i, const Tensor& x) { return std::tuple(i + 1, x * in[1] + sin(x) * x); },
        std::tuple(tensor(0, i64), in[0]));
    return {sum(x * in[1]) + sum(in[0] * in[1]), x};
  };
  expect_same_in_graph(counted, {normal({4}) * 0.3, normal({4})});
  const Model branch = [](const Tensors& in) -> Tensors {
    const Tensor y = cond(
        sum(in[0]) > 1e6, [&](const Tensor& x) { return x; },
        [&](const Tensor& x) { return x * x * in[1] + in[1]; }, in[0]);
    return {sum(y * in[1]) + sum(exp(in[1]) * in[0]), y};
  };
  expect_same_in_graph(branch, {normal({4}), normal({4})});
}

TEST_F(ControlFlowTest, StatesLieRowByRow) {
  const Tensor x = normal({3, 3}).transpose(0, 1);
  std::vector<bool> contiguous;
  const Tensor end = while_loop([](const Tensor& s) { return sum(s * s) < 900; },
                                [&](const Tensor& s) {
                                  contiguous.push_back(s.is_contiguous());
                                  return s * 2;
                                },
                                x);
  EXPECT_THAT(contiguous, ::testing::Each(true));
  EXPECT_GT(contiguous.size(), 1u);
  // The body of the first step has a copy, as that of any other has memory of the loop.
  const Tensor given = ones({2});
  const auto [last, ys] = scan(
      [](Tensor s, const Tensor& row) {
        s += row;
        return std::pair(s, row);
      },
      given, ones({4, 2}));
  EXPECT_TRUE(same_bits(last, full({2}, 5)));
  EXPECT_TRUE(same_bits(given, ones({2})));
}

TEST_F(ControlFlowTest, ScanTakesPacks) {
  const Model model = [](const Tensors& in) -> Tensors {
    const auto [carry, ys] = scan(
        [](const std::pair<Tensor, Tensor>& c, const std::pair<Tensor, Tensor>& x) {
          const Tensor a = c.first * x.first, b = c.second + x.second;
          return std::pair(std::pair(a, b), std::pair(a + b, b));
        },
        std::pair(in[0], in[1]), std::pair(in[2], in[3]));
    return {sum(ys.first * ys.second) + sum(carry.first), carry.second, ys.first};
  };
  expect_same_in_graph(model, {normal({2}), normal({2}), normal({5, 2}), normal({5, 2})});
}

TEST_F(ControlFlowTest, TheLengthOfAScanMayBeUnknown) {
  Graph g;
  const auto [total, dx] = g.define([] {
    const Tensor x = placeholder("x", f32, {"time", 2}), w = variable("w", tensor({0.5f, 2.0f}));
    const auto [carry, ys] = scan(
        [&](const Tensor& c, const Tensor& x) {
          const Tensor next = c * w + x;
          return std::pair(next, next);
        },
        zeros({2}), x);
    const Tensor total = sum(ys);
    return std::pair(total, gradients(total, {x})[0]);
  });
  Session s(g);
  for (const int time : {3, 1, 7}) {
    const Tensor x = normal({time, 2}).requires_grad();
    Tensor c = zeros({2}), total_eager = tensor(0.0f);
    Tensors ys;
    for (int t = 0; t < time; ++t) {
      c = c * tensor({0.5f, 2.0f}) + x.select(0, t);
      ys.push_back(c);
    }
    total_eager = sum(stack(ys));
    total_eager.backward();
    const Tensors out = s.run({total, dx}, {{"x", x.detach()}});
    EXPECT_TRUE(same_bits(out[0], total_eager.detach()));
    EXPECT_TRUE(same_bits(out[1], x.grad()));
  }
}

TEST_F(ControlFlowTest, WrongFunctionsAreRefusedAtTheirLine) {
  const auto in_graph = [](auto fn) {
    return [fn] { Graph().define([&] { return fn(placeholder("x", f32, {3})); }); };
  };
  EXPECT_THAT(message_of<ShapeError>(in_graph([](const Tensor& x) {
                return cond(x > 0, [&] { return x; }, [&] { return x; });
              })),
              HasSubstr("cond: the condition must be a bool scalar but is bool[3]"));
  EXPECT_THAT(message_of<DTypeError>(in_graph([](const Tensor& x) {
                return cond(sum(x), [&] { return x; }, [&] { return x; });
              })),
              HasSubstr("cond: the condition must be a bool scalar but is f32[]"));
  EXPECT_THAT(message_of<ShapeError>(in_graph([](const Tensor& x) {
                return cond(sum(x) > 0, [&] { return x; }, [&] { return sum(x); });
              })),
              HasSubstr("cond: tensor 0 is f32[3] by the first function but f32[] by the second "
                        "function; they must have one dtype and shape"));
  EXPECT_THAT(message_of<DTypeError>(in_graph([](const Tensor& x) {
                return while_loop([](const Tensor& s) { return sum(s) > 0; },
                                  [](const Tensor& s) { return s.to(f64); }, x);
              })),
              HasSubstr("while_loop: tensor 0 is f32[3] by the state but f64[3] by the body"));
  const Tensor outside = ones({3});
  EXPECT_THAT(message_of<GraphError>(in_graph([&](const Tensor& x) {
                return cond(
                    sum(x) > 0,
                    [&] {
                      Tensor target = outside;
                      target.mul_(2);
                      return x;
                    },
                    [&] { return x; });
              })),
              HasSubstr("cond: a function writes in place to f32[3], a tensor from outside"));
  EXPECT_THAT(
      message_of<ShapeError>([] {
        static_cast<void>(scan([](const Tensor& c, const Tensor& x) { return std::pair(c, x); },
                               ones({1}), std::pair(ones({2}), ones({3})).first.sum()));
      }),
      HasSubstr("scan: f32[] has no first axis to scan"));
}

TEST_F(ControlFlowTest, RandomNumbersInsideAreDrawnInEachRunOfTheFunction) {
  Graph g;
  const Tensor y = g.define([] {
    return cond(
        placeholder("p", boolean, {}), [] { return uniform({3}); }, [] { return zeros({3}); });
  });
  Session s(g);
  manual_seed(4);
  const Tensor first = uniform({3}), second = uniform({3});
  manual_seed(4);
  EXPECT_TRUE(same_bits(s.run({y}, {{"p", tensor(true)}})[0], first));
  EXPECT_TRUE(same_bits(s.run({y}, {{"p", tensor(false)}})[0], zeros({3})));
  EXPECT_TRUE(same_bits(s.run({y}, {{"p", tensor(true)}})[0], second));
}

TEST_F(ControlFlowTest, CompiledFunctionsTakeTheirBranchesAndLoops) {
  const Tensor w = normal({2});
  const auto function = [&](const Tensor& x) {
    const Tensor y = cond(sum(x) > 0, [&] { return x * w; }, [&] { return x - w; });
    const auto [carry, ys] =
        scan([](const Tensor& c, const Tensor& slice) { return std::pair(c + slice, c * slice); },
             zeros({2}), y);
    const Tensor n = while_loop([](const Tensor& v) { return sum(v) < 5; },
                                [](const Tensor& v) { return v + 1; }, abs(carry));
    return std::tuple(ys, n);
  };
  const auto compiled = compile(function);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({3, 2}, i % 2 ? 0.5 : -0.25);
    const auto [ys, n] = compiled(x);
    const auto [expected_ys, expected_n] = function(x);
    EXPECT_TRUE(same_bits(ys, expected_ys)) << "call " << i;
    EXPECT_TRUE(same_bits(n, expected_n)) << "call " << i;
  }
}

TEST(ControlFlow, TheFirstStepReadsStatesAsTheyLie) {
  // How an operand lies decides how a library multiplies.
  const auto powers = [](const Tensor& x, const Tensor& limit) {
    const auto [n, y, same] =
        while_loop([&](const Tensor& i, const Tensor&, const Tensor&) { return i < limit; },
                   [](const Tensor& i, const Tensor& v, const Tensor& by) {
                     return std::tuple(i + 1, matmul(v, v), by);
                   },
                   std::tuple(zeros({}), x, x));
    const auto [z, all] =
        scan([](const Tensor& v, const Tensor& by) { return std::pair(linear(v, v) * by, v); }, x,
             ones({2}));
    return std::tuple(y, same, z, all);
  };
  manual_seed(30924);
  for (const std::int64_t size : {2, 3, 8, 33}) {
    Graph graph;
    const Tensor given = graph.placeholder("x", f32, {size, size});
    const Tensor limit = graph.placeholder("limit", f32, {});
    const auto [y, same, z, all] = graph.define([&] { return powers(given, limit); });
    Session session(graph);
    const Tensor wide = normal({2 * size, 2 * size}) * 0.3;
    const Tensor x = wide.slice(0, 0, kEnd, 2).slice(1, 0, kEnd, 2).t();
    for (const double steps : {0.0, 1.0, 3.0}) {
      const auto [ey, esame, ez, eall] = powers(x, full({}, steps));
      const auto out = session.run({y, same, z, all}, {{"x", x}, {"limit", full({}, steps)}});
      EXPECT_EQ(exec::bits(out[0]), exec::bits(ey)) << size;
      EXPECT_EQ(exec::bits(out[1]), exec::bits(esame)) << size;
      EXPECT_EQ(exec::bits(out[2]), exec::bits(ez)) << size;
      EXPECT_EQ(exec::bits(out[3]), exec::bits(eall)) << size;
      for (const Tensor& result : out) EXPECT_FALSE(share_memory(result, x));
    }
  }
}

}  // namespace
}  // namespace dyad
