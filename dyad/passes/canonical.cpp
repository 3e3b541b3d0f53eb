#include "dyad/passes/canonical.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "dyad/passes/edit_attrs.h"
#include "dyad/passes/peephole.h"

namespace dyad::passes {
namespace {

bool is_any(const Node& node, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return node.is(name); });
}

/// The attributes as they are written from now on; null when they are already.
Ref<Attrs> canonical_attrs(const Node& node) {
  if (node.inputs().empty() || !node.inputs()[0] || !node.inputs()[0].type().is_tensor()) return {};
  const int rank = node.inputs()[0].type().rank();
  const auto from_front = [](std::int64_t axis, int of) { return axis < 0 ? axis + of : axis; };
  if (node.op().kind == BodyKind::reduction && node.op().reduced_axes) {
    const auto given = ints_attr(node, "axes");
    if (!given) return {};
    const Ints axes = node.op().reduced_axes(node.attrs().data(), rank);
    return std::ranges::equal(*given, axes) ? Ref<Attrs>() : with_attr(node, "axes", axes);
  }
  if (node.is("permute")) {
    const auto given = ints_attr(node, "axes");
    Ints axes = *given;
    for (std::int64_t& axis : axes) axis = from_front(axis, rank);
    return std::ranges::equal(*given, axes) ? Ref<Attrs>() : with_attr(node, "axes", axes);
  }
  if (is_any(node, {"squeeze", "unsqueeze", "slice", "select", "gather", "concat"})) {
    const auto axis = int_attr(node, "axis");
    if (!axis || *axis >= 0) return {};
    return with_attr(node, "axis", from_front(*axis, rank + (node.is("unsqueeze") ? 1 : 0)));
  }
  // A size that only a run can tell may be another than the type says: -1 stays what it is there.
  if (is_any(node, {"reshape", "expand"}) && node.types()[0].shape().is_concrete()) {
    Ref<Attrs> written = with_attr(node, "shape", node.types()[0].shape());
    const bool same = attrs_equal(node.attrs().info(), written->data(), node.attrs().data());
    return same ? Ref<Attrs>() : written;
  }
  return {};
}

/// The same bits in either order. Numbers with a point keep theirs: it decides the sign of a NaN.
bool commutes(const Node& node) {
  if (is_any(node, {"eq", "ne", "logical_and", "logical_or", "logical_xor"})) return true;
  if (!is_any(node, {"add", "mul", "bitwise_and", "bitwise_or", "bitwise_xor"})) return false;
  const DType dtype = node.types()[0].dtype();
  return is_integer(dtype) || dtype == DType::boolean;
}

}  // namespace

Ref<GraphImpl> canonical(const GraphImpl& graph) {
  Peephole peephole(graph);
  return peephole.rewrite([&](const Node& node, std::span<const Value> inputs, GraphImpl& to) {
    const auto write = [&](Ref<Attrs> attrs, const std::vector<Value>& in) {
      Types types(node.types().begin(), node.types().end());
      return to.append(node.op(), std::move(attrs), in, std::move(types), node.loc())->output();
    };
    if (Ref<Attrs> attrs = canonical_attrs(node)) {
      return write(std::move(attrs), {inputs.begin(), inputs.end()});
    }
    // How the result lies follows from the first input that says: only equal ones may change
    // places.
    if (inputs.size() == 2 && commutes(node) &&
        std::pair(inputs[1].node->id(), inputs[1].index) <
            std::pair(inputs[0].node->id(), inputs[0].index) &&
        peephole.may_swap(node, inputs[0], inputs[1])) {
      return write(node.shared_attrs(), {inputs[1], inputs[0]});
    }
    return Value();
  });
}

}  // namespace dyad::passes
