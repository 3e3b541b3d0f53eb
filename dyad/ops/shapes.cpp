#include "dyad/ops/shapes.h"

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

std::vector<Tensor> each(std::span<const Tensor> tensors, Tensor (*f)(const Tensor&, Loc),
                         Loc loc) {
  std::vector<Tensor> made;
  for (const Tensor& x : tensors) made.push_back(f(x, loc));
  return made;
}

}  // namespace

Tensor movedim(const Tensor& x, const Ints& from, const Ints& to, Loc loc) {
  const int rank = x.rank();
  if (from.size() != to.size()) {
    throw ValueError("movedim(" + type_string(x) + "): " + std::to_string(from.size()) +
                         " axes cannot go to " + std::to_string(to.size()) + " places",
                     loc.user());
  }
  Ints axes(static_cast<std::size_t>(rank), -1);
  std::vector<bool> moved(static_cast<std::size_t>(rank), false);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const int source = normalize_axis(from[i], rank, "movedim", loc);
    std::int64_t& place =
        axes[static_cast<std::size_t>(normalize_axis(to[i], rank, "movedim", loc))];
    if (moved[static_cast<std::size_t>(source)] || place >= 0) {
      throw ValueError("movedim(" + type_string(x) + "): an axis is named twice", loc.user());
    }
    place = source;
    moved[static_cast<std::size_t>(source)] = true;
  }
  int next = 0;
  for (std::int64_t& place : axes) {
    if (place >= 0) continue;
    while (moved[static_cast<std::size_t>(next)]) ++next;
    place = next++;
  }
  return permute(x, axes, loc);
}
Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to, Loc loc) {
  if (ops::is_of_scalar(from, x) && ops::is_of_scalar(to, x)) return permute(x, {}, loc);
  return movedim(x, Ints{from}, Ints{to}, loc);
}
Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b, Loc loc) {
  return transpose(x, a, b, loc);
}
Tensor squeeze(const Tensor& x, Loc loc) {
  Tensor made = x;
  for (int axis = x.rank(); axis-- > 0;) {
    if (x.impl()->shape[static_cast<std::size_t>(axis)].same_as(1)) made = squeeze(made, axis, loc);
  }
  return made;
}
Tensor squeeze(const Tensor& x, const Ints& axes, Loc loc) {
  Ints from_front;
  for (const std::int64_t axis : axes) {
    from_front.push_back(normalize_axis(axis, x.rank(), "squeeze", loc));
  }
  std::sort(from_front.begin(), from_front.end());
  if (std::adjacent_find(from_front.begin(), from_front.end()) != from_front.end()) {
    throw ValueError("squeeze(" + type_string(x) + "): an axis is named twice", loc.user());
  }
  Tensor made = x;
  for (std::size_t i = from_front.size(); i-- > 0;) made = squeeze(made, from_front[i], loc);
  return made;
}
Tensor ravel(const Tensor& x, Loc loc) { return reshape(x, {-1}, loc); }
Tensor unflatten(const Tensor& x, std::int64_t axis, const Sizes& sizes, Loc loc) {
  const int at = normalize_axis(axis, x.rank(), "unflatten", loc);
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) {
      shape.push_back(x.size(i, loc));
      continue;
    }
    Dim known = 1;
    for (const Dim d : sizes) known *= d.same_as(-1) ? Dim(1) : d;
    for (const Dim d : sizes) shape.push_back(d.same_as(-1) ? x.size(i, loc) / known : d);
  }
  return reshape(x, shape, loc);
}
Tensor broadcast_to(const Tensor& x, Sizes shape, Loc loc) {
  return expand(x, std::move(shape), loc);
}
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Loc loc) {
  Shape shape;
  std::vector<Tensor> made;
  for (const Tensor& x : tensors) {
    const Shape before = shape;
    if (!broadcast(before, ops::sizes_of(x, loc), shape)) {
      throw ShapeError("broadcast_tensors: " + type_string(x) + " does not broadcast with " +
                           size_text(before) + ", the shape of those before it",
                       loc.user());
    }
  }
  for (const Tensor& x : tensors) made.push_back(expand(x, shape, loc));
  return made;
}
std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, Loc loc) {
  return broadcast_tensors(std::span(tensors.begin(), tensors.size()), loc);
}
std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis, Loc loc) {
  std::vector<Tensor> parts;
  const std::int64_t count = x.size(axis, loc).value(loc);
  parts.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) parts.push_back(select(x, axis, i, loc));
  return parts;
}
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t count, std::int64_t axis, Loc loc) {
  if (count < 1) {
    throw ValueError("tensor_split(" + type_string(x) + "): count = " + std::to_string(count) +
                         " must be 1 or more",
                     loc.user());
  }
  const int at = normalize_axis(axis, x.rank(), "tensor_split", loc);
  const Dim size = x.size(at, loc), least = size / count, larger = size % count;
  std::vector<Tensor> parts;
  Dim begin = 0;
  for (std::int64_t i = 1; i <= count; ++i) {
    const Dim end = i == count ? size : least * i + min(i, larger);
    parts.push_back(slice(x, at, begin, end, 1, loc));
    begin = end;
  }
  return parts;
}
std::vector<Tensor> tensor_split(const Tensor& x, const Ints& indices, std::int64_t axis, Loc loc) {
  const LocScope called(loc, "tensor_split");
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t end : indices) {
    parts.push_back(slice(x, axis, begin, end, 1, loc));
    begin = end;
  }
  parts.push_back(slice(x, axis, begin, kEnd, 1, loc));
  return parts;
}
std::vector<Tensor> tensor_split(const Tensor& x, std::initializer_list<std::int64_t> indices,
                                 std::int64_t axis, Loc loc) {
  return tensor_split(x, Ints(indices), axis, loc);
}

Tensor atleast_1d(const Tensor& x, Loc loc) { return x.rank() == 0 ? unsqueeze(x, 0, loc) : x; }
Tensor atleast_2d(const Tensor& x, Loc loc) {
  return x.rank() >= 2 ? x : unsqueeze(atleast_1d(x, loc), 0, loc);
}
Tensor atleast_3d(const Tensor& x, Loc loc) {
  return x.rank() >= 3 ? x : unsqueeze(atleast_2d(x, loc), -1, loc);
}
Tensor hstack(std::span<const Tensor> tensors, Loc loc) {
  const std::vector<Tensor> parts = each(tensors, atleast_1d, loc);
  return concat(parts, !parts.empty() && parts[0].rank() > 1 ? 1 : 0, loc);
}
Tensor hstack(std::initializer_list<Tensor> tensors, Loc loc) {
  return hstack(std::span(tensors.begin(), tensors.size()), loc);
}
Tensor vstack(std::span<const Tensor> tensors, Loc loc) {
  return concat(each(tensors, atleast_2d, loc), 0, loc);
}
Tensor vstack(std::initializer_list<Tensor> tensors, Loc loc) {
  return vstack(std::span(tensors.begin(), tensors.size()), loc);
}
Tensor dstack(std::span<const Tensor> tensors, Loc loc) {
  return concat(each(tensors, atleast_3d, loc), 2, loc);
}
Tensor dstack(std::initializer_list<Tensor> tensors, Loc loc) {
  return dstack(std::span(tensors.begin(), tensors.size()), loc);
}

}  // namespace dyad
