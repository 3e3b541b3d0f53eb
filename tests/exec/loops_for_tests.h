#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "dyad/exec/compile.h"
#include "dyad/ir/graph.h"
#include "exec_for_tests.h"

namespace dyad::exec {

/// What calls of a compiled function did.
struct Calls {
  std::int64_t recordings = 0, replays = 0, recorded = 0;
  int loops = 0;  ///< nodes of the first recording's stretches
};

inline Calls calls_of(const auto& c) {
  const Explanation page = c.explain();
  Calls done{static_cast<std::int64_t>(page.recordings.size()), page.replays, page.recorded};
  for (const CompiledGraph& graph : c.graphs())
    done.loops += count_of(*graph.recorded, "while_loop") + count_of(*graph.recorded, "scan");
  return done;
}

/// Calls a function and its compiled form on each of the inputs: the same bits.
inline Calls call(const std::function<Tensors(const Tensors&)>& f,
                  const std::vector<Tensors>& inputs) {
  const auto c = compile_now(f);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensors eager = f(inputs[i]), compiled = c(inputs[i]);
    EXPECT_EQ(eager.size(), compiled.size());
    for (std::size_t k = 0; k < eager.size(); ++k)
      EXPECT_TRUE(same_bits(eager[k], compiled[k])) << "call " << i << ", result " << k;
  }
  return calls_of(c);
}

inline Tensor limit(double of) { return full({}, of); }

/// Calls as `call` does, with the same random numbers for both.
inline Calls call_drawing(const std::function<Tensors(const Tensors&)>& f,
                          const std::vector<Tensors>& inputs) {
  std::uint64_t seed = 0, calls = 0;
  const auto seeded = [&](const Tensors& in) {
    // The recorded call does not run this: what is drawn there goes on from where this one ends.
    Tensors all = f(in);
    all.push_back(uniform({2}));
    return all;
  };
  const auto c = compile_now(std::function<Tensors(const Tensors&)>(seeded));
  for (const Tensors& in : inputs) {
    manual_seed(++seed);
    const Tensors eager = seeded(in);
    manual_seed(seed);
    const Tensors compiled = c(in);
    ++calls;
    for (std::size_t k = 0; k < eager.size(); ++k)
      EXPECT_TRUE(same_bits(eager[k], compiled[k])) << "call " << calls << ", result " << k;
  }
  return calls_of(c);
}

}  // namespace dyad::exec
