#include "dyad/ir/view_memory.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/ir/graph_ops.h"

namespace dyad {
namespace {

/// How the elements of a value lie in memory in eager mode.
enum class Order : std::uint8_t {
  dense,    ///< row-major without gaps
  ordered,  ///< row-major, with gaps or broadcast axes
  unknown,
};

/// Derives the order of values from the nodes that made them.
class Orders {
 public:
  Order of(Value value) {
    std::vector<Value> open{value};  // no recursion: a graph may be a long chain
    while (!open.empty()) {
      const Value next = open.back();
      const std::size_t before = open.size();
      if (!orders_.contains(next)) {
        for (const Value input : followed_by(next)) {
          if (input && !orders_.contains(input)) open.push_back(input);
        }
        if (open.size() > before) continue;
        orders_.emplace(next, derive(next));
      }
      open.pop_back();
    }
    return orders_.at(value);
  }

  void set(Value value, Order order) { orders_.insert_or_assign(value, order); }

 private:
  static bool is_dense_line(Value value) {
    return value.type().rank() <= 1 && value.node->op().kind != BodyKind::view;
  }

  /// The values whose order decides.
  static std::span<const Value> followed_by(Value value) {
    const BodyKind kind = value.node->op().kind;
    const bool follows = !is_dense_line(value) && kind != BodyKind::reduction &&
                         (kind != BodyKind::structural || value.node->is("assign"));
    const std::span<const Value> inputs = value.node->inputs();
    return follows ? inputs : inputs.first(0);
  }

  Order derive(Value value) {
    if (is_dense_line(value)) return Order::dense;
    const Node& node = *value.node;
    switch (node.op().kind) {
      case BodyKind::structural:
        if (node.is("variable")) {
          const Tensor& tensor = node.attrs_as<VariableAttrs>().tensor;
          return tensor.impl()->contiguous ? Order::dense : Order::unknown;
        }
        return node.is("assign") ? of(node.inputs()[0]) : Order::dense;
      case BodyKind::reduction:
        return Order::dense;
      case BodyKind::view:
        return derive_view(node);
      case BodyKind::pointwise:
        return follow(node);
      case BodyKind::composite:
      case BodyKind::opaque:
      case BodyKind::control:
        if (node.is("slice_scatter") || node.is("select_scatter"))
          return of(node.inputs()[0]) == Order::unknown ? Order::unknown : Order::dense;
        // Images lie channels-last after some of these, and lines and volumes after convolutions.
        return value.type().rank() == 4 || node.op().name.starts_with("conv") ? Order::unknown
                                                                              : follow(node);
    }
    return Order::unknown;
  }

  /// Results follow the order of their inputs, and have no gaps.
  Order follow(const Node& node) {
    for (const Value input : node.inputs()) {
      if (input && of(input) == Order::unknown) return Order::unknown;
    }
    return Order::dense;
  }

  Order derive_view(const Node& node) {
    const Order from = of(node.inputs()[0]);
    if (node.is("permute") || node.is("unfold")) return Order::unknown;
    if (node.op().may_copy) return from == Order::dense ? from : Order::unknown;
    const bool keeps_gapless =
        node.is("squeeze") || node.is("unsqueeze") || node.is("stop_gradient");
    return from == Order::dense && !keeps_gapless ? Order::ordered : from;
  }

  std::unordered_map<Value, Order, ValueHash> orders_;
};

/// True when each size of `from` is the product of successive sizes of `to`: no axes are joined.
bool splits_only(const Shape& from, const Shape& to) {
  std::size_t next = 0;
  for (const Dim size : from) {
    Dim product = 1;
    while (!product.same_as(size)) {
      if (next == to.size()) return false;
      product *= to[next++];
    }
  }
  for (; next < to.size(); ++next) {
    if (!to[next].same_as(1)) return false;
  }
  return true;
}

}  // namespace

std::vector<Value> views_between(Value view, Value content) {
  std::vector<Value> views;
  for (; !(view == content); view = view.node->inputs()[0]) views.push_back(view);
  return views;
}

bool is_surely_view(const Node& node, const Placed& place) {
  if (!node.op().may_copy) return true;
  const Value from = node.inputs()[0];
  if (!node.is("contiguous") && splits_only(from.type().shape(), node.types()[0].shape()))
    return true;
  Orders orders;
  orders.set(place.content, orders.of(place.memory));
  return orders.of(from) == Order::dense;
}

bool is_taken_for_contiguous(const Tensor& tensor) {
  const GraphValue* const handle = graph_value(tensor);
  if (!handle) return false;
  Orders orders;
  orders.set(handle->content, orders.of(handle->memory));
  return orders.of(handle->value) == Order::dense;
}

void fail_write_to_broadcast(const Tensor& target, Loc loc) {
  throw ValueError("in-place write to " + type_string(target) +
                       ", which is broadcast: several of its elements are one element in memory; "
                       "write to the tensor that was expanded, or to a clone()",
                   loc.user());
}

}  // namespace dyad
