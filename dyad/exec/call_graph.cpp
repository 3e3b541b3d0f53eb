#include "dyad/exec/call_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/control_flow_ops.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/substitute.h"
#include "dyad/ops/rearrange.h"

namespace dyad::exec {
namespace {

/// What the sizes named in a graph are in a call.
using Sizes = std::map<std::int64_t, Dim>;  // by word of the symbol

class GraphCall {
 public:
  GraphCall(const GraphImpl& graph, Sizes& sizes, Loc loc)
      : graph_(graph), sizes_(sizes), loc_(loc) {}

  void set(Value value, const Tensor& tensor) {
    bind_sizes(value.type(), tensor);
    values_[value] = tensor;
  }

  std::vector<Tensor> run() {
    for (const auto& node : graph_.nodes()) {
      if (!values_.contains(node->output())) run_node(*node);
    }
    std::vector<Tensor> results;
    for (const Value output : graph_.outputs()) results.push_back(values_.at(output));
    return results;
  }

 private:
  void run_node(Node& node) {
    const OpInfo& op = node.op();
    if (&op == &kConstantOp) return set(node.output(), constant(node));
    if (&op == &kAfterOp && std::ranges::all_of(node.inputs().subspan(1), [&](Value before) {
          return is_done(values_.at(before));
        })) {
      return set(node.output(), values_.at(node.inputs()[0]));
    }
    if (&op == &kAssignOp) {
      throw GraphError("a graph that writes to its variables is run by a Session, not called", loc_,
                       node.loc());
    }
    std::vector<Tensor> inputs;
    for (const Value input : node.inputs()) {
      inputs.push_back(input ? values_.at(input) : Tensor());
    }
    std::vector<Tensor> results =
        op.kind == BodyKind::control ? run_control(node, inputs) : apply(node, inputs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      set(node.output(static_cast<int>(i)), results[i]);
    }
  }

  /// Whether nobody else has to compute it: all nodes are run here, and where they make another
  /// graph, sizes that are numbers are compared now.
  static bool is_done(const Tensor& x) {
    if (dynamic_cast<GraphEvaluator*>(&Evaluator::current()) == nullptr) return true;
    const GraphValue* made = graph_value(x);
    return made == nullptr || (made->value.node->op().kind != BodyKind::structural &&
                               std::ranges::all_of(made->value.type().shape(),
                                                   [](Dim size) { return size.is_number(); }));
  }

  /// In a graph it stays what it is.
  static Tensor constant(const Node& node) {
    const Tensor& held = node.attrs_as<ConstantAttrs>().value;
    auto* evaluator = dynamic_cast<GraphEvaluator*>(&Evaluator::current());
    if (evaluator != nullptr) {
      return symbolic_tensor(evaluator->graph(),
                             evaluator->graph()->add_constant(held, node.loc()));
    }
    Evaluator::current().note_literal(held);
    return held;
  }

  std::vector<Tensor> apply(const Node& node, const std::vector<Tensor>& inputs) {
    std::vector<const Tensor*> refs;
    for (const Tensor& input : inputs) refs.push_back(&input);
    const Ref<Attrs> attrs = substitute_symbols(*node.op().attrs, node.attrs().data(),
                                                [&](Dim symbol) { return size_of(symbol); });
    std::vector<Tensor> results(node.types().size());
    Evaluator::current().apply(node.op(), refs, attrs ? attrs->data() : node.attrs().data(),
                               results, loc_);
    return results;
  }

