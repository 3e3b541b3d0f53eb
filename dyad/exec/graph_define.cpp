#include "dyad/exec/graph_define.h"

#include <fmt/format.h>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/executable.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/passes/extract.h"

namespace dyad::exec {
namespace {

bool is_random_key(const Node& node) {
  return node.op().effect == Effect::random && node.inputs().empty();
}

/// Notes the random keys that `initial` needs as drawn.
void remember_initial_keys(GraphState& state, Value initial) {
  std::vector<const Node*> pending{initial.node};
  std::unordered_set<const Node*> seen;
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    if (!seen.insert(node).second) continue;
    if (is_random_key(*node)) state.initial_keys.insert(node);
    for (const Value v : node->inputs()) {
      if (v) pending.push_back(v.node);
    }
  }
}

}  // namespace

Tensor Defining::placeholder(const std::string& name, DType dtype, Shape shape, Loc loc) {
  const bool again = names_.insert(name).second && declared_.placeholders.contains(name);
  if (again) return declared_.placeholders.at(name);
  Tensor made = owner_.placeholder(name, dtype, std::move(shape), loc);
  declared_.placeholders[name] = made;
  return made;
}

Tensor Defining::variable(std::string name, const Arg& init, Loc loc) {
  if (!init.tensor().defined()) {
    throw ValueError(fmt::format("variable \"{}\": the initial value is an undefined tensor", name),
                     loc.user());
  }
  const bool again = names_.insert(name).second && declared_.variables.contains(name);
  Tensor& tensor = declared_.variables[name];
  if (!again) tensor = initial_value(name, init.tensor(), loc.user());
  const Ref<GraphImpl>& graph = owner_.impl();
  const Tensor made =
      symbolic_tensor(graph, graph->add_variable(std::move(name), tensor, loc.user()), true);
  static_cast<GraphValue&>(*made.impl()->recorded).follows_assign = false;
  return made;
}

// What was cast for one graph is no value of another.
DefineEvaluator::DefineEvaluator(Graph& owner, Declared& declared)
    : GraphEvaluator(owner.impl()), Defining(owner, declared) {
  begin_autocast_era();
}
DefineEvaluator::~DefineEvaluator() { begin_autocast_era(); }

void DefineEvaluator::apply(const OpInfo& op, TensorRefs inputs, const void* attrs,
                            std::span<Tensor> outputs, Loc loc) {
  if (autocast_dtype()) {
    // What a parameter was written to in place is another node.
    const AutocastInputs cast(op, inputs, loc, [&](const Tensor& tensor) -> std::int64_t {
      return value_of(tensor, nullptr, loc).node->id();
    });
    apply(op, cast.inputs(), attrs, outputs, loc);
    return;
  }
  GraphEvaluator::apply(op, inputs, attrs, outputs, loc);
}

bool DefineEvaluator::read_bool(const Tensor& tensor, Loc loc) {
  if (tensor.is_concrete()) return GraphEvaluator::read_bool(tensor, loc);
  throw BranchFound();
}

std::vector<Tensor> DefineEvaluator::backward(std::span<const Tensor> outputs,
                                              std::span<const Tensor> grads,
                                              std::span<const Tensor> inputs, bool retain_graph,
                                              bool create_graph, Loc loc) {
  if (inputs.empty()) {
    return GraphEvaluator::backward(outputs, grads, inputs, retain_graph, create_graph, loc);
  }
  return autograd::graph_gradients(outputs, grads, inputs, loc);
}

Tensor DefineEvaluator::initial_value(const std::string& name, const Tensor& init, Loc loc) {
  return compute_initial(*owner().state(), name, init, loc);
}

void forget_random_keys(GraphState& state, std::size_t from) {
  const auto& nodes = state.impl->nodes();
  for (std::size_t i = from; i < nodes.size(); ++i) {
    // A cond or a loop may draw inside.
    if (is_random_key(*nodes[i]) || !nodes[i]->regions().empty())
      state.initial_keys.insert(nodes[i].get());
  }
}

Tensor compute_initial(GraphState& state, const std::string& name, const Tensor& init, Loc loc) {
  if (!init.is_symbolic()) return row_major_copy(init);
  const GraphValue* handle = graph_value(init);
  if (handle->graph != state.impl) {
    throw GraphError(
        fmt::format("variable \"{}\": the initial value is a tensor of another graph", name), loc);
  }
  remember_initial_keys(state, handle->value);
  return compute_initial(*state.impl, handle->value, name, [](Value) { return Tensor(); }, loc);
}

Tensor compute_initial(const GraphImpl& graph, Value init, const std::string& name,
                       const std::function<Tensor(Value)>& value_of, Loc loc) {
  const Value values[] = {init};
  const Ref<GraphImpl> part = passes::extract(graph, values, is_random_key);
  std::vector<Tensor> fed;
  for (const Value v : part->placeholders()) {
    const std::string& placeholder = v.node->attrs_as<PlaceholderAttrs>().name;
    fed.push_back(value_of(graph.find_placeholder(placeholder)));
    if (fed.back().defined()) continue;
    throw GraphError(fmt::format("variable \"{}\": the initial value depends on the placeholder "
                                 "\"{}\", which has no value yet; a variable is set when it is "
                                 "declared",
                                 name, placeholder),
                     loc, v.node->loc());
  }
  return Executable(part).run(fed, nullptr, loc)[0];
}

std::string list_placeholders(const GraphImpl& graph) {
  if (graph.placeholders().empty()) return "the graph has no placeholders";
  std::string list;
  for (std::size_t i = 0; i < graph.placeholders().size(); ++i) {
    const Value v = graph.placeholders()[i];
    const bool last = i > 0 && i + 1 == graph.placeholders().size();
    list += fmt::format("{}\"{}\": {}",
                        i == 0 ? ""
                        : last ? " and "
                               : ", ",
                        v.node->attrs_as<PlaceholderAttrs>().name, to_string(v.type()));
  }
  return "the graph has " + list;
}

}  // namespace dyad::exec
