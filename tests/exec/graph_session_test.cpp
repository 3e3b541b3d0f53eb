#include <atomic>
#include <cmath>
#include <thread>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/print.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::same_bits;
using ::testing::HasSubstr;

float number(const Tensor& t) { return t.item<float>(); }

TEST(Graph, APlaceholderSessionAndSymbolicGradients) {
  Graph g;
  auto [c, grads] = g.define([] {
    const Tensor a = placeholder("a", f32, {}), b = placeholder("b", f32, {});
    const Tensor c = a * b;
    return std::pair(c, gradients(c, {a, b}));
  });
  Session s(g);
  const std::vector<Tensor> out = s.run({c, grads[0], grads[1]}, {{"a", tensor(15.0f)}, {"b", 20}});
  EXPECT_EQ(number(out[0]), 300);
  EXPECT_EQ(number(out[1]), 20);
  EXPECT_EQ(number(out[2]), 15);
}

TEST(Graph, VariablesAreSetOnceAndTrained) {
  manual_seed(2);
  Graph g;
  auto [loss, step] = g.define([] {
    const Tensor x = placeholder("x", f32, {"batch", 4}), y = placeholder("y", f32, {"batch"});
    const Tensor w = variable("w", normal({4}));
    const Tensor loss = mse_loss(matmul(x, w), y);
    return std::pair(loss, assign(w, w - gradients(loss, {w})[0] * 0.1));
  });
  manual_seed(2);
  const Tensor start = normal({4});
  ASSERT_EQ(g.variables().size(), 1u);
  EXPECT_EQ(g.variables()[0].first, "w");
  EXPECT_TRUE(same_bits(g.variables()[0].second, start));

  Session s(g);
  const Tensor x = normal({32, 4}), y = matmul(x, tensor({1.0f, -2.0f, 0.5f, 3.0f}));
  const float before = number(s.run({loss}, {{"x", x}, {"y", y}})[0]);
  EXPECT_EQ(number(s.run({loss}, {{"x", x}, {"y", y}})[0]), before) << "only the step writes";
  for (int i = 0; i < 200; ++i) static_cast<void>(s.run({step}, {{"x", x}, {"y", y}}));
  EXPECT_LT(number(s.run({loss}, {{"x", x}, {"y", y}})[0]), 1e-3f * before);
}

TEST(Graph, OnlyWhatTheFetchesNeedRuns) {
  Graph g;
  auto [a, b] = g.define([] {
    const Tensor x = placeholder("x", f32, {2}), y = placeholder("y", i64, {2});
    return std::pair(x * 2, embedding(y, variable("table", ones({3, 1}))));
  });
  Session s(g);
  EXPECT_EQ(s.run({a}, {{"x", tensor({1.0f, 2.0f})}})[0].to_vector<float>(),
            (std::vector<float>{2, 4}));
  EXPECT_THROW(static_cast<void>(s.run({b}, {{"y", tensor({5, 0}, i64)}})), IndexError);
}

TEST(Graph, TensorsFromOutsideThatAreReturnedAreOutputs) {
  Graph g;
  Tensor w = tensor({3.0f, 4.0f});
  const auto [scaled, own, literal, x] = g.define([&] {
    const Tensor in = placeholder("x", f32, {2});
    return std::tuple(in * w, w, tensor({1.0f, 2.0f}), in);
  });
  ASSERT_EQ(g.outputs().size(), 4u);
  EXPECT_TRUE(own.is_symbolic() && literal.is_symbolic());
  Session s(g);
  const auto run = [&](const std::vector<Tensor>& fetches) {
    std::vector<std::vector<float>> values;
    for (const Tensor& t : s.run(fetches, {{"x", tensor({1.0f, -1.0f})}})) {
      values.push_back(t.to_vector<float>());
    }
    return values;
  };
  using Values = std::vector<std::vector<float>>;
  EXPECT_EQ(run({scaled, own, literal, x}), (Values{{3, -4}, {3, 4}, {1, 2}, {1, -1}}));
  EXPECT_EQ(run(g.outputs()), (Values{{3, -4}, {3, 4}, {1, 2}, {1, -1}}));
  w.fill_(5);  // a variable of the graph, as what operators use
  EXPECT_EQ(run({own, scaled}), (Values{{5, 5}, {5, -5}}));

  Graph branches;
  const Tensor either = branches.define([&] {
    const Tensor in = placeholder("x", f32, {2});
    return sum(in) > 0 ? w : tensor({1.0f, 2.0f});
  });
  Session chooses(branches);
  EXPECT_EQ(chooses.run({either}, {{"x", ones({2})}})[0].to_vector<float>(),
            (std::vector<float>{5, 5}));
  EXPECT_EQ(chooses.run({either}, {{"x", zeros({2})}})[0].to_vector<float>(),
            (std::vector<float>{1, 2}));
}

