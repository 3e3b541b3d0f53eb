#include <vector>

#include "dyad/base/error.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

enum class Mode { reflect, edge, wrap };

/// x with the parts that belong before and behind it along one axis.
Tensor pad_axis(const Tensor& x, int axis, Dim low, Dim high, Mode mode, Loc loc) {
  const Dim size = x.size(axis, loc);
  std::vector<Tensor> parts;
  const auto add = [&](Dim count, bool before) {
    if (count.same_as(0)) return;
    switch (mode) {
      case Mode::reflect: {
        const Dim begin = before ? Dim(1) : size - 1 - count;
        parts.push_back(flip(slice(x, axis, begin, begin + count, 1, loc), {axis}, loc));
        return;
      }
      case Mode::wrap:
        parts.push_back(before ? slice(x, axis, size - count, size, 1, loc)
                               : slice(x, axis, 0, count, 1, loc));
        return;
      case Mode::edge: {
        const Tensor edge = select(x, axis, before ? 0 : -1, loc);
        Shape shape = ops::sizes_of(x, loc);
        shape[static_cast<std::size_t>(axis)] = count;
        parts.push_back(expand(unsqueeze(edge, axis, loc), shape, loc));
        return;
      }
    }
  };
  add(low, true);
  parts.push_back(x);
  add(high, false);
  return parts.size() == 1 ? x : concat(parts, axis, loc);
}

}  // namespace

Tensor pad(const Tensor& x, const Shape& low, const Shape& high, std::string_view name, Loc loc) {
  if (name == "constant") return pad(x, low, high, 0.0, loc);
  const auto call = [&] {
    return "pad(" + type_string(x) + ", low = " + to_string(low) + ", high = " + to_string(high) +
           ", mode = \"" + std::string(name) + "\")";
  };
  Mode mode = Mode::edge;
  if (name == "reflect") {
    mode = Mode::reflect;
  } else if (name == "wrap" || name == "circular") {
    mode = Mode::wrap;
  } else if (name != "edge" && name != "replicate") {
    throw ValueError(call() +
                         ": the mode must be one of constant reflect edge replicate wrap "
                         "circular",
                     loc.user());
  }
  if (low.rank() != x.rank() || high.rank() != x.rank()) {
    throw ShapeError(call() + ": low and high need a count for each of the " +
                         std::to_string(x.rank()) + " axes",
                     loc.user());
  }
  Tensor made = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const Dim size = x.size(axis, loc);
    for (const Dim count : {low[at], high[at]}) {
      if (!count.is_number()) continue;
      if (count.number() < 0) {
        throw ValueError(call() + ": only mode \"constant\" crops; slice() does it here",
                         loc.user());
      }
      if (count.number() == 0 || !size.is_number()) continue;
      const std::int64_t most = mode == Mode::reflect ? size.number() - 1 : size.number();
      if (size.number() == 0 || (mode != Mode::edge && count.number() > most)) {
        throw ShapeError(call() + ": axis " + std::to_string(axis) + " of size " + to_string(size) +
                             " has no " + to_string(count) + " elements to take",
                         loc.user());
      }
    }
    made = pad_axis(made, axis, low[at], high[at], mode, loc);
  }
  return made;
}

}  // namespace dyad
