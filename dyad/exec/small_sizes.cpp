#include "dyad/exec/small_sizes.h"

#include <algorithm>
#include <ranges>
#include <unordered_map>

#include "dyad/core/tensor_impl.h"
#include "dyad/exec/value_numbers.h"

namespace dyad::exec {
namespace {

/// Both undefined, or two objects for the same elements.
bool same_tensor(const Tensor& a, const Tensor& b) noexcept {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return same_elements(a, b);
}

template <class List, class Same>
bool same_lists(const List& a, const List& b, const Same& same) {
  return std::ranges::equal(a, b, same);
}

/// The memory of everything that a call leaves to its caller.
std::vector<Value> memories_of(const Path& path) {
  std::vector<Value> memories;
  memories.reserve(path.places.size() + path.grad_writes.size());
  for (const Place& place : path.places) memories.push_back(place.lies_in);
  for (const GradWrite& write : path.grad_writes) memories.push_back(write.place.lies_in);
  return memories;
}

/// Whether the same of them share memory, which may have other names.
bool same_sharing(const std::vector<Value>& a, const std::vector<Value>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto first = std::ranges::find(a, a[i]) - a.begin();
    if (std::ranges::find(b, b[i]) - b.begin() != first) return false;
  }
  return true;
}

bool same_grad_note(const GradNote& a, const GradNote& b) {
  const bool alike = !a.reads_first || a.defined_before == b.defined_before;
  return a.is_same(b) && a.reads_first == b.reads_first && alike;
}

bool same_spent(const SpentPart& a, const SpentPart& b) {
  return a.outputs == b.outputs && a.arguments == b.arguments &&
         same_lists(a.leaves, b.leaves, same_tensor);
}

bool same_state(const StateGuard& a, const StateGuard& b) {
  return a.state == b.state && a.value == b.value;
}

using CapturedTensors = std::vector<std::pair<Tensor, bool>>;

bool same_capture(const CapturedTensors::value_type& a, const CapturedTensors::value_type& b) {
  return same_tensor(a.first, b.first) && a.second == b.second;
}

/// Compares what two calls left behind.
class Comparison {
 public:
  virtual ~Comparison() = default;
  [[nodiscard]] std::optional<PathDifference> find(const Path& recorded, const Path& small) const;

 private:
  [[nodiscard]] virtual bool same(const Value& recorded, const Value& small) const = 0;
  [[nodiscard]] virtual bool same_gradient(const BackwardPart::Part& recorded,
                                           const BackwardPart::Part& small) const = 0;
  /// The same, and of the same operator: how results lie is told by it.
  [[nodiscard]] virtual bool same_view(const Value& recorded, const Value& small) const = 0;
  [[nodiscard]] virtual bool same_position(int recorded, int small) const = 0;
  [[nodiscard]] virtual bool same_captures(const CapturedTensors& recorded,
                                           const CapturedTensors& small) const = 0;

