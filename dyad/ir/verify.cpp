#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/dim_expr.h"
#include "dyad/ir/graph_ops.h"
#include "dyad/ir/partial_attr_visitor.h"
#include "dyad/ir/undecided.h"
#include "dyad/ir/value_names.h"

namespace dyad {
namespace {

/// Notices a tensor that is no data: it would keep its graph alive for ever, or another one.
class SymbolicAttribute final : public PartialAttrVisitor {
 public:
  using PartialAttrVisitor::visit;
  void visit(std::string_view name, Tensor& value) override {
    if (value.defined() && !value.is_concrete()) found = name;
  }
  std::string found;
};

class Verifier {
 public:
  explicit Verifier(const GraphImpl& graph) : graph_(graph), names_(graph) {}

  std::vector<std::string> run() {
    int last_id = -1;
    for (const auto& node : graph_.nodes()) {
      if (node->id() <= last_id) add(*node, "its id is not greater than those before it");
      last_id = node->id();
      check(*node);
      made_.insert(node.get());
    }
    check_outputs();
    check_lists();
    return std::move(violations_);
  }

 private:
  void add(const Node& node, const std::string& what) {
    std::string where = node.types().empty() ? "" : names_.of_outputs(node) + " = ";
    where += node.op().name;
    if (node.loc()) where += " at " + to_string(node.loc());
    violations_.push_back(where + ": " + what);
  }

  void check(const Node& node) {
    const bool sound = check_inputs(node);
    SymbolicAttribute attribute;
    node.attrs().visit(attribute);
    if (!attribute.found.empty()) {
      add(node, "attribute " + attribute.found + " is a tensor without data");
    }
    if (const std::string* name = name_of(node); name && !node_names_.insert(*name).second) {
      add(node, "the name \"" + *name + "\" is used twice");
    }
    if (sound) check_types(node);
    for (std::size_t i = 0; i < node.regions().size(); ++i) {
      for (const std::string& violation : Verifier(*node.regions()[i]).run()) {
        add(node, "in region " + std::to_string(i) + ": " + violation);
      }
    }
  }

  bool check_inputs(const Node& node) {
    const std::size_t before = violations_.size();
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value input = node.inputs()[i];
      const std::string which = "input " + std::to_string(i);
      if (!input) continue;  // whether it may be absent, the types tell
      if (!made_.contains(input.node)) {
        add(node, which + (names_(input) == "%?" ? " is a value of another graph"
                                                 : ", " + names_(input) + ", is made after it"));
      } else if (!has_output(input)) {
        add(node, which + " is output " + std::to_string(input.index) + " of " +
                      std::string(input.node->op().name) + ", which has " +
                      std::to_string(input.node->types().size()));
      }
    }
    if (&node.op() == &kAssignOp && violations_.size() == before &&
        (node.inputs().empty() || !node.inputs()[0] || !node.inputs()[0].node->is("variable"))) {
      add(node, "only a variable can be assigned");
    }
    return violations_.size() == before;
  }

  void check_types(const Node& node) {
    // What a control operator gives follows from its regions, which its rule does not see.
    if (node.op().kind == BodyKind::control) return;
    Types inputs;
    for (const Value& input : node.inputs()) {
      inputs.push_back(input ? input.type() : Type::none());
    }
    try {
      const Types types = infer_types(node.op(), inputs, node.attrs().data(), node.loc());
      if (!std::ranges::equal(node.types(), types, is_instance_of)) {
        add(node, "its type is " + list(node.types()) + ", but " +
                      call_string(node.op(), inputs, node.attrs().data()) + " gives " +
                      list(types));
      }
    } catch (const Undecided&) {  // NOLINT(bugprone-empty-catch)
      // The program that recorded the node compared sizes that have no values here.
    } catch (const Error& error) {
      add(node, error.message());
    }
  }

  void check_outputs() {
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Value output = graph_.outputs()[i];
      if (!output || !made_.contains(output.node) || !has_output(output)) {
        violations_.push_back("output " + std::to_string(i) + " is no value of the graph");
      }
    }
  }

  void check_lists() {
    const auto lists = [&](std::span<const Value> values, const OpInfo& op) {
      std::size_t next = 0;
      bool same = true;
      for (const auto& node : graph_.nodes()) {
        if (&node->op() != &op) continue;
        same = same && next < values.size() && values[next].node == node.get();
        ++next;
      }
      if (!same || next != values.size()) {
        violations_.push_back("the list of " + std::string(op.name) + "s is not that of the nodes");
      }
    };
    lists(graph_.placeholders(), kPlaceholderOp);
    lists(graph_.variables(), kVariableOp);
  }

  static bool has_output(const Value& value) {
    return value.index >= 0 && static_cast<std::size_t>(value.index) < value.node->types().size();
  }

  static std::string list(std::span<const Type> types) {
    std::string text;
    for (const Type& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
    return text.empty() ? "nothing" : text;
  }

  const GraphImpl& graph_;
  ValueNames names_;
  std::unordered_set<const Node*> made_;
  std::unordered_set<std::string> node_names_;
  std::vector<std::string> violations_;
};

}  // namespace

namespace {

/// Whether a size is the larger or smaller of two, or computed from such: which of them it is may
/// be known where it was recorded, and each plan looks whether it is so.
bool is_choice(Dim size) {
  if (size.is_number()) return false;
  const auto holds = [](const DimAtom* atom) {
    return atom->kind == DimAtom::Kind::max || atom->kind == DimAtom::Kind::min ||
           (atom->kind != DimAtom::Kind::symbol && (is_choice(atom->a) || is_choice(atom->b)));
  };
  return std::ranges::any_of(size.expr().terms, [&](const DimTerm& term) {
    return std::ranges::any_of(term.factors, holds);
  });
}

}  // namespace

bool is_instance_of(const Type& written, const Type& inferred) {
  if (written.same_as(inferred)) return true;
  if (!written.is_tensor() || !inferred.is_tensor() || written.dtype() != inferred.dtype()) {
    return false;
  }
  return std::ranges::equal(written.shape(), inferred.shape(), [](Dim size, Dim rule) {
    return size.same_as(rule) || (rule.same_as(unknown_size()) && size.is_symbolic()) ||
           is_choice(rule);
  });
}

void verify(const GraphImpl& graph) {
  FinishedGraphEvaluator evaluator{Ref<GraphImpl>()};
  const Evaluator::Scope scope(evaluator);
  const std::vector<std::string> violations = Verifier(graph).run();
  if (violations.empty()) return;
  std::string message = "the graph is not valid:";
  for (const std::string& violation : violations) message += "\n  " + violation;
  throw GraphError(message);
}

}  // namespace dyad
