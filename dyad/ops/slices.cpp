#include <algorithm>
#include <cstdlib>

#include "dyad/ir/slice_gradient.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/index_support.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kXAndSource[] = {{"x", kEverything}, {"source", kEverything}};

struct Range {
  Dim begin;  ///< from 0 to the size; of a negative step the last element, or -1
  Dim count;  ///< without the step
};

/// A symbolic bound is taken to be 0 or more; sums stay as simple as they can, so that the sizes of
/// x[1:] and x[:-1] are one expression.
Range clipped_up(Dim begin, Dim end, Dim size) {
  if (begin.is_number() && end.is_number() && size.is_number()) {
    const std::int64_t n = size.number();
    const auto clip = [n](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + n : at, 0, n);
    };
    const std::int64_t first = clip(begin.number());
    return {first, std::max<std::int64_t>(clip(end.number()) - first, 0)};
  }
  const bool to_end = end.same_as(kEnd) || end.same_as(size);
  const bool end_from_back = end.is_number() && end.number() < 0;
  const Dim last = to_end ? size : end_from_back ? size + end : min(end, size);
  if (begin.is_number() && begin.number() < 0) {
    const Dim first = max(size + begin, 0);
    return {first, to_end ? min(Dim(0) - begin, size) : max(last - first, 0)};
  }
  if (begin.same_as(0)) return {0, end_from_back ? max(last, 0) : last};
  return {min(begin, size), max(last - begin, 0)};
}

/// Where a negative step ends: from -1, before the first, to the last.
Dim clipped_down(Dim at, Dim size) {
  if (at.is_number() && size.is_number()) {
    const std::int64_t n = size.number(), i = at.number();
    return std::clamp<std::int64_t>(i < 0 ? i + n : i, -1, n - 1);
  }
  if (at.same_as(-kEnd)) return -1;
  if (at.same_as(kEnd) || at.same_as(size - 1)) return size - 1;
  if (at.is_number() && at.number() < 0) return at.same_as(-1) ? size - 1 : max(size + at, -1);
  return min(at, size - 1);
}

Range clipped(const SliceAttrs& attrs, Dim size) {
  if (attrs.step > 0) return clipped_up(attrs.begin, attrs.end, size);
  const Dim first = clipped_down(attrs.begin, size), last = clipped_down(attrs.end, size);
  // Of all elements the count is the size, also when that is a symbol.
  const bool whole = first.same_as(size - 1) && last.same_as(-1);
  return {first, whole ? size : max(first - last, 0)};
}
Dim steps_of(const SliceAttrs& attrs, const Range& range) {
  const std::int64_t step = std::abs(attrs.step);
  return step == 1 ? range.count : ceil_div(range.count, step);
}

/// `g`, the gradient of a part of an axis, back in an axis of `size` with zeros elsewhere.
Tensor placed(const Tensor& g, int axis, int rank, Dim begin, Dim size, Dim count) {
  Shape low(static_cast<std::size_t>(rank), 0), high(static_cast<std::size_t>(rank), 0);
  low[static_cast<std::size_t>(axis)] = begin;
  high[static_cast<std::size_t>(axis)] = size - begin - count;
  return pad(g, low, high);
}

/// Sets the gradient of an input of which `part` was taken, `count` elements of an axis from
/// `begin` on.
void give_part(Gradient& g, const Tensor& part, int axis, Dim begin, Dim count) {
  const Shape& shape = g.input_shape(0);
  const Dim size = shape[static_cast<std::size_t>(axis)], end = begin + count;
  auto* const by_slices = dynamic_cast<SliceGradient*>(&g);
  const bool known = begin.is_number() && end.is_number() && size.is_number();
  if (by_slices && known && end.number() <= size.number() && part.is_concrete() &&
      by_slices->takes_slices(0)) {
    ask_for_small_sizes(part, {});
    const Tensor dense = part.impl()->contiguous ? part : contiguous(part);
    by_slices->set_slice(0, {dense, axis, begin.number(), end.number()});
  } else {
    g.set(0, placed(part, axis, shape.rank(), begin, size, count));
  }
}