  [[nodiscard]] bool same_place(const Place& a, const Place& b) const;
  [[nodiscard]] bool same_write(const Write& a, const Write& b) const;
  [[nodiscard]] bool same_decision(const Decision& a, const Decision& b) const;
  [[nodiscard]] bool same_grad_write(const GradWrite& a, const GradWrite& b) const;
  [[nodiscard]] bool same_backward(const std::optional<BackwardPart>& a,
                                   const std::optional<BackwardPart>& b) const;
};

/// Which tensors share memory is told by all places together.
bool Comparison::same_place(const Place& a, const Place& b) const {
  const auto same_one = [this](const Value& x, const Value& y) { return same_view(x, y); };
  return same(a.memory, b.memory) && same_lists(a.views, b.views, same_one) &&
         same_tensor(a.captured, b.captured) && a.outside == b.outside &&
         a.tracked_view == b.tracked_view && (!a.outside || same(a.lies_in, b.lies_in));
}

bool Comparison::same_write(const Write& a, const Write& b) const {
  return same_tensor(a.variable, b.variable) && a.argument == b.argument && same(a.value, b.value);
}

bool Comparison::same_decision(const Decision& a, const Decision& b) const {
  return same(a.value, b.value) && same_position(a.position, b.position) &&
         a.outcome == b.outcome && a.kind == b.kind;
}

bool Comparison::same_grad_write(const GradWrite& a, const GradWrite& b) const {
  return a.is_same(b) && same(a.value, b.value) && a.in_place == b.in_place &&
         same_place(a.place, b.place);
}

bool Comparison::same_backward(const std::optional<BackwardPart>& a,
                               const std::optional<BackwardPart>& b) const {
  if (!a || !b) return !a && !b;
  const auto same_seed = [this](const Value& x, const Value& y) { return same(x, y); };
  const auto same_gradients = [this](const auto& x, const auto& y) {
    return same_lists(x, y, [this](const BackwardPart::Part& one, const BackwardPart::Part& other) {
      return same_gradient(one, other);
    });
  };
  return same_position(a->begin, b->begin) && a->outputs == b->outputs &&
         a->arguments == b->arguments && same_lists(a->seeds, b->seeds, same_seed) &&
         same_lists(a->leaves, b->leaves, same_tensor) &&
         same_gradients(a->leaf_grads, b->leaf_grads) &&
         same_gradients(a->argument_grads, b->argument_grads);
}

std::optional<PathDifference> Comparison::find(const Path& recorded, const Path& small) const {
  const auto by = [this](const auto& same_one) {
    return [this, same_one](const auto& a, const auto& b) { return (this->*same_one)(a, b); };
  };
  const auto differs = [](const char* what) { return PathDifference{what, {}, {}}; };
  if (!same_lists(recorded.decisions, small.decisions, by(&Comparison::same_decision)))
    return differs("the host read other values");
  if (!same_position(recorded.end, small.end) || recorded.tracked != small.tracked ||
      recorded.switched != small.switched ||
      !same_lists(recorded.places, small.places, by(&Comparison::same_place)))
    return differs("its results lie elsewhere in memory, or track gradients otherwise");
  if (!same_lists(recorded.writes, small.writes, by(&Comparison::same_write)))
    return differs("it wrote other tensors in place");
  const auto same_grad_capture = [this](const GradCapture& a, const GradCapture& b) {
    return a.is_same(b) && same(a.placeholder, b.placeholder);
  };
  if (!same_lists(recorded.grads, small.grads, same_grad_note) ||
      !same_lists(recorded.grad_captures, small.grad_captures, same_grad_capture) ||
      !same_lists(recorded.grad_writes, small.grad_writes, by(&Comparison::same_grad_write)))
    return differs("it read or left other gradients");
  if (!same_sharing(memories_of(recorded), memories_of(small)))
    return differs("others of its results and gradients share memory");
  if (!same_backward(recorded.backward, small.backward) || !same_spent(recorded.spent, small.spent))
    return differs("its results are differentiated otherwise");
  if (!same_lists(recorded.states, small.states, same_state) ||
      !same_captures(recorded.captures, small.captures))
    return differs("it used other tensors or switches from outside");
  return std::nullopt;
}

/// Of recordings with the same nodes.
class NodeByNode final : public Comparison {
  bool same(const Value& recorded, const Value& small) const override {
    return same_value(recorded, small);
  }
  bool same_gradient(const BackwardPart::Part& a, const BackwardPart::Part& b) const override {
    return same_value(a.whole, b.whole) && same_value(a.index, b.index) &&
           same_value(a.rows, b.rows) && a.loops == b.loops && a.loops_of_next == b.loops_of_next;
  }
  bool same_view(const Value& recorded, const Value& small) const override {
    return same_value(recorded, small);
  }
  bool same_position(int recorded, int small) const override { return recorded == small; }
  bool same_captures(const CapturedTensors& recorded, const CapturedTensors& small) const override {
    return same_lists(recorded, small, same_capture);
  }
};

/// Of recordings of which one has loops as nodes where the other has their one step, or none.
class ByNumbers final : public Comparison {
 public:
  explicit ByNumbers(const SymbolMap& sizes) : numbers_(sizes) {}
  /// Whether both return the same values; false, too, where these cannot be told.
  [[nodiscard]] bool add(const Path& recorded, const Path& small) {
    auto first = numbers_.add(*recorded.graph), second = numbers_.add(*small.graph);
    if (!first || !second) return false;
    of_recorded_ = *std::move(first);
    of_small_ = *std::move(second);
    note_gradients(recorded.backward, of_recorded_, parts_of_recorded_);
    note_gradients(small.backward, of_small_, parts_of_small_);
    return recorded.same_as == small.same_as &&
           same_lists(recorded.outputs, small.outputs,
                      [this](const Value& a, const Value& b) { return same(a, b); });
  }

