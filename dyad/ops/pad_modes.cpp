#include <algorithm>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

enum class Mode { reflect, edge, wrap };

/// x padded with more than it has along one axis: it goes on, or there and back, many times.
Tensor pad_periodically(const Tensor& x, int axis, Dim low, Dim high, bool reflect, Loc loc) {
  const std::int64_t size = x.size(axis, loc).value(loc), end = size + high.value(loc);
  const std::int64_t period = reflect ? std::max<std::int64_t>(2 * (size - 1), 1) : size;
  std::vector<std::int64_t> index;
  for (std::int64_t at = -low.value(loc); at < end; ++at) {
    const std::int64_t place = (at % period + period) % period;
    index.push_back(place < size ? place : period - place);
  }
  return index_select(x, axis, tensor(index), loc);
}

/// x with the parts that belong before and behind it along one axis.
Tensor pad_axis(const Tensor& x, int axis, Dim low, Dim high, Mode mode, Loc loc) {
  const Dim size = x.size(axis, loc);
  std::vector<Tensor> parts;
  // `count` elements from `begin` on. A run of a graph that left sizes open refuses to take fewer.
  const auto part = [&](Dim begin, Dim count) {
    if (x.is_concrete()) return slice(x, axis, begin, begin + count, 1, loc);
    const Dim first = max(begin, 0);
    const Tensor taken = slice(x, axis, first, max(begin + count, first), 1, loc);
    Shape shape = ops::sizes_of(x, loc);
    shape[static_cast<std::size_t>(axis)] = count;
    return ops::sizes_of(taken, loc).same_as(shape) ? taken : assume_shape(taken, shape, loc);
  };
  const auto add = [&](Dim count, bool before) {
    if (count.same_as(0)) return;
    switch (mode) {
      case Mode::reflect:
        parts.push_back(flip(part(before ? Dim(1) : size - 1 - count, count), {axis}, loc));
        return;
      case Mode::wrap:
        parts.push_back(part(before ? size - count : Dim(0), count));
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
    return "pad(" + type_string(x) + ", low = " + size_text(low) + ", high = " + size_text(high) +
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
    bool beyond = false;
    for (const Dim count : {low[at], high[at]}) {
      if (is_known(count) && count < 0) {
        throw ValueError(call() + ": only mode \"constant\" crops; slice() does it here",
                         loc.user());
      }
      const bool known = x.is_concrete() || (is_known(count) && is_known(size));
      if (count.same_as(0) || !known || count == 0) continue;
      if (size == 0) {
        throw ShapeError(call() + ": axis " + std::to_string(axis) + " of size 0 has no " +
                             size_text(count) + " elements to take",
                         loc.user());
      }
      if (mode != Mode::edge && count > (mode == Mode::reflect ? size - 1 : size)) beyond = true;
    }
    made = beyond ? pad_periodically(made, axis, low[at], high[at], mode == Mode::reflect, loc)
                  : pad_axis(made, axis, low[at], high[at], mode, loc);
  }
  return made;
}

}  // namespace dyad
