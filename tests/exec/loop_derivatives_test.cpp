#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/derivatives.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"

// Derivatives of loops whose number of steps depends on data: of any order in a static graph, as
// eagerly.

namespace dyad {
namespace {

using exec::expect_near;
using Tensors = std::vector<Tensor>;
using Loss = std::function<Tensor(const Tensor& x, const Tensor& w)>;

/// The gradients of order 1, 2, 3 of a scalar by x and w: each order differentiates the sum of the
/// squares of those before it.
Tensors derivatives(const Loss& loss, const Tensor& x, const Tensor& w, int orders) {
  Tensor value = loss(x, w);
  Tensors all;
  for (int order = 0; order < orders; ++order) {
    const Tensors now = grad(value, {x, w}, {.create_graph = true, .allow_unused = true});
    value = sum(x) * 0;
    for (const Tensor& g : now) {
      if (!g.defined()) continue;
      all.push_back(g);
      value = value + sum(g * g);
    }
  }
  return all;
}

void expect_derivatives(const Loss& loss, const Tensor& x0, const Tensor& w0, int orders = 3) {
  const Tensor x = x0.clone().requires_grad(), w = w0.clone().requires_grad();
  const Tensors eager = derivatives(loss, x, w, orders);
  Graph g;
  const Tensors symbolic = g.define([&] {
    const Shape shape{Dim::symbol("rows")};
    return derivatives(loss, placeholder("x", f64, shape), placeholder("w", f64, shape), orders);
  });
  Session session(g);
  const Tensors found = session.run(symbolic, {{"x", x0}, {"w", w0}});
  ASSERT_EQ(found.size(), eager.size());
  for (std::size_t i = 0; i < eager.size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(found[i], eager[i].detach(), 1e-9);
  }
}

/// Repeats `step` until the largest element is not below `end`.
Tensor grown(const Tensor& x, double end, const std::function<Tensor(const Tensor&)>& step) {
  return while_loop([&](const Tensor& z) { return max(z) < end; }, step, x);
}

const Tensor kX = tensor({1.5, 0.5}), kW = tensor({0.25, 0.125});

TEST(LoopDerivatives, OfAState) {
  expect_derivatives(
      [](const Tensor& x, const Tensor& w) {
        return sum(grown(x, 9, [](const Tensor& z) { return z * z * 0.5 + 1; })) + sum(x * x * w);
      },
      kX, kW);
}

TEST(LoopDerivatives, OfATensorFromOutside) {
  expect_derivatives(
      [](const Tensor& x, const Tensor& w) {
        return sum(grown(x, 9, [&](const Tensor& z) { return z + exp(w) * tanh(z); }));
      },
      kX, kW);
}

TEST(LoopDerivatives, OfSeveralStatesAndACounter) {
  expect_derivatives(
      [](const Tensor& x, const Tensor& w) {
        const auto [i, a, b] = while_loop(
            [](const Tensor& i, const Tensor& a, const Tensor&) { return (i < 4) & (sum(a) < 50); },
            [&](const Tensor& i, const Tensor& a, const Tensor& b) {
              return std::tuple{i + 1, a * b + w, b * cos(a)};
            },
            std::tuple{tensor(0, i64), x, x * w});
        return sum(a * b) + sum(b);
      },
      kX, kW, 2);
}

TEST(LoopDerivatives, WhereNoStepRuns) {
  expect_derivatives(
      [](const Tensor& x, const Tensor& w) {
        return sum(square(grown(x * x, 0, [&](const Tensor& z) { return z * w; })) * w);
      },
      kX, kW);
}

TEST(LoopDerivatives, OfWhatStepsKeep) {
  for (const double end : {9.0, 0.0}) {
    expect_derivatives(
        [end](const Tensor& x, const Tensor& w) {
          const Tensors made =
              exec::run_while([&](std::span<const Tensor> s) { return Tensors{max(s[0]) < end}; },
                              [&](std::span<const Tensor> s) {
                                const Tensor next = s[0] * s[0] * 0.5 + 1 + w;
                                return Tensors{next, next, s[0] * w, tanh(next)};
                              },
                              {&x, 1}, {}, 3);
          return sum(made[1] * w) + sum(square(made[2])) * sum(made[3]) + sum(made[0]) +
                 sum(x * x * w * w);
        },
        kX, kW);
  }
}

TEST(LoopDerivatives, OfALoopInALoop) {
  expect_derivatives(
      [](const Tensor& x, const Tensor& w) {
        return sum(grown(x, 12, [&](const Tensor& z) {
          return grown(z, 5, [&](const Tensor& u) { return u * u * 0.3 + w + 1; }) * 1.5;
        }));
      },
      kX, kW, 2);
}

TEST(LoopDerivatives, OfAScanInALoopAndOneBehind) {
  expect_derivatives(
      [](const Tensor& x, const Tensor& w) {
        const auto turned = [&](const Tensor& z) {
          return scan([](const Tensor& s, const Tensor& slice) { return std::pair{s * slice, s}; },
                      w * 2 + 1, z)
              .first;
        };
        const Tensor end = grown(x, 9, [&](const Tensor& z) { return z * z + turned(z); });
        return sum(turned(end) * x);
      },
      kX, kW, 2);
}

TEST(LoopDerivatives, ByTransforms) {
  const auto loop = [](const Tensor& x) {
    return grown(x, 9, [](const Tensor& z) { return z * z * 0.5 + 1; });
  };
  const auto loss = [&](const Tensor& x) { return sum(loop(x)) + sum(x * x * x); };
  const Tensor v = ones({2}, f64);
  const Tensors eager{jvp(loop, kX, v).second, hvp(loss, kX, v).second, hessian(loss, kX)};
  Graph g;
  const Tensors symbolic = g.define([&] {
    const Tensor x = placeholder("x", f64, {2});
    return Tensors{jvp(loop, x, v).second, hvp(loss, x, v).second, hessian(loss, x)};
  });
  const Tensors found = Session(g).run(symbolic, {{"x", kX}});
  const auto fast = compile([&](const Tensor& x) { return hvp(loss, x, v).second; });
  for (int i = 0; i < 3; ++i) expect_near(fast(kX), eager[1], 1e-9);
  for (std::size_t i = 0; i < 3; ++i) expect_near(found[i], eager[i], 1e-9);
}

}  // namespace
}  // namespace dyad
