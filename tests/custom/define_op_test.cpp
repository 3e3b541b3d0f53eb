#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "dyad/dyad.h"
#include "dyad/exec/explain.h"
#include "dyad/ir/graph.h"
#include "dyad/ops/custom.h"

// Operators that a program defines for itself, with what dyad.h gives it.

namespace dyad {
namespace {

using ::testing::HasSubstr;

struct BumpAttrs {
  double width = 1;
};

/// Small tensors: interpreted kernels give the same bits as compiled ones, sooner.
const int kInterpreted = setenv("DYAD_KERNELS", "interpreter", /*overwrite=*/0);

const auto kBump = define_op<BumpAttrs>("test_bump",
                                        [](const BumpAttrs& attrs, auto x) {
                                          return exp(-(x * x) * (1 / (attrs.width * attrs.width)));
                                        },
                                        {.doc = "exp(-(x / width)^2)."});

const auto kBlend = define_op("test_blend", [](auto a, auto b, auto t) {
  return select(t > 0.5, a * sigmoid(b), b * tanh(a)) + log1p(t * t) / sqrt(1.0 + b * b);
});

const auto kSteps = define_op(
    "test_steps", [](auto x) { return abs(x) + floor(x) + maximum(x, 0.25) * pow(x, 3.0); });

Tensor points() { return tensor({-1.7, -0.4, 0.3, 0.9, 2.2}); }

Tensor bump_of_operators(const Tensor& x, double width) { return exp(-(x * x) / (width * width)); }

Tensor blend_of_operators(const Tensor& a, const Tensor& b, const Tensor& t) {
  return where(t > 0.5, a * sigmoid(b), b * tanh(a)) + log1p(t * t) / sqrt(1.0 + b * b);
}

void expect_near(const Tensor& got, const Tensor& want, double tolerance = 1e-12) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_TRUE(got.shape().same_as(want.shape())) << to_string(got.shape());
  const auto a = got.to(f64).to_vector<double>(), b = want.to(f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "element " << i;
  }
}

TEST(DefineOp, MakesRowsThatAreComplete) {
  ASSERT_EQ(kInterpreted, 0);
  const OpInfo* row = find_op("test_blend_by_c_by_a");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->kind, BodyKind::pointwise);
  EXPECT_EQ(row->doc, "grad times the derivative of test_blend_by_c by a.");
  EXPECT_EQ(row->inputs.size(), 5u);
  EXPECT_EQ(row->inputs[0].name, "grad2");
}

TEST(DefineOp, GivesValuesInEveryDType) {
  expect_near(kBump(points()), bump_of_operators(points(), 1));
  expect_near(kBump.with({.width = 2})(points()), bump_of_operators(points(), 2));
  for (const DType dtype : {f32, f16, bf16}) {
    expect_near(kBump(points().to(dtype)), bump_of_operators(points().to(dtype), 1), 1e-2);
  }
  EXPECT_EQ(kBump(tensor({0, 1})).dtype(), f32);
  expect_near(kBlend(points(), reshape(points(), {5, 1}), 0.7),
              blend_of_operators(points(), reshape(points(), {5, 1}), tensor(0.7)));
}

TEST(DefineOp, PromotesAsOperatorsDo) {
  const Tensor x = points().to(f32), half = tensor(0.5);  // f64, without axes
  EXPECT_EQ(kBlend(x, x, half).dtype(), f32);
  EXPECT_EQ(kBlend(x, x, reshape(half, {1})).dtype(), f64);
  expect_near(kBlend(x, x, half), kBlend(x, x, half.to(f32)));
}

TEST(DefineOp, IsDifferentiatedByItsExpression) {
  Tensor a = points().requires_grad(), b = (points() * 0.7 + 0.2).detach().requires_grad();
  Tensor t = tensor({0.1, 0.9, 0.4, 0.6, -0.3}).requires_grad();
  // Each derivative of the sum of squares, to order 3, against the operators it stands for.
  const auto derivatives = [&](auto&& f) {
    std::vector<Tensor> all;
    Tensor y = f(a, b, t);
    y = sum(y * y);
    for (int order = 0; order < 3; ++order) {
      const std::vector<Tensor> outputs{y}, inputs{a, b, t};
      const auto by = grad(outputs, inputs, {.create_graph = true});
      all.insert(all.end(), by.begin(), by.end());
      y = sum(by[0] * by[1]) + sum(by[2]);
    }
    return all;
  };
  const auto got = derivatives(kBlend), want = derivatives(blend_of_operators);
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(got[i], want[i], 1e-9);
  }
}

