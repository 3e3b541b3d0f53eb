// An operator of one's own: a scalar expression becomes an operator with a gradient, which runs
// eagerly, in static graphs and compiled, fused with its neighbours.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "dyad/dyad.h"

using namespace dyad;

namespace {

/// x / (1 + |x|^power), bent at 0 by `power`.
struct BendAttrs {
  double power = 1;
};
const auto bend = define_op<BendAttrs>(
    "bend",
    [](const BendAttrs& attrs, auto x) { return x / (1.0 + pow(abs(x), like(x, attrs.power))); },
    {.doc = "x / (1 + |x|^power)."});

/// A layer that uses it, in whatever mode it is called.
Tensor layer(const Tensor& x, const Tensor& weight) {
  return sum(bend.with({.power = 2})(matmul(x, weight) * 3));
}

}  // namespace

int main() {
  manual_seed(1);
  Tensor x = normal({4, 3}, 0, 1, f64), weight = normal({3, 2}, 0, 1, f64).requires_grad();

  Tensor loss = layer(x, weight);
  loss.backward();
  std::printf("eager:    loss %.6f, gradient %.6f\n", loss.item(), sum(weight.grad()).item());

  auto step = compile([&](const Tensor& x) { return layer(x, weight); });
  const double compiled = (step(x), step(x)).item();
  std::printf("compiled: loss %.6f\n", compiled);

  Graph graph;
  auto [value, slope] = graph.define([&] {
    Tensor in = placeholder("x", f64, {Dim::symbol("batch"), 3});
    Tensor value = layer(in, weight);
    return std::pair{value, gradients(value, {weight})[0]};
  });
  Session session(graph);
  const auto out = session.run({value, slope}, {{"x", x}});
  std::printf("graph:    loss %.6f, gradient %.6f\n", out[0].item(), sum(out[1]).item());

  // The gradient is right: a step along it changes the loss as it says.
  const double small = 1e-6;
  Tensor moved = (weight + weight.grad() * small).detach();
  const double found = (layer(x, moved).item() - loss.item()) / small;
  const double told = sum(weight.grad() * weight.grad()).item();
  std::printf("a small step along the gradient: %.5f, expected %.5f\n", found, told);
  const bool good = compiled == loss.item() && out[0].item() == loss.item() &&
                    sum(out[1]).item() == sum(weight.grad()).item() &&
                    std::abs(found - told) < 1e-3 * std::abs(told);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
