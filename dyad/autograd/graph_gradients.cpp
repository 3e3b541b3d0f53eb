#include <forward_list>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dyad/autograd/backward.h"
#include "dyad/autograd/expansion_evaluator.h"
#include "dyad/autograd/gradients.h"
#include "dyad/autograd/itself.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/base/error.h"
#include "dyad/ir/gradient.h"
#include "dyad/ir/graph_evaluator.h"
#include "dyad/ir/node_gradient.h"
#include "dyad/ir/recorded.h"
#include "dyad/ir/row_gradient.h"
#include "dyad/ir/sum_gradient.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/indexing.h"

namespace dyad::autograd {
namespace {

using GradMap = std::unordered_map<Value, Tensor, ValueHash>;
/// What comes as rows alone, for the values that may have it.
using RowMap = std::unordered_map<Value, SparseRows, ValueHash>;
using NodeSet = std::unordered_set<const Node*>;

/// The static side of a gradient rule: values of the graph as symbolic tensors.
class GraphGradient final : public Gradient,
                            public RowGradient,
                            public SumGradient,
                            public NodeGradient {
 public:
  GraphGradient(const Ref<GraphImpl>& graph, Node& node, GradMap& grads, std::vector<bool> needs,
                RowMap* rows)
      : rows_(rows),
        graph_(graph),
        node_(node),
        grads_(grads),
        needs_(std::move(needs)),
        results_(node.inputs().size()) {}

  const Tensor& grad(int i) override {
    if (auto it = grads_.find(node_.output(i)); it != grads_.end()) return it->second;
    const Type type = grad_type(node_.types()[static_cast<std::size_t>(i)]);
    return made_.emplace_front(zeros(type.shape(), type.dtype()));
  }
  bool has_grad(int i) const override { return grads_.contains(node_.output(i)); }
  const Tensor& input(int i) override {
    const Value value = node_.inputs()[static_cast<std::size_t>(i)];
    return made_.emplace_front(value ? symbolic_tensor(graph_, value) : Tensor());
  }
  const Tensor& output(int i) override {
    return made_.emplace_front(symbolic_tensor(graph_, node_.output(i)));
  }
  const Shape& input_shape(int i) const override { return type_of(i).shape(); }
  DType input_dtype(int i) const override { return grad_dtype(type_of(i).dtype()); }
  const Shape& output_shape(int i) const override {
    return node_.types()[static_cast<std::size_t>(i)].shape();
  }
  int input_count() const override { return static_cast<int>(results_.size()); }
  bool needs(int i) const override { return needs_[static_cast<std::size_t>(i)]; }
  void set(int i, Tensor gradient) override {
    results_[static_cast<std::size_t>(i)] = std::move(gradient);
  }
  const void* raw_attrs() const override { return node_.attrs().data(); }
  bool takes_rows(int i) const override {
    return rows_ && rows_->contains(node_.inputs()[static_cast<std::size_t>(i)]);
  }
  void set_rows(int i, const Tensor& index, const Tensor& rows) override {
    SparseRows& all = rows_->at(node_.inputs()[static_cast<std::size_t>(i)]);
    const Tensor positions = index.to(i64);
    all = all.defined() ? SparseRows{concat({all.index, positions}, 0), concat({all.rows, rows}, 0)}
                        : SparseRows{positions, rows};
  }
  Tensor sum_so_far(int i) override {
    const auto sum = grads_.find(itself(node_.inputs()[static_cast<std::size_t>(i)]));
    return sum == grads_.end() ? Tensor() : sum->second;
  }
  void set_sum(int i, Tensor sum) override {
    grads_[itself(node_.inputs()[static_cast<std::size_t>(i)])] = std::move(sum);
  }
  Node& node() const override { return node_; }

  std::vector<Tensor>& results() noexcept { return results_; }

 private:
  [[nodiscard]] const Type& type_of(int i) const {
    return node_.inputs()[static_cast<std::size_t>(i)].type();
  }
  RowMap* rows_;
  const Ref<GraphImpl>& graph_;
  Node& node_;
  GradMap& grads_;
  std::vector<bool> needs_;
  std::vector<Tensor> results_;
  std::forward_list<Tensor> made_;  // what the rule holds references to
};

class GraphPass {
 public:
  explicit GraphPass(Ref<GraphImpl> graph, RowMap* rows = nullptr)
      : graph_(std::move(graph)), evaluator_(graph_), rows_(rows) {}

  std::vector<Tensor> run(std::span<const Value> outputs, std::span<const Tensor> seeds,
                          std::span<const Value> inputs, int first_node, GradMap known = {}) {
    const Evaluator::Scope scope(evaluator_);
    const std::vector<Node*> nodes = find_dependent(inputs, first_node);
    grads_ = std::move(known);
    for (std::size_t i = 0; i < outputs.size(); ++i) add_to(outputs[i], seeds[i]);
    for (std::size_t i = nodes.size(); i-- > 0;) visit(*nodes[i]);
    std::vector<Tensor> found;
    for (const Value& input : inputs) {
      auto it = grads_.find(itself(input));
      found.push_back(it == grads_.end() ? Tensor() : it->second);
    }
    return found;
  }

 private:
  /// Nodes computed from `inputs`, in program order, of those present now.
  std::vector<Node*> find_dependent(std::span<const Value> inputs, int first_node) {
    for (const Value& input : inputs) targets_.insert(itself(input));
    std::vector<Node*> nodes;
    for (const auto& node : graph_->nodes()) {
      if (node->id() < first_node) continue;
      for (const Value& input : node->inputs()) {
        if (!wants(input)) continue;
        dependent_.insert(node.get());
        nodes.push_back(node.get());
        break;
      }
    }
    return nodes;
  }

