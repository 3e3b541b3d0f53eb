#include "dyad/exec/compared_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

#include "dyad/base/finally.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/drawn_keys.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/exec/pass_log.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/literal.h"
#include "dyad/passes/extract.h"
#include "dyad/passes/lower.h"
#include "dyad/passes/pipeline.h"
#include "dyad/passes/rewriter.h"

namespace dyad::exec {
namespace {

using Tensors = std::vector<Tensor>;
using Names = std::vector<std::string>;

/// Where two tensors differ first, both being of one type; -1 when nowhere. Two NaN are equal.
std::int64_t first_difference(const Tensor& a, const Tensor& b) {
  const std::vector<std::byte> left = packed_elements(a), right = packed_elements(b);
  if (left == right) return -1;
  const std::size_t width = size_of(a.dtype());
  return visit_element(a.dtype(), [&]<class T>(std::type_identity<T>) -> std::int64_t {
    for (std::size_t at = 0; at < left.size(); at += width) {
      if (std::memcmp(&left[at], &right[at], width) == 0) continue;
      if constexpr (requires(T x) { convert_element<double>(x); }) {
        T x, y;
        std::memcpy(&x, &left[at], width);
        std::memcpy(&y, &right[at], width);
        if (std::isnan(convert_element<double>(x)) && std::isnan(convert_element<double>(y))) {
          continue;
        }
      }
      return static_cast<std::int64_t>(at / width);
    }
    return -1;
  });
}

Names passes_that_may_be_off(const ExecutableOptions& options) {
  Names names;
  for (const passes::Pass& pass : passes::pipeline()) {
    const bool is_on = pass.use == passes::PassUse::optional ||
                       (pass.use == passes::PassUse::on_request && options.fast_math);
    if (is_on && std::ranges::find(options.passes_off, pass.name) == options.passes_off.end())
      names.push_back(pass.name);
  }
  return names;
}

bool is_host_effect(const Node& node) { return node.op().effect == Effect::host; }

/// The graph on what its variables held before a call.
Ref<GraphImpl> with_variables_of(const BeforeCall& before, const GraphImpl& graph) {
  passes::Rewriter rewriter(graph);
  for (const auto& node : graph.nodes()) {
    if (&node->op() != &kVariableOp) {
      rewriter.copy(*node);
      continue;
    }
    const auto& variable = node->attrs_as<VariableAttrs>();
    rewriter.set(node->output(), rewriter.to()->add_variable(
                                     variable.name, before.find(variable.tensor), node->loc()));
  }
  return rewriter.finish();
}

/// The first place after `right`, or one of several, at which something is wrong that was not yet
/// before it; it is wrong at `wrong`, which lies behind `right`.
std::size_t bisect(std::size_t right, std::size_t wrong,
                   const std::function<bool(std::size_t)>& is_wrong) {
  while (wrong - right > 1) {
    const std::size_t middle = std::midpoint(right, wrong);
    (is_wrong(middle) ? wrong : right) = middle;
  }
  return wrong;
}

/// Where in a control node one of its graphs runs.
std::string place_of(const RegionRun& run) {
  const std::string node =
      fmt::format("the {} at {}", run.node.op().name, to_string(run.node.loc()));
  if (&run.node.op() == &kCondOp)
    return fmt::format("the {} function of {}", run.region == 0 ? "first" : "second", node);
  std::string step = fmt::format("step {} of {}", run.step, node);
  if (&run.node.op() == &kScanOp || run.region == 1) return step;
  return run.region == 0 ? "the condition of " + step : "what follows the steps of " + node;
}

}  // namespace

bool differ(const Tensor& a, const Tensor& b) {
  return !type_of(a).same_as(type_of(b)) || first_difference(a, b) >= 0;
}

ComparedGraph::ComparedGraph(const GraphImpl& graph, GraphFeed feed, std::span<const Value> wanted,
                             ExecutableOptions options)
    : graph_(graph), feed_(std::move(feed)), options_(std::move(options)) {
  for (const Value v : wanted) {
    if (v && std::ranges::find(wanted_, v) == wanted_.end()) wanted_.push_back(v);
  }
  find_live();
  run();
}

/// A backward part that could not be recorded leaves nodes behind that nobody wants.
void ComparedGraph::find_live() {
  for (const Value v : wanted_) live_.insert(v.node);
  for (const auto& node : std::views::reverse(graph_.nodes())) {
    if (find_drawing(*node)) live_.insert(node.get());
    if (!live_.contains(node.get())) continue;
    for (const Value v : node->inputs()) live_.insert(v.node);
  }
}

void ComparedGraph::run() {
  default_generator().set_state(feed_.random);
  SymbolMap sizes = feed_.sizes;
  for (const auto& node : graph_.nodes()) {
    if (!live_.contains(node.get())) continue;
    if (&node->op() == &kPlaceholderOp) {
      eager_[node->output()] = feed_.placeholders.at(node->attrs_as<PlaceholderAttrs>().name);
    } else if (&node->op() == &kVariableOp) {
      eager_[node->output()] = feed_.before.find(node->attrs_as<VariableAttrs>().tensor);
    } else {
      if (node->op().kind == BodyKind::control)
        random_before_[node.get()] = default_generator().state();
      interpret(*node, eager_, sizes);
    }
  }
  feed_.sizes = std::move(sizes);
}

std::vector<Value> ComparedGraph::steps() const {
  std::vector<Value> values;
  for (const auto& node : graph_.nodes()) {
    if (!live_.contains(node.get()) || node->op().effect != Effect::pure ||
        node->op().kind == BodyKind::structural) {
      continue;
    }
    for (int i = 0; i < static_cast<int>(node->types().size()); ++i) {
      values.push_back(node->output(i));
    }
  }
  return values;
}

Ref<GraphImpl> ComparedGraph::part_for(std::span<const Value> values) const {
  Ref<GraphImpl> part = with_variables_of(feed_.before, *passes::extract(graph_, values));
  part->erase_if(is_host_effect);
  return part;
}

ExecutableOptions ComparedGraph::options_without(std::span<const std::string> off) const {
  ExecutableOptions options = options_;
  options.passes_off.insert(options.passes_off.end(), off.begin(), off.end());
  return options;
}

std::vector<Tensor> ComparedGraph::compiled(std::span<const Value> values,
                                            std::span<const std::string> off) const {
  default_generator().set_state(feed_.random);
  const Ref<GraphImpl> part = part_for(values);
  Executable executable(part, options_without(off));
  Tensors inputs;
  for (const Value v : part->placeholders()) {
    inputs.push_back(feed_.placeholders.at(v.node->attrs_as<PlaceholderAttrs>().name));
  }
  return executable.run_region(inputs, feed_.outer, nullptr, {});
}

std::optional<ComparedGraph::Query> ComparedGraph::difference(std::vector<Value> values) const {
  const Tensors made = compiled(values, {});
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (differ(made[i], eager(values[i]))) return Query{std::move(values), i, made[i]};
  }
  return {};
}

