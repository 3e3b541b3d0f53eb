#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "dyad/exec/control_flow_region.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/sum_gradient.h"

namespace dyad::exec {

[[nodiscard]] Tensor zeros_of(const Type& type, Loc loc);
/// A sum to begin with: what is added to it stays as it is, to the sign of a 0.
[[nodiscard]] Tensor nothing_of(const Type& type, Loc loc);
/// The same for a loop of so many steps; without any it is what the sum remains, zeros.
[[nodiscard]] Tensor nothing_of(const Type& type, Dim steps, Loc loc);

/// The types of the placeholders begin..end-1.
[[nodiscard]] Types parameter_types(const GraphImpl& region, std::size_t begin, std::size_t end);
/// Positions of the differentiable ones among the outputs begin..end-1 of a region.
[[nodiscard]] std::vector<std::size_t> differentiable_outputs(const GraphImpl& region,
                                                              std::size_t begin, std::size_t end);

template <class T>
void append_all(std::vector<T>& to, std::span<const T> values) {
  to.insert(to.end(), values.begin(), values.end());
}

/// A control node while its gradient is written into the same graph.
class ControlNode {
 public:
  explicit ControlNode(Gradient& g);

  [[nodiscard]] Tensor input(std::size_t i) const;
  [[nodiscard]] std::vector<Tensor> inputs(std::size_t begin, std::size_t end) const;
  [[nodiscard]] const Type& input_type(std::size_t i) const { return node_.inputs()[i].type(); }
  [[nodiscard]] std::size_t input_count() const { return node_.inputs().size(); }
  [[nodiscard]] const GraphImpl& region(std::size_t i) const { return *node_.regions()[i]; }
  [[nodiscard]] const Node& node() const { return node_; }

  /// Which of the inputs begin..end-1 want a gradient.
  [[nodiscard]] std::vector<std::size_t> wanted(std::size_t begin, std::size_t end) const;
  /// The gradient that came back to an output, zeros where none did.
  [[nodiscard]] Tensor grad(std::size_t output) const { return g_.grad(static_cast<int>(output)); }
  [[nodiscard]] bool has_grad(std::size_t output) const {
    return g_.has_grad(static_cast<int>(output));
  }
  void set(std::size_t input, Tensor gradient) {
    g_.set(static_cast<int>(input), std::move(gradient));
  }
  /// Adds to an input's gradient now, not after all that the rule sets.
  void add_to(std::size_t input, const Tensor& gradient);
  /// Where the addends of an input's gradient begin: with what has come to it until now; undefined
  /// where nothing has.
  [[nodiscard]] Tensor begin_sum(std::size_t input) const;
  void end_sum(std::size_t input, Tensor sum);

  std::vector<Tensor> append(const OpInfo& op, Ref<Attrs> attrs, std::span<const Tensor> inputs,
                             std::vector<Ref<GraphImpl>> regions, Types types);

 private:
  [[nodiscard]] bool takes_sum(std::size_t input) const;

  Gradient& g_;
  SumGradient& sums_;
  Node& node_;
  GraphEvaluator& outer_;
};

/// Builds the graph that computes a region's gradient: the region once more, then its rules.
class GradientRegion {
 public:
  explicit GradientRegion(Loc loc) : graph_(make_ref<GraphImpl>()), evaluator_(graph_), loc_(loc) {}

  Value add_parameter(const Type& type);
  /// One for the gradient by a value of type `of`.
  Value add_weight(const Type& of) { return add_parameter(grad_type(of)); }
  std::vector<Value> add_parameters(std::span<const Type> types);
  std::vector<Value> inline_forward(const GraphImpl& region, std::span<const Value> arguments) {
    return inline_region(region, graph_, arguments);
  }
  /// Gives each weight the shape of what it is for, whose sizes data may tell that decide them in
  /// this region alone.
  void shape_as(std::vector<Value>& weights, std::span<const Value> of);
  /// The derivatives of `of` weighted by `weights`, by the values `by`; undefined where there are
  /// none.
  [[nodiscard]] std::vector<Tensor> gradients(std::span<const Value> of,
                                              std::span<const Value> weights,
                                              std::span<const Value> by) const;
  /// The same with zeros where there are none.
  [[nodiscard]] std::vector<Tensor> all_gradients(std::span<const Value> of,
                                                  std::span<const Value> weights,
                                                  std::span<const Value> by);
  void add_outputs(std::span<const Tensor> outputs);
  [[nodiscard]] std::vector<Tensor> tensors(std::span<const Value> values) const;
  [[nodiscard]] GraphEvaluator& evaluator() noexcept { return evaluator_; }
  [[nodiscard]] const Ref<GraphImpl>& graph() const noexcept { return graph_; }

 private:
  Ref<GraphImpl> graph_;
  GraphEvaluator evaluator_;
  Loc loc_;
};

}  // namespace dyad::exec
