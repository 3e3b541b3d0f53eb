#include "dyad/exec/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/executable_draft.h"
#include "dyad/exec/executable_planner.h"
#include "dyad/exec/memory_use.h"
#include "dyad/exec/step_profile.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/value_names.h"
#include "dyad/passes/fused_op.h"
#include "dyad/passes/size_sources.h"
#include "dyad/passes/stages.h"

namespace dyad::exec {
namespace {

bool is_given(const Node& node) {
  return &node.op() == &kPlaceholderOp || &node.op() == &kVariableOp || &node.op() == &kConstantOp;
}

/// The symbols of a graph that have no number, each once.
std::vector<std::string> unknown_sizes(const GraphImpl& graph, const SymbolMap& sizes) {
  std::vector<Dim> symbols;
  for (const auto& node : graph.nodes()) {
    if (passes::is_kernels(*node)) {
      passes::collect_all_symbols(*node, symbols);
    } else {  // graphs of branches and loops have symbols of their own
      passes::collect_attr_symbols(*node, symbols);
      passes::collect_result_symbols(*node, symbols);
    }
  }
  std::vector<std::string> unknown;
  for (const Dim symbol : symbols) {
    std::string name = to_string(symbol);
    if (!sizes.find(symbol) && std::ranges::find(unknown, name) == unknown.end())
      unknown.push_back(std::move(name));
  }
  return unknown;
}

/// Throws unless the graph has a plan at these sizes.
void check_plannable(const GraphImpl& graph, const SymbolMap& sizes) {
  const ValueNames names(graph);
  for (const auto& node : graph.nodes()) {
    const BodyKind kind = node->op().kind;
    const bool is_marker =
        kind == BodyKind::structural && !is_given(*node) && &node->op() != &kAssignOp;
    if (kind == BodyKind::composite || is_marker) {
      throw ValueError(fmt::format("{} = {} does not run as it is: the pass {} comes before a plan",
                                   names.of_outputs(*node), node->op().name,
                                   is_marker ? "sink_assigns" : "expand_composites"));
    }
  }
  if (const auto stages = passes::cut_at_open_sizes(graph); !stages.empty()) {
    const Node& open = *stages.front().open;
    throw ValueError(
        fmt::format("data decide on the sizes of {} = {}: the graph runs in parts, up to there and "
                    "from there on, each with a plan of its own",
                    names.of_outputs(open), open.op().name));
  }
  if (const std::vector<std::string> unknown = unknown_sizes(graph, sizes); !unknown.empty()) {
    throw ValueError(fmt::format("no number is given for the size{} {}",
                                 unknown.size() == 1 ? "" : "s", fmt::join(unknown, ", ")));
  }
  for (const Value v : graph.placeholders()) {
    for (const Dim size : v.type().shape()) {
      if (const std::int64_t number = dyad::evaluate(size, sizes); number < 0) {
        throw ShapeError(
            fmt::format("{}: {} has a size of {}", names(v), to_string(v.type()), number));
      }
    }
  }
  check_types(graph, sizes, {});
}

/// Values for the placeholders of a graph that has a plan.
std::vector<Tensor> row_major_values(const GraphImpl& graph, const SymbolMap& sizes) {
  check_plannable(graph, sizes);
  std::vector<Tensor> values;
  for (const Value v : graph.placeholders()) {
    const Shape shape = evaluate(v.type().shape(), sizes);
    values.push_back(without_memory(v.type().dtype(), shape, contiguous_strides(shape)));
  }
  return values;
}

/// Writes the plan of one graph, and those of the graphs inside it.
class PlanWriter {
 public:
  PlanWriter(const GraphImpl& graph, const SymbolMap& sizes, const PlanTextOptions& options,
             std::string indent)
      : graph_(graph),
        sizes_(sizes),
        options_(options),
        indent_(std::move(indent)),
        placed_(place(graph, sizes, row_major_values(graph, sizes))),
        draft_(placed_.draft),
        names_(draft_.slots.size()),
        nodes_(draft_.slots.size(), nullptr),
        shown_(draft_.slots.size(), false) {
    name_values(graph, "");
    for (const DraftStep& step : draft_.steps) note_written(step);
  }

