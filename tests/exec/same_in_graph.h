#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"

namespace dyad::exec {

/// Gives results first; gradients of results[0] are taken by the inputs.
using Model = std::function<std::vector<Tensor>(const std::vector<Tensor>& in)>;

/// That results and first gradients in a static graph are those of eager mode, bit for bit, with
/// the same random numbers.
inline void expect_same_in_graph(const Model& model, const std::vector<Tensor>& inputs) {
  using Tensors = std::vector<Tensor>;
  Tensors leaves;
  for (const Tensor& x : inputs) {
    leaves.push_back(clone(x));
    if (is_floating(x.dtype())) leaves.back().requires_grad();
  }
  Tensors by;
  for (const Tensor& leaf : leaves) {
    if (is_floating(leaf.dtype())) by.push_back(leaf);
  }
  manual_seed(9);
  Tensors expected = model(leaves);
  GradOptions options;
  options.allow_unused = true;
  const Tensors eager_grads = grad({expected.data(), 1}, by, options);

  Graph g;
  std::vector<Feed> feeds;
  const auto [results, grads] = g.define([&] {
    Tensors in, by_symbols;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      in.push_back(placeholder("x" + std::to_string(i), inputs[i].dtype(), inputs[i].shape()));
      feeds.emplace_back("x" + std::to_string(i), inputs[i]);
      if (is_floating(inputs[i].dtype())) by_symbols.push_back(in.back());
    }
    const Tensors out = model(in);
    return std::pair(out, gradients(out[0], by_symbols));
  });
  g.verify();
  EXPECT_EQ(Graph::parse(g.to_string()).to_string(), g.to_string());
  Session s(g);
  manual_seed(9);
  const Tensors given = s.run(results, feeds);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bits(given[i], expected[i].detach())) << "result " << i;
  }
  for (std::size_t i = 0; i < by.size(); ++i) {
    const Tensor like = eager_grads[i].defined() ? eager_grads[i] : zeros_like(by[i].detach());
    ASSERT_TRUE(grads[i].defined()) << "gradient " << i;
    manual_seed(9);
    EXPECT_TRUE(same_bits(s.run({grads[i]}, feeds)[0], like)) << "gradient " << i << "\n"
                                                              << g.to_string();
  }
}

}  // namespace dyad::exec
