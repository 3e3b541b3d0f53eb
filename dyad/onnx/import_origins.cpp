#include "dyad/core/dim.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/attrs/indexing.h"

namespace dyad::onnx {
namespace {

/// Looking at a node for its sizes takes as long as so many bytes of a model.
constexpr std::int64_t kBytesOfLook = 8;

/// With those of the graphs in it, which are looked at with it.
std::int64_t count_with_inner(const Node& node) {
  std::int64_t count = 1;
  for (const Ref<GraphImpl>& region : node.regions()) {
    for (const auto& inner : region->nodes()) count += count_with_inner(*inner);
  }
  return count;
}

}  // namespace

bool Importer::is_of_inputs(Dim size) const {
  std::vector<Dim> symbols;
  collect_symbols(size, symbols);
  return std::ranges::all_of(symbols,
                             [&](Dim each) { return input_symbols_.contains(each.word()); });
}

std::vector<const GraphValue*> Importer::handles_of(std::span<const Imported> values) {
  std::vector<const GraphValue*> handles;
  for (const Imported& value : values) {
    if (value.sequence) {
      const std::vector<const GraphValue*> inner = handles_of(*value.sequence);
      handles.insert(handles.end(), inner.begin(), inner.end());
    }
    const GraphValue* handle = value.tensor.defined() ? graph_value(value.tensor) : nullptr;
    if (handle != nullptr) handles.push_back(handle);
  }
  return handles;
}

void Importer::add_behind(const Node& node, const passes::SizeSources& sizes,
                          std::vector<const Node*>& nodes) {
  for (const Value input : node.inputs()) {
    if (input) nodes.push_back(input.node);
  }
  for (const Node* source : sizes.of(node)) {
    if (&source->op() != &kPlaceholderOp) nodes.push_back(source);
  }
}

Importer::Origin Importer::origin_of(const Node* node) {
  std::vector<const Node*> path{node};
  while (!path.empty()) {
    const Node* const at = path.back();
    if (origins_.contains(at)) {
      path.pop_back();
      continue;
    }
    std::vector<const Node*> behind;
    add_behind(*at, *size_sources_, behind);
    const std::size_t before = path.size();
    for (const Node* each : behind) {
      if (!origins_.contains(each)) path.push_back(each);
    }
    if (path.size() > before) continue;
    path.pop_back();
    Origin made;
    made.is_fed = &at->op() == &kPlaceholderOp;
    made.is_data = made.is_fed && !small_inputs_.contains(at->attrs_as<PlaceholderAttrs>().name);
    made.can_be_told = made.is_fed || &at->op() == &kVariableOp || is_size_of_inputs(*at);
    made.is_pure = made.can_be_told || at->op().effect == Effect::pure;
    for (const Node* each : behind) made = both(made, origins_.at(each));
    origins_.try_emplace(at, made);
  }
  return origins_.at(node);
}

Importer::Origin Importer::origin_of(std::span<const Imported> values) {
  if (in_region()) return {.is_pure = false};
  Origin all;
  for (const GraphValue* handle : handles_of(values)) {
    if (size_sources_) {
      size_sources_->update();
    } else {
      size_sources_.emplace(*handle->graph);
    }
    all = both(all, origin_of(handle->value.node));
  }
  return all;
}

Importer::Origin Importer::both(const Origin& a, const Origin& b) noexcept {
  return {.is_fed = a.is_fed || b.is_fed,
          .is_data = a.is_data || b.is_data,
          .can_be_told = a.can_be_told || b.can_be_told,
          .is_pure = a.is_pure && b.is_pure};
}

bool Importer::is_size_of_inputs(const Node& node) const {
  return node.is("size_tensor") && is_of_inputs(node.attrs_as<ops::SizeAttrs>().size);
}

bool Importer::note_need(const Node& node, NeedsValues& needs) const {
  if (&node.op() == &kPlaceholderOp) {
    needs.inputs.push_back(node.attrs_as<PlaceholderAttrs>().name);
  } else if (&node.op() == &kVariableOp) {
    needs.weights = true;
  } else if (is_size_of_inputs(node)) {
    needs.sizes = true;
  } else {
    return node.op().effect == Effect::pure;
  }
  return true;
}

std::optional<NeedsValues> Importer::what_tells(std::span<const Imported> values) {
  if (in_region()) return what_tells_inside(values);
  const Origin origin = origin_of(values);
  if (!origin.can_be_told || !origin.is_pure) return {};
  NeedsValues needs;
  std::vector<const Node*> nodes;
  for (const GraphValue* handle : handles_of(values)) nodes.push_back(handle->value.node);
  while (!nodes.empty()) {
    const Node* const node = nodes.back();
    nodes.pop_back();
    if (!asked_.insert(node).second) continue;
    note_need(*node, needs);
    add_behind(*node, *size_sources_, nodes);
  }
  return needs;
}

std::optional<NeedsValues> Importer::what_tells_inside(std::span<const Imported> values) {
  NeedsValues needs;
  std::unordered_set<const Node*> seen;
  for (const GraphValue* handle : handles_of(values)) {
    count_bytes(kBytesOfLook * std::ssize(handle->graph->nodes()));
    const passes::SizeSources sizes(*handle->graph);
    std::vector<const Node*> nodes{handle->value.node};
    while (!nodes.empty()) {
      const Node* const node = nodes.back();
      nodes.pop_back();
      if (!seen.insert(node).second) continue;
      if (!note_need(*node, needs) || !needs.inputs.empty()) return {};
      count_bytes(kBytesOfLook * count_with_inner(*node));
      add_behind(*node, sizes, nodes);
    }
  }
  if (!needs.weights && !needs.sizes) return {};
  return needs;
}

}  // namespace dyad::onnx
