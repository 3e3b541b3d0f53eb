#include "dyad/exec/derivatives.h"

#include <cmath>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::expect_near;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

/// A function of two tensors that meets every kind of operator.
Tensor network(const Tensor& x, const Tensor& w) {
  const Tensor h = softmax(matmul(tanh(x), w), 1);
  const Tensor picked = gather(h, 1, tensor({{0}, {2}}));
  return concat({sum(h * h, {0}), reshape(picked, {2}), mean(permute(x, {1, 0}), {0})});
}

struct Derivatives : ::testing::Test {
  Derivatives() { manual_seed(1); }
  Tensor x = normal({2, 4}, 0, 1, f64), w = normal({4, 3}, 0, 1, f64);
  Tensor dx = normal({2, 4}, 0, 1, f64), dw = normal({4, 3}, 0, 1, f64);
};

TEST_F(Derivatives, JvpIsTheDifferenceAlongATangent) {
  const auto [y, dy] = jvp(network, std::pair{x, w}, std::pair{dx, dw});
  expect_near(y, network(x, w), 0);
  const double h = 1e-5;
  expect_near(dy, (network(x + dx * h, w + dw * h) - network(x - dx * h, w - dw * h)) / (2 * h),
              1e-8);
  EXPECT_FALSE(y.tracks_grad());
  EXPECT_FALSE(dy.tracks_grad());
}

TEST_F(Derivatives, VjpIsItsTranspose) {
  const auto [y, dy] = jvp(network, std::pair{x, w}, std::pair{dx, dw});
  const Tensor weight = normal(y.shape(), 0, 1, f64);
  const auto [again, by] = vjp(network, std::pair{x, w}, weight);
  expect_near(again, y, 0);
  expect_near(sum(by.first * dx) + sum(by.second * dw), sum(weight * dy));
}

TEST_F(Derivatives, JacobianHasBothShapes) {
  const auto f = [&](const Tensor& t) { return network(t, w); };
  const Tensor j = jacobian(f, x);
  EXPECT_TRUE(j.shape().same_as({7, 2, 4}));
  const Tensor dy = jvp(f, x, dx).second;
  expect_near(reshape(matmul(reshape(j, {7, 8}), reshape(dx, {8, 1})), {7}), dy);
  const auto [by_x, by_w] = jacobian(network, std::pair{x, w});
  expect_near(by_x, j);
  EXPECT_TRUE(by_w.shape().same_as({7, 4, 3}));
}

TEST_F(Derivatives, HessianIsWhatPyTorchGives) {
  // torch.autograd.functional.hessian(lambda x: (x[0]**3 * x[1]).sin() + x[1]**2 * x[2], [.5, 1,
  // -2])
  const auto f = [](const Tensor& v) {
    const Tensor a = select(v, 0, 0), b = select(v, 0, 1), c = select(v, 0, 2);
    return sin(a * a * a * b) + b * b * c;
  };
  const Tensor v = tensor({0.5, 1., -2.});
  const Tensor h = hessian(f, v);
  // With s = sin(1/8), k = cos(1/8): d2a = 6ab k - (3 a^2 b)^2 s, dadb = 3 a^2 k - 3 a^5 b s...
  const double s = std::sin(0.125), k = std::cos(0.125);
  expect_near(h, tensor({{3 * k - 0.5625 * s, 0.75 * k - 0.75 * 0.125 * s, 0.},
                         {0.75 * k - 0.75 * 0.125 * s, -4 - 0.015625 * s, 2.},
                         {0., 2., 0.}}));
  const Tensor along = tensor({1., -2., 0.5});
  const auto [value, product] = hvp(f, v, along);
  expect_near(value, f(v), 0);
  expect_near(product, reshape(matmul(h, reshape(along, {3, 1})), {3}));
}

