#pragma once

#include <unordered_map>
#include <vector>

#include "dyad/ir/graph.h"

namespace dyad::exec {

/// A value of a graph that was recorded for one sample: the same for all, or, with the samples
/// along its first axis, one for each.
struct Batched {
  Tensor tensor;
  bool batched = false;
  /// Of offsets of random numbers, `apart` from sample to sample: the first sample's.
  Tensor first = {};
  Dim apart = 0;
};

/// Carries out a graph that was recorded for one sample for `size` of them, by the current
/// evaluator.
class Batch {
 public:
  explicit Batch(Dim size) : size_(size) {}

  /// What the graph's outputs are, its placeholders being `inputs`.
  std::vector<Batched> run(const GraphImpl& graph, std::span<const Batched> inputs);

 private:
  using Inputs = std::vector<Batched>;
  using Outputs = std::vector<Batched>;

  Outputs apply(const Node& node, const Inputs& inputs);
  Outputs draw_keys(const Node& node);
  /// The numbers of all samples where they follow one another.
  bool try_drawn(const Node& node, const Inputs& inputs, Outputs& outputs);
  /// Also for products, whose axes in front broadcast.
  Outputs pointwise(const Node& node, const Inputs& inputs);
  /// Whether the row takes these inputs to one result for each sample.
  [[nodiscard]] bool gives_batches(const Node& node, std::span<const Tensor> inputs) const;
  /// With attributes and shapes moved on by an axis, where the row confirms that this is meant.
  bool try_moved(const Node& node, const Inputs& inputs, Outputs& outputs);
  /// Weights of their own for each sample: products of as many matrices.
  Outputs linear(const Node& node, const Inputs& inputs);
  Outputs with_new_axis(const Node& node, const Inputs& inputs);
  Outputs with_more_samples(const Node& node, const Inputs& inputs);
  Outputs by_parts(const Node& node, const Inputs& inputs);
  Outputs one_by_one(const Node& node, const Inputs& inputs);
  Outputs control(const Node& node, const Inputs& inputs);
  Outputs cond(const Node& node, const Inputs& inputs);
  Outputs while_loop(const Node& node, const Inputs& inputs);
  Outputs scan(const Node& node, const Inputs& inputs);
  /// The graph's outputs for each sample, its first inputs being `first`, the others, and which
  /// ones are batched, as `like` says.
  std::vector<Tensor> run_for_each(const GraphImpl& graph, std::span<const Tensor> first,
                                   std::span<const Batched> like);
  static Outputs all_batched(std::vector<Tensor> tensors);
  [[nodiscard]] Tensor for_each(const Batched& value) const;

  Dim size_;
};

/// `x`, of `rank` axes beside the batch in front, with axes of size 1 behind the batch to make up
/// `wanted`.
[[nodiscard]] Tensor padded(const Tensor& x, int rank, int wanted);

}  // namespace dyad::exec
