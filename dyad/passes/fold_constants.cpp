#include "dyad/passes/fold_constants.h"

#include <algorithm>

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

std::int64_t bytes_of(const Tensor& tensor) {
  return tensor.impl()->numel() * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

class Folder {
 public:
  Folder(const GraphImpl& graph, const ConstantEvaluator& evaluate, std::int64_t max_elements)
      : rewriter_(graph), evaluate_(evaluate), max_elements_(max_elements) {
    for (const auto& node : graph.nodes()) {
      if (&node->op() != &kConstantOp) continue;
      const Tensor& value = node->attrs_as<ConstantAttrs>().value;
      if (value.is_concrete()) bytes_left_ += bytes_of(value);
    }
  }

  Ref<GraphImpl> run() {
    for (const auto& node : rewriter_.from().nodes()) {
      if (may_fold(*node)) {
        fold(*node);
      } else {
        rewriter_.copy(*node);
      }
    }
    return rewriter_.finish();
  }

 private:
  [[nodiscard]] bool may_fold(const Node& node) const {
    const BodyKind kind = node.op().kind;
    if (node.op().effect != Effect::pure || kind == BodyKind::structural ||
        kind == BodyKind::control || has_symbols(node.attrs().info(), node.attrs().data())) {
      return false;
    }
    std::int64_t read = 0, made = 0, made_bytes = 0;
    for (const Value v : node.inputs()) {
      if (!v) continue;
      const Value now = rewriter_.at(v);
      if (&now.node->op() != &kConstantOp) return false;
      read += now.node->attrs_as<ConstantAttrs>().value.impl()->numel();
    }
    // A filled tensor is an immediate of the kernels that use it.
    bool small = true;
    const std::int64_t limit = node.inputs().empty() && node.is("full") ? 1 : max_elements_;
    for (const Type& type : node.types()) {
      if (!type.is_tensor() || !type.shape().is_concrete()) return false;
      const std::int64_t count = type.shape().numel().number();
      small = small && count <= limit;
      made += count;
      made_bytes += count * static_cast<std::int64_t>(size_of(type.dtype()));
    }
    if (small) return true;
    const bool is_view = kind == BodyKind::view && !node.op().may_copy;
    return made <= read && (is_view || made_bytes <= bytes_left_);
  }

  void fold(const Node& node) {
    std::vector<Tensor> inputs;
    for (const Value v : node.inputs()) {
      inputs.push_back(v ? rewriter_.at(v).node->attrs_as<ConstantAttrs>().value : Tensor());
    }
    const std::vector<Tensor> results = evaluate_(node, inputs);
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      rewriter_.set(const_cast<Node&>(node).output(i),
                    literal(results[static_cast<std::size_t>(i)], inputs, node.loc()));
    }
  }

  Value literal(const Tensor& result, std::span<const Tensor> inputs, Loc loc) {
    // How it lies decides how a library computes with it, and a copy would lie row by row.
    const TensorImpl& made = *result.impl();
    if (made.numel() <= max_elements_ && made.contiguous)
      return rewriter_.to()->add_constant(result, loc);
    const bool is_view = std::ranges::any_of(inputs, [&](const Tensor& input) {
      return input.defined() && input.impl()->storage == result.impl()->storage;
    });
    if (!is_view) bytes_left_ -= bytes_of(result);
    // Nobody writes to constants, so that a view of one needs no copy.
    const ConstantAttrs attrs{result};
    return rewriter_.to()
        ->append_checked(kConstantOp, Attrs::copy_of(attrs_info<ConstantAttrs>, &attrs), {}, loc)
        ->output();
  }

  Rewriter rewriter_;
  const ConstantEvaluator& evaluate_;
  std::int64_t max_elements_;
  std::int64_t bytes_left_ = 0;
};

}  // namespace

Ref<GraphImpl> fold_constants(const GraphImpl& graph, const ConstantEvaluator& evaluate,
                              std::int64_t max_elements) {
  return Folder(graph, evaluate, max_elements).run();
}

}  // namespace dyad::passes