  std::vector<Tensor> run_control(const Node& node, const std::vector<Tensor>& inputs) {
    const std::span<const Tensor> all(inputs);
    if (&node.op() == &kCondOp) {
      return run_cond(inputs[0], region(node, 0, {}), region(node, 1, {}), all.subspan(1), loc_);
    }
    if (&node.op() != &kWhileOp && &node.op() != &kScanOp) {
      throw GraphError(
          fmt::format("a graph with {} is run by a Session, not called", node.op().name), loc_,
          node.loc());
    }
    const auto& attrs = node.attrs_as<LoopAttrs>();
    const auto states = static_cast<std::size_t>(attrs.states);
    const auto fixed = states + static_cast<std::size_t>(attrs.slices);
    const std::vector<Tensor> captured(inputs.begin() + static_cast<std::ptrdiff_t>(fixed),
                                       inputs.end());
    if (&node.op() == &kWhileOp) {
      std::vector<Tensor> results =
          run_while(region(node, 0, captured), region(node, 1, captured), all.first(states), loc_,
                    node.types().size() - states);
      for (std::size_t i = states; i < fixed; ++i) {
        results[i] = concat({all[i], results[i]}, 0, loc_);
      }
      return results;
    }
    std::vector<Tensor> slices(inputs.begin() + static_cast<std::ptrdiff_t>(states),
                               inputs.begin() + static_cast<std::ptrdiff_t>(fixed));
    if (!attrs.reverse) {
      return run_scan(region(node, 0, captured), all.first(states), slices, loc_);
    }
    for (Tensor& slice : slices) slice = flip(slice, {0}, loc_);
    std::vector<Tensor> results =
        run_scan(region(node, 0, captured), all.first(states), slices, loc_);
    for (std::size_t i = states; i < results.size(); ++i) results[i] = flip(results[i], {0}, loc_);
    return results;
  }

  /// A region as a function of its first parameters; the others are `captured`.
  TensorFunction region(const Node& node, std::size_t i, std::vector<Tensor> captured) {
    return [this, region = node.regions()[i],
            captured = std::move(captured)](std::span<const Tensor> given) {
      GraphCall call(*region, sizes_, loc_);
      std::size_t next = 0;
      for (const Tensor& tensor : given) call.set(region->placeholders()[next++], tensor);
      for (const Tensor& tensor : captured) call.set(region->placeholders()[next++], tensor);
      return call.run();
    };
  }

  Dim size_of(Dim symbol) const {
    const auto known = sizes_.find(symbol.word());
    if (known != sizes_.end()) return known->second;
    throw GraphError("a call of a graph does not tell what the size " + to_string(symbol) + " is",
                     loc_);
  }

  /// What a tensor tells of the sizes of its type.
  void bind_sizes(const Type& type, const Tensor& tensor) {
    for (int axis = 0; axis < type.rank(); ++axis) {
      const Dim dim = type.shape()[static_cast<std::size_t>(axis)];
      std::int64_t coefficient = 0, constant = 0;
      Dim symbol;
      if (dim.is_number() || !as_linear(dim, coefficient, symbol, constant)) continue;
      if (sizes_.contains(symbol.word())) continue;
      sizes_[symbol.word()] = (tensor.size(axis, loc_) - constant) / coefficient;
    }
  }

  const GraphImpl& graph_;
  Sizes& sizes_;
  Loc loc_;
  std::unordered_map<Value, Tensor, ValueHash> values_;
};

void check_input(const Node& placeholder, const Tensor& given, Loc loc) {
  const auto& attrs = placeholder.attrs_as<PlaceholderAttrs>();
  if (given.dtype() == attrs.dtype && given.rank() == attrs.shape.rank()) return;
  const std::string text =
      fmt::format("input \"{}\" of the graph is {}, but is given {}", attrs.name,
                  type_string(attrs.dtype, attrs.shape), type_string(given));
  if (given.dtype() != attrs.dtype) throw DTypeError(text, loc);
  throw ShapeError(text, loc);
}

}  // namespace

std::vector<Tensor> call_graph(const GraphImpl& graph, std::span<const Tensor> inputs,
                               std::span<const Tensor> variables, Loc loc) {
  loc = loc.user();
  if (inputs.size() != graph.placeholders().size() ||
      variables.size() != graph.variables().size()) {
    throw GraphError(fmt::format("the graph takes {} inputs and has {} variables, but is given {} "
                                 "and {}",
                                 graph.placeholders().size(), graph.variables().size(),
                                 inputs.size(), variables.size()),
                     loc);
  }
  Sizes sizes;
  GraphCall call(graph, sizes, loc);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(*graph.placeholders()[i].node, inputs[i], loc);
    call.set(graph.placeholders()[i], inputs[i]);
  }
  for (std::size_t i = 0; i < variables.size(); ++i) call.set(graph.variables()[i], variables[i]);
  return call.run();
}

}  // namespace dyad::exec
