#include "dyad/exec/graph.h"

#include <fmt/format.h>

#include <functional>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/assumed_sizes.h"
#include "dyad/exec/graph_branches.h"
#include "dyad/exec/graph_define.h"
#include "dyad/exec/read_graph.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/graph_ops.h"

namespace dyad {
namespace {

/// What is being defined in this thread.
exec::Defining& defined_now(std::string_view function, Loc loc) {
  auto* defining = dynamic_cast<exec::Defining*>(&Evaluator::current());
  if (!defining) {
    throw GraphError(fmt::format("{}() belongs to a graph: call it inside Graph::define, or as a "
                                 "member of the graph",
                                 function),
                     loc.user());
  }
  return *defining;
}

/// What the memory of a graph's values holds at a time.
class HeldValues {
 public:
  explicit HeldValues(const GraphImpl& graph) {
    each_value(graph, [&](Value v) { held_.push_back({graph.current(v), graph.written(v)}); });
  }

  /// Lets it hold that again; what was added since holds what it began with.
  void restore(GraphImpl& graph) const {
    std::size_t at = 0;
    each_value(graph, [&](Value v) {
      const auto [now, written] = at < held_.size() ? held_[at] : Held{v, v};
      ++at;
      if (!(graph.current(v) == now)) graph.overwrite(v, now);
      if (!(graph.written(v) == written)) graph.note_write_in_place(v, written);
    });
  }

 private:
  struct Held {
    Value now, written;
  };

  static void each_value(const GraphImpl& graph, const std::function<void(Value)>& visit) {
    for (const auto& node : graph.nodes()) {
      for (std::size_t i = 0; i < node->types().size(); ++i)
        visit(node->output(static_cast<int>(i)));
    }
  }

  std::vector<Held> held_;
};

}  // namespace

Graph::Graph() : Graph(std::make_shared<GraphState>()) { state_->impl = make_ref<GraphImpl>(); }
Graph::Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)) {}

const Ref<GraphImpl>& Graph::impl() const noexcept { return state_->impl; }

Graph Graph::parse(std::string_view text) {
  auto state = std::make_shared<GraphState>();
  state->impl = exec::read_graph(text);
  return Graph(std::move(state));
}

void Graph::record(const std::function<void()>& run,
                   const std::function<void(const TensorVisitor&)>& results, Loc loc) {
  exec::Declared declared;
  const std::size_t before = impl()->nodes().size();
  const HeldValues held(*impl());
  exec::AssumedSizes assumed(state_);
  const SizeFacts::Scope facts(assumed);
  try {
    exec::DefineEvaluator evaluator(*this, declared);
    const Evaluator::Scope current(evaluator);
    run();
    std::vector<Value> outputs;
    results([&](Tensor& t) {
      if (!t.defined()) return;
      outputs.push_back(evaluator.value_of(t, nullptr, loc));
      if (t.is_concrete()) t = symbolic_tensor(impl(), outputs.back());
    });
    impl()->outputs() = std::move(outputs);
    return;
  } catch (const exec::BranchFound&) {
    if (before == 0) {
      const Ref<GraphImpl> given = std::exchange(state_->impl, make_ref<GraphImpl>());
      for (const SizeRange& range : given->ranges()) impl()->assume(range);
      declared.placeholders.clear();
    } else {
      // What was recorded up to the branch is recorded again: runs do not draw its numbers too.
      exec::forget_random_keys(*state_, before);
      held.restore(*impl());
    }
  }
  const auto call = [&] {
    run();
    std::vector<Tensor> tensors;
    results([&](Tensor& t) {
      if (t.defined()) tensors.push_back(t);
    });
    return tensors;
  };
  const std::vector<Tensor> joined = exec::define_branches(*this, declared, call, loc);
  impl()->outputs().clear();
  std::size_t next = 0;
  results([&](Tensor& t) {
    if (!t.defined()) return;
    t = joined[next++];
    impl()->outputs().push_back(graph_value(t)->value);
  });
}

Tensor Graph::placeholder(std::string name, DType dtype, Shape shape, Loc loc) {
  const Value made =
      impl()->add_placeholder(std::move(name), Type(dtype, std::move(shape)), loc.user());
  return symbolic_tensor(impl(), made, true);
}

Tensor Graph::variable(std::string name, const Arg& init, Loc loc) {
  exec::Declared nothing_yet;
  return exec::DefineEvaluator(*this, nothing_yet).variable(std::move(name), init, loc);
}

Tensor Graph::assign(const Tensor& variable, const Arg& value, Loc loc) {
  GraphEvaluator evaluator(impl());
  const Value target = variable.is_symbolic() ? evaluator.value_of(variable, &kAssignOp, loc)
                                              : impl()->find_variable(variable);
  if (!target || &target.node->op() != &kVariableOp) {
    throw GraphError(fmt::format("assign(variable: {}, ...): the first argument is {}; it must be "
                                 "what variable() gave",
                                 type_string(variable),
                                 target ? fmt::format("the result of {}", target.node->op().name)
                                        : "no variable of this graph"),
                     loc.user(), target ? target.node->loc() : Loc());
  }
  Tensor given = value.tensor();
  if (given.defined() && given.impl()->is_number) given = convert_number(given, variable.dtype());
  const Value now = evaluator.value_of(given, &kAssignOp, loc);
  const NoAttrs none;
  Node* node = impl()->append_checked(kAssignOp, Attrs::copy_of(attrs_info<NoAttrs>, &none),
                                      {target, now}, loc.user());
  return symbolic_tensor(impl(), node->output());
}

void Graph::assume(const Dim& size, std::int64_t min, std::int64_t max, Loc loc) {
  impl()->assume({size, min, max, loc.user()});
}

Tensor Graph::input(std::string_view name, Loc loc) const {
  const Value found = impl()->find_placeholder(name);
  if (!found) {
    throw GraphError(
        fmt::format("no placeholder is named \"{}\"; {}", name, exec::list_placeholders(*impl())),
        loc.user());
  }
  return symbolic_tensor(impl(), found);
}

std::vector<Tensor> Graph::outputs() const {
  std::vector<Tensor> tensors;
  for (const Value v : impl()->outputs()) tensors.push_back(symbolic_tensor(impl(), v));
  return tensors;
}

std::vector<std::pair<std::string, Tensor>> Graph::variables() const {
  std::vector<std::pair<std::string, Tensor>> named;
  for (const Value v : impl()->variables()) {
    const auto& attrs = v.node->attrs_as<VariableAttrs>();
    named.emplace_back(attrs.name, attrs.tensor);
  }
  return named;
}

std::string Graph::to_string() const { return dyad::to_string(*impl()); }
void Graph::verify() const { dyad::verify(*impl()); }

Tensor placeholder(const std::string& name, DType dtype, Shape shape, Loc loc) {
  return defined_now("placeholder", loc).placeholder(name, dtype, std::move(shape), loc);
}

Tensor variable(std::string name, const Arg& init, Loc loc) {
  return defined_now("variable", loc).variable(std::move(name), init, loc);
}

void assume(const Dim& size, std::int64_t min, std::int64_t max, Loc loc) {
  defined_now("assume", loc).assume(size, min, max, loc);
}

Tensor assign(const Tensor& variable, const Arg& value, Loc loc) {
  return defined_now("assign", loc).assign(variable, value, loc);
}

}  // namespace dyad
