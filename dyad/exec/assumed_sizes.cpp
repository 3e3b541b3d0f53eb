#include "dyad/exec/assumed_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/exec/executable_bind.h"

namespace dyad::exec {

bool is_symbol(Dim size) {
  std::vector<Dim> used;
  collect_symbols(size, used);
  return used.size() == 1 && used[0].same_as(size);
}

const GuardedSizes& AssumedSizes::facts() const {
  const std::span<const SizeRange> ranges = graph_->impl->ranges();
  if (!facts_ || ranges.size() != ranges_) {
    guards_.clear();
    for (const SizeRange& range : ranges)
      add_range(range.size, range.min, range.max, range.loc, guards_);
    ranges_ = ranges.size();
    facts_.emplace(guards_);
  }
  return *facts_;
}

void add_range(Dim size, std::int64_t min, std::int64_t max, Loc loc, std::vector<DimGuard>& to) {
  const auto add = [&](Dim a, Dim b) {
    const DimGuard not_less{DimGuard::Kind::less, a, b, 0, loc};
    const auto asks_same = [&](const DimGuard& known) { return known.asks_same(not_less); };
    if (std::ranges::none_of(to, asks_same)) to.push_back(not_less);
  };
  // No symbol is less than 0.
  if (min > 0 || !is_symbol(size)) add(size, min);
  if (max != kAnySize) add(max, size);
}

std::string range_text(std::int64_t min, std::int64_t max) {
  return max == kAnySize ? fmt::format("{} or more", min) : fmt::format("from {} to {}", min, max);
}

void check_assumed(std::span<const SizeRange> ranges, const GraphImpl& fed,
                   std::span<const Tensor> values, Loc loc) {
  if (ranges.empty()) return;
  const SymbolMap symbols = bind_symbols(fed, values, {}, loc);
  for (const SizeRange& range : ranges) {
    std::vector<Dim> used;
    collect_symbols(range.size, used);
    const auto is_told = [&](Dim symbol) { return symbols.find(symbol) != nullptr; };
    // Others are of what this run does not need.
    if (!std::ranges::all_of(used, is_told)) continue;
    const std::int64_t size = evaluate(range.size, symbols);
    if (size >= range.min && size <= range.max) continue;
    throw ValueError(fmt::format("the size {} is {}, but the graph assumes that it is {} ({})",
                                 to_string(range.size), size, range_text(range.min, range.max),
                                 range.loc ? to_string(range.loc) : "assume"),
                     loc, range.loc);
  }
}

}  // namespace dyad::exec