VerifyDifference ComparedGraph::describe(const Query& query) const {
  const Value v = query.value();
  const Tensor &eager = eager_.at(v), &compiled = query.compiled;
  VerifyDifference found{.op = std::string(v.node->op().name),
                         .type = to_string(v.type()),
                         .loc = v.node->loc(),
                         .eager = type_string(eager),
                         .compiled = type_string(compiled),
                         .pass = {}};
  if (!type_of(eager).same_as(type_of(compiled))) return found;
  found.element = first_difference(eager, compiled);
  const auto element = [&](const Tensor& t) {
    const std::vector<std::byte> bytes = packed_elements(t);
    const std::size_t at = static_cast<std::size_t>(found.element) * size_of(t.dtype());
    return element_text(t.dtype(), &bytes[at]);
  };
  found.eager = element(eager);
  found.compiled = element(compiled);
  return found;
}

std::optional<std::string> ComparedGraph::find_culprit(const Query& query) const {
  const Names names = passes_that_may_be_off(options_);
  const auto differs = [&](std::size_t on) {
    const std::span off = std::span(names).subspan(on);
    return differ(compiled(query.values, off)[query.first], eager(query.value()));
  };
  if (names.empty() || differs(0)) return find_needed_culprit(query, names);
  return names[bisect(0, names.size(), differs) - 1];
}

