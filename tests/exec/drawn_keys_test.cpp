#include <utility>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ir/graph.h"
#include "exec_for_tests.h"
#include "same_in_graph.h"
#include "tests/shared/message_of.h"

// Gradients of control flow that draws random numbers, in static graphs: of the numbers drawn, as
// eagerly.

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::expect_same_in_graph;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

class DrawnKeys : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(31); }
};

Tensor noisy(const Tensor& x) { return dropout(x, 0.25) * uniform({3}); }

TEST_F(DrawnKeys, OfACond) {
  const auto one = [](const Tensors& in) -> Tensors {
    const Tensor y = cond(
        sum(in[0]) > 0, [](const Tensor& x) { return noisy(x); },
        [&](const Tensor& x) { return x * in[1]; }, in[0]);
    return {sum(y * y), y};
  };
  const auto both = [](const Tensors& in) -> Tensors {
    const Tensor before = uniform({3});
    const Tensor y = cond(
        sum(in[0]) > 0, [&] { return noisy(in[0] * in[1]) + dropout(in[1], 0.5); },
        [&] { return dropout(in[0], 0.5) * in[0]; });
    return {sum(y * in[0] * before), y, uniform({3})};
  };
  const Tensor up = tensor({1.0f, 2.0f, -0.5f}), w = normal({3});
  for (const Tensor& x : {up, -up}) {
    expect_same_in_graph(one, {x, w});
    expect_same_in_graph(both, {x, w});
  }
}

TEST_F(DrawnKeys, OfAScan) {
  for (const std::int64_t length : {1, 2, 5}) {
    expect_same_in_graph(
        [](const Tensors& in) -> Tensors {
          const auto [last, all] = scan(
              [&](const Tensor& h, const Tensor& row) {
                const Tensor next = tanh(dropout(h * in[1] + row, 0.5)) + normal({3}) * in[1];
                return std::pair(next, dropout(next, 0.3));
              },
              in[2], in[0]);
          return {sum(all * all) + sum(last * in[1]), all, uniform({2})};
        },
        {normal({length, 3}), normal({3}), normal({3})});
  }
}

TEST_F(DrawnKeys, OfAWhileLoop) {
  const auto loss = [](const Tensors& in) -> Tensors {
    const auto [x, steps] =
        while_loop([](const Tensor& x, const Tensor&) { return sum(x) < 40; },
                   [&](const Tensor& x, const Tensor& n) {
                     return std::tuple(x + abs(dropout(x * in[1], 0.3)) + uniform({2}), n + 1);
                   },
                   std::tuple(in[0], tensor(std::int64_t{0})));
    return {sum(square(x)), x, steps, uniform({2})};
  };
  expect_same_in_graph(loss, {tensor({1.0f, 2.0f}), tensor({0.5f, 1.5f})});
  expect_same_in_graph(loss, {tensor({100.0f, 2.0f}), tensor({2.0f, 1.5f})});  // not once
}

TEST_F(DrawnKeys, OfLoopsAndBranchesInEachOther) {
  const auto rows = [](const Tensors& in) -> Tensors {
    const auto [last, all] = scan(
        [&](const Tensor& h, const Tensor& row) {
          const auto [inner, parts] =
              scan([&](const Tensor& s,
                       const Tensor& x) { return std::pair(s * dropout(x, 0.5) + in[1], s); },
                   sum(h), row);
          const Tensor kept = cond(
              sum(h) > 1, [&] { return dropout(h, 0.5) * inner; },
              [&] { return h + sum(parts) * uniform({3}); });
          return std::pair(kept, kept * 2);
        },
        in[2], in[0]);
    return {sum(all) + sum(last * last), last};
  };
  expect_same_in_graph(rows, {normal({4, 3}), normal({}), normal({3})});
  const auto loop_in_branch = [](const Tensors& in) -> Tensors {
    const Tensor y = cond(
        sum(in[0]) > 0,
        [&] {
          return while_loop([](const Tensor& s) { return sum(s) < 9; },
                            [&](const Tensor& s) { return s + uniform({3}) * exp(in[1]); }, in[0]);
        },
        [&] { return dropout(in[1], 0.5) * in[0]; });
    return {sum(y * y), y};
  };
  const Tensor up = tensor({1.0f, 2.0f, -0.5f});
  expect_same_in_graph(loop_in_branch, {up, normal({3})});
  expect_same_in_graph(loop_in_branch, {-up, normal({3})});
}