  [[nodiscard]] bool wants(const Value& value) const {
    return value && is_differentiable(value.type()) &&
           (targets_.contains(itself(value)) || dependent_.contains(value.node));
  }

  void add_to(Value value, Tensor g) {
    Tensor& sum = grads_[itself(value)];
    sum = sum.defined() ? add(sum, g) : std::move(g);
  }

  void visit(Node& node) {
    bool reached = false;
    for (std::size_t i = 0; i < node.types().size(); ++i) {
      reached = reached || grads_.contains(node.output(static_cast<int>(i)));
    }
    if (!reached) return;
    const LocScope place(node.loc());
    const RuleScope named(node.op());
    std::vector<Tensor> results;
    if (node.op().grad) {
      std::vector<bool> needs;
      for (const Value& input : node.inputs()) needs.push_back(wants(input));
      GraphGradient gradient(graph_, node, grads_, std::move(needs), rows_);
      node.op().grad(gradient);
      results = std::move(gradient.results());
    } else if (node.op().expand) {
      through_expansion(node);
    } else {
      return;
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Value input = node.inputs()[i];
      if (!results[i].defined() || !wants(input)) continue;
      add_to(input, reduce_to(std::move(results[i]), input.type().shape(),
                              grad_dtype(input.type().dtype())));
    }
  }

  /// A row without a rule that has an expansion: it is appended and differentiated; what the
  /// forward pass expands to as well is shared by the compiler.
  void through_expansion(Node& node) {
    std::vector<Tensor> tensors;
    std::vector<const Tensor*> refs;
    std::vector<Value> inputs;
    GradMap known;
    tensors.reserve(node.inputs().size());
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value input = node.inputs()[i];
      tensors.push_back(input ? symbolic_tensor(graph_, input) : Tensor());
      refs.push_back(&tensors.back());
      if (!wants(input)) continue;
      // Its parts add to what the input has so far, each once, as on the tape.
      inputs.push_back(itself(input));
      if (const auto sum = grads_.find(inputs.back()); sum != grads_.end()) known.insert(*sum);
    }
    const int first_node = graph_->nodes().empty() ? 0 : graph_->nodes().back()->id() + 1;
    const std::vector<Tensor> expanded = node.op().expand(node.attrs().data(), refs, node.loc());
    std::vector<Value> outputs;
    std::vector<Tensor> seeds;
    for (std::size_t i = 0; i < expanded.size(); ++i) {
      auto seed = grads_.find(node.output(static_cast<int>(i)));
      if (seed == grads_.end()) continue;
      outputs.push_back(recorded_value(expanded[i])->value);
      seeds.push_back(seed->second);
    }
    const std::vector<Tensor> found =
        GraphPass(graph_).run(outputs, seeds, inputs, first_node, std::move(known));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (found[i].defined()) grads_[inputs[i]] = found[i];
    }
  }

  Ref<GraphImpl> graph_;
  ExpansionEvaluator evaluator_;
  RowMap* rows_;
  std::unordered_set<Value, ValueHash> targets_;
  NodeSet dependent_;
  GradMap grads_;
};

}  // namespace

std::vector<Tensor> ExpansionEvaluator::backward(std::span<const Tensor> outputs,
                                                 std::span<const Tensor> grads,
                                                 std::span<const Tensor> inputs, bool, bool,
                                                 Loc loc) {
  return graph_gradients(outputs, grads, inputs, loc);
}

static std::vector<Tensor> differentiate(std::span<const Tensor> outputs,
                                         std::span<const Tensor> grads,
                                         std::span<const Tensor> inputs,
                                         std::vector<SparseRows>* rows, Loc loc) {
  const Ref<GraphImpl> graph = recorded_value(outputs[0])->graph;
  GraphEvaluator evaluator(graph);
  const Evaluator::Scope scope(evaluator);
  std::vector<Value> output_values, input_values;
  std::vector<Tensor> seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Value value = evaluator.value_of(outputs[i], nullptr, loc);
    if (!is_differentiable(value.type())) {
      throw GradError("gradients of " + to_string(value.type()) +
                          ": only floating values can be differentiated",
                      loc);
    }
    output_values.push_back(value);
    const bool given = i < grads.size() && grads[i].defined();
    const Shape& shape = value.type().shape();
    if (!given && !(shape.is_concrete() && shape.numel().number() == 1)) {
      throw GradError(
          "gradients of " + to_string(value.type()) +
              " need the gradient of the output: only a value of one element has the default 1",
          loc);
    }
    seeds.push_back(given ? grads[i] : ones(shape, grad_dtype(value.type().dtype()), loc));
  }
  for (const Tensor& input : inputs) {
    const Value value =
        input.is_symbolic() ? evaluator.value_of(input, nullptr, loc) : graph->find_variable(input);
    input_values.push_back(value);
  }
  if (!rows) return GraphPass(graph).run(output_values, seeds, input_values, 0);
  RowMap by_rows;
  for (const Value input : input_values) {
    if (input) by_rows[input] = {};
  }
  std::vector<Tensor> found = GraphPass(graph, &by_rows).run(output_values, seeds, input_values, 0);
  for (const Value input : input_values) rows->push_back(input ? by_rows[input] : SparseRows{});
  return found;
}

std::vector<Tensor> graph_gradients(std::span<const Tensor> outputs, std::span<const Tensor> grads,
                                    std::span<const Tensor> inputs, Loc loc) {
  return differentiate(outputs, grads, inputs, nullptr, loc);
}

std::vector<Tensor> graph_gradients_by_rows(const Tensor& output, std::span<const Tensor> inputs,
                                            std::vector<SparseRows>& rows, Loc loc) {
  return differentiate({&output, 1}, {}, inputs, &rows, loc);
}

}  // namespace dyad::autograd