TEST(Graph, ASessionRunsOnData) {
  Graph g;
  const Tensor y = g.define([] { return placeholder("x", f32, {2}) * 2; });
  Session s(g);
  const auto fast = compile([&](const Tensor& x) { return s.run({y}, {{"x", x}})[0] + 1; });
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(message_of<GraphError>([&] { (void)fast(ones({2})); }),
                ::testing::AllOf(HasSubstr("a session runs on data; it cannot be a part of a "
                                           "function that is recorded, or of a graph"),
                                 HasSubstr("graph_session_test.cpp:")));
  }
  Graph other;
  EXPECT_THROW(other.define([&] { return s.run({y}, {{"x", ones({2})}})[0] + 1; }), GraphError);
}

TEST(Graph, WrongFeedsAreRefused) {
  Graph g;
  const Loc line = Loc::intern("model.cpp", 3), call = Loc::intern("train.cpp", 9);
  const Tensor out = g.define([&] {
    const Tensor x = placeholder("x", f32, {"batch", 2}, line);
    return x * placeholder("y", f32, {"batch", 1}, line);
  });
  Session s(g);
  const auto run = [&](std::vector<Feed> feeds) {
    return [&s, &out, feeds, call] { static_cast<void>(s.run({out}, feeds, call)); };
  };
  const Tensor x = ones({3, 2}), y = ones({3, 1});
  EXPECT_EQ(message_of<GraphError>(run({{"x", x}})),
            "placeholder \"y\": f32[batch, 1] is not fed, but the fetches need it; add {\"y\", "
            "tensor} to the feeds\n  at train.cpp:9\n  declared at model.cpp:3");
  EXPECT_EQ(message_of<GraphError>(run({{"x", x}, {"z", y}})),
            "a feed names \"z\", but no placeholder has that name; the graph has \"x\": f32[batch, "
            "2] and \"y\": f32[batch, 1]\n  at train.cpp:9");
  EXPECT_EQ(message_of<GraphError>(run({{"x", x}, {"y", y}, {"x", x}})),
            "placeholder \"x\": f32[batch, 2] is fed twice\n  at train.cpp:9\n  declared at "
            "model.cpp:3");
  EXPECT_EQ(message_of<DTypeError>(run({{"x", x.to(i64)}, {"y", y}})),
            "placeholder \"x\": f32[batch, 2] was given i64[3, 2]: the dtype must be f32 but is "
            "i64; convert it with .to(f32)\n  at train.cpp:9\n  declared at model.cpp:3");
  EXPECT_EQ(message_of<ShapeError>(run({{"x", x}, {"y", ones({4, 1})}})),
            "placeholder \"y\": f32[batch, 1] was given f32[4, 1]: axis 0 is 4, but batch is 3 by "
            "axis 0 of \"x\"\n  at train.cpp:9\n  declared at model.cpp:3");
  EXPECT_THAT(message_of<GraphError>(run({{"x", x}, {"y", Tensor()}})),
              HasSubstr("placeholder \"y\": f32[batch, 1] is fed an undefined tensor"));
}

TEST(Graph, WrongFetchesAreRefused) {
  Graph g, other;
  const Tensor mine = g.define([] { return placeholder("x", f32, {}) + 1; });
  const Tensor theirs = other.define([] { return placeholder("x", f32, {}) + 1; });
  Session s(g);
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(s.run({theirs}, {{"x", 1}})); }),
              HasSubstr("fetch 0 is a tensor of another graph: f32[]"));
  EXPECT_THAT(
      message_of<GraphError>([&] { static_cast<void>(s.run({mine, ones({2})}, {{"x", 1}})); }),
      HasSubstr("fetch 1 is no value of a graph: f32[2]"));
}

