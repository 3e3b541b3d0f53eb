#include "dyad/passes/simplify_algebra.h"

#include <cmath>
#include <optional>

#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/peephole.h"

namespace dyad::passes {
namespace {

/// Bits of the significand, or of the number without its sign.
int digits_of(DType t) {
  switch (t) {
    case DType::f64:
      return 53;
    case DType::f32:
      return 24;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    case DType::boolean:
      return 1;
    default:
      return static_cast<int>(size_of(t)) * 8 - (is_signed(t) ? 1 : 0);
  }
}

/// Each number of dtype `from` is one of dtype `to`.
bool holds(DType to, DType from) {
  if (to == from) return true;
  if (!contains(kAny, to) || !contains(kAny, from)) return false;
  if (is_floating(from)) {
    return is_floating(to) && digits_of(to) > digits_of(from) && size_of(to) > size_of(from);
  }
  if (to == DType::boolean) return false;
  if (from == DType::boolean || is_floating(to)) return digits_of(to) >= digits_of(from);
  return (is_signed(to) || !is_signed(from)) && digits_of(to) >= digits_of(from);
}

/// A cast to `to` gives the same from a number of dtype `from` and from that number as `between`:
/// integers wrap, floats saturate.
bool may_skip(DType from, DType between, DType to) {
  if (!holds(between, from) || !contains(kAny, to)) return false;
  return is_floating(from) == is_floating(between) || is_floating(to) || from == DType::boolean;
}

bool is_number(Value value, double number) {
  const std::optional<double> found = number_of(value);
  return found && *found == number && std::signbit(*found) == std::signbit(number);
}

/// A number, or of the shape of x however symbols compare: the result has the shape of x at any
/// sizes.
bool keeps_shape(Value number, Value x) {
  const Shape& shape = number.type().shape();
  return shape.rank() == 0 || shape.same_as(x.type().shape());
}

/// x, when the other operand is `number` and nothing else.
Value beside(Value x, Value other, double number) {
  return is_number(other, number) && keeps_shape(other, x) ? x : Value();
}

/// The input that the node gives as it is, or none.
Value unchanged(const Node& node, std::span<const Value> in) {
  if (node.is("div")) return beside(in[0], in[1], 1);
  if (node.is("sub")) return beside(in[0], in[1], 0);
  if (node.is("mul") || node.is("add")) {
    const double neutral = node.is("mul") ? 1 : is_integer(node.types()[0].dtype()) ? 0 : -0.0;
    const Value first = beside(in[0], in[1], neutral);
    return first ? first : beside(in[1], in[0], neutral);
  }
  if (node.is("where")) {
    const auto condition = number_of(in[0]);
    if (!condition || !keeps_shape(in[1], in[2]) || !keeps_shape(in[0], in[1])) return {};
    return in[*condition != 0 ? 1 : 2];
  }
  if (node.is("cast")) return in[0];
  const bool undoes_itself = node.is("neg") || node.is("bitwise_not") || node.is("logical_not");
  if (undoes_itself && &in[0].node->op() == &node.op()) return in[0].node->inputs()[0];
  if ((node.is("abs") || node.is("relu")) && &in[0].node->op() == &node.op()) return in[0];
  return {};
}

}  // namespace

Ref<GraphImpl> simplify_algebra(const GraphImpl& graph) {
  Peephole peephole(graph);
  return peephole.rewrite([&](const Node& node, std::span<const Value> inputs, GraphImpl& to) {
    const Value same = unchanged(node, inputs);
    if (same && !is_complex(same.type().dtype()) && peephole.may_replace(node, same)) return same;
    if (!node.is("cast") || !inputs[0].node->is("cast")) return Value();
    const Value inner = inputs[0].node->inputs()[0];
    const DType target = node.types()[0].dtype();
    if (!may_skip(inner.type().dtype(), inputs[0].type().dtype(), target)) return Value();
    if (peephole.may_replace(node, inner)) return inner;
    if (target == inner.type().dtype() || !peephole.may_read(node, inner)) return Value();
    return to.append_copy(node, {&inner, 1})->output();
  });
}

}  // namespace dyad::passes