std::optional<std::string> ComparedGraph::find_needed_culprit(const Query& query,
                                                              const Names& off) const {
  struct Stage {
    std::string pass;
    Ref<GraphImpl> graph;
  };
  std::vector<Stage> stages;
  passes::LowerOptions how = lower_options(options_without(off));
  how.dump = [&](std::string_view pass, const GraphImpl& graph) {
    stages.push_back({std::string(pass), clone(graph)});
  };
  static_cast<void>(passes::lower(*part_for(query.values), how));
  const auto differs = [&](std::size_t at) {
    const GraphImpl& graph = *stages[at].graph;
    const Value there = graph.outputs()[query.first];
    return differ(ComparedGraph(graph, feed_, {&there, 1}).eager(there), eager(query.value()));
  };
  const std::size_t last = stages.size() - 1;
  if (differs(0) || !differs(last)) return {};
  return stages[bisect(0, last, differs)].pass;
}

std::optional<VerifyDifference> ComparedGraph::find_first() const {
  const std::optional<Query> of_wanted = difference(wanted_);
  if (!of_wanted) return {};
  // When all are asked for at once, or else each alone.
  const std::vector<Value> all = steps();
  std::optional<Query> query = difference(all);
  for (std::size_t i = 0; i < all.size() && !query; ++i) query = difference({all[i]});
  if (!query) query = of_wanted;
  const Node& node = *query->value().node;
  if (node.op().kind == BodyKind::control) {
    if (auto inside = look_inside(node)) return inside;
  }
  VerifyDifference found = describe(*query);
  found.pass = find_culprit(*query);
  return found;
}

std::optional<VerifyDifference> ComparedGraph::look_inside(const Node& node) const {
  std::optional<VerifyDifference> found;
  std::map<std::size_t, Executable> regions;
  default_generator().set_state(random_before_.at(&node));
  static_cast<void>(
      interpret(node, inputs_of(node, eager_), feed_.sizes, [&](const RegionRun& run) {
        if (found) return;
        const RandomKey after = default_generator().state();
        const Finally restored([&] { default_generator().set_state(after); });
        default_generator().set_state(run.random);
        const Ref<GraphImpl>& graph = node.regions()[run.region];
        const auto executable = regions.try_emplace(run.region, graph, options_).first;
        const Tensors made = executable->second.run_region(run.arguments, run.outer, nullptr, {});
        for (std::size_t i = 0; i < made.size() && !found; ++i) {
          if (differ(made[i], run.results[i])) found = compare(run);
        }
      }));
  return found;
}

std::optional<VerifyDifference> ComparedGraph::compare(const RegionRun& run) const {
  const GraphImpl& graph = *run.node.regions()[run.region];
  GraphFeed feed{.placeholders = {},
                 .sizes = bind_symbols(graph, run.arguments, run.outer, {}),
                 .outer = run.outer,
                 .random = run.random,
                 .before = {}};
  for (std::size_t i = 0; i < run.arguments.size(); ++i) {
    const Value placeholder = graph.placeholders()[i];
    feed.placeholders[placeholder.node->attrs_as<PlaceholderAttrs>().name] = run.arguments[i];
  }
  auto found = ComparedGraph(graph, std::move(feed), graph.outputs(), options_).find_first();
  if (found) found->inside.insert(found->inside.begin(), place_of(run));
  return found;
}

}  // namespace dyad::exec
