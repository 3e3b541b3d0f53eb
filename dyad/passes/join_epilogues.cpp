#include "dyad/passes/join_epilogues.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/epilogue.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/attrs/nn.h"
#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/epilogue_ops.h"
#include "dyad/passes/peephole.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

/// A convolution or product with what is joined to it.
struct Chain {
  const Node* base = nullptr;
  const Node* last = nullptr;       ///< its result is that of the whole
  std::vector<const Node*> inside;  ///< all of its nodes
  Value bias, residual;
  std::string activation;
  double alpha = 0, beta = 0;
};

class Joiner {
 public:
  Joiner(const GraphImpl& graph, bool fast_math) : graph_(graph), fast_math_(fast_math) {
    for (const auto& node : graph.nodes()) {
      for (const Value v : node->inputs()) {
        if (v) uses_[v].push_back(node.get());
      }
    }
    for (const Value v : graph.outputs()) outputs_.insert(v);
  }

  Ref<GraphImpl> run() {
    for (const auto& node : graph_.nodes()) {
      if (inside_.contains(node.get())) continue;
      std::optional<Chain> chain = chain_of(*node);
      if (!chain) continue;
      for (const Node* member : chain->inside) inside_.insert(member);
      chains_.emplace(chain->last, std::move(*chain));
    }
    if (chains_.empty()) return clone(graph_);
    Rewriter rewriter(graph_);
    for (const auto& node : graph_.nodes()) {
      const auto chain = chains_.find(node.get());
      if (chain != chains_.end()) {
        write(rewriter, chain->second);
      } else if (!inside_.contains(node.get())) {
        rewriter.copy(*node);
      }
    }
    return rewriter.finish();
  }

 private:
  /// The nodes that read a value, if nothing else does.
  [[nodiscard]] std::span<const Node* const> users(Value v) const {
    const auto found = uses_.find(v);
    if (found == uses_.end() || outputs_.contains(v)) return {};
    return found->second;
  }
  [[nodiscard]] const Node* only_user(Value v) const {
    const auto all = users(v);
    return all.size() == 1 && !inside_.contains(all[0]) ? all[0] : nullptr;
  }

  [[nodiscard]] static bool is_f32(Value v) {
    return !v || (v.type().is_tensor() && v.type().dtype() == DType::f32);
  }

  [[nodiscard]] bool is_base(const Node& node) const {
    if (!std::ranges::all_of(node.inputs(), is_f32)) return false;
    if (node.is("conv")) return true;
    if (!fast_math_ || (!node.is("matmul") && !node.is("linear"))) return false;
    if (node.is("matmul") && node.attrs_as<ops::MatmulAttrs>().transpose_a) return false;
    const Value weight = node.inputs()[1];
    return &weight.node->op() == &kConstantOp && weight.type().rank() == 2 &&
           node.inputs()[0].type().rank() >= 2;
  }

  [[nodiscard]] std::optional<Chain> chain_of(Node& base) const {
    if (!is_base(base)) return {};
    Chain chain;
    chain.base = chain.last = &base;
    chain.inside = {&base};
    const bool is_product = !base.is("conv");
    if (!base.is("matmul")) chain.bias = base.inputs()[2];
    while (add_operand(chain, is_product)) {
    }
    if (fast_math_) add_activation(chain);
    // Without anything behind it a product gains by its weight, which is kept in the library's
    // layout.
    if (chain.last == &base && !is_product) return {};
    return chain;
  }

  static Value result(const Chain& chain) { return const_cast<Node*>(chain.last)->output(); }
  static void append(Chain& chain, const Node* node) {
    chain.last = node;
    chain.inside.push_back(node);
  }

  /// Takes in an addition that follows: of a bias or a residual.
  bool add_operand(Chain& chain, bool is_product) const {
    const Node* const user = only_user(result(chain));
    if (user == nullptr || !user->is("add") || user->inputs()[0] == user->inputs()[1]) return false;
    const Type& type = result(chain).type();
    const Value other = user->inputs()[user->inputs()[0] == result(chain) ? 1 : 0];
    if (!is_f32(other) || !user->types()[0].same_as(type)) return false;
    if (is_product && !chain.bias && !chain.residual && is_vector_of(other.type(), type)) {
      chain.bias = other;
    } else if (!chain.residual && other.type().same_as(type) &&
               (fast_math_ || (is_channels_last(chain.base) && takes_over(*user, other)))) {
      chain.residual = other;
    } else {
      return false;
    }
    append(chain, user);
    return true;
  }

  /// One number for each column of `type`, the same in every row.
  static bool is_vector_of(const Type& vector, const Type& type) {
    const Shape& shape = vector.shape();
    return shape.rank() == 1 && shape.back() == type.shape().back();
  }

  /// A convolution whose result is channels-last whatever it reads.
  static bool is_channels_last(const Node* node) {
    return node->is("conv") && node->attrs_as<ops::ConvAttrs>().groups == 1;
  }

