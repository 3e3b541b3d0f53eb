#include "dyad/onnx/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/forwarding_evaluator.h"
#include "dyad/exec/recorder.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/onnx/model_file.h"
#include "dyad/ops/creation.h"

namespace dyad::onnx {
namespace {

/// Remembers what a call writes to tensors, gradients and the generator, and puts it back.
class Undo final : public exec::ForwardingEvaluator {
 public:
  explicit Undo(Evaluator& to) : ForwardingEvaluator(to), random_(default_generator().state()) {}
  ~Undo() override {
    const Evaluator::Scope eager(EagerEvaluator::instance());
    const NoGrad no_tape;
    for (auto it = written_.rbegin(); it != written_.rend(); ++it) it->first.copy_(it->second);
    for (auto& [leaf, grad] : grads_) leaf.set_grad(grad);
    default_generator().set_state(random_);
  }

  void write(const Tensor& target, const Tensor& value, Loc loc) override {
    {
      const Evaluator::Scope eager(EagerEvaluator::instance());
      const NoGrad no_tape;
      written_.emplace_back(target, target.detach().clone());
    }
    ForwardingEvaluator::write(target, value, loc);
  }
  void note_grad(const Tensor& leaf, bool overwrites) override {
    const bool known =
        std::ranges::any_of(grads_, [&](const auto& item) { return item.first.is_same(leaf); });
    if (!known) grads_.emplace_back(leaf, autograd::grad_of(*leaf.impl()));
    ForwardingEvaluator::note_grad(leaf, overwrites);
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> written_, grads_;
  RandomKey random_;
};

[[noreturn]] void refuse(const std::string& reason, Loc where, Loc loc) {
  throw OnnxError(fmt::format("onnx::save_training: the step {}{}", reason,
                              where ? " (" + to_string(where) + ")" : ""),
                  loc);
}

/// Numbers for the names of sizes; none that broadcasts, and different ones.
SymbolMap sizes_for(std::span<const Input> inputs) {
  std::vector<Dim> symbols;
  for (const Input& input : inputs) {
    for (const Dim size : input.shape) collect_symbols(size, symbols);
  }
  SymbolMap sizes;
  constexpr std::int64_t kFirst = 16;
  for (const Dim symbol : symbols) {
    if (sizes.find(symbol) == nullptr) {
      sizes.bind(symbol, kFirst + static_cast<std::int64_t>(sizes.entries().size()));
    }
  }
  return sizes;
}

exec::Path record(const detail::Function& step, std::span<const Input> inputs, Loc loc) {
  const SymbolMap sizes = sizes_for(inputs);
  std::vector<Shape> shapes;
  std::vector<Tensor> arguments;
  for (const Input& input : inputs) {
    shapes.push_back(input.shape);
    Shape numbers;
    for (const Dim size : input.shape) numbers.push_back(evaluate(size, sizes));
    arguments.push_back(zeros(numbers, input.dtype));
  }
  exec::Recorder recorder(shapes, arguments, sizes, loc);
  Undo undo(recorder);
  const Evaluator::Scope scope(undo);
  const std::vector<Tensor> results = step(recorder.arguments());
  return recorder.finish(results, loc);
}

/// What a recording relies on and a model cannot.
void check(const exec::Path& path, Loc loc) {
  if (!path.refusal.empty()) refuse("cannot be recorded: " + path.refusal, path.refused_at, loc);
  if (!path.decisions.empty()) {
    refuse(
        "reads a number on the host: use where() or cond(), take it as an input, or define the "
        "step as a static Graph, in which a while_loop is a node",
        path.decisions[0].loc, loc);
  }
  if (!path.grad_captures.empty()) {
    refuse("adds to gradients from before it: call zero_grad() in it", {}, loc);
  }
  for (const exec::Write& write : path.writes) {
    if (write.argument >= 0) {
      refuse(fmt::format("writes to its argument {}; return the value instead", write.argument),
             write.value.node->loc(), loc);
    }
  }
  for (const exec::DimGuard& guard : path.guards) {
    // That a size is more than 1 is assumed: other sizes do not broadcast.
    const auto is_one = [](Dim size) { return size.is_number() && size.number() < 2; };
    if (guard.kind == exec::DimGuard::Kind::equal && guard.answer == 0 &&
        (is_one(guard.a) || is_one(guard.b))) {
      continue;
    }
    if (guard.kind == exec::DimGuard::Kind::less &&
        (guard.answer != 0 ? is_one(guard.a) : is_one(guard.b - 1))) {
      continue;
    }
    refuse(guard.kind == exec::DimGuard::Kind::value
               ? fmt::format("depends on the number that the size {} is", to_string(guard.a))
               : fmt::format("depends on how the sizes {} and {} compare", to_string(guard.a),
                             to_string(guard.b)),
           guard.loc, loc);
  }
}

/// The variable that reads the tensor's elements; several handles of one memory share one.
Value variable_of(const GraphImpl& graph, const Tensor& tensor) {
  if (const Value found = graph.find_variable(tensor)) return found;
  for (const Value variable : graph.variables()) {
    const Tensor& held = variable.node->attrs_as<VariableAttrs>().tensor;
    if (held.raw_data() == tensor.raw_data() && held.shape().same_as(tensor.shape()) &&
        held.dtype() == tensor.dtype()) {
      return variable;
    }
  }
  return {};
}

using Writes = std::vector<std::pair<Value, Value>>;  // variable, what it becomes

/// The state: what `given` names, and what else is written.
std::vector<StepState> state_of(const GraphImpl& graph, const Writes& writes,
                                const TensorDict& given) {
  std::vector<StepState> state;
  std::unordered_set<Value, ValueHash> seen;
  std::unordered_set<std::string> names;
  const auto add = [&](const std::string& wanted, Value variable) {
    if (!variable || !seen.insert(variable).second) return;
    std::string name = wanted;
    for (int i = 2; !names.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
    const auto write = std::ranges::find(writes, variable, &Writes::value_type::first);
    state.push_back({std::move(name), variable.node->attrs_as<VariableAttrs>().tensor, variable,
                     write == writes.end() ? Value() : write->second});
  };
  for (const auto& [name, tensor] : given) add(name, variable_of(graph, tensor));
  for (const auto& [variable, value] : writes) {
    add(variable.node->attrs_as<VariableAttrs>().name, variable);
  }
  return state;
}

/// The writes that the outputs of a graph bring about, the last one to each variable.
Writes last_writes_of(const GraphImpl& graph) {
  std::unordered_set<const Node*> needed;
  std::vector<const Node*> pending;
  for (const Value output : graph.outputs()) pending.push_back(output.node);
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!needed.insert(node).second) continue;
    for (const Value input : node->inputs()) {
      if (input) pending.push_back(input.node);
    }
  }
  Writes writes;
  for (const auto& node : graph.nodes()) {
    if (&node->op() != &kAssignOp || !needed.contains(node.get())) continue;
    const auto earlier = std::ranges::find(writes, node->inputs()[0], &Writes::value_type::first);
    if (earlier == writes.end()) {
      writes.emplace_back(node->inputs()[0], node->inputs()[1]);
    } else {
      earlier->second = node->inputs()[1];
    }
  }
  return writes;
}

void write_step(const std::string& path, const GraphImpl& graph, const Step& step,
                const TrainingOptions& options, Loc loc) {
  SaveOptions save = options.save;
  if (save.outputs.empty() && step.results.size() == 1) save.outputs = {"loss"};
  Draft model = to_training_model(graph, step, options.initial_values, save, loc);
  write(path, model, save, loc);
}

}  // namespace

namespace detail {

void save_training_function(const std::string& path, const Function& step,
                            std::span<const Input> inputs, const TrainingOptions& options,
                            Loc loc) {
  loc = loc.user();
  const exec::Path recorded = record(step, inputs, loc);
  check(recorded, loc);
  const GraphImpl& graph = *recorded.graph;
  Step made{.inputs = {}, .results = recorded.outputs, .state = {}};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    made.inputs.emplace_back(inputs[i].name, graph.placeholders()[i]);
  }
  Writes writes;
  for (const exec::Write& write : recorded.writes) {
    writes.emplace_back(variable_of(graph, write.variable), write.value);
  }
  made.state = state_of(graph, writes, options.state);
  write_step(path, graph, made, options, loc);
}

}  // namespace detail

void save_training(const std::string& path, const Graph& graph, const TrainingOptions& options,
                   Loc loc) {
  const GraphImpl& impl = *graph.impl();
  Step step{.inputs = {}, .results = impl.outputs(), .state = {}};
  for (const Value input : impl.placeholders()) {
    step.inputs.emplace_back(input.node->attrs_as<PlaceholderAttrs>().name, input);
  }
  step.state = state_of(impl, last_writes_of(impl), options.state);
  write_step(path, impl, step, options, loc.user());
}

}  // namespace dyad::onnx
