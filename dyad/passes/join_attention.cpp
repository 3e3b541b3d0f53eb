#include "dyad/passes/join_attention.h"

#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/core/create.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/op_info.h"
#include "dyad/ops/attrs/attention.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"
#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/peephole.h"
#include "dyad/passes/rewriter.h"

namespace dyad::passes {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// A number up to which `score + number` is the number itself: to choose between them is to add it.
constexpr double kHidden = -1e30;

/// What a call of attention takes.
struct Found {
  Value q, v;
  Value keys;                    ///< k, or k^T
  bool keys_are_turned = false;  ///< keys is k^T
  double scale = 1;
  Value mask;                  ///< none, of numbers that are added, or of bool
  bool mask_hides = false;     ///< true where a bool mask takes out
  double hidden = -kInfinity;  ///< what scores that a bool mask takes out become
};

class Finder {
 public:
  explicit Finder(const GraphImpl& graph) : uses_(count_uses(graph)) {}

  /// The attention whose last product `node` is.
  [[nodiscard]] std::optional<Found> at(const Node& node) const {
    if (!is_plain_product(node) || node.attrs_as<ops::MatmulAttrs>().transpose_b) return {};
    Found found;
    found.v = node.inputs()[1];
    Value chosen;  // by which mask probabilities were set to 0
    const Value p = before_zeros(node.inputs()[0], chosen);
    if (!p || !p.node->is("softmax") || int_attr(*p.node, "axis") != p.type().rank() - 1) return {};
    Value s = p.node->inputs()[0];
    if (uses_[s] != 1) return {};
    s = before_mask(s, found);
    if (chosen && (found.mask_hides || chosen != found.mask || found.hidden != -kInfinity))
      return {};
    s = before_scale(s, found.scale, /*is_sole=*/true);
    if (!is_plain_product(*s.node) || uses_[s] != 1) return {};
    found.q = before_scale(s.node->inputs()[0], found.scale, false);
    found.keys = before_scale(s.node->inputs()[1], found.scale, false);
    found.keys_are_turned = !s.node->attrs_as<ops::MatmulAttrs>().transpose_b;
    if (found.keys_are_turned && turns_last_axes(*found.keys.node)) {
      found.keys = found.keys.node->inputs()[0];
      found.keys_are_turned = false;
    }
    if (!std::isfinite(found.scale) || found.scale == 0 || !fits(found, s.type())) return {};
    return found;
  }

 private:
  static bool is_plain_product(const Node& node) {
    return node.is("matmul") && !node.attrs_as<ops::MatmulAttrs>().transpose_a;
  }

  static bool turns_last_axes(const Node& node) {
    if (!node.is("permute")) return false;
    const int rank = node.types()[0].rank();
    Ints turned;
    for (int axis = 0; axis < rank; ++axis) turned.push_back(axis);
    std::swap(turned[rank - 2], turned[rank - 1]);
    return ints_attr(node, "axes") == turned;
  }

  /// The softmax behind what gives 0 for rows of nothing: `where(isnan(p), 0, p)`, or
  /// `where(mask, p, 0)`, whose mask is then `chosen`; no value where others read it.
  [[nodiscard]] Value before_zeros(Value p, Value& chosen) const {
    if (uses_[p] != 1) return {};
    if (!p.node->is("where")) return p;
    const auto in = p.node->inputs();
    if (in[0].node->is("isnan") && number_of(in[1]) == 0.0) {
      return in[0].node->inputs()[0] == in[2] && uses_[in[2]] == 2 ? in[2] : Value();
    }
    if (number_of(in[2]) != 0.0 || uses_[in[1]] != 1) return {};
    chosen = in[0];
    return in[1];
  }

  /// The scores before a mask, which is then part of `found`.
  [[nodiscard]] Value before_mask(Value s, Found& found) const {
    const auto leads_to_product = [&](Value v) {
      double scale = 1;
      return uses_[v] == 1 && v.type().same_as(s.type()) &&
             is_plain_product(*before_scale(v, scale, true).node);
    };
    const auto in = s.node->inputs();
    if (s.node->is("add")) {
      for (const std::size_t i : {0u, 1u}) {
        if (!leads_to_product(in[i]) || in[1 - i].type().dtype() != s.type().dtype()) continue;
        found.mask = in[1 - i];
        return in[i];
      }
    }
    if (s.node->is("where")) {
      for (const std::size_t i : {1u, 2u}) {
        const double hidden = number_of(in[3 - i]).value_or(0);
        if (!(hidden <= kHidden) || !leads_to_product(in[i])) continue;
        found.mask = in[0];
        found.hidden = hidden;
        found.mask_hides = i == 2;
        return in[i];
      }
    }
    return s;
  }

