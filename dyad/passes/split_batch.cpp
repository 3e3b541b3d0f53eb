#include "dyad/passes/split_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/passes/dce.h"
#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

bool is_constant(Value v) { return &v.node->op() == &kConstantOp; }

std::int64_t bytes_of(const Type& type) {
  return type.shape().numel().number() * static_cast<std::int64_t>(size_of(type.dtype()));
}

/// The operators of a graph that work on each sample of a batch by itself.
class Samples {
 public:
  explicit Samples(const GraphImpl& graph) : graph_(graph) {
    const Value largest = largest_placeholder();
    if (!largest) return;
    count_ = largest.type().shape()[0].number();
    for (const Value v : graph.placeholders()) {
      if (counts_samples(v.type())) known_.insert(v.node);
    }
    for (const auto& node : graph.nodes()) {
      if (!works_on_samples(*node)) continue;
      known_.insert(node.get());
      members_.push_back(node.get());
    }
  }

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// In program order.
  [[nodiscard]] const std::vector<const Node*>& members() const noexcept { return members_; }
  [[nodiscard]] bool has(Value v) const { return v && known_.contains(v.node); }
  [[nodiscard]] bool is_member(const Node& node) const {
    return known_.contains(&node) && &node.op() != &kPlaceholderOp;
  }

  /// What others than members use of them.
  [[nodiscard]] std::vector<Value> results() const {
    std::vector<Value> found;
    std::unordered_set<Value, ValueHash> met;
    const auto use = [&](Value v) {
      if (v && is_member(*v.node) && met.insert(v).second) found.push_back(v);
    };
    for (const auto& node : graph_.nodes()) {
      if (!is_member(*node)) std::ranges::for_each(node->inputs(), use);
    }
    std::ranges::for_each(graph_.outputs(), use);
    return found;
  }

  /// The most bytes of samples that a library call reads and writes.
  [[nodiscard]] std::int64_t most_bytes() const {
    std::int64_t most = 0;
    for (const Node* node : members_) {
      if (node->op().kind != BodyKind::opaque) continue;
      std::int64_t bytes = 0;
      for (const Type& type : node->types()) bytes += bytes_of(type);
      for (const Value v : node->inputs()) bytes += has(v) ? bytes_of(v.type()) : 0;
      most = std::max(most, bytes);
    }
    return most;
  }

 private:
  [[nodiscard]] Value largest_placeholder() const {
    Value largest;
    for (const Value v : graph_.placeholders()) {
      const Type& type = v.type();
      if (!type.is_tensor() || type.rank() < 2 || !type.shape().is_concrete()) continue;
      if (!largest || bytes_of(type) > bytes_of(largest.type())) largest = v;
    }
    return largest;
  }

  [[nodiscard]] bool counts_samples(const Type& type) const {
    return type.is_tensor() && type.rank() >= 1 && type.shape().is_concrete() &&
           type.shape()[0].number() == count_;
  }

  [[nodiscard]] bool works_on_samples(const Node& node) const {
    const auto inputs = node.inputs();
    if (node.op().effect != Effect::pure || !node.regions().empty() || node.types().empty() ||
        !std::ranges::all_of(node.types(), [&](const Type& t) { return counts_samples(t); }) ||
        std::ranges::none_of(inputs, [&](Value v) { return has(v); }) ||
        !std::ranges::all_of(inputs, [&](Value v) { return !v || has(v) || is_constant(v); })) {
      return false;
    }
    switch (node.op().kind) {
      case BodyKind::pointwise:
        return std::ranges::all_of(inputs, [&](Value v) { return !v || lies_alike(v, node); });
      case BodyKind::reduction: {
        const Ints axes = node.op().reduced_axes(node.attrs().data(), inputs[0].type().rank());
        return inputs.size() == 1 && std::ranges::find(axes, 0) == axes.end();
      }
      case BodyKind::view:
        return node.is("reshape") ||
               (node.is("permute") && ints_attr(node, "axes").value()[0] == 0);
      case BodyKind::opaque:
        return works_by_row(node);
      case BodyKind::composite:
      case BodyKind::control:
      case BodyKind::structural:
        return false;
    }
    return false;
  }

  /// Whether an input of a pointwise operator is a sample for each sample, or the same for all.
  [[nodiscard]] bool lies_alike(Value v, const Node& node) const {
    const int rank = node.types()[0].rank();
    if (has(v)) return v.type().rank() == rank;
    return v.type().rank() < rank || v.type().shape()[0].same_as(1);
  }

