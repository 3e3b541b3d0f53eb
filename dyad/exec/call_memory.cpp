#include "dyad/exec/call_memory.h"

#include <algorithm>

#include "dyad/exec/eager.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

/// The sizes of a call for the symbols of its recording.
SymbolMap sizes_of(const Path& path, std::span<const Tensor> arguments) {
  SymbolMap sizes;
  const std::span<const Value> placeholders = path.graph->placeholders();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Shape& shape = placeholders[i].type().shape();
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis].is_symbolic() && !sizes.find(shape[axis]))
        sizes.bind(shape[axis], arguments[i].impl()->shape[axis].number());
    }
  }
  return sizes;
}

}  // namespace

Tensor look_up(const Path& path, Value value, std::span<const Tensor> arguments,
               const Environment& env) {
  if (value.node->is("variable")) return value.node->attrs_as<VariableAttrs>().tensor;
  if (value.node->is("constant")) return value.node->attrs_as<ConstantAttrs>().value;
  const std::span<const Value> placeholders = path.graph->placeholders();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (placeholders[i] == value) return arguments[i];
  }
  return env.at(id_of(value));
}

Tensor CallMemory::own(Value lies_in, Value value) {
  const auto copied = std::ranges::find(copies_, std::pair(lies_in, value), &Copy::first);
  if (copied != copies_.end()) return copied->second;
  Tensor made = look_up(path_, value, arguments_, env_);
  const bool is_constant = value.node->is("constant");
  const auto owner = owners_.find(made.impl()->storage.get());
  if (is_constant || (owner != owners_.end() && !(owner->second == lies_in))) {
    made = clone(made);
    copies_.emplace_back(std::pair(lies_in, value), made);
  }
  owners_.try_emplace(made.impl()->storage.get(), lies_in);
  return made;
}

Tensor CallMemory::view(Value made, const Tensor& of) const {
  const Node& node = *made.node;
  const void* const attrs = node.attrs().data();
  const Ref<Attrs> numbers =
      has_symbols(node.attrs().info(), attrs)
          ? substitute_symbols(node.attrs().info(), attrs, sizes_of(path_, arguments_))
          : Ref<Attrs>();
  const Tensor* const input = &of;
  Tensor result;
  EagerEvaluator::instance().apply(node.op(), {&input, 1}, numbers ? numbers->data() : attrs,
                                   {&result, 1}, node.loc());
  return result;
}

Tensor CallMemory::tensor_at(const Place& place, Value value) {
  if (place.captured.defined()) return place.captured;
  if (!place.memory) return own(place.lies_in, value);
  Tensor made;
  if (place.outside) {
    made = look_up(path_, place.memory, arguments_, env_);
  } else {
    auto known =
        std::ranges::find(shared_, place.memory, [](const auto& one) { return one.first; });
    if (known == shared_.end())
      known = shared_.emplace(known, place.memory, own(place.lies_in, place.memory));
    made = known->second;
  }
  for (const Value one : place.views) made = view(one, made);
  return made;
}

}  // namespace dyad::exec
