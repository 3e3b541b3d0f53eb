// One step of a recurrent network, tanh(W_h h + W_x x), summed and differentiated, both ways with
// the same function.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "dyad/dyad.h"

using namespace dyad;

namespace {

Tensor next_hidden(const Tensor& w_h, const Tensor& h, const Tensor& w_x, const Tensor& x) {
  return tanh(matmul(w_h, h.t()) + matmul(w_x, x.t()));
}

}  // namespace

int main() {
  manual_seed(1);
  Tensor x = normal({1, 10}), h = normal({1, 20});
  Tensor w_h = normal({20, 20}).requires_grad(), w_x = normal({20, 10}).requires_grad();

  // Define by run.
  Tensor loss = sum(next_hidden(w_h, h, w_x, x));
  loss.backward();
  std::printf("define by run:     loss = %.6f\n", loss.item());

  // Define, then run: the weights are captured as variables of the graph.
  Graph graph;
  auto [static_loss, grads] = graph.define([&] {
    Tensor total =
        sum(next_hidden(w_h, placeholder("h", f32, {1, 20}), w_x, placeholder("x", f32, {1, 10})));
    return std::pair{total, gradients(total, {w_h, w_x})};
  });
  Session session(graph);
  std::vector<Tensor> out = session.run({static_loss, grads[0], grads[1]}, {{"x", x}, {"h", h}});
  std::printf("define, then run:  loss = %.6f\n", out[0].item());

  const bool same = equal(out[0], loss) && equal(out[1], w_h.grad()) && equal(out[2], w_x.grad());
  std::cout << "d loss / d W_x, first row: " << w_x.grad()[0]
            << "\nboth ways give the same bits: " << (same ? "yes" : "no") << '\n';
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
