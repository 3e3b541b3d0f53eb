#pragma once

#include <functional>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// The dtypes that the CPU's library calls have. Without a function: all.
struct LibraryDTypes {
  std::function<bool(DType)> convolves = {}, multiplies = {};
};

/// Convolutions (conv, conv_transpose, conv_backward_weight) and products (matmul, linear) in f16
/// and bf16 that the CPU does not have become casts, one in f32 and a cast back: what their kernels
/// do on such a CPU, with the same bits. The copies are then values of the graph and have a place
/// in the plan of memory. It is meant to run behind fuse() and before recompute(): in kernels with
/// what is around them the narrow values would be gone, which take half the memory where gradients
/// need them, and a copy made for two calls would live from the forward pass to the gradient.
/// Convolutions with as many groups as input channels, or an open number of these, stay: the
/// kernels that go plane by plane read any dtype.
[[nodiscard]] Ref<GraphImpl> widen_calls(const GraphImpl& graph, const LibraryDTypes& dtypes);

/// Whether widen_calls() replaces this node.
[[nodiscard]] bool is_call_to_widen(const Node& node, const LibraryDTypes& dtypes);

}  // namespace dyad::passes
