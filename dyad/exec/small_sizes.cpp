#include "dyad/exec/small_sizes.h"

#include <algorithm>
#include <ranges>

#include "dyad/core/tensor_impl.h"

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

/// Which tensors share memory is told by all places together.
bool same_place(const Place& a, const Place& b) {
  return same_value(a.memory, b.memory) && same_lists(a.views, b.views, same_value) &&
         same_tensor(a.captured, b.captured) && a.outside == b.outside &&
         a.tracked_view == b.tracked_view && (!a.outside || same_value(a.lies_in, b.lies_in));
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

bool same_write(const Write& a, const Write& b) {
  return same_tensor(a.variable, b.variable) && a.argument == b.argument &&
         same_value(a.value, b.value);
}

bool same_grad_note(const GradNote& a, const GradNote& b) {
  const bool alike = !a.reads_first || a.defined_before == b.defined_before;
  return a.is_same(b) && a.reads_first == b.reads_first && alike;
}

bool same_grad_write(const GradWrite& a, const GradWrite& b) {
  return a.is_same(b) && same_value(a.value, b.value) && a.in_place == b.in_place &&
         same_place(a.place, b.place);
}

bool same_grad_capture(const GradCapture& a, const GradCapture& b) {
  return a.is_same(b) && same_value(a.placeholder, b.placeholder);
}

bool same_part(const BackwardPart::Part& a, const BackwardPart::Part& b) {
  return same_value(a.whole, b.whole) && same_value(a.index, b.index) &&
         same_value(a.rows, b.rows) && a.loops == b.loops && a.loops_of_next == b.loops_of_next;
}

bool same_backward(const std::optional<BackwardPart>& a, const std::optional<BackwardPart>& b) {
  if (!a || !b) return !a && !b;
  return a->begin == b->begin && a->outputs == b->outputs && a->arguments == b->arguments &&
         same_lists(a->seeds, b->seeds, same_value) &&
         same_lists(a->leaves, b->leaves, same_tensor) &&
         same_lists(a->leaf_grads, b->leaf_grads, same_part) &&
         same_lists(a->argument_grads, b->argument_grads, same_part);
}

bool same_spent(const SpentPart& a, const SpentPart& b) {
  return a.outputs == b.outputs && a.arguments == b.arguments &&
         same_lists(a.leaves, b.leaves, same_tensor);
}

bool same_state(const StateGuard& a, const StateGuard& b) {
  return a.state == b.state && a.value == b.value;
}

bool same_capture(const std::pair<Tensor, bool>& a, const std::pair<Tensor, bool>& b) {
  return same_tensor(a.first, b.first) && a.second == b.second;
}

bool same_decision(const Decision& a, const Decision& b) {
  return same_value(a.value, b.value) && a.position == b.position && a.outcome == b.outcome &&
         a.kind == b.kind;
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

std::optional<PathDifference> compare_whole(const Path& recorded, const Path& small) {
  std::size_t common = 0;
  if (auto difference = compare_paths(recorded, small, common)) return difference;
  const auto differs = [](const char* what) { return PathDifference{what, {}, {}}; };
  if (!same_lists(recorded.decisions, small.decisions, same_decision))
    return differs("the host read other values");
  if (recorded.end != small.end || recorded.tracked != small.tracked ||
      recorded.switched != small.switched || !same_lists(recorded.places, small.places, same_place))
    return differs("its results lie elsewhere in memory, or track gradients otherwise");
  if (!same_lists(recorded.writes, small.writes, same_write))
    return differs("it wrote other tensors in place");
  if (!same_lists(recorded.grads, small.grads, same_grad_note) ||
      !same_lists(recorded.grad_captures, small.grad_captures, same_grad_capture) ||
      !same_lists(recorded.grad_writes, small.grad_writes, same_grad_write))
    return differs("it read or left other gradients");
  if (!same_sharing(memories_of(recorded), memories_of(small)))
    return differs("others of its results and gradients share memory");
  if (!same_backward(recorded.backward, small.backward) || !same_spent(recorded.spent, small.spent))
    return differs("its results are differentiated otherwise");
  if (!same_lists(recorded.states, small.states, same_state) ||
      !same_lists(recorded.captures, small.captures, same_capture))
    return differs("it used other tensors or switches from outside");
  return std::nullopt;
}

}  // namespace dyad::exec
