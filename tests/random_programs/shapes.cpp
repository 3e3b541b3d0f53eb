#include "dyad/ops/ops.h"
#include "instructions.h"

// Views, and other elements in other places.

namespace dyad::testing {
namespace {

using F = const Frame&;

/// The shape of input `i` as numbers: some by that input's own sizes, some as they are.
void sizes_of(Draft& d, std::size_t i) {
  for (int axis = 0; axis < d.example(i).rank(); ++axis) d.size(i, axis);
}

bool reshape_draft(Draft& d) {
  if (!d.input(with_rank(0, 4))) return false;
  const int rank = d.example(0).rank();
  switch (d.numbers.below(4)) {
    case 0:  // two axes as one
      if (rank < 2) return false;
      {
        const auto at = d.numbers.below(rank - 1);
        for (int axis = 0; axis < rank; ++axis) {
          if (axis == at) {
            d.number(-1);
            ++axis;
          } else {
            d.size(0, axis);
          }
        }
      }
      return true;
    case 1:
      d.number(-1);
      return true;
    case 2:  // an axis of size 1
      sizes_of(d, 0);
      d.number(1);
      return true;
    default:  // an axis in two
      if (rank == 0) return false;
      for (int axis = 0; axis + 1 < rank; ++axis) d.size(0, axis);
      d.number(d.numbers.chance(50) ? 2 : 1);
      d.number(-1);
      return true;
  }
}

bool slice_draft(Draft& d) {
  if (!d.input(with_rank(1, 4)) || !d.axis()) return false;
  d.whole(-2, 2);
  if (d.numbers.chance(40)) {
    d.size(0, d.statement().numbers[0].n);
  } else {
    d.whole(-1, 3);
  }
  d.number(d.numbers.chance(70) ? 1 : d.numbers.chance(70) ? 2 : -1);
  return true;
}

}  // namespace

void add_shapes(Instructions& list) {
  const auto one = [&](std::string name, std::string text, int weight, auto call,
                       std::function<bool(Draft&)> draft) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) { return std::vector<Tensor>{call(f)}; }, std::move(draft)});
  };
  const auto value = [](int low, int high) {
    return [=](Draft& d) { return d.input(with_rank(low, high)); };
  };
  one(
      "transpose", "transpose($0, #0, #1)", 8,
      [](F f) { return transpose(f[0], f.whole(0), f.whole(1)); },
      [](Draft& d) { return d.input(with_rank(2, 4)) && d.axis() && d.axis(); });
  one(
      "permute", "permute($0, {#*})", 3, [](F f) { return permute(f[0], f.wholes()); },
      [](Draft& d) {
        if (!d.input(with_rank(2, 4))) return false;
        std::vector<int> axes;
        for (int axis = 0; axis < d.example(0).rank(); ++axis)
          axes.insert(axes.begin() + d.numbers.below(axis + 1), axis);
        for (const int axis : axes) d.number(axis);
        return true;
      });
  one(
      "reshape", "reshape($0, {#*})", 8, [](F f) { return reshape(f[0], f.sizes()); },
      reshape_draft);
  one(
      "flatten", "flatten($0, #0)", 2, [](F f) { return flatten(f[0], f.whole(0)); },
      [](Draft& d) { return d.input(with_rank(1, 4)) && d.axis(); });
  one(
      "squeeze", "squeeze($0, #0)", 2, [](F f) { return squeeze(f[0], f.whole(0)); },
      [](Draft& d) { return d.input(with_rank(1, 4)) && d.axis(); });
  one(
      "unsqueeze", "unsqueeze($0, #0)", 4, [](F f) { return unsqueeze(f[0], f.whole(0)); },
      [](Draft& d) {
        if (!d.input(with_rank(0, 3))) return false;
        d.whole(-1, d.example(0).rank());
        return true;
      });
  one(
      "expand", "expand($0, {#*})", 4, [](F f) { return expand(f[0], f.sizes()); },
      [](Draft& d) {
        if (!d.input(with_rank(0, 3))) return false;
        const auto sizes = d.example(0).shape().numbers();
        if (sizes.size() < 3 && d.numbers.chance(40)) d.whole(0, 3);
        for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
          if (sizes[axis] == 1 && d.numbers.chance(60)) {
            d.whole(1, 4);
          } else {
            d.size(0, static_cast<std::int64_t>(axis));
          }
        }
        return true;
      });
  one(
      "expand_as", "expand_as($0, $1)", 2, [](F f) { return expand_as(f[0], f[1]); },
      [](Draft& d) { return d.input(with_rank(0, 3)) && d.input(broadcasts_with(d.example(0))); });
  one(
      "slice", "slice($0, #0, #1, #2, #3)", 10,
      [](F f) { return slice(f[0], f.whole(0), f.size(1), f.size(2), f.whole(3)); }, slice_draft);
  one(
      "select", "select($0, #0, #1)", 6, [](F f) { return select(f[0], f.whole(0), f.size(1)); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 4)) || !d.axis()) return false;
        d.whole(-1, 1);
        return true;
      });
  one(
      "diagonal", "diagonal($0, #0)", 2, [](F f) { return diagonal(f[0], f.whole(0)); },
      [](Draft& d) {
        d.whole(-1, 1);
        return d.input(with_rank(2, 3));
      });
  one(
      "narrow", "narrow($0, #0, #1, #2)", 2,
      [](F f) { return narrow(f[0], f.whole(0), f.size(1), f.size(2)); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 4)) || !d.axis()) return false;
        d.whole(0, 1);
        d.whole(0, 2);
        return true;
      });
  one(
      "chunk", "chunk($0, #1, #0)[0]", 2,
      [](F f) { return chunk(f[0], f.whole(1), f.whole(0)).at(0); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 4)) || !d.axis()) return false;
        d.whole(1, 3);
        return true;
      });
  one("detach", "detach($0)", 1, [](F f) { return detach(f[0]); }, value(0, 4));
  one("clone", "clone($0)", 2, [](F f) { return clone(f[0]); }, value(0, 4));
  one("contiguous", "contiguous($0)", 2, [](F f) { return contiguous(f[0]); }, value(0, 4));
  one(
      "flip", "flip($0, {#*})", 2, [](F f) { return flip(f[0], f.wholes()); },
      [](Draft& d) { return d.input(with_rank(1, 4)) && d.axes(); });
  one(
      "roll", "roll($0, {#1}, {#0})", 2, [](F f) { return roll(f[0], {f.whole(1)}, {f.whole(0)}); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 4)) || !d.axis()) return false;
        d.whole(-2, 3);
        return true;
      });
  one(
      "tile", "tile($0, {#*})", 1, [](F f) { return tile(f[0], f.sizes()); },
      [](Draft& d) {
        d.whole(0, 2);
        if (d.numbers.chance(50)) d.whole(1, 2);
        return d.input(with_rank(0, 3));
      });
  one(
      "repeat_interleave", "repeat_interleave($0, #1, #0)", 1,
      [](F f) { return repeat_interleave(f[0], f.whole(1), f.whole(0)); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 3)) || !d.axis()) return false;
        d.whole(0, 3);
        return true;
      });
  one(
      "pad", "pad($0, {#0}, {#1}, %0)", 2,
      [](F f) { return pad(f[0], {f.whole(0)}, {f.whole(1)}, f.real(0)); },
      [](Draft& d) {
        d.whole(0, 2);
        d.whole(0, 2);
        d.real({0, 1, -0.5});
        return d.input(with_rank(1, 1));
      });
  one(
      "tril", "tril($0, #0)", 1, [](F f) { return tril(f[0], f.whole(0)); },
      [](Draft& d) {
        d.whole(-1, 1);
        return d.input(with_rank(2, 3));
      });
  one(
      "concat", "concat({$*}, #0)", 5, [](F f) { return concat(f.all(), f.whole(0)); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 3)) || !d.axis()) return false;
        const int rank = d.example(0).rank();
        for (auto more = d.numbers.between(1, 2); more > 0; --more) {
          if (!d.input(d.numbers.chance(70) ? same_type(d.example(0)) : with_rank(rank, rank)))
            return false;
        }
        return true;
      });
  one(
      "stack", "stack({$*}, #0)", 3, [](F f) { return stack(f.all(), f.whole(0)); },
      [](Draft& d) {
        if (!d.input(with_rank(0, 3)) || !d.input(same_type(d.example(0)))) return false;
        d.whole(-1, d.example(0).rank());
        return true;
      });
}

}  // namespace dyad::testing
