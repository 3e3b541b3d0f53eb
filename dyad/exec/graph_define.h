#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "dyad/exec/graph.h"
#include "dyad/ir/graph_evaluator.h"

namespace dyad {

/// What the handles of a Graph share.
struct GraphState {
  Ref<GraphImpl> impl;
  /// Random keys that were drawn for initial values of variables: runs do not draw them again
  /// unless they need them.
  std::unordered_set<const Node*> initial_keys;
};

namespace exec {

/// The placeholders and variables that a function declared, when it is called several times to find
/// what its branches do: each call gets those of the first.
struct Declared {
  std::map<std::string, Tensor> placeholders;  ///< values of the graph
  std::map<std::string, Tensor> variables;     ///< the tensors behind them
};

/// What placeholder(), variable() and assign() reach while a graph is defined.
class Defining {
 public:
  Defining(Graph& owner, Declared& declared) : owner_(owner), declared_(declared) {}
  virtual ~Defining() = default;

  Tensor placeholder(const std::string& name, DType dtype, Shape shape, Loc loc);
  Tensor variable(std::string name, const Arg& init, Loc loc);
  virtual Tensor assign(const Tensor& variable, const Arg& value, Loc loc) = 0;
  void assume(const Dim& size, std::int64_t min, std::int64_t max, Loc loc) {
    owner_.assume(size, min, max, loc);
  }

 protected:
  [[nodiscard]] Graph& owner() const noexcept { return owner_; }
  /// The value that a tensor of the graph being recorded has at its declaration.
  virtual Tensor initial_value(const std::string& name, const Tensor& init, Loc loc) = 0;

 private:
  Graph& owner_;
  Declared& declared_;
  std::set<std::string> names_;  // declared in this call
};

/// Thrown through the function being defined when it branches on a value.
struct BranchFound {};

/// Operators called during Graph::define: nodes of the graph.
class DefineEvaluator final : public GraphEvaluator, public Defining {
 public:
  DefineEvaluator(Graph& owner, Declared& declared);
  ~DefineEvaluator() override;
  DefineEvaluator(const DefineEvaluator&) = delete;
  DefineEvaluator& operator=(const DefineEvaluator&) = delete;

  Tensor assign(const Tensor& variable, const Arg& value, Loc loc) override {
    return owner().assign(variable, value, loc);
  }
  void apply(const OpInfo& op, TensorRefs inputs, const void* attrs, std::span<Tensor> outputs,
             Loc loc) override;
  bool read_bool(const Tensor& tensor, Loc loc) override;
  std::vector<Tensor> backward(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                               std::span<const Tensor> inputs, bool retain_graph, bool create_graph,
                               Loc loc) override;

 protected:
  Tensor initial_value(const std::string& name, const Tensor& init, Loc loc) override;
};

/// Has runs draw no random keys that were recorded from node number `from` on, unless they need
/// them.
void forget_random_keys(GraphState& state, std::size_t from);

/// Computes `init` once: a concrete tensor is copied, a value of `state`'s graph is run.
[[nodiscard]] Tensor compute_initial(GraphState& state, const std::string& name, const Tensor& init,
                                     Loc loc);
/// The same for a value of any graph, given what its placeholders stand for (GraphError naming one
/// that has no value yet, when `value_of` gives an undefined tensor).
[[nodiscard]] Tensor compute_initial(const GraphImpl& graph, Value init, const std::string& name,
                                     const std::function<Tensor(Value)>& value_of, Loc loc);

/// `the graph has "x": f32[batch, 784] and "y": i64[batch]`, for messages.
[[nodiscard]] std::string list_placeholders(const GraphImpl& graph);

}  // namespace exec
}  // namespace dyad
