#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/exec/before_call.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/interpret.h"
#include "dyad/exec/verify.h"

namespace dyad::exec {

/// Whether two tensors have other types or bits. Two NaN are equal.
[[nodiscard]] bool differ(const Tensor& a, const Tensor& b);

/// What a graph computes from.
struct GraphFeed {
  std::unordered_map<std::string, Tensor> placeholders;  ///< by name
  SymbolMap sizes;    ///< known of the graph; those that data tell may be among them
  SymbolMap outer;    ///< known around it, where it is part of a control node
  RandomKey random;   ///< before it runs
  BeforeCall before;  ///< what its variables held
};

/// A graph, computed in several ways from the same numbers: each operator alone, and compiled.
class ComparedGraph {
 public:
  /// Computes it operator by operator as far as `wanted` needs it. `options`: how it is compiled.
  ComparedGraph(const GraphImpl& graph, GraphFeed feed, std::span<const Value> wanted,
                ExecutableOptions options = {});

  [[nodiscard]] std::span<const Value> wanted() const noexcept { return wanted_; }
  [[nodiscard]] const Tensor& eager(Value v) const { return eager_.at(v); }

  /// The first operator whose result compiled code computes otherwise, inside of control nodes too;
  /// none where the wanted values are the same.
  [[nodiscard]] std::optional<VerifyDifference> find_first() const;

 private:
  /// Values to be computed in one piece, and which of them is the first that differs.
  struct Query {
    std::vector<Value> values;
    std::size_t first = 0;
    Tensor compiled;
    [[nodiscard]] Value value() const { return values[first]; }
  };
  using Names = std::vector<std::string>;

  void find_live();
  void run();
  /// Every tensor that is computed on the way to the wanted ones, in program order.
  [[nodiscard]] std::vector<Value> steps() const;
  /// The graph of the values alone.
  [[nodiscard]] Ref<GraphImpl> part_for(std::span<const Value> values) const;
  /// With some passes more off than the options say.
  [[nodiscard]] ExecutableOptions options_without(std::span<const std::string> off) const;
  /// The values by compiled code, without these passes.
  [[nodiscard]] std::vector<Tensor> compiled(std::span<const Value> values,
                                             std::span<const std::string> off) const;
  [[nodiscard]] std::optional<Query> difference(std::vector<Value> values) const;
  [[nodiscard]] VerifyDifference describe(const Query& query) const;
  /// The pass that makes the value differ when those before it, in their order, are on too; none
  /// where its kernels alone do.
  [[nodiscard]] std::optional<std::string> find_culprit(const Query& query) const;
  /// The same among the passes that are left when those of `off` do not run: the one after which
  /// the graph, computed operator by operator, gives something else.
  [[nodiscard]] std::optional<std::string> find_needed_culprit(const Query& query,
                                                               const Names& off) const;
  /// The first operator that differs in the graphs of a control node; none where these give the
  /// same as they should wherever they run.
  [[nodiscard]] std::optional<VerifyDifference> look_inside(const Node& node) const;
  [[nodiscard]] std::optional<VerifyDifference> compare(const RegionRun& run) const;

  const GraphImpl& graph_;
  GraphFeed feed_;
  ExecutableOptions options_;
  std::vector<Value> wanted_;
  std::unordered_set<const Node*> live_;  ///< what they need, and all that draws random numbers
  TensorOfValue eager_;
  std::unordered_map<const Node*, RandomKey> random_before_;  ///< control nodes
};

}  // namespace dyad::exec
