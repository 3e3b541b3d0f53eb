#include "dyad/exec/loop_reach.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "dyad/autograd/tape.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::exec {
namespace {

/// What a pass comes to from one value of a step: states before it, and what is not of the loop.
struct StepReach {
  std::vector<bool> states;
  std::set<TapePlace> outside;

  void add(const StepReach& other) {
    for (std::size_t i = 0; i < states.size(); ++i) states[i] = states[i] || other.states[i];
    outside.insert(other.outside.begin(), other.outside.end());
  }
};

/// Follows the tape back to where a step begins.
class StepWalk {
 public:
  explicit StepWalk(const TapedStep& step) : step_(step) {
    reach_.states.resize(step.before.size());
  }
  void come_from(autograd::TapeNode* node, TapePlace place) {
    pending_.emplace_back(node, place);
    while (!pending_.empty()) {
      const auto [at, here] = pending_.back();
      pending_.pop_back();
      if (is_end(here) || !seen_.insert(at).second) continue;
      for (const autograd::InputRecord& input : at->inputs()) {
        if (input.node) {
          pending_.emplace_back(input.node.get(), TapePlace{input.node->sequence(), input.output});
        } else if (input.leaf.defined()) {
          pending_.emplace_back(nullptr, TapePlace{.leaf = input.leaf.impl()});
        }
      }
    }
  }
  [[nodiscard]] StepReach take() { return std::move(reach_); }

 private:
  bool is_end(const TapePlace& place) {
    bool is_state = false;
    for (std::size_t i = 0; i < step_.before.size(); ++i) {
      if (step_.before[i] != place) continue;
      reach_.states[i] = is_state = true;
    }
    if (is_state) return true;
    if (place.leaf == nullptr && place.sequence > step_.begin) return false;
    reach_.outside.insert(place);
    return true;
  }

  const TapedStep& step_;
  StepReach reach_;
  std::vector<std::pair<autograd::TapeNode*, TapePlace>> pending_;
  std::unordered_set<autograd::TapeNode*> seen_;
};

StepReach reach_of(const TapedStep& step, autograd::TapeNode* node, const TapePlace& place) {
  StepWalk walk(step);
  if (place != TapePlace()) walk.come_from(node, place);
  return walk.take();
}

/// From how many steps on the reach is the same that begins with `first` and goes on, from states
/// to states, by `of_states`, to which each step adds `each`.
std::optional<int> settled(const TapedStep& step, const std::vector<StepReach>& of_states,
                           std::vector<bool> first, const StepReach& each) {
  // States that go round in a circle come by again in no more steps than there are.
  const int most = 4 * static_cast<int>(first.size()) + 8;
  StepReach all{std::move(first), {}};
  int settled_at = 1;
  for (int steps = 1; steps <= most; ++steps) {
    StepReach next = each;
    for (std::size_t i = 0; i < all.states.size(); ++i) {
      if (all.states[i]) next.add(of_states[i]);
    }
    const std::size_t known = all.outside.size();
    all.outside.merge(next.outside);
    const bool is_new = all.outside.size() != known;
    if (next.states == all.states && !is_new) return settled_at;
    bool is_other = is_new;
    for (std::size_t i = 0; i < next.states.size(); ++i)
      is_other = is_other || (step.wanted[i] && next.states[i] != all.states[i]);
    if (steps > 1 && is_other) settled_at = steps;
    all.states = std::move(next.states);
  }
  return settled_at > most / 2 ? std::nullopt : std::optional(settled_at);
}

}  // namespace

TapePlace place_of(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.tracks_grad()) return {};
  if (const autograd::TapeNode* const node = autograd::node_of(*tensor.impl()))
    return {node->sequence(), tensor.impl()->grad_output, nullptr};
  return {.leaf = tensor.impl()};
}

std::optional<int> settled_reach(const TapedStep& step) {
  const std::size_t states = step.before.size();
  std::vector<StepReach> of_states;
  for (const Tensor& state : step.after)
    of_states.push_back(reach_of(step, autograd::node_of(*state.impl()), place_of(state)));
  int fewest = 1;
  const auto settles = [&](std::vector<bool> first, const StepReach& each) {
    const std::optional<int> at = settled(step, of_states, std::move(first), each);
    fewest = std::max(fewest, at.value_or(1));
    return at.has_value();
  };
  const StepReach none{std::vector<bool>(states), {}};
  for (std::size_t i = 0; i < states; ++i) {
    std::vector<bool> first(states);
    first[i] = true;
    if (!settles(std::move(first), none)) return std::nullopt;
  }
  for (const Tensor& stack : step.stacked) {
    autograd::TapeNode* const node = autograd::node_of(*stack.impl());
    if (!node || node->inputs().empty() || !node->inputs().back().node) continue;
    const autograd::InputRecord& row = node->inputs().back();
    const TapePlace place{row.node->sequence(), row.output, nullptr};
    if (!settles(none.states, reach_of(step, row.node.get(), place))) return std::nullopt;
  }
  return fewest;
}

}  // namespace dyad::exec
