#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/exec/backward_trace.h"
#include "dyad/exec/roll_loop.h"

namespace dyad::exec {

/// How many steps at either end may be different from all others, and how far away from a step the
/// values may come from that it reads.
inline constexpr int kMostStepsApart = 4;

/// So many steps tell that those at the ends cannot be done as all others are. Of fewer that may be
/// seen in a later call, and a loop is recorded in one way.
inline constexpr std::size_t kEnoughSteps = 4;

/// Whether steps have what is stacked only if they went a way through a cond.
[[nodiscard]] inline bool is_only_of_way(const RolledLoop& loop, const Stack& stack) {
  return stack.of == Stack::Of::forward && loop.items[stack.number].cond != WrittenItem::kNoCond;
}

/// The place of `item` in `list`, to which it is added if it is not there yet.
template <class T>
std::size_t number_of(std::vector<T>& list, const T& item) {
  const auto known = std::ranges::find(list, item);
  const auto number = static_cast<std::size_t>(known - list.begin());
  if (known == list.end()) list.push_back(item);
  return number;
}

/// Steps backwards as one: those from number `high` down to `low`, `visits` counted from `high`.
/// All of them, if that can be: the last ones begin sums, which begin with nothing then, to which
/// adding changes no bit, and to what was before the first one no gradient may go, which it
/// computes in vain then. Otherwise those at the ends stay as they are, but where steps go
/// different ways through a cond: which ones these are the data tell.
class RolledBackward {
 public:
  /// What one step makes of the one visited before.
  struct Carried {
    Type type;
    std::optional<Value> first;  ///< before the loop; no value: nothing
    StepRole next;               ///< what it is after the step
  };
  /// Where a value is made in these steps.
  struct Place {
    int step = 0;
    StepRole role;
  };
  /// A way through a cond of the loop, by its item.
  using WayOfCond = std::pair<std::size_t, std::size_t>;

  RolledBackward(const BackwardTrace& trace, const StepValues& values, const RolledLoop& loop,
                 int low, int high, bool all_steps);
  /// Whether the steps are alike.
  [[nodiscard]] bool match();

  [[nodiscard]] int low() const noexcept { return low_; }
  [[nodiscard]] int high() const noexcept { return high_; }
  [[nodiscard]] std::size_t visits() const noexcept { return count_; }
  [[nodiscard]] std::vector<Stack>& stacks() noexcept { return stacks_; }
  [[nodiscard]] const std::vector<Value>& captures() const noexcept { return captures_; }
  [[nodiscard]] const std::vector<Carried>& carried() const noexcept { return carried_; }
  [[nodiscard]] const Place* find(Value value) const;
  /// What these values are, one for each step from `high` down; no value: it gives nothing.
  [[nodiscard]] std::optional<StepRole> role_in_all(std::span<const Value> values);
  /// The number of the state that `value` is after the last of the steps. Before `settle`.
  [[nodiscard]] std::optional<std::size_t> ask_after(Value value);
  /// The same, once that is known.
  [[nodiscard]] std::optional<std::size_t> after(Value value) const;
  /// Finds out how states go on from step to step; false where that cannot be told.
  [[nodiscard]] bool settle();

  [[nodiscard]] bool is_of_way(const StepRole& made) const;
  /// The ways of which one at least must be gone for the state, or for what all steps make, to be
  /// more than nothing; none: it always is. Nothing where that cannot be told.
  [[nodiscard]] std::optional<std::vector<WayOfCond>> begins(std::size_t state) const;
  [[nodiscard]] std::vector<WayOfCond> begins(const StepRole& of_all_steps) const;

  /// The graph of one step: of the states, the stacks' parts, the captures; it gives the states
  /// and then `made`.
  [[nodiscard]] Ref<GraphImpl> region(std::span<const StepRole> made, Loc loc) const;

 private:
  static constexpr std::size_t kFewest = 2;  // of one step nobody can tell what is the same in all

  /// A stretch of a step, `visit` steps after `high`.
  struct Range {
    std::size_t visit = 0, begin = 0, end = 0, first_way = 0, last_way = 0;
  };
  /// What stands somewhere in a step: a node, or what was done in a way.
  struct Entry {
    Node* node = nullptr;
    const BackwardTrace::Way* way = nullptr;
    /// There is neither: the first addend of a sum, which others add to what operand `sum` is. No
    /// value: nobody asked for what others compute there.
    Value addend;
    std::size_t sum = 0;
  };
  /// What an operand is in one step.
  struct Seen {
    std::size_t visit = 0;
    Value value;
    bool nothing = false;
    [[nodiscard]] bool is(const Seen& other) const noexcept {
      return nothing == other.nothing && (nothing || value == other.value);
    }
  };
  using Column = std::vector<Seen>;
  /// A value that steps hand on: what it is before each of them, and after the last one, where
  /// anything asks.
  struct State {
    Type type;
    std::vector<std::optional<Seen>> before;
    StepRole next;
  };

