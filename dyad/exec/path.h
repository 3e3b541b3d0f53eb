#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/row_grad.h"
#include "dyad/autograd/tape.h"
#include "dyad/core/evaluator.h"
#include "dyad/ir/graph.h"

namespace dyad::exec {

/// The host read the only element of a value: what the program did next may depend on it.
struct Decision {
  Value value;
  int position = 0;          ///< nodes recorded before the read
  std::int64_t outcome = 0;  ///< the bits of the number read
  enum class Kind : std::uint8_t { boolean, integer, floating } kind = Kind::boolean;
  Loc loc;
};

/// The program compared sizes, or asked for one as a number; the recording holds while the answer
/// is the same.
struct DimGuard {
  enum class Kind : std::uint8_t { equal, less, value } kind = Kind::equal;
  Dim a, b;
  std::int64_t answer = 0;
  Loc loc;
  [[nodiscard]] bool asks_same(const DimGuard& other) const noexcept {
    return kind == other.kind && a.same_as(other.a) && b.same_as(other.b);
  }
};

/// Whether the answer is the same at these sizes.
[[nodiscard]] bool holds(const DimGuard& guard, const SymbolMap& symbols);

/// A switch of the host that the program read.
struct StateGuard {
  Ref<HostState> state;
  std::int64_t value = 0;
};

/// A leaf: always the same tensor, or an argument of the call.
struct GradLeaf {
  Tensor leaf;                                          ///< undefined where it is an argument
  int argument = -1;                                    ///< its position
  autograd::GradPart part = autograd::GradPart::whole;  ///< of an argument's gradient
  [[nodiscard]] const Tensor& in(std::span<const Tensor> arguments) const {
    if (argument < 0) return leaf;
    return autograd::part_of(arguments[static_cast<std::size_t>(argument)], part);
  }
  [[nodiscard]] bool is_same(const GradLeaf& other) const noexcept {
    return argument == other.argument && part == other.part &&
           (argument >= 0 || leaf.is_same(other.leaf));
  }
};

/// A leaf whose accumulated gradient the program touched.
struct GradNote : GradLeaf {
  bool defined_before = false;
  bool reads_first = false;  ///< whether there was a gradient before mattered
  Tensor before;             ///< while recording only
  Shape shape;  ///< of the gradient that there was; only that of some rows differs from its leaf's
  std::size_t hooks = 0;  ///< on the leaf: what they do is part of the recording
};

/// How many hooks a leaf has.
[[nodiscard]] std::size_t hooks_on(const Tensor& leaf);

/// Whether a recording with these notes knows of rows that are part of the leaf's gradient.
[[nodiscard]] bool knows_rows(std::span<const GradNote> notes, const autograd::LeafGrad& of_leaf,
                              std::span<const Tensor> arguments);

/// A gradient that existed before the call and that the program used: fed at each run.
struct GradCapture : GradLeaf {
  Value placeholder;
};

/// Memory that the call leaves changed: a captured tensor, or an argument.
struct Write {
  Tensor variable;  ///< undefined when an argument was written
  int argument = -1;
  Value value;
};

/// Where a tensor lies that a call leaves to its caller: a result, or a leaf's new gradient. In
/// memory from outside (an argument, a captured tensor, a gradient from before the call), or in the
/// call's own.
struct Place {
  Value memory;  ///< what the views are of: memory from outside, or what others show too; no value:
                 ///< the tensor's value is all that is shown of the call's own memory
  std::vector<Value> views;   ///< in the order in which they are made
  Tensor captured;            ///< a tensor from outside that tracks gradients, returned itself
  Value lies_in;              ///< what names the memory: tensors share it or do not
  bool outside = false;       ///< whose memory it is
  bool tracked_view = false;  ///< a view of it is on the tape
};

/// A leaf's grad() after the call: a value, or none.
struct GradWrite : GradLeaf {
  Value value;
  bool in_place = false;  ///< the gradient that was there was written
  Place place;            ///< of a gradient that was not there
};

/// How to differentiate a call's results from outside: the nodes from `begin` on compute, from the
/// values of the call and the seeds (gradients of the tracked outputs), the gradients of leaves and
/// arguments.
struct BackwardPart {
  /// What comes to a leaf or an argument from one place: a gradient, or that of some rows of it.
  struct Part {
    Value whole;  ///< no value, and no rows: the outputs do not depend on it
    Value index, rows;
    /// One from each step of a loop backwards, along the first axis of `whole`, the last step's
    /// first; with loops in its steps, one from each of their steps along the next axes.
    int loops = 0;
    /// Of how many of these the next part is from the same step, and comes after this one there.
    int loops_of_next = 0;
  };
  /// What the rule of one operator, or the hooks of one gradient, made of what came to them.
  struct Rule {
    std::vector<Value> came;        ///< each with zeros in its place, should another come alone
    std::vector<Value> looked_for;  ///< it asks whether these come
    std::vector<Value> made;
    std::vector<Value> inside;  ///< the first results of what it computed with
    template <class F>
    void for_each(const F& visit) {
      for (auto* const values : {&came, &looked_for, &made, &inside})
        std::ranges::for_each(*values, visit);
    }
  };
  int begin = 0;                 ///< nodes before belong to the call itself
  std::vector<int> outputs;      ///< positions among the results that track gradients
  std::vector<Value> seeds;      ///< their gradients, as placeholders
  std::vector<Tensor> leaves;    ///< captured leaves; undefined, last: those that the call made
  std::vector<Part> leaf_grads;  ///< one for each of them
  std::vector<int> arguments;    ///< arguments that want gradients
  std::vector<Part> argument_grads;
  /// In the order of the pass, those that say more than the graph does: several gradients came, of
  /// which any lets the rule run; or what was made is computed from none.
  std::vector<Rule> rules;

