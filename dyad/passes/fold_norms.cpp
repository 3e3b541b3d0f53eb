#include "dyad/passes/fold_norms.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/attrs/norm.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/views.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

bool is_constant(Value v) { return !v || &v.node->op() == &kConstantOp; }

/// Where a library call with constant operands has its channels: an axis of its result and of its
/// weight.
struct Channels {
  int result_axis = 0;
  int weight_axis = 0;
};
std::optional<Channels> channels_of(const Node& node) {
  const bool is_conv = node.is("conv"), is_matmul = node.is("matmul");
  if (!is_conv && !is_matmul && !node.is("linear")) return std::nullopt;
  if (!std::ranges::all_of(node.inputs().subspan(1), is_constant)) return std::nullopt;
  if (is_conv) return Channels{1, 0};
  if (node.inputs()[1].type().rank() != 2) return std::nullopt;
  const bool columns = is_matmul && !node.attrs_as<ops::MatmulAttrs>().transpose_b;
  return Channels{node.types()[0].rank() - 1, columns ? 1 : 0};
}

/// Whether a constant has one number, or one for each place along `axis` of a result.
bool is_per_channel(const Type& constant, const Type& result, int axis) {
  const int first = result.rank() - constant.rank();
  for (int i = 0; i < constant.rank(); ++i) {
    const Dim size = constant.shape()[static_cast<std::size_t>(i)];
    if (first + i != axis && !(size.is_number() && size.number() == 1)) return false;
  }
  return true;
}

/// What follows a library call and can go into its constants.
struct Fold {
  const Node* base = nullptr;
  Value factor;  ///< of a product; a norm has its own operands
};

class Folds {
 public:
  explicit Folds(const GraphImpl& graph) : uses_(count_uses(graph)) {
    for (const auto& node : graph.nodes()) {
      const std::optional<Fold> fold = fold_of(*node);
      if (!fold) continue;
      bases_.insert(fold->base);
      by_last_.emplace(node.get(), *fold);
    }
  }

  [[nodiscard]] bool empty() const noexcept { return by_last_.empty(); }
  [[nodiscard]] bool is_base(const Node& node) const { return bases_.contains(&node); }
  [[nodiscard]] const Fold* find(const Node& last) const {
    const auto found = by_last_.find(&last);
    return found == by_last_.end() ? nullptr : &found->second;
  }

 private:
  [[nodiscard]] std::optional<Fold> fold_of(const Node& node) const {
    if (node.is("batch_norm")) {
      const Value x = node.inputs()[0];
      const bool folds = x.node->is("conv") && channels_of(*x.node) && is_read_once(x) &&
                         std::ranges::all_of(node.inputs().subspan(1), is_constant);
      return folds ? std::optional(Fold{x.node, {}}) : std::nullopt;
    }
    if (!node.is("mul")) return std::nullopt;
    for (const std::size_t i : {0, 1}) {
      const Value x = node.inputs()[i], factor = node.inputs()[1 - i];
      const std::optional<Channels> channels = channels_of(*x.node);
      if (channels && is_read_once(x) && &factor.node->op() == &kConstantOp &&
          node.types()[0].same_as(x.type()) && factor.type().dtype() == x.type().dtype() &&
          is_per_channel(factor.type(), x.type(), channels->result_axis))
        return Fold{x.node, factor};
    }
    return std::nullopt;
  }

  [[nodiscard]] bool is_read_once(Value v) const { return uses_[v] == 1; }

  ValueTable<int> uses_;
  std::unordered_set<const Node*> bases_;
  std::unordered_map<const Node*, Fold> by_last_;
};

/// Writes the calls with other constants.
class Writer {
 public:
  explicit Writer(const GraphImpl& graph) : rewriter_(graph), evaluator_(rewriter_.to()) {}

  void copy(const Node& node) { rewriter_.copy(node); }

  void write(const Fold& fold, const Node& last) {
    const Evaluator::Scope current(evaluator_);
    const Node& base = *fold.base;
    const LocScope attributed(base.loc());
    const Tensor weight = operand(base, 1), bias = base.is("matmul") ? Tensor() : operand(base, 2);
    Tensor scale, moved;
    if (fold.factor) {
      scale = reshape(tensor_of(fold.factor), {-1});
      if (bias.defined()) moved = bias * scale;
    } else {
      scale = operand(last, 1) * rsqrt(operand(last, 4) + last.attrs_as<ops::EpsAttrs>().eps);
      const Tensor mean = operand(last, 3);
      moved = (bias.defined() ? bias - mean : -mean) * scale + operand(last, 2);
    }
    Shape per_channel(static_cast<std::size_t>(weight.rank()), 1);
    per_channel[static_cast<std::size_t>(channels_of(base)->weight_axis)] = -1;
    const Tensor scaled = weight * reshape(scale, per_channel);
    const auto value = [&](const Tensor& t) {
      return t.defined() ? evaluator_.value_of(t, &last.op(), last.loc()) : Value();
    };
    std::vector<Value> inputs{rewriter_.at(base.inputs()[0]), value(scaled)};
    if (base.inputs().size() > 2) inputs.push_back(value(moved));
    rewriter_.set(const_cast<Node&>(last).output(),
                  rewriter_.to()->append_copy(base, inputs)->output());
  }

  Ref<GraphImpl> finish() { return rewriter_.finish(); }

 private:
  [[nodiscard]] Tensor tensor_of(Value v) {
    return v ? symbolic_tensor(rewriter_.to(), rewriter_.at(v)) : Tensor();
  }
  [[nodiscard]] Tensor operand(const Node& of, std::size_t i) { return tensor_of(of.inputs()[i]); }

  Rewriter rewriter_;
  GraphEvaluator evaluator_;
};

}  // namespace

Ref<GraphImpl> fold_norms(const GraphImpl& graph) {
  const Folds folds(graph);
  if (folds.empty()) return clone(graph);
  Writer writer(graph);
  for (const auto& node : graph.nodes()) {
    if (folds.is_base(*node)) continue;
    if (const Fold* const fold = folds.find(*node)) {
      writer.write(*fold, *node);
    } else {
      writer.copy(*node);
    }
  }
  return writer.finish();
}

}  // namespace dyad::passes