TEST(DefineOp, TakesTheSideOfAKinkThatTheExpressionTakes) {
  Tensor x = points().requires_grad();
  const Tensor by = grad(sum(kSteps(x)), {x})[0];
  std::vector<double> want;
  for (const double v : {-1.7, -0.4, 0.3, 0.9, 2.2}) {
    const double m = std::max(v, 0.25);
    want.push_back((v < 0 ? -1 : 1) + (v > 0.25 ? v * v * v : 0) + m * 3 * v * v);
  }
  expect_near(by, tensor(want));
}

TEST(DefineOp, RefusesDerivativesBeyondThoseThatAreDerived) {
  Tensor y = kBump(points().requires_grad());
  Tensor x = points().requires_grad();
  y = sum(kBump(x));
  for (int order = 0; order < 3; ++order) y = sum(grad(y, {x}, {.create_graph = true})[0]);
  try {
    (void)grad(y, {x});
    FAIL();
  } catch (const GradError& error) {
    EXPECT_THAT(error.what(), HasSubstr("_by_x: an expression gives derivatives of order 3 at "
                                        "most; give define_op() a gradient rule"));
  }
}

TEST(DefineOp, RunsInStaticGraphsWithTheSameBits) {
  Graph graph;
  auto [y, by] = graph.define([] {
    Tensor x = placeholder("x", f64, {Dim::symbol("n")});
    Tensor y = kBump.with({.width = 3})(x) * 2;
    return std::pair{y, gradients(sum(y), {x})[0]};
  });
  Tensor x = points().requires_grad();
  Tensor eager = kBump.with({.width = 3})(x) * 2;
  Session session(graph);
  const auto out = session.run({y, by}, {{"x", points()}});
  EXPECT_EQ(out[0].to_vector<double>(), eager.to_vector<double>());
  EXPECT_EQ(out[1].to_vector<double>(), grad(sum(eager), {x})[0].to_vector<double>());
}

TEST(DefineOp, IsFusedWithItsNeighboursWhenCompiled) {
  const auto f = [](const Tensor& x) { return kBump(x * 2 + 1) - x; };
  auto compiled = compile(f);
  Tensor x = points();
  const Tensor expected = f(x);
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(compiled(x).to_vector<double>(), expected.to_vector<double>());
  }
  const Explanation told = compiled.explain();
  ASSERT_EQ(told.recordings.size(), 1u);
  EXPECT_EQ(told.recordings[0].nodes, 4);
  EXPECT_EQ(told.recordings[0].kernels, 1);
}

TEST(DefineOp, IsSavedInTheTextOfAGraphAndReadAgain) {
  Graph graph;
  graph.define([] {
    Tensor x = placeholder("x", f64, {5});
    Tensor y = kBump.with({.width = 3})(x);
    return std::pair{y, gradients(sum(y), {x})[0]};
  });
  const std::string text = graph.to_string();
  EXPECT_THAT(text, HasSubstr("test_bump(%x) {width = 3.0}"));
  EXPECT_THAT(text, HasSubstr("test_bump_by_x("));
  const Graph read = Graph::parse(text);
  const auto run = [](const Graph& g) {
    Session session(g);
    return session.run(g.outputs(), {{"x", points()}});
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run(read)[i].to_vector<double>(), run(graph)[i].to_vector<double>());
  }
}

TEST(DefineOp, MayBringItsOwnGradient) {
  // Straight through: rounds forward, passes gradients as they are.
  static const auto kRound = define_op("test_round_through", [](auto x) { return rint(x); },
                                       {.grad = [](Gradient& g) { g.set(0, g.grad()); }});
  Tensor x = points().requires_grad();
  Tensor y = kRound(x);
  EXPECT_EQ(y.to_vector<double>(), (std::vector<double>{-2, 0, 0, 1, 2}));
  EXPECT_EQ(grad(sum(y * tensor({1., 2., 3., 4., 5.})), {x})[0].to_vector<double>(),
            (std::vector<double>{1, 2, 3, 4, 5}));
}

TEST(DefineOp, RefusesNamesThatAreTakenOrMalformed) {
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const ValueError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_THAT(message([] { define_op("tanh", [](auto x) { return x; }); }),
              HasSubstr("there is already an operator tanh; choose another name"));
  EXPECT_THAT(message([] { define_op("My op", [](auto x) { return x; }); }),
              HasSubstr("define_op(\"My op\"): the name of an operator is of lower-case letters"));
  EXPECT_THAT(message([] {
                define_op("test_inputs", [](auto x) { return x; }, {.inputs = {{"x"}, {"y"}}});
              }),
              HasSubstr("the expression takes 1 inputs, but the options describe 2"));
}

TEST(DefineOp, NamesTheOperatorInMessages) {
  try {
    (void)kBlend(tensor({1., 2.}), tensor({1., 2., 3.}), 1);
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("test_blend(a: f64[2], b: f64[3]"));
    EXPECT_THAT(error.what(), HasSubstr("define_op_test.cpp"));
  }
}

}  // namespace
}  // namespace dyad