  std::string write() {
    line("steps:");
    auto together = draft_.together.cbegin();
    for (std::size_t i = 0; i < draft_.steps.size(); ++i) {
      if (i == draft_.commit) line("  variables are written from here on:");
      if (together != draft_.together.cend() && i == together->first) {
        line(fmt::format("  {} to {} in one call of the threads:", i, together->last));
        ++together;
      }
      const DraftStep& step = draft_.steps[i];
      write_step(step, fmt::format("  {}: ", i), "  ");
      if (step.kind == DraftStep::Kind::control) write_regions(*step.node);
    }
    for (const int slot : draft_.outputs) show(slot, "  ");
    line("buffers:");
    for (std::size_t i = 0; i < draft_.buffers.size(); ++i) write_buffer(static_cast<int>(i));
    const MemoryUse use = use_of(placed_);
    const ArenasPlan& arenas = placed_.arenas;
    const std::size_t of_regions = use.intermediate - arenas.most_at_once();
    line(fmt::format("arena{}: {} bytes, live peak {}, without sharing {}", has_arenas() ? "s" : "",
                     arenas.bytes(), arenas.live_peak, use.apart - of_regions));
    for (std::size_t i = 0; has_arenas() && i < arenas.arenas.size(); ++i) {
      const ArenaSpan& span = arenas.arenas[i];
      line(fmt::format("  arena {}: {} bytes, steps {} to {}", i, span.bytes, span.first,
                       span.last));
    }
    if (of_regions > 0) line(fmt::format("made by regions: {} bytes", of_regions));
    line(fmt::format("results: {} bytes", use.results));
    return std::move(text_);
  }

 private:
  void line(const std::string& text) { text_ += indent_ + text + "\n"; }

  [[nodiscard]] const Slot& slot_at(int slot) const {
    return draft_.slots[static_cast<std::size_t>(slot)];
  }
  [[nodiscard]] const std::string& name(int slot) const {
    static const std::string kAbsent = "none";
    return slot < 0 ? kAbsent : names_[static_cast<std::size_t>(slot)];
  }

  /// Values inside of `rows` nodes are called after the node's first result, too: `%3/%0`.
  void name_values(const GraphImpl& graph, const std::string& prefix) {
    const ValueNames names(graph);
    for (const auto& node : graph.nodes()) {
      for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
        const auto slot = static_cast<std::size_t>(draft_.slot_of.at(node->output(i)));
        if (!names_[slot].empty()) continue;
        names_[slot] = prefix + names(node->output(i));
        nodes_[slot] = node.get();
        shown_[slot] = is_given(*node);
      }
      if (&node->op() == &passes::kRowsOp)
        name_values(*node->regions()[0], prefix + names(node->output()) + "/");
    }
  }

  void note_written(const DraftStep& step) {
    for (const int slot : step.writes) {
      shown_[static_cast<std::size_t>(slot)] = true;
      if (name(slot).empty()) names_[static_cast<std::size_t>(slot)] = copy_name(step.reads[0]);
    }
    for (const DraftStep& member : step.members) note_written(member);
  }
  [[nodiscard]] std::string copy_name(int slot) const { return "copy of " + name(slot); }

  /// A line for what no step makes, before the first step that reads it: a view, or a concatenation
  /// whose parts are computed where they belong.
  void show(int slot, const std::string& before) {
    if (slot < 0 || shown_[static_cast<std::size_t>(slot)]) return;
    shown_[static_cast<std::size_t>(slot)] = true;
    const Node& node = *nodes_[static_cast<std::size_t>(slot)];
    const bool is_view = node.op().kind == BodyKind::view;
    std::vector<std::string> inputs;
    for (const Value v : node.inputs()) {
      const int input = draft_.slot_of.at(v);
      show(input, before);
      const bool copied = is_view && slot_at(input).buffer != slot_at(slot).buffer;
      inputs.push_back(copied ? copy_name(input) : name(input));
    }
    line(fmt::format("{}{} {}({}) -> {}{}", before, is_view ? "view" : "in place", node.op().name,
                     fmt::join(inputs, ", "), name(slot), lines_of(node)));
  }

  void write_step(const DraftStep& step, const std::string& number, const std::string& before) {
    for (const int slot : step.reads) show(slot, before);
    std::vector<std::string> inputs, results;
    for (const int slot : step.reads) inputs.push_back(name(slot));
    for (const int slot : step.writes) results.push_back(name(slot) + place_of(step, slot));
    std::string text = fmt::format("{}{}({})", number, operators_of(step), fmt::join(inputs, ", "));
    if (!results.empty()) text += fmt::format(" -> {}", fmt::join(results, ", "));
    if (step.spoils >= 0)
      text += " in the memory of " + inputs[static_cast<std::size_t>(step.spoils)];
    if (step.kind == DraftStep::Kind::rows) {
      text +=
          fmt::format(", {} row{} at a time", step.blocks.rows, step.blocks.rows == 1 ? "" : "s");
    }
    if (step.past_caches) text += " past the caches";
    if (draft_.is_empty(step)) text += ", no elements: not run";
    line(text + (step.members.empty() ? lines_of(*step.node) : ""));
    for (const DraftStep& member : step.members) {
      write_step(member, before + "  ", before + "  ");
    }
  }

