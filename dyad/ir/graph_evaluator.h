#pragma once

#include "dyad/core/evaluator.h"
#include "dyad/ir/graph.h"

namespace dyad {

/// Operators called while it is current become nodes of its graph and give symbolic tensors.
/// Concrete tensors met on the way become variables (captures), host numbers become constants,
/// composites stay whole.
class GraphEvaluator : public Evaluator {
 public:
  explicit GraphEvaluator(Ref<GraphImpl> graph) : graph_(std::move(graph)) {}

  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return graph_; }
  /// The value that stands for `tensor` in this graph; GraphError for a tensor of another graph.
  Value value_of(const Tensor& tensor, const OpInfo* user, Loc loc);

  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override;
  Dim size(const Tensor& tensor, int axis) override;
  std::int64_t dim_value(Dim dim, Loc loc) override;
  bool dim_equal(Dim a, Dim b, Loc loc) override;
  bool dim_less(Dim a, Dim b, Loc loc) override;
  double read_double(const Tensor& tensor, Loc loc) override;
  std::int64_t read_int(const Tensor& tensor, Loc loc) override;
  bool read_bool(const Tensor& tensor, Loc loc) override;
  void write(const Tensor& target, const Tensor& value, Loc loc) override;
  /// GraphError that names `gradients`; the exec layer, which may reach the gradient rules,
  /// overrides it.
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override;

 private:
  Ref<GraphImpl> graph_;
};

}  // namespace dyad