  /// Whether a residual that lies as the sum would is needed for the last time at `sum`, and the
  /// sum would not be part of a fused kernel.
  [[nodiscard]] bool takes_over(const Node& sum, Value residual) const {
    const auto chain = chains_.find(residual.node);
    if (!is_channels_last(chain == chains_.end() ? residual.node : chain->second.base))
      return false;
    const auto readers = users(residual);
    if (readers.empty() || !std::ranges::all_of(readers, [&](const Node* reader) {
          return reader->id() <= sum.id() && reader->op().kind != BodyKind::view;
        })) {
      return false;
    }
    const auto takers = uses_.find(const_cast<Node&>(sum).output());
    return takers == uses_.end() || std::ranges::none_of(takers->second, [](const Node* taker) {
             return taker->op().kind == BodyKind::pointwise ||
                    taker->op().kind == BodyKind::reduction;
           });
  }

  void add_activation(Chain& chain) const {
    const Value v = result(chain);
    if (const Node* const gate = silu_gate(v)) {
      chain.activation = "silu";
      chain.inside.push_back(users(v)[users(v)[0] == gate ? 1 : 0]);
      append(chain, gate);
      return;
    }
    const Node* const user = only_user(v);
    if (user == nullptr || !user->types()[0].same_as(v.type())) return;
    if (user->is("maximum")) return add_clip(chain, *user);
    for (const std::string_view name : ops::kEpilogueActivations) {
      if (!user->is(name)) continue;
      chain.activation = name;
      if (name == "clamp") {
        chain.alpha = *number_attr(*user, "low");
        chain.beta = *number_attr(*user, "high");
      }
      if (name == "leaky_relu") chain.alpha = *number_attr(*user, "slope");
      append(chain, user);
      return;
    }
  }

  /// x * sigmoid(x): the product.
  [[nodiscard]] const Node* silu_gate(Value v) const {
    const auto all = users(v);
    if (all.size() != 2) return nullptr;
    for (const int i : {0, 1}) {
      Node* const sigmoid = const_cast<Node*>(all[static_cast<std::size_t>(i)]);
      const Node* const product = all[static_cast<std::size_t>(1 - i)];
      if (!sigmoid->is("sigmoid") || !product->is("mul")) continue;
      if (only_user(sigmoid->output()) == product && !inside_.contains(sigmoid)) return product;
    }
    return nullptr;
  }

  /// max(x, low), and min(., high) if that follows.
  void add_clip(Chain& chain, const Node& maximum) const {
    const Value v = result(chain);
    const auto bound = [](const Node& node, Value of) {
      const Value other = node.inputs()[node.inputs()[0] == of ? 1 : 0];
      return is_f32(other) ? number_of(other) : std::nullopt;
    };
    const std::optional<double> low = bound(maximum, v);
    if (!low || std::isnan(*low)) return;
    append(chain, &maximum);
    chain.activation = "clamp";
    chain.alpha = *low;
    chain.beta = std::numeric_limits<double>::infinity();
    const Value clipped = result(chain);
    const Node* const minimum = only_user(clipped);
    if (minimum == nullptr || !minimum->is("minimum") || !minimum->types()[0].same_as(v.type()))
      return;
    const std::optional<double> high = bound(*minimum, clipped);
    if (!high || !(*high >= *low)) return;
    append(chain, minimum);
    chain.beta = *high;
  }

  void write(Rewriter& rewriter, const Chain& chain) const {
    const Node& base = *chain.base;
    std::vector<Value> inputs{rewriter.at(base.inputs()[0]), rewriter.at(base.inputs()[1]),
                              rewriter.at(chain.bias), rewriter.at(chain.residual)};
    Ref<Attrs> attrs;
    const OpInfo* op = &kProductEpilogueOp;
    if (base.is("conv")) {
      op = &kConvEpilogueOp;
      const auto& windows = base.attrs_as<ops::ConvAttrs>();
      const ops::ConvEpilogueAttrs made{.stride = windows.stride,
                                        .low = windows.low,
                                        .high = windows.high,
                                        .dilation = windows.dilation,
                                        .groups = windows.groups,
                                        .activation = chain.activation,
                                        .alpha = chain.alpha,
                                        .beta = chain.beta,
                                        .exact = !fast_math_ || !chain.residual};
      attrs = Attrs::copy_of(attrs_info<ops::ConvEpilogueAttrs>, &made);
    } else {
      const ops::ProductEpilogueAttrs made{
          .transposed = base.is("linear") || base.attrs_as<ops::MatmulAttrs>().transpose_b,
          .activation = chain.activation,
          .alpha = chain.alpha,
          .beta = chain.beta};
      attrs = Attrs::copy_of(attrs_info<ops::ProductEpilogueAttrs>, &made);
    }
    Node* const made =
        rewriter.to()->append(*op, std::move(attrs), inputs, {chain.last->types()[0]}, base.loc());
    rewriter.set(result(chain), made->output());
  }

  const GraphImpl& graph_;
  const bool fast_math_;
  std::unordered_map<Value, std::vector<const Node*>, ValueHash> uses_;
  std::unordered_set<Value, ValueHash> outputs_;
  std::unordered_set<const Node*> inside_;
  std::unordered_map<const Node*, Chain> chains_;  // by their last node
};

}  // namespace

Ref<GraphImpl> join_epilogues(const GraphImpl& graph, bool fast_math) {
  return Joiner(graph, fast_math).run();
}

}  // namespace dyad::passes
