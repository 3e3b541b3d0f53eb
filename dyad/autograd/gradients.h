#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "dyad/core/tensor.h"

namespace dyad {

/// Options of `grad`.
struct GradOptions {
  bool create_graph = false;  ///< the gradients can be differentiated again
  bool retain_graph = false;  ///< keep the tape for another pass (implied by create_graph)
  bool allow_unused =
      false;  ///< an undefined tensor, not a GradError, for an input that outputs do not depend on
  std::vector<Tensor> weights = {};  ///< gradients of the outputs; ones for scalars when empty
};

/// The derivatives of the sum of `outputs` (weighted) by `inputs`, without touching any grad().
/// Works on the tape and, given symbolic tensors, in static graphs, where it appends the gradient's
/// nodes.
[[nodiscard]] std::vector<Tensor> grad(std::span<const Tensor> outputs,
                                       std::span<const Tensor> inputs,
                                       const GradOptions& options = {},
                                       Loc loc = std::source_location::current());
[[nodiscard]] std::vector<Tensor> grad(const Tensor& output, std::span<const Tensor> inputs,
                                       const GradOptions& options = {},
                                       Loc loc = std::source_location::current());
[[nodiscard]] std::vector<Tensor> grad(const Tensor& output, std::initializer_list<Tensor> inputs,
                                       const GradOptions& options = {},
                                       Loc loc = std::source_location::current());

/// The same under the name that static graphs use: `gradients(loss, {w})[0]`.
[[nodiscard]] std::vector<Tensor> gradients(const Tensor& output, std::span<const Tensor> inputs,
                                            Loc loc = std::source_location::current());
[[nodiscard]] std::vector<Tensor> gradients(const Tensor& output,
                                            std::initializer_list<Tensor> inputs,
                                            Loc loc = std::source_location::current());

namespace autograd {

/// Appends to the graph of `outputs` the nodes that compute their derivatives by `inputs` (values
/// of the same graph, or captured variables): undefined where there is no dependence.
std::vector<Tensor> graph_gradients(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                                    std::span<const Tensor> inputs, Loc loc);

}  // namespace autograd
}  // namespace dyad
