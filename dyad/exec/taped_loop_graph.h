#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/exec/node_users.h"
#include "dyad/exec/roll_backward.h"
#include "dyad/exec/taped_loop.h"

namespace dyad::exec {

/// Where the values of a taped loop are in the graph of a recording, and of the pass that came back
/// through it.
struct TapedLoopGraph {
  /// The gradient of what is sliced, put together from what came from each step.
  struct Assembled {
    Node* length = nullptr;
    Node* sum = nullptr;
    Node* joined = nullptr;
    std::vector<Value> parts;  ///< one for each step; no value: none came from there
  };
  /// `in_vain`: all steps backwards are in, of which the first computes what it did not.
  TapedLoopGraph(const Path& of_path, TapedLoop& of_loop, bool in_vain)
      : path(of_path), loop(of_loop), in_vain_(in_vain) {}
  /// Finds all that follows; false where the loop cannot be rolled up.
  [[nodiscard]] bool find();
  [[nodiscard]] int steps() const { return static_cast<int>(loop.trace.steps.size()); }

  const Path& path;
  TapedLoop& loop;
  std::unordered_set<const Node*> gone;  ///< nodes that loops take the place of
  /// Stacked results and states after the loop, by number.
  std::unordered_map<Value, std::size_t, ValueHash> results, last_state;
  std::vector<Value> gradients;      ///< of stacked results
  std::optional<StepValues> values;  ///< of the steps
  std::vector<Assembled> assembled;
  std::unordered_set<const Node*> in_pass;  ///< of steps backwards that stay as they are
  std::unique_ptr<RolledBackward> rolled;   ///< none: no pass came
  const Node* last = nullptr;               ///< of the steps backwards

 private:
  [[nodiscard]] Value sole_user(Value value);
  bool find_lengths();
  bool find_assembled_by_steps();
  bool find_parts(Node& length);
  bool find_assembled(Node& length);
  bool find_backward();
  bool is_at_ends();
  [[nodiscard]] bool only_computes() const;

  bool in_vain_;
  std::optional<NodeUsers> users_;
};

}  // namespace dyad::exec