  /// Calls `visit(i, steps)` for part `i` with the step of each of its loops, in the order in which
  /// gradients come. `steps_of(i, loop)`: how many there are.
  template <class Steps, class F>
  static void for_each_of(std::span<const Part> parts, const Steps& steps_of, const F& visit) {
    std::vector<std::int64_t> steps;
    const auto walk = [&](const auto& self, std::size_t i, std::size_t end) -> void {
      const int around = static_cast<int>(steps.size());
      while (i < end) {
        if (parts[i].loops == around) {
          visit(i, std::span<const std::int64_t>(steps));
          ++i;
          continue;
        }
        std::size_t next = i + 1;
        while (parts[next - 1].loops_of_next > around) ++next;
        for (std::int64_t step = steps_of(i, steps.size()); step-- > 0;) {
          steps.push_back(step);
          self(self, i, next);
          steps.pop_back();
        }
        i = next;
      }
    };
    walk(walk, 0, parts.size());
  }

  /// How many steps loops took in a call of these sizes, for the above.
  [[nodiscard]] static auto steps_at(std::span<const Part> parts, const SymbolMap& sizes) {
    return [parts, &sizes](std::size_t i, std::size_t loop) {
      return evaluate(parts[i].whole.type().shape()[loop], sizes);
    };
  }

  /// Calls `visit` with every value that it gives.
  template <class F>
  void for_each_grad(const F& visit) const {
    for (const auto* grads : {&leaf_grads, &argument_grads}) {
      for (const Part& part : *grads) {
        for (const Value value : {part.whole, part.index, part.rows}) {
          if (value) visit(value);
        }
      }
    }
  }
};

/// Results on a tape that a pass inside the function, or a write in place, has made useless: to
/// differentiate them is an error.
struct SpentPart {
  std::vector<int> outputs;    ///< their positions among the results
  std::vector<Tensor> leaves;  ///< captured leaves that the tape leads to
  std::vector<int> arguments;  ///< arguments that it leads to
};

/// One recorded call of a function: every operator in order in one graph, and what the recording
/// assumed. The prefix before a decision is the same in all paths that share its outcomes.
struct Path {
  Ref<GraphImpl> graph;
  int arguments = 0;  ///< the first placeholders are the arguments
  int end = 0;        ///< nodes before belong to the call itself
  std::vector<GradCapture> grad_captures;
  std::vector<Decision> decisions;
  std::vector<DimGuard> guards;
  /// Loops that are there step by step: the nodes before them, and those up to their end.
  std::vector<std::pair<int, int>> unrolled;
  /// Whether steps of a loop that is differentiated went through conds: what comes behind them, the
  /// ways put in order that were gone first.
  bool has_ways = false;
  std::vector<StateGuard> states;
  std::vector<GradNote> grads;
  std::vector<std::pair<Tensor, bool>>
      captures;  ///< tensors from outside, and whether they required gradients
  std::vector<std::pair<Tensor, bool>> aliases;  ///< the same of others for the same elements
  std::vector<Write> writes;
  bool strides_matter = false;    ///< whether a reshape was a view mattered
  std::vector<Dim> layout_sizes;  ///< symbols of which a layout that mattered tells nothing below 2
  std::vector<GradWrite> grad_writes;
  std::vector<Value> outputs;
  std::vector<Place> places;  ///< one for each of them
  std::vector<int> same_as;   ///< of each the first that is the very same tensor
  std::vector<bool> tracked;  ///< which of them track gradients
  std::optional<BackwardPart> backward;
  SpentPart spent;
  std::vector<std::pair<int, bool>> switched;  ///< arguments by requires_grad(), on or off
  SymbolMap hints;                             ///< sizes at the time of recording
  std::string refusal;  ///< why the call cannot be replayed; empty when it can
  Loc refused_at;

  /// Puts `by(value)` in the place of every value that is named here.
  void replace_values(const std::function<Value(Value)>& by);
  /// The same for numbers of nodes: of those before a place in the recording.
  void replace_positions(const std::function<int(int)>& by);
};

/// Where two recordings of one function part.
struct PathDifference {
  std::string text;
  Loc first, second;
  /// They part where one has a loop as a node and the other has its steps, which may be too few to
  /// make a node of; or anywhere, if steps went ways that decide on an order.
  bool in_loop = false;
};

/// The same value of two recordings that did the same until they made it; or none in both.
[[nodiscard]] bool same_value(const Value& a, const Value& b) noexcept;
/// The same tensor, or another object for the same elements, such as detach() makes.
[[nodiscard]] bool same_elements(const Tensor& a, const Tensor& b) noexcept;

/// How many loops the call has as one node.
[[nodiscard]] std::size_t count_loops(const Path& path);

/// `true`, `3`, `0.25`: the number that a decision read, given its bits.
[[nodiscard]] std::string outcome_string(std::int64_t outcome, Decision::Kind kind);

/// Compares what two calls did up to their first different outcome of a decision, which is `common`
/// (the number of decisions shared). A difference before it means that the function depends on
/// something that recording cannot see.
[[nodiscard]] std::optional<PathDifference> compare_paths(const Path& a, const Path& b,
                                                          std::size_t& common);

}  // namespace dyad::exec