TEST_F(DrawnKeys, SumsGoOnFromWhatCameBefore) {
  // Sums of gradients of what the loop uses, too, begin with what comes from behind it.
  expect_same_in_graph(
      [](const Tensors& in) -> Tensors {
        const Tensor h = in[1] * 2;
        const Tensor end =
            scan([&](const Tensor& s, const Tensor& x) { return std::pair(noisy(s + x * h), x); },
                 h, in[0])
                .first;
        return {sum(end * h) + sum(exp(h)) + sum(in[1])};
      },
      {normal({5, 3}), normal({3})});
}

TEST_F(DrawnKeys, OfSecondOrderAndTwice) {
  const auto loss = [](const Tensor& x, const Tensor& w) {
    const auto [last, all] = scan(
        [&](const Tensor& h, const Tensor& row) {
          const Tensor next = dropout(tanh(h * w + row), 0.4);
          return std::pair(next, next);
        },
        w, x);
    return sum(all * all) + sum(last);
  };
  const Tensor x0 = normal({4, 3}, 0, 1, f64), w0 = normal({3}, 0, 1, f64);
  const auto orders = [&](const Tensor& x, const Tensor& w) -> Tensors {
    const Tensor value = loss(x, w);
    const Tensor first = grad(value, {w}, {.create_graph = true})[0];
    const Tensor again = grad(value * 3, {x}, {.create_graph = true})[0];
    return {first, again, grad(sum(first * first), {w}, {.create_graph = true})[0]};
  };
  manual_seed(5);
  const Tensors eager = orders(x0.clone().requires_grad(), w0.clone().requires_grad());
  Graph g;
  const Tensors symbolic =
      g.define([&] { return orders(placeholder("x", f64, {4, 3}), placeholder("w", f64, {3})); });
  g.verify();
  Session session(g);
  manual_seed(5);
  const Tensors found = session.run(symbolic, {{"x", x0}, {"w", w0}});
  for (std::size_t i = 0; i < eager.size(); ++i)
    exec::expect_near(found[i], eager[i].detach(), 1e-12);
}

TEST_F(DrawnKeys, WhatCannotBeKeptIsRefused) {
  const auto refused = [](const std::function<Tensor(const Tensor&)>& of) {
    return message_of<GradError>([&] {
      Graph g;
      g.define([&] {
        const Tensor x = placeholder("x", f32, {3});
        return gradients(sum(of(x)), {x})[0];
      });
    });
  };
  EXPECT_THAT(refused([](const Tensor& x) {
                return while_loop([](const Tensor& s) { return sum(s) < uniform({}); },
                                  [](const Tensor& s) { return s * 2; }, x);
              }),
              HasSubstr("gradient of while_loop: its condition draws random numbers, which the "
                        "backward pass would draw anew; draw them outside and use them inside"));
  EXPECT_THAT(refused([](const Tensor& x) {
                return scan(
                           [](const Tensor& s, const Tensor& row) {
                             return std::pair(
                                 while_loop([](const Tensor& u) { return u < 1; },
                                            [](const Tensor& u) { return u + uniform({}); }, s),
                                 row);
                           },
                           ones({}), x)
                    .first;
              }),
              HasSubstr("gradient of while_loop: a while_loop in the body of another loop draws"));
}

}  // namespace
}  // namespace dyad
