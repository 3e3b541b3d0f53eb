#include "dyad/passes/fast_math.h"

#include <cmath>
#include <optional>

#include "dyad/core/create.h"
#include "dyad/ir/op_info.h"
#include "dyad/ops/registry.h"
#include "dyad/passes/peephole.h"

namespace dyad::passes {
namespace {

/// x and a number that it meets in a commutative operator.
struct WithNumber {
  Value x;
  double number = 0;
};

std::optional<WithNumber> with_number(std::span<const Value> inputs) {
  if (const auto number = number_of(inputs[1])) return WithNumber{inputs[0], *number};
  if (const auto number = number_of(inputs[0])) return WithNumber{inputs[1], *number};
  return {};
}

bool is_usual(double number) { return std::isfinite(number) && number != 0; }

class FastMath {
 public:
  Value operator()(const Node& node, std::span<const Value> inputs, GraphImpl& to) {
    if (node.op().kind != BodyKind::pointwise || !is_floating(node.types()[0].dtype())) return {};
    if (node.is("div")) {
      const auto divisor = number_of(inputs[1]);
      if (!divisor || !is_usual(*divisor) || !is_usual(1 / *divisor)) return {};
      const OpInfo& mul = ops::builtin_op("mul");
      return write(node, mul, inputs[0], 1 / *divisor, to);
    }
    const bool sum = node.is("add");
    if (!sum && !node.is("mul")) return {};
    const auto outer = with_number(inputs);
    if (!outer) return {};
    if (sum && outer->number == 0 && outer->x.type().same_as(node.types()[0])) return outer->x;
    if (&outer->x.node->op() != &node.op()) return {};
    const auto inner = with_number(outer->x.node->inputs());
    if (!inner || !is_usual(inner->number) || !is_usual(outer->number)) return {};
    const double both = sum ? inner->number + outer->number : inner->number * outer->number;
    return write(node, node.op(), inner->x, both, to);
  }

 private:
  /// `op(x, number)` in the place of `node`, where that has its type.
  static Value write(const Node& node, const OpInfo& op, Value x, double number, GraphImpl& to) {
    const Type& type = node.types()[0];
    if (!x.type().same_as(type)) return {};
    const Value literal = to.add_constant(tensor(number, type.dtype()), node.loc());
    return to.append(op, no_attrs(), {x, literal}, {type}, node.loc())->output();
  }
};

}  // namespace

Ref<GraphImpl> fast_math(const GraphImpl& graph) { return Peephole(graph).rewrite(FastMath()); }

}  // namespace dyad::passes