/// The types of a scatter: source is as large as the part of x that `part` infers.
template <class Part>
Types infer_scatter(const InferIn& in, const typename Part::Attrs& attrs) {
  const Type part = Part::infer(in, attrs)[0];
  if (in[1].dtype() != part.dtype()) {
    fail_dtype(in, "one dtype is needed, but x is " + std::string(name_of(part.dtype())) +
                       " and source is " + std::string(name_of(in[1].dtype())));
  }
  bool fits = in[1].rank() == part.rank();
  for (std::size_t i = 0; fits && i < part.shape().size(); ++i) {
    const Dim a = part.shape()[i], b = in[1].shape()[i];
    fits = a.same_as(b) || a == b;
  }
  if (!fits) {
    fail_shape(in, "the part of x to replace is " + to_string(part) + ", but source is " +
                       to_string(in[1]) + "; their shapes must be equal");
  }
  return {in[0]};
}

/// ONNX: source written at the positions `line` along the axis.
void scatter_to_onnx(OnnxEmitter& e, std::int64_t axis, const std::string& line,
                     const std::string& source, const Shape& shape) {
  Shape along(shape.size(), 1);
  along[static_cast<std::size_t>(axis)] = -1;
  const std::string index =
      e.node("Expand", {e.node("Reshape", {line, e.shape(along)}), e.shape(shape)});
  e.output(0, e.node("ScatterElements", {e.input(0), index, source}, {{"axis", axis}}));
}

struct SliceOp {
  using Attrs = SliceAttrs;
  static constexpr Schema schema{.name = "slice",
                                 .inputs = kMoved,
                                 .outputs = kOut,
                                 .doc =
                                     "Every step-th element from begin to before end along an "
                                     "axis; bounds as in Python."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const auto axis = static_cast<std::size_t>(checked_axis(in, attrs.axis, in[0].rank()));
    if (attrs.step == 0) fail_value(in, "step = 0 leads nowhere; 1 takes every element");
    if (attrs.step < -kEnd || attrs.step > kEnd) fail_value(in, "step is beyond every size");
    Shape shape = in[0].shape();
    shape[axis] = steps_of(attrs, clipped(attrs, shape[axis]));
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    return slice_layout(attrs, in, strides, out);
  }
  static Tensor write(const Attrs& attrs, const Tensor& x, const Tensor& value, Loc loc) {
    return slice_scatter(x, value, attrs.axis, attrs.begin, attrs.end, attrs.step, loc);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    if (attrs.step > 1) {
      const Tensor zero = repeated_zero(shape, g.grad().dtype());
      g.set(0, slice_scatter(zero, g.grad(), attrs.axis, attrs.begin, attrs.end, attrs.step));
      return;
    }
    const int rank = shape.rank(), axis = from_front(attrs.axis, rank);
    const Dim size = shape[static_cast<std::size_t>(axis)];
    const Range range = clipped(attrs, size);
    const std::int64_t step = std::abs(attrs.step);
    Shape spread = g.output_shape();
    const Dim taken = spread[static_cast<std::size_t>(axis)];
    Tensor grad = g.grad();
    Dim begin = range.begin, count = range.count;
    if (attrs.step < 0) {
      grad = slice(grad, axis, kEnd, -kEnd, -1);
      begin = begin - (taken - 1) * step;
    }
    if (step > 1) {
      // Each element is followed by step - 1 zeros: as an axis of its own, then as one axis.
      count = taken * step;
      spread[static_cast<std::size_t>(axis)] = count;
      grad = placed(unsqueeze(grad, axis + 1), axis + 1, rank + 1, 0, step, 1);
      grad = reshape(grad, spread);
    }
    const bool whole = begin.same_as(0) && count.same_as(size);
    if (whole) {
      g.set(0, grad);
    } else {
      give_part(g, grad, axis, begin, count);
    }
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t axes[] = {attrs.axis}, steps[] = {attrs.step};
    e.output(0, e.node("Slice", {e.input(0), e.shape({attrs.begin}), e.shape({attrs.end}),
                                 e.constant_i64(axes), e.constant_i64(steps)}));
  }
};

