#include "dyad/passes/node_cost.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "dyad/ir/graph_ops.h"
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
