#include "dyad/exec/graph_branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dyad/base/error.h"
#include "dyad/exec/control_flow_region.h"
#include "dyad/ir/graph_ops.h"

namespace dyad::exec {
namespace {

constexpr std::size_t kMaxPaths = 64;

/// The function branched on `value`.
struct Branch {
  Value value;
  std::size_t position = 0;  // nodes recorded before
  bool outcome = true;
  Loc loc;
};

[[noreturn]] void fail_too_many(Loc loc) {
  throw GraphError(
      fmt::format("the function branches on values in more than {} ways; use cond(), where() or "
                  "while_loop(), so that branches do not multiply",
                  kMaxPaths),
      loc);
}

/// One call of the function, recorded as a graph of its own.
class PathEvaluator final : public RegionEvaluator, public Defining {
 public:
  /// `sizes`: of those that data tell, the same in each path up to where they part.
  PathEvaluator(Graph& owner, Declared& declared, Captures& captures, std::vector<Dim>& sizes,
                std::vector<bool> outcomes)
      : RegionEvaluator("define", captures),
        Defining(owner, declared),
        captures_(captures),
        sizes_(sizes),
        outcomes_(std::move(outcomes)) {}

  void call(const std::function<std::vector<Tensor>()>& function, Loc loc) {
    record([&](std::span<const Tensor>) { return function(); }, {}, loc);
  }

  bool read_bool(const Tensor& tensor, Loc loc) override {
    if (tensor.is_concrete()) return GraphEvaluator::read_bool(tensor, loc);
    const Value value = value_of(inside(tensor, loc), nullptr, loc);
    const std::size_t number = branches.size();
    if (number == kMaxPaths) fail_too_many(branches.back().loc);
    const bool outcome = number < outcomes_.size() ? outcomes_[number] : true;
    // `if (x > 0)` does not tell its line, but the comparison does.
    const Loc place = loc.user() ? loc.user() : value.node->loc();
    branches.push_back({value, graph()->nodes().size(), outcome, place});
    return outcome;
  }

  // NOLINTBEGIN(bugprone-parent-virtual-call): of the definition, as without branches
  void set_random_state(const RandomKey& state, Loc loc) override {
    Evaluator::set_random_state(state, loc);
  }

  void write(const Tensor& target, const Tensor& value, Loc loc) override {
    GraphEvaluator::write(inside(target, loc), value.defined() ? inside(value, loc) : value, loc);
  }
  // NOLINTEND(bugprone-parent-virtual-call)

  Tensor assign(const Tensor& variable, const Arg& value, Loc loc) override {
    write(variable, value.tensor(), loc);
    return inside(variable, loc);
  }

  /// Whether a result is asked for because of writes: what a tensor was assigned, or a value that
  /// comes after writes.
  [[nodiscard]] bool is_for_writes(std::size_t result) const {
    const Value value = graph()->outputs()[result];
    return &value.node->op() == &kAfterOp ||
           std::ranges::any_of(written, [&](const auto& item) { return item.second == value; });
  }

  std::vector<Branch> branches;
  std::map<std::size_t, Value> written;  // capture -> its value now

 protected:
  [[nodiscard]] std::vector<Value> writes() const override {
    std::vector<Value> values;
    for (const auto& [capture, now] : written) values.push_back(now);
    return values;
  }
  void replace(Value memory, Value now, Loc loc) override {
    if (is_capture(memory)) written.insert_or_assign(capture_of(*memory.node), now);
    GraphEvaluator::replace(memory, now, loc);  // NOLINT(bugprone-parent-virtual-call): as write
  }
  Dim fresh_size() override {
    if (sizes_made_ == sizes_.size()) sizes_.push_back(owner().impl()->fresh_symbol());
    return sizes_[sizes_made_++];
  }
  Tensor initial_value(const std::string& name, const Tensor& init, Loc loc) override {
    if (!init.is_symbolic()) return compute_initial(*owner().state(), name, init, loc);
    const Value value = value_of(inside(init, loc), nullptr, loc);
    return compute_initial(*graph(), value, name, [this](Value v) { return held_by(v); }, loc);
  }

 private:
  /// The data behind a captured variable; none behind a placeholder or another value.
  [[nodiscard]] Tensor held_by(Value placeholder) const {
    const Tensor& outside = captures_.tensors()[capture_of(*placeholder.node)];
    if (outside.is_concrete()) return outside;
    const Node& node = *graph_value(outside)->value.node;
    return &node.op() == &kVariableOp ? node.attrs_as<VariableAttrs>().tensor : Tensor();
  }

  Captures& captures_;
  std::vector<Dim>& sizes_;
  std::size_t sizes_made_ = 0;
  std::vector<bool> outcomes_;
};

using Paths = std::vector<const PathEvaluator*>;

/// Puts recorded paths together: what they share, then a cond of what follows the branch.
class Assembler {
 public:
  Assembler(const Captures& captures, std::vector<std::size_t> written)
      : captures_(captures), written_(std::move(written)) {}

  /// The results of the function, then the values of the written tensors.
  std::vector<Tensor> assemble(const Paths& paths) { return emit(paths, 0, 0, {}); }

 private:
  /// Values of a path, by the position of their node in it: the same in all paths that share the
  /// branches before.
  using Values = std::vector<std::vector<Tensor>>;

