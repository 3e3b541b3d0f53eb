#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ir/graph.h"
#include "exec_for_tests.h"

namespace dyad::exec {

/// The steps of training, and what it did to a function's recordings.
struct Trained {
  std::int64_t recordings = 0, replays = 0;
  int loops = 0;  ///< in all recordings
};

/// Takes the gradients of `leaves` from `loss(x)` for random numbers of each of the shapes, eagerly
/// and compiled: the same bits.
inline Trained train(const std::function<Tensor(const Tensor&)>& loss, const Tensors& leaves,
                     const std::vector<Shape>& shapes, bool rows_need_grad = false) {
  const auto step = [&](const Tensors& in) -> Tensors {
    for (const Tensor& leaf : leaves) leaf.zero_grad();
    const Tensor result = loss(in[0]);
    result.backward();
    return {result.detach()};
  };
  const auto c = compile_now(std::function<Tensors(const Tensors&)>(step));
  const auto gradients = [&](const Tensor& rows) {
    std::vector<decltype(bits(rows))> all;
    for (const Tensor& leaf : leaves)
      all.push_back(leaf.grad().defined() ? bits(leaf.grad()) : decltype(bits(rows)){});
    if (rows_need_grad) all.push_back(bits(rows.grad()));
    return all;
  };
  manual_seed(11);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    Tensor rows = normal(shapes[i]), same = rows.clone();
    if (rows_need_grad) {
      rows = rows.requires_grad();
      same = same.requires_grad();
    }
    const RandomKey before = default_generator().state();
    const Tensors eager = step({rows});
    const auto expected = gradients(rows);
    const RandomKey after = default_generator().state();
    default_generator().set_state(before);
    const Tensors compiled = c(Tensors{same});
    EXPECT_EQ(default_generator().state(), after) << "call " << i;
    EXPECT_TRUE(same_bits(eager[0], compiled[0])) << "call " << i;
    EXPECT_EQ(gradients(same), expected) << "call " << i;
  }
  const Explanation page = c.explain();
  Trained done{static_cast<std::int64_t>(page.recordings.size()), page.replays};
  for (const CompiledGraph& graph : c.graphs()) done.loops += count_of(*graph.recorded, "scan");
  return done;
}

/// The same for as many rows as each of the lengths says.
inline Trained train(const std::function<Tensor(const Tensor&)>& loss, const Tensors& leaves,
                     const std::vector<std::int64_t>& lengths, bool rows_need_grad = false) {
  std::vector<Shape> shapes;
  for (const std::int64_t length : lengths) shapes.push_back({length, 2, 3});
  return train(loss, leaves, shapes, rows_need_grad);
}

/// What a recurrent network learns.
struct CellWeights {
  Tensor in = normal({3, 4}).requires_grad(), state = normal({4, 4}).requires_grad(),
         bias = normal({4}).requires_grad();
  [[nodiscard]] Tensors all() const { return {in, state, bias}; }
  [[nodiscard]] Tensor step(const Tensor& h, const Tensor& x) const {
    return tanh(matmul(x, in) + matmul(h, state) + bias);
  }
  /// The last state, and all of them.
  [[nodiscard]] std::pair<Tensor, Tensor> run(const Tensor& x) const {
    return scan(
        [&](const Tensor& h, const Tensor& row) {
          const Tensor next = step(h, row);
          return std::pair(next, next);
        },
        zeros({2, 4}), x);
  }
  /// The last state, where nobody asks for the others.
  [[nodiscard]] Tensor last(const Tensor& x) const {
    return scan([&](const Tensor& h, const Tensor& row) { return std::pair(step(h, row), row); },
                zeros({2, 4}), x)
        .first;
  }
};

/// One recording serves all lengths but the first, which is taken for a number.
inline void expect_loops(const Trained& done, int loops = 2) {
  EXPECT_EQ(done.recordings, 2);
  EXPECT_EQ(done.loops, 2 * loops);
  EXPECT_GE(done.replays, 3);
}

/// Others of the same numbers; `all()` of both are the leaves.
template <class Weights>
Weights same_as(const Weights& weights) {
  const Weights same;
  const Tensors from = weights.all(), to = same.all();
  const NoGrad no_tape;
  for (std::size_t i = 0; i < from.size(); ++i) Tensor(to[i]).copy_(from[i]);
  return same;
}

inline const std::vector<std::int64_t> kLengths{5, 8, 6, 12, 5, 9, 30};

}  // namespace dyad::exec
