/// What a recording depends on: sizes that the function asks for, numbers that the host reads.
#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/exec/eager.h"
#include "dyad/exec/recorder.h"

namespace dyad::exec {

void Recorder::note_asked(Dim size, Loc loc) {
  if (!size.is_symbolic()) return;
  constexpr std::size_t kMost = 64;  // found one by one
  const auto known =
      std::ranges::find_if(asked_, [&](const auto& one) { return one.first.same_as(size); });
  if (known != asked_.end()) {
    known->second = loc.user();
  } else if (asked_.size() < kMost) {
    asked_.emplace_back(size, loc.user());
  }
}

Dim Recorder::peek(Dim size) const {
  if (is_told_by_data(size)) return size;
  return substitute(size, [&](Dim symbol) {
    const std::int64_t* const known = path_.hints.find(symbol);
    return known == nullptr ? symbol : Dim(*known);
  });
}

std::int64_t Recorder::dim_value(Dim dim, Loc loc) {
  const std::int64_t value = evaluate(dim, path_.hints);
  guard({DimGuard::Kind::value, dim, Dim(), value, loc.user()});
  return value;
}

void Recorder::guard(const DimGuard& made) {
  DimGuard asked = made;
  if (!asked.loc) {
    // What compares sizes has no line: that where one was asked for last tells as much.
    const auto known = std::ranges::find_if(asked_, [&](const auto& one) {
      return one.first.same_as(made.a) || one.first.same_as(made.b);
    });
    if (known != asked_.end()) asked.loc = known->second;
  }
  if (is_told_by_data(made.a) || is_told_by_data(made.b)) {
    refuse("what the function does depends on a size that only data tell: " + to_string(made.a) +
               (made.kind == DimGuard::Kind::value ? "" : " compared with " + to_string(made.b)),
           asked.loc);
    return;
  }
  if (!is_assumed(made)) path_.guards.push_back(asked);
}

void Recorder::assume(std::vector<DimGuard> known) {
  if (known.empty()) return;
  path_.guards = known;
  assumed_ = std::move(known);
  of_assumed_.emplace(assumed_);
}

bool Recorder::is_assumed(const DimGuard& made) const {
  if (!of_assumed_) return false;
  switch (made.kind) {
    case DimGuard::Kind::equal:
      return of_assumed_->equal(made.a, made.b).has_value();
    case DimGuard::Kind::less:
      return of_assumed_->less(made.a, made.b).has_value();
    case DimGuard::Kind::value:
      return of_assumed_->value(made.a).has_value();
  }
  return false;
}

bool Recorder::is_told_by_data(Dim size) const {
  std::vector<Dim> symbols;
  collect_symbols(size, symbols);
  return std::ranges::any_of(symbols, [&](Dim symbol) {
    return std::ranges::any_of(open_sizes_, [&](Dim open) { return symbol.same_as(open); });
  });
}

bool Recorder::dim_equal(Dim a, Dim b, Loc loc) {
  const bool answer = evaluate(a, path_.hints) == evaluate(b, path_.hints);
  guard({DimGuard::Kind::equal, a, b, answer, loc.user()});
  return answer;
}

bool Recorder::dim_less(Dim a, Dim b, Loc loc) {
  const bool answer = evaluate(a, path_.hints) < evaluate(b, path_.hints);
  guard({DimGuard::Kind::less, a, b, answer, loc.user()});
  return answer;
}

void Recorder::guard_small_sizes(const Shape& shape, Loc loc) {
  for (const Dim size : shape) {
    std::vector<Dim> symbols;
    collect_symbols(size, symbols);
    if (symbols.empty() || is_told_by_data(size)) continue;
    if (!symbols[0].same_as(size)) {
      static_cast<void>(dim_less(size, 2, loc));
    } else if (std::ranges::none_of(path_.layout_sizes, [&](Dim s) { return s.same_as(size); })) {
      path_.layout_sizes.push_back(size);
    }
  }
}

void Recorder::host_access(const Tensor& tensor, Loc loc) {
  refuse("the host reads the memory of " + type_string(tensor) +
             ", which a compiled function cannot follow; compute with operators, or read one "
             "number with item()",
         loc.user());
}

bool Recorder::is_of_outer_pass(Value value) const {
  if (outer_pass_ < 0) return false;
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> open{value.node};
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    if (node.id() < outer_pass_ || !seen.insert(&node).second) continue;
    if (node.is("placeholder")) return true;
    for (const Value input : node.inputs()) {
      if (input) open.push_back(input.node);
    }
  }
  return false;
}

void Recorder::decide(const Tensor& tensor, std::int64_t outcome, Decision::Kind kind, Loc loc) {
  loc = loc.user();
  const Value value = value_of(tensor, loc);
  if (value.node->is("constant")) return;
  if (is_of_outer_pass(value)) {
    refuse(
        "the gradient of a result reads a number of its own on the host (in a hook or a custom "
        "gradient), which only the pass that comes later knows; choose with where(), or call "
        "backward() inside the function",
        loc ? loc : value.node->loc());
    return;
  }
  if (!loc) loc = value.node->loc();  // `if (t)` cannot tell its own line
  path_.decisions.push_back({value, static_cast<int>(graph_->nodes().size()), outcome, kind, loc});
}

double Recorder::read_double(const Tensor& tensor, Loc loc) {
  const double value = EagerEvaluator::instance().read_double(tensor, loc);
  decide(tensor, std::bit_cast<std::int64_t>(value), Decision::Kind::floating, loc);
  return value;
}

std::int64_t Recorder::read_int(const Tensor& tensor, Loc loc) {
  const std::int64_t value = EagerEvaluator::instance().read_int(tensor, loc);
  decide(tensor, value, Decision::Kind::integer, loc);
  return value;
}

bool Recorder::read_bool(const Tensor& tensor, Loc loc) {
  const bool value = EagerEvaluator::instance().read_bool(tensor, loc);
  decide(tensor, value ? 1 : 0, Decision::Kind::boolean, loc);
  return value;
}

}  // namespace dyad::exec
