#include "dyad/exec/rolled_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/control_node.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ops/creation.h"

namespace dyad::exec {
namespace {

/// What `make()` gives as a value of the graph.
template <class F>
Value made_in(const Ref<GraphImpl>& graph, const F& make) {
  GraphEvaluator evaluator(graph);
  const Evaluator::Scope current(evaluator);
  return graph_value(make())->value;
}

/// A value of one way of a cond as one of the graph around it, and around those that it is in.
Value out_of_way(std::span<const WrittenItem> written, std::size_t cond, std::size_t way,
                 Value inside, const auto& elsewhere) {
  Node& node = *written[cond].node;
  for (std::size_t w = 0; w < node.regions().size(); ++w) {
    const Ref<GraphImpl>& region = node.regions()[w];
    region->outputs().push_back(w == way ? inside : made_in(region, elsewhere));
  }
  Types types(node.types().begin(), node.types().end());
  types.push_back(inside.type());
  node.set_types(types);
  const Value outside = node.output(static_cast<int>(types.size()) - 1);
  const WrittenItem& place = written[cond];
  return place.cond == WrittenItem::kNoCond
             ? outside
             : out_of_way(written, place.cond, place.way, outside, elsewhere);
}

}  // namespace

Value exposed(std::span<const WrittenItem> written, std::size_t item, int index) {
  const WrittenItem& place = written[item];
  const Value value = place.node->output(index);
  if (place.cond == WrittenItem::kNoCond) return value;
  return out_of_way(written, place.cond, place.way, value,
                    [&] { return zeros_of(value.type(), value.node->loc()); });
}

Value reached(std::span<const WrittenItem> written, std::size_t cond, std::size_t way) {
  const Ref<GraphImpl>& region = written[cond].node->regions()[way];
  const Value yes = made_in(region, [] { return full({}, 1, boolean); });
  return out_of_way(written, cond, way, yes, [] { return full({}, 0, boolean); });
}

void StepWriter::append(const Ref<GraphImpl>& graph, const StepBlock& block, KnownRoles& known) {
  for (const std::size_t number : block.items) {
    const StepItem& item = items_[number];
    Node* made = nullptr;
    if (item.node) {
      std::vector<Value> inputs;
      for (const StepRole& role : item.inputs) inputs.push_back(value_of(graph, known, role));
      made = graph->append_copy(*item.node, inputs);
    } else {
      made = append_cond(graph, number, known);
    }
    written_[number].node = made;
    for (std::size_t i = 0; i < made->types().size(); ++i) {
      const auto index = static_cast<int>(i);
      known.emplace_back(StepRole{StepRole::Kind::local, number, index}, made->output(index));
    }
  }
  append_outputs(graph, block, known);
}

void StepWriter::append_outputs(const Ref<GraphImpl>& graph, const StepBlock& block,
                                const KnownRoles& known) {
  for (const StepRole& role : block.outputs) {
    graph->outputs().push_back(role.kind == StepRole::Kind::nothing ? Value()
                                                                    : value_of(graph, known, role));
  }
}

Value StepWriter::value_of(const Ref<GraphImpl>& graph, const KnownRoles& known,
                           const StepRole& role) const {
  if (role.kind == StepRole::Kind::none) return {};
  if (role.kind != StepRole::Kind::view)
    return std::ranges::find(known, role, &KnownRoles::value_type::first)->second;
  const StepView& view = views_[role.number];
  std::vector<Value> inputs;
  for (const StepRole& input : view.inputs) inputs.push_back(value_of(graph, known, input));
  return graph->append_copy(*view.model.node, inputs)->output(view.model.index);
}

Node* StepWriter::append_cond(const Ref<GraphImpl>& graph, std::size_t number,
                              const KnownRoles& known) {
  const StepItem& item = items_[number];
  std::vector<StepRole> used;
  for (const StepBlock& way : item.ways) {
    std::vector<std::size_t> own;
    collect_used(way, own, used);
  }
  std::vector<Value> inputs{value_of(graph, known, item.inputs[0])};
  for (const StepRole& role : used) inputs.push_back(value_of(graph, known, role));
  std::vector<Ref<GraphImpl>> regions;
  for (std::size_t way = 0; way < item.ways.size(); ++way) {
    const auto region = make_ref<GraphImpl>();
    KnownRoles inside;
    for (std::size_t i = 0; i < used.size(); ++i) {
      inside.emplace_back(
          used[i], region->add_placeholder(fmt::format("c{}", i), inputs[i + 1].type(), item.loc));
    }
    append(region, item.ways[way], inside);
    for (const std::size_t own : item.ways[way].items) {
      written_[own].cond = number;
      written_[own].way = way;
    }
    regions.push_back(region);
  }
  Types types;
  std::vector<Value>&first = regions[0]->outputs(), &second = regions[1]->outputs();
  for (std::size_t i = 0; i < first.size(); ++i) {
    const Type type = (first[i] ? first[i] : second[i]).type();
    const auto nothing = [&] { return nothing_of(type, item.loc); };
    if (!first[i]) first[i] = made_in(regions[0], nothing);
    if (!second[i]) second[i] = made_in(regions[1], nothing);
    types.push_back(type);
  }
  const NoAttrs none;
  Node* const node = graph->append(kCondOp, Attrs::copy_of(attrs_info<NoAttrs>, &none), inputs,
                                   std::move(types), item.loc);
  for (Ref<GraphImpl>& region : regions) node->add_region(std::move(region));
  return node;
}

/// What the block uses that none of its items, `own` among them, makes.
void StepWriter::collect_used(const StepBlock& block, std::vector<std::size_t>& own,
                              std::vector<StepRole>& used) const {
  const auto use = [&](const StepRole& used_role) {
    for_each_source(used_role, views_, [&](const StepRole& role) {
      const bool is_own =
          role.kind == StepRole::Kind::none || role.kind == StepRole::Kind::nothing ||
          (role.kind == StepRole::Kind::local && std::ranges::find(own, role.number) != own.end());
      if (!is_own && std::ranges::find(used, role) == used.end()) used.push_back(role);
    });
  };
  for (const std::size_t number : block.items) {
    own.push_back(number);
    std::ranges::for_each(items_[number].inputs, use);
    for (const StepBlock& way : items_[number].ways) collect_used(way, own, used);
  }
  std::ranges::for_each(block.outputs, use);
}

}  // namespace dyad::exec
