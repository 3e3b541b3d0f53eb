#include "dyad/exec/interpret.h"

#include <string>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/executable_bind.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

using Tensors = std::vector<Tensor>;

Tensors joined(std::span<const Tensor> a, std::span<const Tensor> b) {
  Tensors all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

bool is_true(const Tensor& scalar) { return *scalar.impl()->data != std::byte{0}; }

Tensors run_graph(const GraphImpl& graph, std::span<const Tensor> arguments,
                  const SymbolMap& outer) {
  SymbolMap sizes = bind_symbols(graph, arguments, outer, {});
  TensorOfValue values;
  for (std::size_t i = 0; i < arguments.size(); ++i) values[graph.placeholders()[i]] = arguments[i];
  for (const auto& node : graph.nodes()) {
    if (&node->op() == &kPlaceholderOp || node->op().effect == Effect::host) continue;
    interpret(*node, values, sizes);
  }
  Tensors results;
  for (const Value v : graph.outputs()) results.push_back(values.at(v));
  return results;
}

/// A control node on data.
class ControlRun {
 public:
  ControlRun(const Node& node, std::span<const Tensor> inputs, const SymbolMap& sizes,
             const RegionWatch& watch)
      : node_(node), inputs_(inputs), sizes_(sizes), watch_(watch) {}

  [[nodiscard]] Tensors compute() {
    if (&node_.op() == &kCondOp) return run(is_true(inputs_[0]) ? 0 : 1, 0, inputs_.subspan(1));
    if (&node_.op() == &kScanOp) return scan();
    if (&node_.op() == &kWhileOp) return repeat();
    if (&node_.op() == &kWhileStatesOp) return repeat_and_look_back();
    throw InternalError("there is no way to interpret " + std::string(node_.op().name),
                        node_.loc());
  }

 private:
  [[nodiscard]] Tensors run(std::size_t region, std::int64_t step,
                            std::span<const Tensor> arguments) const {
    const RandomKey before = default_generator().state();
    Tensors results = run_graph(*node_.regions()[region], arguments, sizes_);
    if (watch_) watch_({node_, region, step, arguments, results, sizes_, before});
    return results;
  }

  /// Along a new first axis; `row` is their type where there are none.
  [[nodiscard]] Tensor stacked_rows(const Tensors& rows, const Type& row) const {
    if (!rows.empty()) return stack(rows, 0, node_.loc());
    const Type none(row.dtype(), evaluate(row.shape(), sizes_));
    const Type all = stacked(none, 0);
    return zeros(all.shape(), all.dtype(), node_.loc());
  }

  [[nodiscard]] Tensors begin_states(std::size_t count) const {
    Tensors states;
    for (const Tensor& input : inputs_.first(count)) states.push_back(clone(input, node_.loc()));
    return states;
  }

  [[nodiscard]] Tensors scan() {
    const auto& attrs = node_.attrs_as<LoopAttrs>();
    const auto count = static_cast<std::size_t>(attrs.states),
               slices = static_cast<std::size_t>(attrs.slices);
    const std::span<const Tensor> xs = inputs_.subspan(count, slices),
                                  captures = inputs_.subspan(count + slices);
    const std::int64_t length = xs[0].shape().numbers()[0];
    const std::span<const Value> given = node_.regions()[0]->outputs();
    Tensors states = begin_states(count);
    std::vector<Tensors> rows(given.size() - count);
    for (std::int64_t step = 0; step < length; ++step) {
      const std::int64_t t = attrs.reverse ? length - 1 - step : step;
      Tensors arguments = states;
      for (const Tensor& x : xs) arguments.push_back(select(x, 0, t, node_.loc()));
      Tensors made = run(0, step, joined(arguments, captures));
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(made[count + i]);
      made.resize(count);
      states = std::move(made);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (attrs.reverse) rows[i] = Tensors(rows[i].rbegin(), rows[i].rend());
      states.push_back(stacked_rows(rows[i], given[count + i].type()));
    }
    return states;
  }

  [[nodiscard]] Tensors repeat() {
    const auto& attrs = node_.attrs_as<LoopAttrs>();
    const auto count = static_cast<std::size_t>(attrs.states),
               slices = static_cast<std::size_t>(attrs.slices);
    const std::span<const Tensor> captures = inputs_.subspan(count + slices);
    const std::span<const Value> given = node_.regions()[1]->outputs();
    Tensors states = begin_states(count);
    std::vector<Tensors> rows(given.size() - count);
    for (std::size_t i = 0; i < slices; ++i) {
      const Tensor& begun = inputs_[count + i];
      for (std::int64_t t = 0; t < begun.shape().numbers()[0]; ++t)
        rows[i].push_back(select(begun, 0, t, node_.loc()));
    }
    for (std::int64_t step = 0;; ++step) {
      const Tensors arguments = joined(states, captures);
      if (!is_true(run(0, step, arguments)[0])) break;
      Tensors made = run(1, step, arguments);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(made[count + i]);
      made.resize(count);
      states = std::move(made);
    }
    for (std::size_t i = 0; i < rows.size(); ++i)
      states.push_back(stacked_rows(rows[i], given[count + i].type()));
    return states;
  }

  [[nodiscard]] Tensors repeat_and_look_back() {
    const auto& attrs = node_.attrs_as<WhileStatesAttrs>();
    const auto count = static_cast<std::size_t>(attrs.states);
    const std::span<const Tensor> captures =
        inputs_.subspan(count, static_cast<std::size_t>(attrs.captures));
    Tensors states = begin_states(count);
    std::vector<Tensors> before(count);
    std::int64_t step = 0;
    for (;; ++step) {
      const Tensors arguments = joined(states, captures);
      if (!is_true(run(0, step, arguments)[0])) break;
      for (std::size_t i = 0; i < count; ++i) before[i].push_back(states[i]);
      states = run(1, step, arguments);
    }
    Tensors arguments;
    for (std::size_t i = 0; i < count; ++i)
      arguments.push_back(stacked_rows(before[i], type_of(states[i])));
    return run(2, step, joined(arguments, inputs_.subspan(count)));
  }

  const Node& node_;
  std::span<const Tensor> inputs_;
  const SymbolMap& sizes_;
  const RegionWatch& watch_;
};

}  // namespace

std::vector<Tensor> interpret(const Node& node, std::span<const Tensor> inputs,
                              const SymbolMap& sizes, const RegionWatch& watch) {
  if (node.op().kind != BodyKind::control) return evaluate_node_at(node, inputs, sizes);
  return ControlRun(node, inputs, sizes, watch).compute();
}

void interpret(const Node& node, TensorOfValue& values, SymbolMap& sizes) {
  Tensors made;
  if (&node.op() == &kVariableOp) {
    made.push_back(node.attrs_as<VariableAttrs>().tensor);
  } else if (&node.op() == &kConstantOp) {
    made.push_back(node.attrs_as<ConstantAttrs>().value);
  } else {
    made = interpret(node, inputs_of(node, values), sizes);
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    bind_told(node.types()[i].shape(), made[i], sizes);
    values[{const_cast<Node*>(&node), static_cast<int>(i)}] = made[i];
  }
}

std::vector<Tensor> inputs_of(const Node& node, const TensorOfValue& values) {
  Tensors inputs;
  for (const Value v : node.inputs()) inputs.push_back(v ? values.at(v) : Tensor());
  return inputs;
}

}  // namespace dyad::exec