struct SliceScatter {
  using Attrs = SliceAttrs;
  static constexpr Schema schema{
      .name = "slice_scatter",
      .inputs = kXAndSource,
      .outputs = kOut,
      .doc = "A copy of x in which source is every step-th element from begin to before end.",
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    // The result may lie in the memory of a source that is all of it: in the same order.
    if (attrs.step < 1) {
      fail_value(in, "step = " + std::to_string(attrs.step) +
                         " must be 1 or more; dyad::slice_scatter() takes steps backwards too");
    }
    return infer_scatter<SliceOp>(in, attrs);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    if (g.needs(0)) {
      const Tensor nothing = zeros(g.input_shape(1), g.grad().dtype());
      g.set(0, slice_scatter(g.grad(), nothing, attrs.axis, attrs.begin, attrs.end, attrs.step));
    }
    if (g.needs(1)) g.set(1, slice(g.grad(), attrs.axis, attrs.begin, attrs.end, attrs.step));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const int axis = from_front(attrs.axis, e.input_type(0).rank());
    const auto at = static_cast<std::size_t>(axis);
    const Range range = clipped(attrs, e.input_type(0).shape()[at]);
    const Shape& shape = e.input_type(1).shape();
    const std::string line = e.node(
        "Range",
        {e.size(range.begin), e.size(range.begin + shape[at] * attrs.step), e.size(attrs.step)});
    scatter_to_onnx(e, axis, line, e.input(1), shape);
  }
};

bool in_range(Dim index, Dim size) {
  return !index.is_number() || !size.is_number() ||
         (index.number() >= -size.number() && index.number() < size.number());
}
/// The index counted from the front.
Dim first_of(const SelectAttrs& attrs, Dim size) {
  const bool from_back = attrs.index.is_number() && attrs.index.number() < 0;
  return from_back ? size + attrs.index : attrs.index;
}
std::string out_of_range(Dim index, std::int64_t axis, Dim size) {
  return "index " + to_string(index) + " is out of range for axis " + std::to_string(axis) +
         " of size " + to_string(size);
}

struct SelectOp {
  using Attrs = SelectAttrs;
  static constexpr Schema schema{.name = "select",
                                 .inputs = kMoved,
                                 .outputs = kOut,
                                 .doc = "The part at an index along an axis, which vanishes."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const int axis = checked_axis(in, attrs.axis, in[0].rank());
    Shape shape = in[0].shape();
    const Dim size = shape[static_cast<std::size_t>(axis)];
    if (!in_range(attrs.index, size)) fail_index(in, out_of_range(attrs.index, axis, size));
    shape.erase(static_cast<std::size_t>(axis));
    return {Type(in[0].dtype(), shape)};
  }
  static ViewLayout view(const Attrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
    return select_layout(attrs, in, strides, out);
  }
  static Tensor write(const Attrs& attrs, const Tensor& x, const Tensor& value, Loc loc) {
    return select_scatter(x, value, attrs.axis, attrs.index, loc);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& shape = g.input_shape(0);
    const int rank = shape.rank(), axis = from_front(attrs.axis, rank);
    const Dim size = shape[static_cast<std::size_t>(axis)];
    give_part(g, unsqueeze(g.grad(), axis), axis, first_of(attrs, size), 1);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::int64_t axis = from_front(attrs.axis, e.input_type(0).rank());
    e.output(0, e.node("Gather", {e.input(0), e.size(attrs.index)}, {{"axis", axis}}));
  }
};

struct SelectScatter {
  using Attrs = SelectAttrs;
  static constexpr Schema schema{
      .name = "select_scatter",
      .inputs = kXAndSource,
      .outputs = kOut,
      .doc = "A copy of x in which source is the part at an index along an axis.",
      .batching = Batching::axes};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    return infer_scatter<SelectOp>(in, attrs);
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    if (g.needs(0)) {
      const Tensor nothing = zeros(g.input_shape(1), g.grad().dtype());
      g.set(0, select_scatter(g.grad(), nothing, attrs.axis, attrs.index));
    }
    if (g.needs(1)) g.set(1, select(g.grad(), attrs.axis, attrs.index));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const int axis = from_front(attrs.axis, e.input_type(0).rank());
    const auto at = static_cast<std::size_t>(axis);
    Shape shape = e.input_type(1).shape();
    shape.insert(at, 1);
    const std::int64_t axes[] = {axis};
    const std::string source = e.node("Unsqueeze", {e.input(1), e.constant_i64(axes)});
    scatter_to_onnx(e, axis, e.size(first_of(attrs, e.input_type(0).shape()[at])), source, shape);
  }
};

}  // namespace

ViewLayout slice_layout(const SliceAttrs& attrs, const Shape& in, const Strides& strides,
                        const Shape& out) {
  const auto axis = static_cast<std::size_t>(from_front(attrs.axis, in.rank()));
  const Range range = clipped(attrs, in[axis]);
  ViewLayout layout{.shape = out, .strides = strides};
  // Of no elements the sizes may be anything, and so may strides be that nobody walks.
  if (out.numel().number() == 0) return layout;
  layout.offset = range.begin.number() * strides[axis];
  // A step that leads from one element to no other may be too large to multiply.
  if (out[axis].number() > 1) layout.strides[axis] *= attrs.step;
  return layout;
}

