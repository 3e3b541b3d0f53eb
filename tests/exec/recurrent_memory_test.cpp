/// The gradient of a recurrent layer works in the memory of its gates, where a plan knows that
/// nobody needs them any more.
#include <sstream>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/plan_text.h"
#include "dyad/passes/lower.h"
#include "exec_for_tests.h"

namespace dyad::exec {
namespace {

struct Cell {
  std::string name;
  std::int64_t gates;
  std::function<RecurrentResult(std::span<const Tensor>)> run;  ///< of x and four parameters
  bool spoils = true;
};

template <class Op>
std::function<RecurrentResult(std::span<const Tensor>)> layer(Op op,
                                                              const RecurrentArgs& args = {}) {
  return [op, args](std::span<const Tensor> in) {
    return op(in[0], in[1], in[2], in[3], in[4], args, Loc());
  };
}

std::vector<Cell> cells() {
  const Tensor lengths = tensor({5, 0, 3, 1, 5, 2}, i64);
  return {{"rnn", 1, layer(rnn)},
          {"rnn, clipped, backwards", 1, layer(rnn, {.reverse = true, .clip = 0.5})},
          {"lstm", 4, layer(lstm)},
          {"lstm with lengths, backwards", 4, layer(lstm, {.lengths = lengths, .reverse = true})},
          {"lstm with coupled gates", 4, layer(lstm, {.input_forget = true})},
          {"lstm with peepholes", 4, layer(lstm, {.peephole = sin(arange(48).to(f32))})},
          {"gru", 3, layer(gru)},
          {"gru whose r multiplies h", 3, layer(gru, {.linear_before_reset = false}), false}};
}

/// x[5, 6, 8] and the parameters of a layer of 16.
Tensors inputs_of(const Cell& cell) {
  const auto some = [](const Shape& shape, double by) {
    return reshape(sin(arange(shape.numel().number()).to(f32) * by), shape);
  };
  const std::int64_t rows = 16 * cell.gates;
  return {some({5, 6, 8}, 0.7), some({rows, 8}, 0.9), some({rows, 16}, 1.1), some({rows}, 1.3),
          some({rows}, 1.7)};
}

/// The gradients of `passes` sums by all inputs, each of which reads the gates.
Tensors gradients_of(const Cell& cell, std::span<const Tensor> in, int passes) {
  const RecurrentResult made = cell.run(in);
  Tensors all;
  for (int i = 1; i <= passes; ++i) {
    const Tensor loss = sum(made.y * made.y) + sum(made.h * i);
    const Tensors some = loss.is_concrete() ? grad(loss, in, {.retain_graph = true})
                                            : autograd::graph_gradients({&loss, 1}, {}, in, Loc());
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST(RecurrentMemory, GradientsHaveTheBitsOfEagerOnes) {
  for (const Cell& cell : cells()) {
    for (const int passes : {1, 2}) {
      SCOPED_TRACE(cell.name);
      const auto function = [&](std::span<const Tensor> given) {
        Tensors in;
        for (const Tensor& t : given) in.push_back(clone(t).requires_grad());
        return gradients_of(cell, in, passes);
      };
      const Tensors given = inputs_of(cell), expected = function(given);
      const auto step =
          compile([&](const Tensor& x, const Tensor& a, const Tensor& b, const Tensor& c,
                      const Tensor& d) { return function(Tensors{x, a, b, c, d}); });
      for (int call = 0; call < 3; ++call) {
        const Tensors found = step(given[0], given[1], given[2], given[3], given[4]);
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(same_bits(found[i], expected[i])) << "call " << call << ", gradient " << i;
      }
    }
  }
}

TEST(RecurrentMemory, ThePlanSaysWhoseMemoryAStepWorksIn) {
  for (const Cell& cell : cells()) {
    for (const int passes : {1, 2}) {
      SCOPED_TRACE(cell.name);
      const Ref<GraphImpl> graph =
          record([&](std::span<const Tensor> in) { return gradients_of(cell, in, passes); },
                 types_of(inputs_of(cell)));
      const std::string text =
          plan_text(*passes::lower(*graph, {.evaluate = evaluate_node}), {}, {.lines = false});
      std::istringstream lines(text);
      int spoiling = 0, last = 0, number = 0;
      for (std::string line; std::getline(lines, line);) {
        if (line.find(": recurrent_backward(") == std::string::npos) continue;
        ++number;
        if (line.find(" in the memory of %") == std::string::npos) continue;
        ++spoiling;
        last = number;
      }
      EXPECT_EQ(number, passes) << text;
      // Only the last pass may: the others leave the gates to it.
      EXPECT_EQ(spoiling, cell.spoils ? 1 : 0) << text;
      EXPECT_EQ(last, cell.spoils ? passes : 0) << text;
    }
  }
}

}  // namespace
}  // namespace dyad::exec