  /// What a number multiplies or divides, once or more; `is_sole`: only where nothing else reads
  /// it.
  [[nodiscard]] Value before_scale(Value v, double& scale, bool is_sole) const {
    while (!is_sole || uses_[v] == 1) {
      const auto in = v.node->inputs();
      const bool divides = v.node->is("div");
      if (!divides && !v.node->is("mul")) return v;
      const std::size_t at = divides || number_of(in[1]) ? 0 : 1;
      const auto number = number_of(in[1 - at]);
      // A number of more axes gives its result axes that the other operand lacks.
      if (!number || !in[at].type().same_as(v.type())) return v;
      scale = divides ? scale / *number : scale * *number;
      v = in[at];
    }
    return v;
  }

  [[nodiscard]] static bool fits(const Found& found, const Type& scores) {
    const int rank = scores.rank();
    if (rank < 3 || rank > 4 || !is_floating(scores.dtype())) return false;
    for (const Value v : {found.q, found.keys, found.v}) {
      if (v.type().rank() != rank || v.type().dtype() != scores.dtype()) return false;
      for (int axis = 0; axis < rank - 2; ++axis) {
        if (!v.type().shape()[axis].same_as(scores.shape()[axis])) return false;
      }
    }
    if (!found.mask) return true;
    Shape joined;
    return found.mask.type().rank() <= rank &&
           broadcast(found.mask.type().shape(), scores.shape(), joined) &&
           joined.same_as(scores.shape());
  }

  ValueTable<int> uses_;
};

/// What attention_forward takes for `mask`.
Tensor mask_of(const Found& found, const Tensor& mask, const Ref<GraphImpl>& to, Loc loc) {
  if (mask.dtype() != DType::boolean) return mask;
  if (found.hidden == -kInfinity) return found.mask_hides ? logical_not(mask) : mask;
  // Rows of which everything is hidden weigh all alike, as they did.
  const auto number = [&](double x) {
    return symbolic_tensor(to, to->add_constant(tensor(x, found.q.type().dtype()), loc));
  };
  const Tensor seen = number(0), hidden = number(found.hidden);
  return found.mask_hides ? where(mask, hidden, seen) : where(mask, seen, hidden);
}

Value write(const Found& found, const Node& product, Rewriter& rewriter,
            GraphEvaluator& evaluator) {
  const LocScope attributed(product.loc());
  const bool has_heads = product.types()[0].rank() == 4;
  const auto operand = [&](Value old, bool is_mask) {
    const Tensor t = symbolic_tensor(rewriter.to(), rewriter.at(old));
    return has_heads || (is_mask && t.rank() < 3) ? t : unsqueeze(t, 0);
  };
  Tensor k = operand(found.keys, false);
  if (found.keys_are_turned) k = transpose(k, -1, -2);
  const auto value = [&](const Tensor& t) {
    return evaluator.value_of(t, &product.op(), product.loc());
  };
  std::vector<Value> inputs{value(operand(found.q, false)), value(k),
                            value(operand(found.v, false))};
  if (found.mask)
    inputs.push_back(
        value(mask_of(found, operand(found.mask, true), rewriter.to(), product.loc())));
  inputs.resize(6);
  const OpInfo& op = ops::builtin_op("attention_forward");
  const ops::AttentionAttrs attrs{.scale = found.scale};
  Node* const made = rewriter.to()->append_checked(
      op, Attrs::copy_of(attrs_info<ops::AttentionAttrs>, &attrs), inputs, product.loc());
  const Value out = made->output(0);
  return has_heads ? out : value(squeeze(symbolic_tensor(rewriter.to(), out), 0));
}

}  // namespace

Ref<GraphImpl> join_attention(const GraphImpl& graph) {
  const Finder finder(graph);
  Rewriter rewriter(graph);
  GraphEvaluator evaluator(rewriter.to());
  const Evaluator::Scope current(evaluator);
  for (const auto& node : graph.nodes()) {
    if (const auto found = finder.at(*node)) {
      rewriter.set(node->output(), write(*found, *node, rewriter, evaluator));
    } else {
      rewriter.copy(*node);
    }
  }
  return rewriter.finish();
}

}  // namespace dyad::passes
