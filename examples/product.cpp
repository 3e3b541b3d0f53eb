// c = a * b with its derivatives, the two ways that Dyad runs a program.
#include <cstdio>
#include <cstdlib>

#include "dyad/dyad.h"

using namespace dyad;

namespace {

bool is(const Tensor& tensor, float value) { return tensor.item<float>() == value; }

/// Define by run: each line is executed as it is reached.
bool define_by_run() {
  Tensor a = tensor(15.0f).requires_grad(), b = tensor(20.0f).requires_grad();
  Tensor c = a * b;
  c.backward();
  std::printf("define by run:     c = %g, dc/da = %g, dc/db = %g\n", c.item(), a.grad().item(),
              b.grad().item());
  return is(c, 300) && is(a.grad(), 20) && is(b.grad(), 15);
}

/// Define, then run: the same operators describe a graph; a session feeds and runs it.
bool define_then_run() {
  Graph graph;
  auto [a, b, c, da, db] = graph.define([] {
    Tensor a = placeholder("a", f32, {}), b = placeholder("b", f32, {});
    Tensor c = a * b;
    std::vector<Tensor> d = gradients(c, {a, b});
    return std::tuple{a, b, c, d[0], d[1]};
  });
  Session session(graph);
  std::vector<Tensor> out = session.run({c, da, db}, {{"a", 15.0f}, {"b", 20.0f}});
  std::printf("define, then run:  c = %g, dc/da = %g, dc/db = %g\n", out[0].item(), out[1].item(),
              out[2].item());
  return is(out[0], 300) && is(out[1], 20) && is(out[2], 15);
}

}  // namespace

int main() { return define_by_run() && define_then_run() ? EXIT_SUCCESS : EXIT_FAILURE; }
