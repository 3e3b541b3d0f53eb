#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// What an operand is in every one of the steps that are seen as one.
struct StepRole {
  enum class Kind : std::uint8_t {
    none,
    nothing,  ///< what a sum begins with; as a result of a way alone
    local,    ///< made in the step: output `index` of item `number`
    state,    ///< of the step before
    slice,    ///< of this step
    capture,  ///< the same in all steps
    view,     ///< of such values, made where it is used
  } kind = Kind::none;
  std::size_t number = 0;  ///< of the item, the state, the slice, the capture or the view
  int index = 0;
  [[nodiscard]] auto operator<=>(const StepRole&) const noexcept = default;
};

/// What is done in every step of some: items in order, and what they are for.
struct StepBlock {
  std::vector<std::size_t> items;
  std::vector<StepRole> outputs;
};

/// The same of all steps of a block.
struct StepItem {
  Node* node = nullptr;           ///< of one of them; none of a cond
  Loc loc;                        ///< of a cond
  std::vector<StepRole> inputs;   ///< of a cond: what it asks
  std::array<StepBlock, 2> ways;  ///< of a cond: then, otherwise
};

/// A view, which is made anew wherever it is used: how an operand lies decides how a library
/// computes, and what is stacked or carried lies row by row.
struct StepView {
  Value model;  ///< one of them
  std::vector<StepRole> inputs;
};

/// What a role stands for: itself, or what the view is of.
template <class F>
void for_each_source(const StepRole& role, std::span<const StepView> views, const F& visit) {
  if (role.kind != StepRole::Kind::view) return visit(role);
  for (const StepRole& input : views[role.number].inputs) for_each_source(input, views, visit);
}

/// Whether all of that is made by items that `is_there`, or by none.
template <class F>
[[nodiscard]] bool is_made_there(const StepRole& role, std::span<const StepView> views,
                                 const F& is_there) {
  bool all = true;
  for_each_source(role, views, [&](const StepRole& source) {
    all = all && (source.kind != StepRole::Kind::local || is_there(source.number));
  });
  return all;
}

/// Values of a graph by what they are.
using KnownRoles = std::vector<std::pair<StepRole, Value>>;

/// Where an item is in the graphs that were written.
struct WrittenItem {
  static constexpr std::size_t kNoCond = static_cast<std::size_t>(-1);
  Node* node = nullptr;
  std::size_t cond = kNoCond;  ///< the item that it is in a way of
  std::size_t way = 0;
};

/// Writes blocks into graphs; conds get a graph for each way.
class StepWriter {
 public:
  explicit StepWriter(std::span<const StepItem> items, std::span<const StepView> views = {})
      : items_(items), views_(views), written_(items.size()) {}

  /// Puts the block at the end of the graph, and its outputs behind the graph's.
  void append(const Ref<GraphImpl>& graph, const StepBlock& block, KnownRoles& known);
  [[nodiscard]] std::vector<WrittenItem>& written() noexcept { return written_; }

 private:
  [[nodiscard]] Value value_of(const Ref<GraphImpl>& graph, const KnownRoles& known,
                               const StepRole& role) const;
  void append_outputs(const Ref<GraphImpl>& graph, const StepBlock& block, const KnownRoles& known);
  Node* append_cond(const Ref<GraphImpl>& graph, std::size_t number, const KnownRoles& known);
  void collect_used(const StepBlock& block, std::vector<std::size_t>& own,
                    std::vector<StepRole>& used) const;

  std::span<const StepItem> items_;
  std::span<const StepView> views_;
  std::vector<WrittenItem> written_;
};

/// An output of an item as a value of the graph around all conds that it is in, which give it
/// beside what they give: zeros where they went the other way.
[[nodiscard]] Value exposed(std::span<const WrittenItem> written, std::size_t item, int index);
/// Whether a step goes this way of a cond, as such a value.
[[nodiscard]] Value reached(std::span<const WrittenItem> written, std::size_t cond,
                            std::size_t way);

}  // namespace dyad::exec