 private:
  /// A gradient without the axes of loops that took one step, which the other recording has as no
  /// loops, and how many of its loops, and of those that it shares with the next, are left.
  struct Part {
    int number = 0, loops = 0, loops_of_next = 0;
    [[nodiscard]] bool operator==(const Part&) const noexcept = default;
  };
  using Parts = std::unordered_map<const BackwardPart::Part*, Part>;

  void note_gradients(const std::optional<BackwardPart>& backward,
                      const ValueNumbers::OfGraph& known, Parts& parts) {
    if (!backward) return;
    for (const auto* const grads : {&backward->leaf_grads, &backward->argument_grads}) {
      for (const BackwardPart::Part& part : *grads) {
        const auto number = part.whole ? known.find(part.whole) : std::nullopt;
        if (!number) continue;
        parts[&part] = {numbers_.without_ones(*number, part.loops),
                        numbers_.axes_left(*number, part.loops),
                        numbers_.axes_left(*number, part.loops_of_next)};
      }
    }
  }
  bool same(const Value& recorded, const Value& small) const override {
    if (!recorded || !small) return !recorded && !small;
    const auto a = of_recorded_.find(recorded), b = of_small_.find(small);
    return a && a == b;
  }
  bool same_gradient(const BackwardPart::Part& a, const BackwardPart::Part& b) const override {
    if (!same(a.index, b.index) || !same(a.rows, b.rows)) return false;
    if (!a.whole || !b.whole) return !a.whole && !b.whole;
    const auto x = parts_of_recorded_.find(&a), y = parts_of_small_.find(&b);
    return x != parts_of_recorded_.end() && y != parts_of_small_.end() && x->second == y->second;
  }
  bool same_view(const Value& recorded, const Value& small) const override {
    return same(recorded, small) && numbers_.same_operator(*recorded.node, *small.node);
  }
  bool same_position(int recorded, int small) const override {
    return of_recorded_.effects_before(recorded) == of_small_.effects_before(small);
  }
  /// A step that there is not uses none.
  bool same_captures(const CapturedTensors& recorded, const CapturedTensors& small) const override {
    return std::ranges::all_of(small, [&](const auto& used) {
      return std::ranges::any_of(recorded,
                                 [&](const auto& known) { return same_capture(known, used); });
    });
  }

  ValueNumbers numbers_;
  ValueNumbers::OfGraph of_recorded_, of_small_;
  Parts parts_of_recorded_, parts_of_small_;
};

/// Whether the host read the same answers.
bool went_one_way(const Path& a, const Path& b) {
  return same_lists(a.decisions, b.decisions, [](const Decision& x, const Decision& y) {
    return x.outcome == y.outcome && x.kind == y.kind;
  });
}

}  // namespace

bool has_small_sizes(const SymbolMap& symbols) noexcept {
  return std::ranges::any_of(symbols.entries(), [](const auto& entry) { return entry.second < 2; });
}

SymbolMap small_sizes_of(const SymbolMap& symbols) {
  SymbolMap small;
  for (const auto& [symbol, size] : symbols.entries()) {
    if (size < 2) small.bind(symbol, size);
  }
  return small;
}

std::string sizes_string(const SymbolMap& symbols) {
  std::string text;
  for (const auto& [symbol, value] : symbols.entries())
    text += (text.empty() ? "" : ", ") + to_string(symbol) + " = " + std::to_string(value);
  return text;
}

std::optional<PathDifference> compare_whole(const Path& recorded, const Path& small,
                                            const SymbolMap& sizes) {
  std::size_t common = 0;
  const auto difference = compare_paths(recorded, small, common);
  if (!difference) return NodeByNode().find(recorded, small);
  if (!has_few_steps(*recorded.graph, sizes)) return difference;
  if (!went_one_way(recorded, small))
    return PathDifference{"the host's branches went another way", {}, {}};
  ByNumbers by_numbers(sizes);
  return by_numbers.add(recorded, small) ? by_numbers.find(recorded, small) : difference;
}

}  // namespace dyad::exec
