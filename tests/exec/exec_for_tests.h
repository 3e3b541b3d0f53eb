#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/executable.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/ops.h"
#include "dyad/ops/registry.h"
#include "dyad/runtime/threads.h"

namespace dyad::exec {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(std::span<const Tensor>)>;

/// A test that may set the number of threads.
class RestoresThreads : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(threads_); }

 private:
  int threads_ = get_num_threads();
};

/// `t`, in a graph as a literal.
inline Tensor literal(const Tensor& t) {
  auto* const evaluator = dynamic_cast<GraphEvaluator*>(&Evaluator::current());
  if (evaluator == nullptr) return t;
  return symbolic_tensor(evaluator->graph(), evaluator->graph()->add_constant(t, Loc()));
}

/// How many nodes of an operator a graph has.
inline int count_of(const GraphImpl& graph, std::string_view op) {
  return static_cast<int>(
      std::ranges::count_if(graph.nodes(), [&](const auto& node) { return node->is(op); }));
}

/// The graph of `fn` on placeholders x0, x1... of these types.
inline Ref<GraphImpl> record(const Function& fn, std::span<const Type> types) {
  GraphEvaluator evaluator(make_ref<GraphImpl>());
  const Evaluator::Scope current(evaluator);
  Tensors inputs;
  for (const Type& type : types) {
    const std::string name = "x" + std::to_string(inputs.size());
    inputs.push_back(
        symbolic_tensor(evaluator.graph(), evaluator.graph()->add_placeholder(name, type, Loc())));
  }
  for (const Tensor& output : fn(inputs)) {
    evaluator.graph()->outputs().push_back(evaluator.value_of(output, nullptr, Loc()));
  }
  verify(*evaluator.graph());
  return evaluator.graph();
}

inline Types types_of(std::span<const Tensor> tensors) {
  Types types;
  for (const Tensor& t : tensors) types.push_back(type_of(t));
  return types;
}

/// That two concrete tensors have the same type and bits.
inline ::testing::AssertionResult same_bits(const Tensor& a, const Tensor& b) {
  if (!type_of(a).same_as(type_of(b))) {
    return ::testing::AssertionFailure() << type_string(a) << " and " << type_string(b);
  }
  const std::vector<std::byte> bits_a = packed_elements(a), bits_b = packed_elements(b);
  if (bits_a == bits_b) return ::testing::AssertionSuccess();
  const std::size_t width = size_of(a.dtype());
  std::size_t at = 0;
  while (std::memcmp(&bits_a[at * width], &bits_b[at * width], width) == 0) ++at;
  return ::testing::AssertionFailure() << type_string(a) << " differ first at element " << at
                                       << ": " << element_text(a.dtype(), &bits_a[at * width])
                                       << " and " << element_text(b.dtype(), &bits_b[at * width]);
}

/// Compiled by the call that needs it.
template <class F>
auto compile_now(F function, Loc loc = std::source_location::current()) {
  return compile(std::move(function), {.background = Background::never}, loc);
}

/// -1, 0, 1... in that shape.
inline Tensor count_up(const Shape& shape) {
  const std::int64_t n = shape.numel().number();
  return reshape(arange(n).to(f32) - 1, shape);
}

/// Calls `f` and its compiled form on the inputs, one after the other; how many calls were
/// replayed.
inline std::int64_t expect_replays_as_eagerly(const std::function<Tensors(Tensor)>& f,
                                              const Tensors& inputs) {
  const auto c = compile_now(f);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensors eager = f(inputs[i].clone()), compiled = c(inputs[i].clone());
    EXPECT_EQ(eager.size(), compiled.size());
    for (std::size_t k = 0; k < eager.size(); ++k)
      EXPECT_TRUE(same_bits(eager[k], compiled[k])) << "call " << i << ", result " << k;
  }
  return c.explain().replays;
}

/// The elements of an f32 tensor, to be compared exactly.
inline std::vector<float> bits(const Tensor& x) { return x.detach().to_vector<float>(); }

inline void expect_near(const Tensor& got, const Tensor& want, double tolerance = 1e-12) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_TRUE(got.shape().same_as(want.shape())) << type_string(got) << " " << type_string(want);
  const auto a = got.to(f64).to_vector<double>(), b = want.to(f64).to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << i;
  }
}

/// That the graph of `fn`, with fused kernels and rows and without, gives what eager execution
/// gives on these inputs, at 1 thread and at 2. `types` are those of the placeholders (by default
/// the inputs').
inline void expect_as_eager(const Function& fn, const Tensors& inputs, Types types = {}) {
  if (types.empty()) types = types_of(inputs);
  const Ref<GraphImpl> graph = record(fn, types);
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    const Tensors expected = fn(inputs);
    const std::vector<std::vector<std::string>> choices{
        {}, {"fuse"}, {"fuse_rows"}, {"fuse", "fuse_rows"}};
    for (const std::vector<std::string>& off : choices) {
      Executable executable(graph, {.passes_off = off});
      for (int run = 0; run < 2; ++run) {
        const Tensors given = executable.run(inputs);
        ASSERT_EQ(given.size(), expected.size());
        for (std::size_t i = 0; i < given.size(); ++i) {
          EXPECT_TRUE(same_bits(given[i], expected[i]))
              << "output " << i << ", threads " << threads << ", passes off "
              << ::testing::PrintToString(off) << ", run " << run << "\n"
              << to_string(executable.lowered());
        }
      }
    }
  }
}

}  // namespace dyad::exec
