#include "dyad/passes/node_cost.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/attention.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/passes/fused_op.h"

namespace dyad::passes {
namespace {

Ints sizes_of(const Type& type, const SymbolMap& symbols) {
  Ints sizes;
  for (const Dim size : type.shape()) sizes.push_back(evaluate(size, symbols));
  return sizes;
}

/// a * b of numbers from 0 on. A graph may claim any size: beyond this all are the same, and many
/// of them add up.
std::int64_t times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kMost ? kMost : product;
}

std::int64_t elements_of(const Type& type, const SymbolMap& symbols) {
  if (!type.is_tensor()) return 0;
  std::int64_t count = 1;
  for (const Dim size : type.shape()) count = times(count, evaluate(size, symbols));
  return count;
}

std::int64_t bytes_of(const Type& type, const SymbolMap& symbols) {
  if (!type.is_tensor()) return 0;
  return times(elements_of(type, symbols), static_cast<std::int64_t>(size_of(type.dtype())));
}

/// Products of a convolution, for each element of `many` those with one channel's weights.
std::int64_t convolved(const Type& many, const Type& weight, const SymbolMap& symbols) {
  const std::int64_t channels = sizes_of(weight, symbols)[0];
  if (channels == 0) return 0;
  return 2 * times(elements_of(many, symbols), elements_of(weight, symbols) / channels);
}

/// The scores of attention, and what they weigh, in as many products of each kind. Of causal ones
/// half the scores are computed.
std::int64_t attended(const Type& q, const Type& v, const ops::AttentionAttrs& attrs,
                      std::int64_t of_q, std::int64_t of_v, const SymbolMap& symbols) {
  const Ints sizes = sizes_of(v, symbols);
  const std::int64_t keys = sizes[2], width = std::max<std::int64_t>(sizes[3], 1);
  const std::int64_t by_q = of_q * times(elements_of(q, symbols), keys);
  const Ints queries = sizes_of(q, symbols);
  const std::int64_t rows = times(times(queries[0], queries[1]), queries[2]);
  const std::int64_t by_v = of_v * times(times(rows, width), keys);
  return (by_q + by_v) * (attrs.is_causal ? 1 : 2);
}

/// Products of all steps of a recurrent layer with its weights, from `x` on.
std::int64_t recurrent(const Node& node, std::size_t x, const SymbolMap& symbols) {
  const Ints sequence = sizes_of(node.inputs()[x].type(), symbols);
  std::int64_t weights = 0;
  for (const std::size_t i : {x + 1, x + 2})
    weights += elements_of(node.inputs()[i].type(), symbols);
  return 2 * times(times(sequence[0], sequence[1]), weights);
}

/// Softmaxes and normalisations: what they do to each element of their first input where they are
/// written out.
struct RowWork {
  std::string_view op;
  int operations = 0;
};
constexpr RowWork kRowWork[] = {
    {"softmax", 5},               // max, -, exp, sum, /
    {"log_softmax", 5},           // max, -, exp, sum, -
    {"softmax_backward", 4},      // *, sum, -, *
    {"log_softmax_backward", 4},  // sum, exp, *, -
    {"layer_norm", 7},            // sum, -, square, sum, *, *, +
    {"layer_norm_backward", 13},  // x again: 2, * weight, sum, *, sum, *, -, -, *; *, sum, sum
    {"rms_norm", 4},              // square, sum, *, *
    {"rms_norm_backward", 9},     // x again, * weight, *, sum, *, -, *; *, sum
    {"group_norm", 7},
    {"group_norm_backward", 13},
    {"batch_norm_backward", 13},
};

std::int64_t operations_of(const Node& node, const SymbolMap& symbols) {
  const auto input = [&](std::size_t i) -> const Type& { return node.inputs()[i].type(); };
  const auto result = [&]() -> const Type& { return node.types()[0]; };
  if (&node.op() == &kFusedOp || node.is("rows")) {
    std::int64_t sum = 0;
    for (const auto& inner : node.regions()[0]->nodes()) sum += operations_of(*inner, symbols);
    return sum;
  }
  if (node.op().counted) return elements_of(result(), symbols);
  switch (node.op().kind) {
    case BodyKind::pointwise:
      return elements_of(result(), symbols);
    case BodyKind::reduction:
      return elements_of(input(0), symbols);
    default:
      break;
  }
  if (node.is("linear"))
    return 2 * times(elements_of(result(), symbols), sizes_of(input(0), symbols).back());
  if (node.is("matmul")) {
    const Ints a = sizes_of(input(0), symbols);
    const bool transposed = a.size() > 1 && node.attrs_as<ops::MatmulAttrs>().transpose_a;
    return 2 * times(elements_of(result(), symbols), a[a.size() - (transposed ? 2 : 1)]);
  }
  if (node.is("conv") || node.is("conv_epilogue") || node.is("conv_blocks")) {
    return convolved(result(), input(1), symbols);
  }
  if (node.is("product_epilogue"))
    return 2 * times(elements_of(result(), symbols), sizes_of(input(0), symbols).back());
  if (node.is("attention_forward")) {
    return attended(input(0), input(2), node.attrs_as<ops::AttentionAttrs>(), 1, 1, symbols);
  }
  if (node.is("attention_backward")) {
    // The scores again, and those of the gradients of q and k; of the weights and of v.
    return attended(input(2), input(4), node.attrs_as<ops::AttentionAttrs>(), 3, 2, symbols);
  }
  if (node.is("recurrent_forward")) return recurrent(node, 0, symbols);
  if (node.is("recurrent_backward")) return 2 * recurrent(node, 3, symbols);
  for (const RowWork& work : kRowWork) {
    if (node.is(work.op)) return work.operations * elements_of(input(0), symbols);
  }
  if (node.is("conv_transpose")) return convolved(input(0), input(1), symbols);
  if (node.is("conv_backward_weight")) return convolved(input(0), result(), symbols);
  return 0;
}

}  // namespace

std::int64_t expected_size(Dim size, SymbolMap& sizes) {
  constexpr std::int64_t kUnknown = 64;
  if (size.is_symbolic()) {
    std::vector<Dim> symbols;
    collect_symbols(size, symbols);
    for (const Dim symbol : symbols) {
      if (!sizes.find(symbol)) sizes.bind(symbol, kUnknown);
    }
  }
  // What an unknown symbol stands for may make a difference of two negative.
  return std::max<std::int64_t>(evaluate(size, sizes), 0);
}

NodeCost cost_of(const Node& node, const SymbolMap& symbols) {
  NodeCost cost;
  std::unordered_set<Value, ValueHash> read;
  for (const Value v : node.inputs()) {
    if (v && read.insert(v).second) cost.bytes += bytes_of(v.type(), symbols);
  }
  for (const Type& type : node.types()) cost.bytes += bytes_of(type, symbols);
  cost.operations = operations_of(node, symbols);
  return cost;
}

}  // namespace dyad::passes
