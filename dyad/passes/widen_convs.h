#pragma once

#include <functional>

#include "dyad/ir/graph.h"

namespace dyad::passes {

/// Convolutions (conv, conv_transpose, conv_backward_weight) in f16 and bf16 for which `convolves`
/// says no become casts, a convolution in f32 and a cast back: what their kernels do on such a CPU,
/// with the same bits. The copies are then values of the graph and have a place in the plan of
/// memory. It is meant to run behind fuse() and before recompute(): in kernels with what is around
/// them the narrow values would be gone, which take half the memory where gradients need them, and
/// a copy made for two convolutions would live from the forward pass to the gradient. With as many
/// groups as input channels, or an open number of these, they stay: the kernels that go plane by
/// plane read any dtype.
[[nodiscard]] Ref<GraphImpl> widen_convs(const GraphImpl& graph,
                                         const std::function<bool(DType)>& convolves);

/// Whether widen_convs() replaces this node.
[[nodiscard]] bool is_conv_to_widen(const Node& node, const std::function<bool(DType)>& convolves);

}  // namespace dyad::passes