  [[nodiscard]] int step(std::size_t visit) const noexcept {
    return high_ - static_cast<int>(visit);
  }
  [[nodiscard]] std::vector<Entry> entries(const Range& range) const;
  std::optional<StepBlock> match_block(std::span<const Range> ranges);
  [[nodiscard]] bool fits(const Entry& model, std::size_t model_visit, const Entry& entry,
                          std::size_t visit, bool lacks_some) const;
  [[nodiscard]] bool differ(Value a, std::size_t visit_a, Value b, std::size_t visit_b) const;
  [[nodiscard]] bool is_from_before(Value value) const;
  [[nodiscard]] bool is_from_forward(Value value) const;
  [[nodiscard]] std::vector<Stack> stacks_with(Value value, std::size_t visit) const;
  [[nodiscard]] std::optional<Entry> missing(const Entry& model, std::size_t model_visit,
                                             std::size_t visit) const;
  std::optional<StepItem> match_nodes(std::span<const Range> ranges, std::span<const Entry> column,
                                      Node* model);
  std::optional<StepItem> match_ways(std::span<const Range> ranges, std::span<const Entry> column);
  void note_made(std::size_t visit, std::size_t item, const Entry& entry);
  [[nodiscard]] std::optional<Value> counterpart(Value value, std::size_t of_visit,
                                                 std::size_t visit) const;
  [[nodiscard]] const StepRole* in_sight_of(Value value, std::size_t visit) const;
  /// The step that makes the value; nothing of what none of these does.
  [[nodiscard]] std::optional<int> step_of(Value value) const;
  [[nodiscard]] Value made_at(std::size_t visit, const StepRole& role) const;
  [[nodiscard]] bool is_made_at(std::size_t visit, Value value) const;

  std::optional<StepRole> role_of(const Column& column);
  [[nodiscard]] std::optional<StepRole> local(const Column& column) const;
  [[nodiscard]] std::optional<StepRole> captured(const Column& column);
  [[nodiscard]] bool is_view_of_step(const Seen& seen) const;
  std::optional<StepRole> viewed(const Column& column);
  [[nodiscard]] std::optional<Stack> stack_of(const Column& column) const;
  [[nodiscard]] std::optional<StepRole> state_of(const Column& column);
  /// The cond in sight in one of whose ways the value is made.
  [[nodiscard]] std::optional<std::size_t> cond_around(const Column& column) const;
  std::optional<StepRole> result_of(std::size_t cond, const Column& column);
  [[nodiscard]] bool is_without(std::size_t cond, std::size_t way, const Column& column) const;
  std::optional<StepRole> result_of_any(const Column& column);
  StepRole add_result(std::size_t cond, const StepRole& then, const StepRole& otherwise);
  [[nodiscard]] bool is_in_sight(const StepRole& role) const;
  [[nodiscard]] bool is_before(const StepRole& role, std::size_t item) const;
  [[nodiscard]] std::optional<std::size_t> chooser(std::size_t cond,
                                                   const std::array<StepRole, 2>& roles);
  std::size_t add_item(StepItem item, std::size_t cond_of_loop);

  [[nodiscard]] bool is_in_order(const StepBlock& block, std::vector<bool> made) const;
  void hand_on(State& state) const;
  bool find_next(std::size_t state);
  void merge_states();
  [[nodiscard]] bool are_one(const StepRole& a, const StepRole& b, std::size_t i,
                             std::size_t j) const;
  [[nodiscard]] bool always_begins(const StepRole& role, std::size_t state,
                                   std::vector<WayOfCond>& ways, bool& is_known) const;

  const BackwardTrace& trace_;
  const StepValues& values_;
  const RolledLoop& loop_;
  int low_, high_;
  std::size_t count_;
  bool all_steps_;

  std::vector<StepItem> items_;
  StepBlock body_;
  StepBlock* open_ = nullptr;  // the block that items are being added to
  int ways_in_sight_ = 0;      // of conds that are over, for the time being
  std::vector<StepView> views_;
  std::vector<Stack> stacks_;
  std::vector<Value> captures_;
  std::vector<State> states_;
  std::vector<Carried> carried_;
  std::unordered_map<Value, std::size_t, ValueHash> after_;

  std::vector<bool> in_sight_;  // of items: not in a way that is over
  /// Of items the cond and the way that they are in, of conds the way that each step went and the
  /// loop's own cond.
  std::vector<std::pair<std::size_t, std::size_t>> around_;
  std::vector<std::unordered_map<std::size_t, std::size_t>> gone_;
  std::vector<std::size_t> cond_of_loop_;
  /// By visit: the values of items, and which items a value is of.
  std::vector<std::unordered_map<std::size_t, std::vector<Value>>> made_;
  std::vector<std::unordered_map<Value, std::vector<StepRole>, ValueHash>> makers_, given_;
  std::unordered_map<const Node*, int> steps_;  // of nodes
  std::unordered_map<Value, Place, ValueHash> places_;
  std::optional<std::size_t> settling_;
  bool may_be_nothing_ = false;  // of what is asked, in some ways
};

/// Nothing where fewer than two steps are alike. `in_vain`: all steps are in, of which the first
/// computes what it did not.
[[nodiscard]] std::unique_ptr<RolledBackward> roll_backward(const BackwardTrace& trace,
                                                            const StepValues& values,
                                                            const RolledLoop& loop, bool in_vain);

}  // namespace dyad::exec
