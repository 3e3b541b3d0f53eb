#include "dyad/exec/guarded_sizes.h"

#include <algorithm>
#include <cstdlib>

namespace dyad::exec {

namespace {

/// Takes the number out of a sum and gives it back.
std::int64_t take_constant(Dim& size) {
  const std::int64_t constant = size.is_number() ? size.number() : size.expr().constant;
  size = size - constant;
  return constant;
}

/// The greater, or the lesser, of what is known.
std::optional<std::int64_t> tighter(std::optional<std::int64_t> a, std::optional<std::int64_t> b,
                                    bool lower) {
  if (!a || !b) return a ? a : b;
  return lower ? std::max(*a, *b) : std::min(*a, *b);
}

}  // namespace

GuardedSizes::GuardedSizes(std::span<const DimGuard> guards) : guards_(guards) {
  for (const DimGuard& guard : guards) {
    if (guard.kind == DimGuard::Kind::value) {
      note_equal(guard.a, guard.answer);
    } else if (guard.kind == DimGuard::Kind::equal && guard.answer != 0) {
      note_equal(guard.a, guard.b);
    }
  }
  for (const DimGuard& guard : guards) {
    if (guard.kind != DimGuard::Kind::less) continue;
    note_positive(guard.answer != 0 ? guard.b - guard.a - 1 : guard.a - guard.b);
  }
}

std::optional<bool> GuardedSizes::equal(Dim a, Dim b) const {
  const DimGuard* known = find(DimGuard::Kind::equal, a, b);
  if (!known) known = find(DimGuard::Kind::equal, b, a);
  if (known) return known->answer != 0;
  const auto [lower, upper] = bounds(a - b);
  if (lower && upper && *lower == 0 && *upper == 0) return true;
  if ((lower && *lower > 0) || (upper && *upper < 0)) return false;
  return std::nullopt;
}

std::optional<bool> GuardedSizes::less(Dim a, Dim b) const {
  if (const DimGuard* known = find(DimGuard::Kind::less, a, b)) return known->answer != 0;
  const auto [lower, upper] = bounds(b - a);
  if (lower && *lower > 0) return true;
  if (upper && *upper <= 0) return false;
  return std::nullopt;
}

std::optional<std::int64_t> GuardedSizes::value(Dim dim) const {
  if (const DimGuard* known = find(DimGuard::Kind::value, dim, Dim())) return known->answer;
  const auto [lower, upper] = bounds(dim);
  return lower == upper ? lower : std::nullopt;
}

const DimGuard* GuardedSizes::find(DimGuard::Kind kind, Dim a, Dim b) const {
  const auto at = std::ranges::find_if(guards_, [&](const DimGuard& guard) {
    return guard.kind == kind && guard.a.same_as(a) && guard.b.same_as(b);
  });
  return at == guards_.end() ? nullptr : &*at;
}

void GuardedSizes::note_positive(Dim size) {
  size = named_once(size);
  const std::int64_t least = -take_constant(size);
  if (size.is_number()) return;
  const std::vector<DimTerm>& terms = size.expr().terms;
  const std::int64_t times = terms.size() == 1 ? std::abs(terms[0].coefficient) : 1;
  leasts_.push_back({size / times, -detail::floor_div(-least, times)});
}

std::optional<std::int64_t> GuardedSizes::least_of(Dim size) const {
  std::optional<std::int64_t> least;
  for (const Least& known : leasts_) {
    if (known.size.same_as(size)) least = tighter(least, known.least, true);
  }
  return least;
}

detail::Bounds GuardedSizes::bounds(Dim size) const {
  const auto known = [&](Dim of) {
    const std::optional<std::int64_t> least_of_negative = least_of(-of);
    return detail::Bounds{
        .lower = least_of(of),
        .upper = least_of_negative ? std::optional(-*least_of_negative) : std::nullopt};
  };
  size = named_once(size);
  detail::Bounds all =
      detail::bounds_where(size, [&](const DimAtom& atom) { return known(atom.self); });
  const std::int64_t constant = take_constant(size);
  const detail::Bounds whole = known(size);
  if (whole.lower) all.lower = tighter(all.lower, *whole.lower + constant, true);
  if (whole.upper) all.upper = tighter(all.upper, *whole.upper + constant, false);
  return all;
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