  std::vector<Tensor> emit(const Paths& paths, std::size_t branch, std::size_t from,
                           Values values) {
    const PathEvaluator& path = *paths[0];
    if (path.branches.size() == branch) {
      copy(path, from, path.graph()->nodes().size(), values);
      return results(path, values);
    }
    const Branch& at = path.branches[branch];
    copy(path, from, at.position, values);
    Paths ways[2];
    for (const PathEvaluator* each : paths) {
      check_same_branch(path, *each, branch);
      ways[each->branches[branch].outcome ? 0 : 1].push_back(each);
    }
    const auto follow = [&](const Paths& way) {
      return
          [&, way](std::span<const Tensor>) { return emit(way, branch + 1, at.position, values); };
    };
    return run_cond(value(path, at.value, values), follow(ways[0]), follow(ways[1]), {}, at.loc);
  }

  /// Appends the path's nodes from..to-1 to the graph being recorded now.
  void copy(const PathEvaluator& path, std::size_t from, std::size_t to, Values& values) const {
    auto& into = dynamic_cast<GraphEvaluator&>(Evaluator::current());
    auto* region = dynamic_cast<RegionEvaluator*>(&into);
    for (std::size_t i = from; i < to; ++i) {
      Node& node = *path.graph()->nodes()[i];
      std::vector<Tensor>& made = values.emplace_back();
      if (&node.op() == &kPlaceholderOp) {
        made.push_back(captures_.tensors()[capture_of(node)]);
        continue;
      }
      std::vector<Value> inputs;
      for (const Value v : node.inputs()) {
        if (!v) {
          inputs.push_back(v);
          continue;
        }
        const Tensor input = value(path, v, values);
        inputs.push_back(into.value_of(region ? region->inside(input, node.loc()) : input,
                                       &node.op(), node.loc()));
      }
      Node* copied = into.graph()->append_copy(node, inputs);
      for (int output = 0; output < static_cast<int>(node.types().size()); ++output) {
        made.push_back(symbolic_tensor(into.graph(), copied->output(output)));
      }
    }
  }

  static Tensor value(const PathEvaluator& path, Value v, const Values& values) {
    const auto& nodes = path.graph()->nodes();
    const auto found = std::ranges::lower_bound(nodes, v.node->id(), {},
                                                [](const auto& node) { return node->id(); });
    return values[static_cast<std::size_t>(found - nodes.begin())]
                 [static_cast<std::size_t>(v.index)];
  }

  [[nodiscard]] std::vector<Tensor> results(const PathEvaluator& path, const Values& values) const {
    std::vector<Tensor> tensors;
    for (const Value v : path.graph()->outputs()) tensors.push_back(value(path, v, values));
    for (const std::size_t capture : written_) {
      const auto now = path.written.find(capture);
      tensors.push_back(now == path.written.end() ? captures_.tensors()[capture]
                                                  : value(path, now->second, values));
    }
    return tensors;
  }

  static void check_same_branch(const PathEvaluator& a, const PathEvaluator& b,
                                std::size_t branch) {
    const bool same = branch < b.branches.size() &&
                      a.branches[branch].position == b.branches[branch].position &&
                      a.branches[branch].loc == b.branches[branch].loc;
    if (same) return;
    throw GraphError(
        "the function did something else when it was called again to find its other "
        "branch; while a graph is defined, a function may depend on nothing that "
        "changes from call to call",
        a.branches[branch].loc);
  }

  const Captures& captures_;
  std::vector<std::size_t> written_;
};

/// The outcomes to try after those of `path`, depth first; none when all were tried.
std::optional<std::vector<bool>> next_outcomes(const PathEvaluator& path) {
  std::vector<bool> outcomes;
  for (const Branch& branch : path.branches) outcomes.push_back(branch.outcome);
  while (!outcomes.empty() && !outcomes.back()) outcomes.pop_back();
  if (outcomes.empty()) return {};
  outcomes.back() = false;
  return outcomes;
}

}  // namespace

std::vector<Tensor> define_branches(Graph& graph, Declared& declared,
                                    const std::function<std::vector<Tensor>()>& call, Loc loc) {
  Captures captures;
  std::vector<Dim> sizes;
  std::vector<std::unique_ptr<PathEvaluator>> paths;
  std::optional<std::vector<bool>> outcomes = std::vector<bool>();
  while (outcomes) {
    if (paths.size() == kMaxPaths) {
      fail_too_many(paths.back()->branches.back().loc);
    }
    paths.push_back(
        std::make_unique<PathEvaluator>(graph, declared, captures, sizes, std::move(*outcomes)));
    paths.back()->call(call, loc);
    outcomes = next_outcomes(*paths.back());
  }

  std::vector<std::size_t> written;
  Paths all;
  for (const auto& path : paths) {
    all.push_back(path.get());
    for (const auto& [capture, value] : path->written) {
      if (std::ranges::find(written, capture) == written.end()) written.push_back(capture);
    }
  }
  DefineEvaluator evaluator(graph, declared);
  const Evaluator::Scope current(evaluator);
  std::vector<Tensor> results = Assembler(captures, written).assemble(all);
  const std::size_t given = results.size() - written.size();
  for (std::size_t i = 0; i < written.size(); ++i) {
    evaluator.write(captures.tensors()[written[i]], results[given + i], loc);
  }
  results.resize(given);
  for (std::size_t i = 0; i < given; ++i) {
    const bool writes =
        std::ranges::any_of(all, [&](const PathEvaluator* path) { return path->is_for_writes(i); });
    if (writes) results[i] = evaluator.after_writes(results[i], loc);
  }
  return results;
}

}  // namespace dyad::exec