TEST(Graph, AnomaliesAreFoundWhereTheyAreMade) {
  Graph g;
  const Tensor x = g.placeholder("x", f32, {"n"});
  int line = 0;
  const auto [y, dx, updated] = g.define([&] {
    line = __LINE__ + 1;
    const Tensor root = sqrt(x * 2 + 1);
    const Tensor loss = sum(root);
    const Tensor w = variable("w", zeros({}));
    return std::tuple{loss, gradients(loss, {x})[0], assign(w, w + loss)};
  });
  Session s(g);
  const auto run = [&](const Tensor& fetch, float value) {
    return s.run({fetch}, {{"x", tensor({1.0f, value})}})[0];
  };
  EXPECT_TRUE(std::isnan(run(y, -1).item()));  // unless asked for
  const DetectAnomaly scope;
  EXPECT_NEAR(run(y, 4).item(), 4.732, 1e-3);
  EXPECT_THAT(message_of<AnomalyError>([&] { (void)run(updated, -1); }),
              AllOf(HasSubstr("sqrt(x: f32[2]) made a NaN at element 1 of f32[2]"),
                    HasSubstr("declared at graph_session_test.cpp:" + std::to_string(line))));
  // The derivative alone is infinite, at the line that it is the derivative of.
  EXPECT_THAT(message_of<AnomalyError>([&] { (void)run(dx, -0.5f); }),
              AllOf(HasSubstr("made inf at element 1 of f32[2]"),
                    HasSubstr("declared at graph_session_test.cpp:" + std::to_string(line))));
  EXPECT_NEAR(run(updated, 4).item(), 4.732, 1e-3);  // nothing was written before
}

TEST(Graph, WrongDeclarationsAreRefused) {
  EXPECT_THAT(message_of<GraphError>([] { static_cast<void>(placeholder("x", f32, {})); }),
              HasSubstr("placeholder() belongs to a graph"));
  Graph g;
  EXPECT_THAT(message_of<GraphError>([&] {
                g.define([] {
                  const Tensor x = placeholder("x", f32, {2});
                  return variable("w", x * 2);
                });
              }),
              HasSubstr("variable \"w\": the initial value depends on the placeholder \"x\""));
  EXPECT_THAT(
      message_of<GraphError>([&] { g.define([&] { return assign(g.input("x") * 2, 1.0f); }); }),
      HasSubstr("assign(variable: f32[2], ...): the first argument is the result of mul"));
  EXPECT_THAT(message_of<GraphError>([&] { static_cast<void>(g.input("y")); }),
              HasSubstr("no placeholder is named \"y\"; the graph has \"x\": f32[2]"));
}

TEST(Graph, TextIsReadBack) {
  Graph g;
  static_cast<void>(g.define([] {
    const Tensor x = placeholder("x", f32, {"batch", 3});
    return softmax(x * variable("w", ones({3})), -1);
  }));
  const Graph read = Graph::parse(g.to_string());
  EXPECT_EQ(read.to_string(), g.to_string());
  read.verify();
  Session s(read);
  const std::vector<Tensor> out = s.run(read.outputs(), {{"x", ones({2, 3})}});
  EXPECT_TRUE(same_bits(out[0], softmax(zeros({2, 3}), -1))) << "variables of a text hold zeros";
  EXPECT_THAT(to_string(s.explain()), HasSubstr("2 operators in 1 way -> "));
}

TEST(Graph, ConcreteTensorsAreVariablesWithTheirOwnMemory) {
  const Tensor w = tensor({1.0f, 2.0f});
  Graph g;
  const Tensor y = g.define([&] { return placeholder("x", f32, {2}) * w; });
  Session s(g);
  const Tensor x = ones({2});
  EXPECT_EQ(s.run({y}, {{"x", x}})[0].to_vector<float>(), (std::vector<float>{1, 2}));
  w.data<float>()[0] = 5;
  EXPECT_EQ(s.run({y}, {{"x", x}})[0].to_vector<float>(), (std::vector<float>{5, 2}));
}

TEST(Graph, ABranchOnAValueBecomesBothBranches) {
  Graph g;
  const Tensor y = g.define([] {
    Tensor x = placeholder("x", f32, {"n"});
    const Tensor w = variable("w", tensor(3.0f));
    x = mean(x) > 0.5f ? x * w : relu(x) - 1;
    return sum(x);
  });
  g.verify();
  Session s(g);
  const auto run = [&](const Tensor& x) { return number(s.run({y}, {{"x", x}})[0]); };
  EXPECT_EQ(run(tensor({1.0f, 2.0f})), 9);
  EXPECT_EQ(run(tensor({-1.0f, 0.25f, 0.5f})), -2.25f);
  EXPECT_EQ(g.placeholder("z", f32, {}).dtype(), f32);
  EXPECT_EQ(g.variables().size(), 1u);
}