ViewLayout select_layout(const SelectAttrs& attrs, const Shape& in, const Strides& strides,
                         const Shape& out) {
  const int axis = from_front(attrs.axis, in.rank());
  const Dim size = in[static_cast<std::size_t>(axis)];
  if (!in_range(attrs.index, size)) {
    throw IndexError("select: " + out_of_range(attrs.index, axis, size));
  }
  ViewLayout layout{.shape = out, .strides = strides};
  if (out.numel().number() != 0) {
    layout.offset = first_of(attrs, size).number() * strides[static_cast<std::size_t>(axis)];
  }
  layout.strides.erase(static_cast<std::size_t>(axis));
  return layout;
}

std::span<const OpInfo* const> slices_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<SliceOp>, &op_info<SelectOp>,
                                            &op_info<SliceScatter>, &op_info<SelectScatter>};
  return kRows;
}

}  // namespace ops

Tensor select(const Tensor& x, std::int64_t axis, Dim index, Loc loc) {
  return apply<ops::SelectOp>({.axis = axis, .index = index}, loc, x);
}
Tensor slice(const Tensor& x, std::int64_t axis, Dim begin, Dim end, std::int64_t step, Loc loc) {
  return apply<ops::SliceOp>({.axis = axis, .begin = begin, .end = end, .step = step}, loc, x);
}

Tensor select_scatter(const Tensor& x, const Tensor& source, std::int64_t axis, Dim index,
                      Loc loc) {
  return apply<ops::SelectScatter>({.axis = axis, .index = index}, loc, x, source);
}
Tensor slice_scatter(const Tensor& x, const Tensor& source, std::int64_t axis, Dim begin, Dim end,
                     std::int64_t step, Loc loc) {
  if (step < 0) {
    // The same part forwards, with the source backwards.
    const int at = normalize_axis(axis, x.rank(), "slice_scatter", loc);
    const ops::SliceAttrs backwards{.axis = at, .begin = begin, .end = end, .step = step};
    const ops::Range range = ops::clipped(backwards, x.size(at, loc));
    const Dim first = range.begin - (ops::steps_of(backwards, range) - 1) * -step;
    return slice_scatter(x, slice(source, at, kEnd, kStart, -1, loc), at, first, range.begin + 1,
                         -step, loc);
  }
  return apply<ops::SliceScatter>({.axis = axis, .begin = begin, .end = end, .step = step}, loc, x,
                                  source);
}

std::vector<Tensor> split(const Tensor& x, const Shape& sizes, std::int64_t axis, Loc loc) {
  const Dim size = x.size(axis, loc);
  Dim total = 0;
  for (const Dim part : sizes) total += part;
  if (!(total == size)) {
    throw ShapeError("split(" + type_string(x) + ", sizes = " + size_text(sizes) +
                         "): the sizes add up to " + size_text(total) + " but axis " +
                         std::to_string(axis) + " has size " + size_text(size),
                     loc.user());
  }
  std::vector<Tensor> parts;
  Dim begin = 0;
  for (const Dim part : sizes) {
    parts.push_back(slice(x, axis, begin, begin + part, 1, loc));
    begin += part;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis, Loc loc) {
  if (size < 1) {
    throw ValueError(
        "split(" + type_string(x) + "): size = " + std::to_string(size) + " must be 1 or more",
        loc.user());
  }
  const Dim whole = x.size(axis, loc);
  std::vector<Tensor> parts;
  Dim begin = 0;
  do {
    parts.push_back(slice(x, axis, begin, begin + size, 1, loc));
    begin += size;
  } while (begin < whole);
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis, Loc loc) {
  const Dim size = x.size(axis, loc);
  if (count < 1) {
    throw ValueError(
        "chunk(" + type_string(x) + "): count = " + std::to_string(count) + " must be 1 or more",
        loc.user());
  }
  const Dim part = ceil_div(size, count);
  std::vector<Tensor> parts;
  Dim begin = 0;
  do {
    parts.push_back(slice(x, axis, begin, begin + part, 1, loc));
    begin += part;
  } while (static_cast<std::int64_t>(parts.size()) < count && begin < size);
  return parts;
}

}  // namespace dyad