  static std::string operators_of(const DraftStep& step) {
    if (step.kind == DraftStep::Kind::copy) return "copy";
    if (step.kind == DraftStep::Kind::save) return "save";
    if (step.kind == DraftStep::Kind::rows) return std::string(step.node->op().name);
    std::vector<std::string> operators;
    for (StepTime::Part& part : parts_of(*step.node)) operators.push_back(std::move(part.op));
    return fmt::format("{}", fmt::join(operators, "+"));
  }

  /// Each line once, in the order of the operators.
  [[nodiscard]] std::string lines_of(const Node& node) const {
    if (!options_.lines) return "";
    std::vector<std::string> lines;
    for (const StepTime::Part& part : parts_of(node)) {
      std::string text = part.loc ? " @" + to_string(part.loc) : "";
      if (std::ranges::find(lines, text) == lines.end()) lines.push_back(std::move(text));
    }
    return fmt::format("{}", fmt::join(lines, ""));
  }

  /// What a step writes over: an input that nobody needs afterwards, or a variable.
  [[nodiscard]] std::string place_of(const DraftStep& step, int written) const {
    const Slot& result = slot_at(written);
    for (const int read : step.reads) {
      if (read >= 0 && slot_at(read).buffer == result.buffer &&
          slot_at(read).offset == result.offset) {
        return " over " + name(read);
      }
    }
    for (const Value v : graph_.variables()) {
      const int variable = draft_.slot_of.at(v);
      if (variable != written && slot_at(variable).buffer == result.buffer)
        return " over " + name(variable);
    }
    return "";
  }

  void write_regions(const Node& node) {
    const std::size_t count = node.regions().size();
    for (std::size_t i = 0; i < count; ++i) {
      Ref<GraphImpl> region = node.regions()[i];
      if (options_.lower) region = options_.lower(region);
      const std::string title =
          count == 1 ? "    region" : fmt::format("    region {} of {}", i + 1, count);
      try {
        const std::string plan = PlanWriter(*region, sizes_, options_, indent_ + "      ").write();
        line(title + ":");
        text_ += plan;
      } catch (const Error& error) {  // it may never run at these sizes
        line(title + " has no plan here: " + error.message());
      }
    }
  }

  void write_buffer(int number) {
    const Buffer& buffer = draft_.buffers[static_cast<std::size_t>(number)];
    std::vector<std::string> values;
    std::size_t bytes = buffer.bytes;
    for (std::size_t i = 0; i < draft_.slots.size(); ++i) {
      const Slot& slot = draft_.slots[i];
      if (slot.buffer != number) continue;
      values.push_back(slot.offset == 0 ? names_[i] : fmt::format("{}+{}", names_[i], slot.offset));
      if (nodes_[i] && is_given(*nodes_[i])) {
        bytes =
            static_cast<std::size_t>(slot.tensor.impl()->numel()) * size_of(slot.tensor.dtype());
      }
    }
    if (values.empty()) return;  // what lies there now lies in another one
    const bool one = buffer.first_step == buffer.last_step;
    const std::string steps =
        buffer.first_step < 0 ? "no step"
        : one                 ? fmt::format("step {}", buffer.first_step)
                              : fmt::format("steps {} to {}", buffer.first_step, buffer.last_step);
    line(fmt::format("  {}: {}, {} bytes, {}", fmt::join(values, ", "), source_of(buffer), bytes,
                     steps));
  }

  [[nodiscard]] bool has_arenas() const noexcept { return placed_.arenas.arenas.size() > 1; }

  [[nodiscard]] std::string source_of(const Buffer& buffer) const {
    switch (buffer.source) {
      case Source::arena:
        return has_arenas() ? fmt::format("arena {} at {}", buffer.arena, buffer.offset)
                            : fmt::format("arena at {}", buffer.offset);
      case Source::placeholder:
        return "placeholder";
      case Source::variable:
        return "variable";
      case Source::constant:
        return "constant";
      case Source::output:
        return "output";
      case Source::control:
        return "made by its regions";
      case Source::scratch:
        return fmt::format("scratch at {}", buffer.offset);
    }
    return "";
  }

  const GraphImpl& graph_;
  const SymbolMap& sizes_;
  const PlanTextOptions& options_;
  std::string indent_, text_;
  PlacedDraft placed_;
  const Draft& draft_;
  std::vector<std::string> names_;  // by slot
  std::vector<const Node*> nodes_;  // by slot: what gives it; of copies none
  std::vector<bool> shown_;         // by slot: it needs no line of its own any more
};

}  // namespace

std::string plan_text(const GraphImpl& lowered, const SymbolMap& sizes,
                      const PlanTextOptions& options) {
  return PlanWriter(lowered, sizes, options, "").write();
}

}  // namespace dyad::exec