TEST_F(Derivatives, NestAndAreDifferentiable) {
  const auto f = [](const Tensor& t) { return sin(t) * t; };
  const Tensor t = tensor({0.3, 1.2}), one = ones({2}, f64);
  // Forward over forward: f'' = 2 cos t - t sin t.
  const Tensor second = jvp([&](const Tensor& u) { return jvp(f, u, one).second; }, t, one).second;
  expect_near(second, 2 * cos(t) - t * sin(t));
  // Reverse over forward, by a parameter that the function captures.
  Tensor p = tensor(1.5).requires_grad();
  const auto g = [&](const Tensor& u) { return sin(u * p); };
  const Tensor dy = jvp(g, t, one).second;  // p cos(u p)
  EXPECT_TRUE(dy.tracks_grad());
  expect_near(grad(sum(dy), {p})[0], sum(cos(t * p) - t * p * sin(t * p)).detach());
  // By the input, when it tracks gradients itself.
  Tensor leaf = t.clone().requires_grad();
  const Tensor by = vjp(f, leaf, one).second;
  expect_near(grad(sum(by), {leaf})[0], 2 * cos(t) - t * sin(t));
  EXPECT_FALSE(no_grad([&] { return vjp(f, leaf, one).second; }).tracks_grad());
}

TEST_F(Derivatives, GiveZerosWhereNothingDepends) {
  const auto f = [](const Tensor& a, const Tensor&, const Tensor& index) {
    return std::pair{a * 2, index + 1};
  };
  const auto inputs = std::tuple{tensor({1., 2.}), tensor({3., 4.}), tensor({1, 2})};
  const auto [y, dy] = jvp(f, inputs, std::tuple{ones({2}, f64), ones({2}, f64), Tensor()});
  expect_near(dy.first, tensor({2., 2.}));
  EXPECT_FALSE(dy.second.defined());
  const auto [again, by] = vjp(f, inputs, std::pair{ones({2}, f64), Tensor()});
  expect_near(std::get<0>(by), tensor({2., 2.}));
  expect_near(std::get<1>(by), tensor({0., 0.}));
  EXPECT_FALSE(std::get<2>(by).defined());
  expect_near(jvp([](const Tensor&) { return ones({2}, f64); }, x, dx).second, zeros({2}, f64));
}

TEST_F(Derivatives, AreTheSameInStaticGraphsAndCompiled) {
  const auto all = [](const Tensor& a, const Tensor& b, const Tensor& da, const Tensor& db) {
    const auto scalar = [&](const Tensor& t) { return sum(pow(network(t, b), 2)); };
    return Tensors{jvp(network, std::pair{a, b}, std::pair{da, db}).second,
                   vjp(scalar, a, ones({}, f64)).second, jacobian(scalar, a), hessian(scalar, a),
                   hvp(scalar, a, da).second};
  };
  const Tensors eager = all(x, w, dx, dw);
  Graph graph;
  const Tensors fetches = graph.define([&] {
    return all(placeholder("x", f64, {2, 4}), placeholder("w", f64, {4, 3}),
               placeholder("dx", f64, {2, 4}), placeholder("dw", f64, {4, 3}));
  });
  graph.verify();
  Session session(graph);
  const Tensors in_graph = session.run(fetches, {{"x", x}, {"w", w}, {"dx", dx}, {"dw", dw}});
  auto compiled = compile(all);
  for (int call = 0; call < 3; ++call) {
    const Tensors found = compiled(x, w, dx, dw);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      EXPECT_TRUE(exec::same_bits(found[i], eager[i])) << i;
    }
  }
  EXPECT_GE(compiled.explain().replays, 1);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(exec::same_bits(in_graph[i], eager[i])) << i;
  }
}

TEST_F(Derivatives, TellWhatIsWrong) {
  const auto f = [](const Tensor& t) { return t * 2; };
  EXPECT_THAT(
      message_of<ShapeError>([&] { (void)jvp(f, x, w); }),
      HasSubstr("jvp: tangent 0 is f64[4, 3], but the input is f64[2, 4]; the two must have "
                "one shape"));
  EXPECT_THAT(message_of<ShapeError>([&] { (void)vjp(f, x, w); }),
              HasSubstr("vjp: cotangent 0 is f64[4, 3], but the output is f64[2, 4]"));
  EXPECT_THAT(message_of<ShapeError>([&] { (void)hessian(f, x); }),
              HasSubstr("the function must give one scalar but gives f64[2, 4]; reduce it"));
  EXPECT_THAT(message_of<DTypeError>([&] { (void)jacobian(f, tensor({1, 2})); }),
              HasSubstr("jacobian: no input is floating"));
  EXPECT_THAT(message_of<ValueError>([&] { (void)jvp(f, Tensor(), Tensor()); }),
              HasSubstr("jvp: input 0 is an undefined tensor"));
}

}  // namespace
}  // namespace dyad
