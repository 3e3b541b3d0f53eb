#include "dyad/passes/block_channels.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/views.h"
#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/epilogue_ops.h"
#include "dyad/passes/image_chains.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

/// An image [..., c, h, w] seen in blocks, [..., c / 8, h, w, 8].
Tensor seen_in_blocks(const Tensor& image) {
  Shape split = image.shape();
  const std::size_t channel = split.size() - 3;
  const Shape spatial{split[channel + 1], split[channel + 2]};
  split[channel] = split[channel] / kChannelBlock;
  split[channel + 1] = kChannelBlock;
  split[channel + 2] = spatial[0];
  split.push_back(spatial[1]);
  Ints axes;
  for (std::size_t i = 0; i < split.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  std::rotate(axes.begin() + static_cast<std::ptrdiff_t>(channel) + 1,
              axes.begin() + static_cast<std::ptrdiff_t>(channel) + 2, axes.end());
  return permute(reshape(image, split), axes);
}

class Writer {
 public:
  explicit Writer(const GraphImpl& graph, std::unordered_set<const Node*> chosen)
      : graph_(graph), chosen_(std::move(chosen)), rewriter_(graph), evaluator_(rewriter_.to()) {
    for (const auto& node : graph.nodes()) {
      for (const Value v : node->inputs()) {
        if (v) readers_[v].push_back(node.get());
      }
    }
  }

  Ref<GraphImpl> run() {
    const Evaluator::Scope current(evaluator_);
    for (const auto& node : graph_.nodes()) {
      const LocScope attributed(node->loc());
      if (chosen_.contains(node.get())) {
        write(*node);
      } else {
        for (const Value v : node->inputs()) static_cast<void>(plain(v));
        rewriter_.copy(*node);
      }
    }
    for (const Value v : graph_.outputs()) static_cast<void>(plain(v));
    return rewriter_.finish();
  }

 private:
  [[nodiscard]] Tensor tensor(Value now) const { return symbolic_tensor(rewriter_.to(), now); }
  [[nodiscard]] Value value(const Tensor& t) { return evaluator_.value_of(t, nullptr, Loc()); }

  /// An old value as it was, in the new graph.
  Value plain(Value old) {
    const auto away = away_.find(old);
    if (away != away_.end()) {
      const Value left = value(left_blocks(tensor(away->second), old));
      rewriter_.set(old, left);
      away_.erase(away);
    }
    return rewriter_.at(old);
  }

  /// The image behind a value in blocks: row-major where only its elements in order matter, else
  /// with channels side by side, as convolutions leave it.
  Tensor left_blocks(const Tensor& blocks, Value old) {
    const Shape& s = old.type().shape();
    const bool is_point = s[2].same_as(1) && s[3].same_as(1);
    if (is_point) return reshape(blocks, s);
    if (std::ranges::all_of(readers_[old], [&](const Node* reader) {
          return chosen_.contains(reader) || reader->is("reshape");
        })) {
      return reshape(permute(blocks, {0, 1, 4, 2, 3}), s);
    }
    return permute(reshape(permute(blocks, {0, 2, 3, 1, 4}), {s[0], s[2], s[3], s[1]}),
                   {0, 3, 1, 2});
  }

  /// An old image in blocks.
  Value in_blocks(Value old) {
    const auto found = blocks_.find(old);
    if (found != blocks_.end()) return found->second;
    const Shape& s = old.type().shape();
    const Dim blocks = s[1] / kChannelBlock;
    // A view of one axis less is what only a copy can have.
    const Tensor rows =
        reshape(seen_in_blocks(tensor(plain(old))), {s[0], blocks, s[2] * s[3] * kChannelBlock});
    const Value turned = value(reshape(rows, {s[0], blocks, s[2], s[3], kChannelBlock}));
    blocks_.emplace(old, turned);
    return turned;
  }

  /// What a pointwise operator reads beside images.
  Value numbers(Value old) {
    const auto found = blocks_.find(old);
    if (found != blocks_.end()) return found->second;
    const Value now = plain(old);
    const Shape& shape = old.type().shape();
    if (std::ranges::all_of(shape, [](Dim size) { return size.same_as(1); })) return now;
    const bool has_channels = shape.rank() >= 3 && !shape[shape.size() - 3].same_as(1);
    return value(has_channels ? seen_in_blocks(tensor(now)) : unsqueeze(tensor(now), -1));
  }

  void write(const Node& node) {
    if (node.is("conv") || node.is("conv_epilogue")) return convolve(node);
    if (node.is("max_pool") || node.is("avg_pool")) return pool(node);
    if (node.op().kind == BodyKind::reduction) return reduce(node);
    set(node, *append(node, node.shared_attrs(), operands(node)));
  }

  [[nodiscard]] std::vector<Value> operands(const Node& node) {
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value old = node.inputs()[i];
      switch (block_operand(node, i)) {
        case BlockOperand::plain:
          inputs.push_back(plain(old));
          break;
        case BlockOperand::image:
          inputs.push_back(blocks_.contains(old) ? blocks_.at(old) : plain(old));
          break;
        case BlockOperand::blocks:
          inputs.push_back(in_blocks(old));
          break;
        case BlockOperand::numbers:
          inputs.push_back(numbers(old));
          break;
      }
    }
    return inputs;
  }

  Node* append(const Node& node, Ref<Attrs> attrs, const std::vector<Value>& inputs) {
    return rewriter_.to()->append_checked(node.op(), std::move(attrs), inputs, node.loc());
  }

  /// From now on a value in blocks stands for the result of a node.
  void set(const Node& node, Node& made) { set(node, made.output()); }
  void set(const Node& node, Value now) {
    const Value old = const_cast<Node&>(node).output();
    blocks_[old] = away_[old] = now;
  }

  void convolve(const Node& node) {
    const ops::ConvEpilogueAttrs attrs = convolution_of(node);
    std::vector<Value> inputs = operands(node);
    inputs.resize(4);
    set(node, *rewriter_.to()->append_checked(
                  kConvBlocksOp, Attrs::copy_of(attrs_info<ops::ConvEpilogueAttrs>, &attrs),
                  std::move(inputs), node.loc()));
  }

  /// Blocks are images of eight channels, which come last.
  void pool(const Node& node) {
    const Shape &s = node.inputs()[0].type().shape(), &out = node.types()[0].shape();
    const Dim blocks = s[1] / kChannelBlock;
    const Tensor images = permute(
        reshape(tensor(in_blocks(node.inputs()[0])), {s[0] * blocks, s[2], s[3], kChannelBlock}),
        {0, 3, 1, 2});
    Node* const pooled = append(node, node.shared_attrs(), {value(images)});
    set(node, value(reshape(permute(tensor(pooled->output()), {0, 2, 3, 1}),
                            {out[0], blocks, out[2], out[3], kChannelBlock})));
  }

  void reduce(const Node& node) {
    Node* const reduced = append(node, with_attr(node, "axes", Ints{2, 3}), operands(node));
    if (node.types()[0].rank() == 4) return set(node, *reduced);
    rewriter_.set(const_cast<Node&>(node).output(),
                  value(reshape(tensor(reduced->output()), node.types()[0].shape())));
  }

  const GraphImpl& graph_;
  std::unordered_set<const Node*> chosen_;
  Rewriter rewriter_;
  GraphEvaluator evaluator_;
  std::unordered_map<Value, std::vector<const Node*>, ValueHash> readers_;
  std::unordered_map<Value, Value, ValueHash> blocks_;  // old images in blocks
  std::unordered_map<Value, Value, ValueHash> away_;    // those of them that lie nowhere else yet
};

}  // namespace

Ref<GraphImpl> block_channels(const GraphImpl& graph, const SymbolMap& sizes) {
  std::unordered_set<const Node*> chosen = nodes_in_blocks(graph, sizes);
  return chosen.empty() ? clone(graph) : Writer(graph, std::move(chosen)).run();
}

}  // namespace dyad::passes
