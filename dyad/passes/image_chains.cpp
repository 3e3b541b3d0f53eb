#include "dyad/passes/image_chains.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/node_cost.h"

namespace dyad::passes {
namespace {

// In operations of the library's convolutions in blocks (a Zen 3 core does 75 to 90 in a
// nanosecond):
/// what an element costs that is turned from one layout into the other, or added by a pass of its
/// own;
constexpr double kTurned = 25;
/// what each operation of a convolution takes longer where channels come last; with one tap, or one
/// channel a group, it takes less;
constexpr double kSlower = 0.15, kFaster = 0.1;
/// and what it takes less by Winograd's way, which small batches go in blocks alone.
constexpr double kWinograd = 0.4;

bool is_convolution(const Node& node) { return node.is("conv") || node.is("conv_epilogue"); }

bool is_f32(Value v) { return !v || (v.type().is_tensor() && v.type().dtype() == DType::f32); }

/// Whether the library convolves images of so many channels that lie [n, c, h, w] into blocks.
bool takes_rows(Dim channels) { return channels.same_as(3); }

/// Whether the runtime computes a convolution by Winograd's way (runtime/cpu/winograd.h).
bool suits_winograd(const Node& node) {
  constexpr std::int64_t kChannels = 32;
  const auto windows = convolution_of(node);
  const Value weight = node.inputs()[1];
  const auto sizes = weight.type().shape().numbers();
  return &weight.node->op() == &kConstantOp && sizes[2] == 3 && sizes[3] == 3 &&
         windows.stride == Ints{1, 1} && windows.dilation == Ints{1, 1} && windows.groups == 1 &&
         std::min(sizes[0], sizes[1]) >= kChannels && sizes[0] % 16 == 0;
}

bool convolves_in_blocks(const Node& node) {
  if (!is_convolution(node) || !std::ranges::all_of(node.inputs(), is_f32)) return false;
  const Type &x = node.inputs()[0].type(), &weight = node.inputs()[1].type();
  if (x.rank() != 4 || !weight.shape().is_concrete() || !divides_into_blocks(node.types()[0])) {
    return false;
  }
  const std::int64_t groups = convolution_of(node).groups;
  if (groups == 1) return takes_rows(x.shape()[1]) || divides_into_blocks(x);
  const auto sizes = weight.shape().numbers();
  return divides_into_blocks(x) && groups == sizes[0] && sizes[1] == 1;
}

/// A reduction over the positions of an image.
bool is_over_positions(const Node& node) {
  if (node.op().kind != BodyKind::reduction || node.inputs().size() != 1 ||
      node.types().size() != 1 || !ints_attr(node, "axes")) {
    return false;
  }
  const Ints axes = node.op().reduced_axes(node.attrs().data(), node.inputs()[0].type().rank());
  return axes == Ints{2, 3};
}

/// Whether an operand of a pointwise operator on images of so many channels can be read in blocks.
bool spreads_over(const Type& type, Dim channels) {
  const int rank = type.rank();
  if (rank < 3) return true;
  const Dim own = type.shape()[rank - 3];
  return rank <= 4 && (own.same_as(1) || own.same_as(channels));
}

class Chains {
 public:
  Chains(const GraphImpl& graph, const SymbolMap& sizes) : graph_(graph), sizes_(sizes) {}

  std::unordered_set<const Node*> find() {
    for (const auto& node : graph_.nodes()) {
      if (joins(*node)) join(*node);
    }
    for (const auto& node : graph_.nodes()) {
      const auto member = chain_of_.find(node.get());
      if (member != chain_of_.end() && is_convolution(*node)) {
        worth_[root(member->second)] += gain(*node);
      }
      for (std::size_t i = 0; i < node->inputs().size(); ++i) count_turned(*node, i);
    }
    for (const Value v : graph_.outputs()) leaves(v);
    std::unordered_set<const Node*> found;
    for (const auto& [node, chain] : chain_of_) {
      if (worth_[root(chain)] > 0) found.insert(node);
    }
    return found;
  }

 private:
  [[nodiscard]] bool is_in_blocks(Value v) const {
    return v && chain_of_.contains(v.node) && divides_into_blocks(v.type());
  }

  [[nodiscard]] bool joins(const Node& node) const {
    if (convolves_in_blocks(node)) return true;
    const auto inputs = node.inputs();
    if (inputs.empty()) return false;
    if (node.is("max_pool") || node.is("avg_pool") || is_over_positions(node)) {
      return is_in_blocks(inputs[0]);
    }
    if (node.types().size() != 1 || !divides_into_blocks(node.types()[0])) return false;
    if (node.is("concat")) {
      return int_attr(node, "axis") == 1 &&
             std::ranges::all_of(inputs, [&](Value v) { return is_in_blocks(v); });
    }
    if (node.op().kind != BodyKind::pointwise || node.op().effect != Effect::pure) return false;
    const Shape& shape = node.types()[0].shape();
    return std::ranges::any_of(
               inputs,
               [&](Value v) { return is_in_blocks(v) && v.type().shape().same_as(shape); }) &&
           std::ranges::all_of(inputs,
                               [&](Value v) { return v && spreads_over(v.type(), shape[1]); });
  }

