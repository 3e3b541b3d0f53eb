#include "dyad/exec/assumed_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/base/error.h"

namespace dyad::exec {

const GuardedSizes& AssumedSizes::facts() const {
  const std::span<const SizeRange> ranges = graph_->impl->ranges();
  if (!facts_ || ranges.size() != ranges_) {
    guards_.clear();
    for (const SizeRange& range : ranges) add_range(range, guards_);
    ranges_ = ranges.size();
    facts_.emplace(guards_);
  }
  return *facts_;
}

void add_range(const SizeRange& range, std::vector<DimGuard>& to) {
  const auto add = [&](Dim a, Dim b) {
    const DimGuard not_less{DimGuard::Kind::less, a, b, 0, range.loc};
    const auto asks_same = [&](const DimGuard& known) { return known.asks_same(not_less); };
    if (std::ranges::none_of(to, asks_same)) to.push_back(not_less);
  };
  // No symbol is less than 0.
  if (range.min > 0 || !is_symbol(range.size)) add(range.size, range.min);
  if (range.max != kAnySize) add(range.max, range.size);
}

void require_told(const GraphImpl& graph, Loc loc) {
  std::vector<Dim> told;
  for (const Value placeholder : graph.placeholders()) {
    for (const Dim size : placeholder.type().shape()) collect_symbols(size, told);
  }
  for (const SizeRange& range : graph.ranges()) {
    std::vector<Dim> used;
    collect_symbols(range.size, used);
    for (const Dim symbol : used) {
      if (std::ranges::any_of(told, [&](Dim one) { return one.same_as(symbol); })) continue;
      throw GraphError(
          fmt::format("assume({}): no placeholder has the size {}; {}", to_string(range.size),
                      to_string(symbol), list_placeholders(graph)),
          loc, range.loc);
    }
  }
}

void check_assumed(std::span<const SizeRange> ranges, const SymbolMap& sizes, Loc loc) {
  for (const SizeRange& range : ranges) {
    std::vector<Dim> used;
    collect_symbols(range.size, used);
    const auto is_given = [&](Dim symbol) { return sizes.find(symbol) != nullptr; };
    if (!std::ranges::all_of(used, is_given)) continue;
    const std::int64_t size = evaluate(range.size, sizes);
    if (size >= range.min && size <= range.max) continue;
    throw ValueError(fmt::format("the size {} is {}, but the graph assumes that it is {}",
                                 to_string(range.size), size, to_string(range)),
                     loc, range.loc);
  }
}

}  // namespace dyad::exec
