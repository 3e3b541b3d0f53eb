#include "dyad/exec/guarded_sizes.h"

#include <algorithm>

namespace dyad::exec {

GuardedSizes::GuardedSizes(std::span<const DimGuard> guards) : guards_(guards) {
  for (const DimGuard& guard : guards) {
    if (guard.kind == DimGuard::Kind::value) {
      note_equal(guard.a, guard.answer);
    } else if (guard.kind == DimGuard::Kind::equal && guard.answer != 0) {
      note_equal(guard.a, guard.b);
    }
  }
}

std::optional<bool> GuardedSizes::equal(Dim a, Dim b) const {
  const DimGuard* known = find(DimGuard::Kind::equal, a, b);
  if (!known) known = find(DimGuard::Kind::equal, b, a);
  if (known) return known->answer != 0;
  const Dim difference = named_once(a) - named_once(b);
  return difference.is_number() ? std::optional(difference.same_as(0)) : std::nullopt;
}

std::optional<bool> GuardedSizes::less(Dim a, Dim b) const {
  if (const DimGuard* known = find(DimGuard::Kind::less, a, b)) return known->answer != 0;
  const Dim difference = named_once(a) - named_once(b);
  return difference.is_number() ? std::optional(difference.number() < 0) : std::nullopt;
}

std::optional<std::int64_t> GuardedSizes::value(Dim dim) const {
  if (const DimGuard* known = find(DimGuard::Kind::value, dim, Dim())) return known->answer;
  const Dim named = named_once(dim);
  return named.is_number() ? std::optional(named.number()) : std::nullopt;
}

const DimGuard* GuardedSizes::find(DimGuard::Kind kind, Dim a, Dim b) const {
  const auto at = std::ranges::find_if(guards_, [&](const DimGuard& guard) {
    return guard.kind == kind && guard.a.same_as(a) && guard.b.same_as(b);
  });
  return at == guards_.end() ? nullptr : &*at;
}

Dim GuardedSizes::named_once(Dim size) const {
  for (const auto& [symbol, other] : names_) {
    size = substitute(size, [&](Dim s) { return s.same_as(symbol) ? other : s; });
  }
  return size;
}

void GuardedSizes::note_equal(Dim a, Dim b) {
  a = named_once(a);
  b = named_once(b);
  const auto names = [](Dim symbol, Dim size) {
    std::vector<Dim> in_symbol, in_size;
    collect_symbols(symbol, in_symbol);
    collect_symbols(size, in_size);
    return in_symbol.size() == 1 && in_symbol[0].same_as(symbol) &&
           std::ranges::none_of(in_size, [&](Dim s) { return s.same_as(symbol); });
  };
  if (names(a, b)) {
    names_.emplace_back(a, b);
  } else if (names(b, a)) {
    names_.emplace_back(b, a);
  }
}

}  // namespace dyad::exec