  void join(const Node& node) {
    const std::size_t chain = parents_.size();
    parents_.push_back(chain);
    chain_of_.emplace(&node, chain);
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value v = node.inputs()[i];
      if (block_operand(node, i) == BlockOperand::plain || !is_in_blocks(v)) continue;
      parents_[root(chain_of_.at(v.node))] = root(chain);
    }
  }

  std::size_t root(std::size_t chain) {
    while (parents_[chain] != chain) chain = parents_[chain] = parents_[parents_[chain]];
    return chain;
  }

  /// What a convolution gains in blocks. Alone it would turn its images itself where that pays.
  double gain(const Node& node) {
    const auto sizes = node.inputs()[1].type().shape().numbers();
    const double read = elements(node.inputs()[0].type()), written = elements(node.types()[0]);
    const double operations = 2 * written * static_cast<double>(sizes[1] * sizes[2] * sizes[3]);
    const double added = node.inputs().size() > 3 && node.inputs()[3] ? kTurned * written : 0;
    if (sizes[2] * sizes[3] == 1 || convolution_of(node).groups > 1) {
      return added - kFaster * operations;
    }
    if (takes_rows(node.inputs()[0].type().shape()[1])) return added;
    return added + std::min(kTurned * (read + written), kSlower * operations) +
           (suits_winograd(node) ? kWinograd * operations : 0);
  }

  /// Counts what an input costs that lies otherwise than the node reads it.
  void count_turned(const Node& node, std::size_t input) {
    const Value v = node.inputs()[input];
    const auto member = chain_of_.find(&node);
    const bool reads_blocks =
        member != chain_of_.end() && block_operand(node, input) != BlockOperand::plain;
    if (!v || reads_blocks == is_in_blocks(v)) return;
    if (!reads_blocks) return leaves(v);
    // Winograd's way reads images as they lie.
    if (is_convolution(node) && input == 0 && suits_winograd(node)) return;
    const std::size_t chain = root(member->second);
    if (divides_into_blocks(v.type()) && turned_.emplace(v.node, v.index, chain).second) {
      worth_[chain] -= turning(v);
    }
  }

  /// The same for an image that is read outside.
  void leaves(Value v) {
    if (!is_in_blocks(v)) return;
    const std::size_t chain = root(chain_of_.at(v.node));
    if (turned_.emplace(v.node, v.index, chain).second) worth_[chain] -= turning(v);
  }

  double turning(Value v) {
    const Shape& shape = v.type().shape();
    return shape[2].same_as(1) && shape[3].same_as(1) ? 0 : kTurned * elements(v.type());
  }

  double elements(const Type& type) {
    double count = 1;
    for (const Dim size : type.shape()) count *= static_cast<double>(expected_size(size, sizes_));
    return count;
  }

  const GraphImpl& graph_;
  SymbolMap sizes_;
  std::unordered_map<const Node*, std::size_t> chain_of_;
  std::vector<std::size_t> parents_;  // of chains that became one
  std::map<std::size_t, double> worth_;
  std::set<std::tuple<const Node*, int, std::size_t>> turned_;  // a value, for a chain
};

}  // namespace

bool divides_into_blocks(const Type& type) {
  if (!type.is_tensor() || type.rank() != 4) return false;
  const Dim channels = type.shape()[1];
  return channels.is_number() && channels.number() > 0 && channels.number() % kChannelBlock == 0;
}

ops::ConvEpilogueAttrs convolution_of(const Node& node) {
  if (node.is("conv_epilogue")) {
    auto attrs = node.attrs_as<ops::ConvEpilogueAttrs>();
    attrs.exact = true;  // says nothing of blocks
    return attrs;
  }
  const auto& windows = node.attrs_as<ops::ConvAttrs>();
  return {.stride = windows.stride,
          .low = windows.low,
          .high = windows.high,
          .dilation = windows.dilation,
          .groups = windows.groups};
}

BlockOperand block_operand(const Node& node, std::size_t input) {
  const Value v = node.inputs()[input];
  if (is_convolution(node)) {
    if (input == 0 && !takes_rows(v.type().shape()[1])) return BlockOperand::image;
    return input == 3 && v ? BlockOperand::blocks : BlockOperand::plain;
  }
  if (node.op().kind != BodyKind::pointwise) return BlockOperand::blocks;
  return v.type().shape().same_as(node.types()[0].shape()) ? BlockOperand::blocks
                                                           : BlockOperand::numbers;
}

std::unordered_set<const Node*> nodes_in_blocks(const GraphImpl& graph, const SymbolMap& sizes) {
  return Chains(graph, sizes).find();
}

}  // namespace dyad::passes
