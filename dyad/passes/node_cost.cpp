#include "dyad/passes/node_cost.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/ir/graph_ops.h"
#include "dyad/ops/attrs/attention.h"
#include "dyad/ops/attrs/linalg.h"
#include "dyad/ops/attrs/recurrent.h"
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

/// Products of attention whose terms are the scores: `of_q` as wide as q, `of_v` as v. Causal
/// queries see the keys up to their own place.
std::int64_t attended(const Type& q, const Type& v, const ops::AttentionAttrs& attrs,
                      std::int64_t of_q, std::int64_t of_v, const SymbolMap& symbols) {
  const Ints queries = sizes_of(q, symbols), values = sizes_of(v, symbols);
  const std::int64_t rows = queries[2], keys = values[2], both = std::min(rows, keys);
  const std::int64_t scores =
      attrs.is_causal ? times(both, both + 1) / 2 + times(rows - both, keys) : times(rows, keys);
  const std::int64_t heads = times(queries[0], queries[1]);
  return 2 * times(times(heads, scores), of_q * queries[3] + of_v * values[3]);
}

/// Products of all steps of a recurrent layer, whose inputs are those from `x` on: `of_x` of them
/// with its weights for x, `of_h` with those for h.
std::int64_t recurrent(const Node& node, std::size_t x, std::int64_t of_x, std::int64_t of_h,
                       const SymbolMap& symbols) {
  const auto input = [&](std::size_t i) -> const Type& { return node.inputs()[x + i].type(); };
  const Ints sequence = sizes_of(input(0), symbols);
  const std::int64_t weights =
      of_x * elements_of(input(1), symbols) + of_h * elements_of(input(2), symbols);
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
  if (&node.op() == &kFusedOp || node.is("rows")) {
    std::int64_t sum = 0;
    for (const auto& inner : node.regions()[0]->nodes()) sum += operations_of(*inner, symbols);
    return sum;
  }
  if (node.op().counted || node.op().kind == BodyKind::pointwise)
    return elements_of(node.types()[0], symbols);
  if (node.op().kind == BodyKind::reduction) return elements_of(node.inputs()[0].type(), symbols);
  for (const RowWork& work : kRowWork) {
    if (node.is(work.op)) return work.operations * elements_of(node.inputs()[0].type(), symbols);
  }
  return product_operations(node, symbols);
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

std::int64_t bytes_of(const Type& type, SymbolMap& sizes) {
  for (const Dim size : type.shape()) static_cast<void>(expected_size(size, sizes));
  return bytes_of(type, std::as_const(sizes));
}

std::int64_t product_operations(const Node& node, const SymbolMap& symbols) {
  if (node.types().empty()) return 0;  // it only does something
  const auto input = [&](std::size_t i) -> const Type& { return node.inputs()[i].type(); };
  const Type& result = node.types()[0];
  if (node.is("linear") || node.is("product_epilogue"))
    return 2 * times(elements_of(result, symbols), sizes_of(input(0), symbols).back());
  if (node.is("matmul")) {
    const Ints a = sizes_of(input(0), symbols);
    const bool transposed = a.size() > 1 && node.attrs_as<ops::MatmulAttrs>().transpose_a;
    return 2 * times(elements_of(result, symbols), a[a.size() - (transposed ? 2 : 1)]);
  }
  if (node.is("conv") || node.is("conv_epilogue") || node.is("conv_blocks"))
    return convolved(result, input(1), symbols);
  if (node.is("conv_transpose")) return convolved(input(0), input(1), symbols);
  if (node.is("conv_backward_weight")) return convolved(input(0), result, symbols);
  if (node.is("attention_forward"))
    return attended(input(0), input(2), node.attrs_as<ops::AttentionAttrs>(), 1, 1, symbols);
  if (node.is("attention_backward")) {
    // The scores again, for the gradients of q and of k; of the weights and of v.
    return attended(input(2), input(4), node.attrs_as<ops::AttentionAttrs>(), 3, 2, symbols);
  }
  if (node.is("recurrent_forward")) return recurrent(node, 0, 1, 1, symbols);
  if (node.is("recurrent_backward")) {
    // For the gradients of the weights, of h, and of x where they are wanted.
    const bool with_x = node.attrs_as<ops::RecurrentAttrs>().with_x;
    return recurrent(node, 3, with_x ? 2 : 1, 2, symbols);
  }
  return 0;
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