TEST(Graph, BranchesThatDifferInTypeNameTheLine) {
  Graph g;
  const Tensor x = g.placeholder("x", f32, {"n"});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto branch = [&] { return mean(x) > 0.5f ? sum(x) : x; };
  EXPECT_THAT(message_of<ShapeError>([&] { (void)g.define(branch); }),
              AllOf(HasSubstr("tensor 0 is f32[] by the first function but f32[n] by the second"),
                    HasSubstr("at graph_session_test.cpp:" + line)));
}

TEST(Graph, BranchesNestAndWritesInThemHappen) {
  const Tensor count = tensor({0.0f});
  Graph g;
  const Tensor y = g.define([&] {
    const Tensor x = placeholder("x", f32, {});
    if (x > 0) {
      if (x > 10) {
        Tensor c = count;
        c.add_(1);
        return x * 2;
      }
      return x + 1;
    }
    return -x;
  });
  Session s(g);
  const auto run = [&](float x) { return number(s.run({y}, {{"x", x}})[0]); };
  EXPECT_EQ(run(-4), 4);
  EXPECT_EQ(run(4), 5);
  EXPECT_EQ(run(40), 80);
}

TEST(Graph, TooManyBranchesAreRefused) {
  Graph g;
  EXPECT_THAT(message_of<GraphError>([&] {
                g.define([] {
                  Tensor x = placeholder("x", f32, {});
                  for (int i = 0; i < 7; ++i) x = x > i ? x * 2 : x + 1;
                  return x;
                });
              }),
              HasSubstr("the function branches on values in more than 64 ways"));
}

TEST(Print, IsANodeThatEveryRunPrints) {
  Graph g;
  const auto [y, z] = g.define([] {
    const Tensor x = placeholder("x", f32, {2});
    const Tensor y = x * 2, z = exp(x);
    print("y is {} here,", y, sum(y));
    print("z {}", z);
    return std::pair(y + 1, z);
  });
  Session s(g);
  ::testing::internal::CaptureStdout();
  static_cast<void>(s.run({y}, {{"x", tensor({1.0f, 2.0f})}}));
  static_cast<void>(s.run({y}, {{"x", tensor({0.5f, 2.0f})}}));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "y is [2. 4.] here, 6.0\ny is [1. 4.] here, 5.0\n")
      << "what nobody fetches is not computed, and not printed";
}

TEST(Print, PrintsAtOnceInEagerMode) {
  const Tensor x = tensor({1.0f, 2.0f}).requires_grad();
  ::testing::internal::CaptureStdout();
  print("x = {}", x);
  print("done", 3);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "x = [1. 2.]\ndone 3\n");
  EXPECT_THAT(message_of<ValueError>([&] { print("{} {}", x); }),
              HasSubstr("the format has 2 places {} for 1 tensors"));
}

TEST(Print, ACompiledFunctionPrintsInEachCall) {
  const auto twice = compile([](const Tensor& x) {
    print("x = {}", x);
    return x * 2;
  });
  ::testing::internal::CaptureStdout();
  for (const float x : {1.0f, 2.0f, 3.0f}) static_cast<void>(twice(tensor(x)));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "x = 1.0\nx = 2.0\nx = 3.0\n");
}

TEST(Session, ARunIsCancelledFromAnotherThread) {
  Graph g;
  const Tensor steps = g.define([] {
    return while_loop([](const Tensor& n) { return n >= 0; }, [](const Tensor& n) { return n + 1; },
                      placeholder("from", i64, {}));
  });
  Session s(g);
  std::atomic<bool> done = false;
  std::thread stopper([&] {
    while (!done) {
      s.cancel();
      std::this_thread::yield();
    }
  });
  EXPECT_THROW(static_cast<void>(s.run({steps}, {{"from", 0}})), CancelledError);
  done = true;
  stopper.join();
  EXPECT_EQ(s.run({steps}, {{"from", -1}})[0].item<std::int64_t>(), -1) << "the next run is whole";
}

}  // namespace
}  // namespace dyad