  /// What the rows of opaque operators say.
  [[nodiscard]] bool works_by_row(const Node& node) const {
    const auto inputs = node.inputs();
    const auto others_are_constant = [&] {
      return has(inputs[0]) &&
             std::ranges::none_of(inputs.subspan(1), [&](Value v) { return has(v); });
    };
    switch (node.op().batching) {
      case Batching::samples:
        return others_are_constant();
      case Batching::all_samples:
        return std::ranges::all_of(inputs, [&](Value v) { return !v || has(v); });
      case Batching::leading:
        return node.is("matmul") && others_are_constant() && inputs[1].type().rank() == 2 &&
               (inputs[0].type().rank() > 2 || !node.attrs_as<ops::MatmulAttrs>().transpose_a);
      case Batching::axes:
      case Batching::first:
      case Batching::none:
        return false;
    }
    return false;
  }

  const GraphImpl& graph_;
  std::int64_t count_ = 0;
  std::unordered_set<const Node*> known_;  // members, and the placeholders before them
  std::vector<const Node*> members_;
};

/// How many samples a part has; nothing where the batch stays whole.
std::optional<std::int64_t> samples_of_part(const Samples& samples, const BatchLimits& limits) {
  const std::int64_t most = samples.most_bytes(), count = samples.count();
  if (most <= limits.much) return std::nullopt;
  std::int64_t left = 0;
  for (const Value v : samples.results()) left += bytes_of(v.type());
  if (left > most / 4) return std::nullopt;
  std::int64_t part = std::max<std::int64_t>(1, count / ((most + limits.part - 1) / limits.part));
  while (count % part != 0) --part;
  const bool is_far_less = most / count * part < limits.part / 4;
  return part == count || is_far_less ? std::nullopt : std::optional(part);
}

/// The graph of one part.
class Part {
 public:
  explicit Part(std::int64_t count) : count_(count), graph_(make_ref<GraphImpl>()) {}

  void add(const Node& node) {
    std::vector<Value> inputs;
    for (const Value v : node.inputs()) inputs.push_back(v ? inside(v) : v);
    Node* const made = graph_->append_checked(node.op(), attrs_of(node), inputs, node.loc());
    for (int i = 0; i < static_cast<int>(node.types().size()); ++i) {
      inner_[{const_cast<Node*>(&node), i}] = made->output(i);
    }
  }

  [[nodiscard]] Ref<GraphImpl> finish(std::span<const Value> results) {
    for (const Value v : results) graph_->outputs().push_back(inner_.at(v));
    return graph_;
  }
  /// What its placeholders stand for, whole.
  [[nodiscard]] const std::vector<Value>& inputs() const noexcept { return inputs_; }

 private:
  [[nodiscard]] Value inside(Value v) {
    const auto found = inner_.find(v);
    if (found != inner_.end()) return found->second;
    if (is_constant(v)) return inner_[v] = graph_->append_copy(*v.node, {})->output();
    Shape shape = v.type().shape();
    shape[0] = count_;
    const std::string name = fmt::format("in{}", inputs_.size());
    inputs_.push_back(v);
    return inner_[v] = graph_->add_placeholder(name, {v.type().dtype(), shape}, v.node->loc());
  }

  [[nodiscard]] Ref<Attrs> attrs_of(const Node& node) const {
    if (!node.is("reshape")) return node.shared_attrs();
    Shape shape = node.types()[0].shape();
    shape[0] = count_;
    return with_attr(node, "shape", shape);
  }

  std::int64_t count_ = 0;
  Ref<GraphImpl> graph_;
  std::vector<Value> inputs_;
  std::unordered_map<Value, Value, ValueHash> inner_;
};

}  // namespace

Ref<GraphImpl> split_batch(const GraphImpl& graph, const BatchLimits& limits) {
  const Samples samples(graph);
  const auto count = samples_of_part(samples, limits);
  if (!count) return clone(graph);

  Part part(*count);
  for (const Node* node : samples.members()) part.add(*node);
  const std::vector<Value> results = samples.results();
  const Ref<GraphImpl> region = part.finish(results);

  Rewriter rewriter(graph);
  std::vector<Value> inputs;
  Types types;
  for (const Value v : graph.placeholders()) rewriter.copy(*v.node);
  for (const Value v : part.inputs()) inputs.push_back(rewriter.at(v));
  for (const Value v : results) types.push_back(v.type());
  const PartsAttrs attrs{*count};
  Node* const parts =
      rewriter.to()->append(kPartsOp, Attrs::copy_of(attrs_info<PartsAttrs>, &attrs), inputs,
                            std::move(types), samples.members().front()->loc());
  parts->add_region(region);
  for (std::size_t i = 0; i < results.size(); ++i) {
    rewriter.set(results[i], parts->output(static_cast<int>(i)));
  }
  for (const auto& node : graph.nodes()) {
    const bool is_there = &node->op() == &kPlaceholderOp || samples.is_member(*node);
    if (!is_there) rewriter.copy(*node);
  }
  const Ref<GraphImpl> result = rewriter.finish();
  dce(*result);  // constants that the parts alone use
  return result;
}

}  // namespace dyad::passes
